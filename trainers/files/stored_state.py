"""Fit a stored state to the parameter layout of this version, or raise an error that names the difference.

Weights, moments and averages concatenate all parameters, so their shapes do not show the order of the columns; the
stored names and shapes of the parameters do.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.errors import CheckpointError
from trainers.files.checkpoint import Shapes, Snapshot

Arrays = Mapping[str, NDArray[Any]]


def fit_state(stored: Snapshot, initial: Arrays, parameters: Shapes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a stored state, in the column order of this version.

    initial: the initial state of the same pack, with the required names and shapes. parameters: names and shapes in
    the order of this version. Raises CheckpointError that names the difference.
    """
    # A version that declares parameters in another order has the same columns elsewhere.
    arrays = dict(stored.arrays)
    if list(stored.parameters) != list(parameters):
        arrays = _reorder_columns(arrays, stored, parameters)

    if missing_names := [name for name in initial if name not in arrays]:
        raise _make_layout_error(stored, f"has no {', '.join(missing_names)}")
    # Earlier versions stored AdamW's moments also for gradient descent, which has none.
    if unknown_names := [name for name in arrays if name not in initial and name not in ("m", "v")]:
        raise _make_layout_error(stored, f"has unknown arrays: {', '.join(unknown_names)}")
    for name in initial:
        array = arrays[name]
        if (array.shape, array.dtype) != (initial[name].shape, initial[name].dtype):
            raise _make_layout_error(
                stored, f"has {name} as {_describe_array(array)}, not {_describe_array(initial[name])}"
            )
    return {name: arrays[name] for name in initial}


def _reorder_columns(arrays: Arrays, stored: Snapshot, parameters: Shapes) -> dict[str, NDArray[Any]]:
    """Return the arrays with columns in the order of `parameters`. Raises CheckpointError for other parameters."""
    stored_shapes = dict(stored.parameters)
    current_shapes = dict(parameters)
    if stored_shapes != current_shapes:
        raise _make_layout_error(stored, _describe_differences(stored_shapes, current_shapes))

    # All arrays in the shape of the weights have these columns: weights, moments and averages.
    end_columns = np.cumsum([prod(shape) for shape in stored_shapes.values()])
    columns = {
        name: np.arange(end - prod(stored_shapes[name]), end)
        for name, end in zip(stored_shapes, end_columns, strict=True)
    }
    order = np.concatenate([columns[name] for name in current_shapes])
    weights_shape = arrays["theta"].shape if "theta" in arrays else None
    # `take` returns contiguous rows. With array[:, order], products would differ in the last bits.
    return {
        name: array.take(order, axis=1) if array.shape == weights_shape else array for name, array in arrays.items()
    }


def _describe_differences(stored: Mapping[str, tuple[int, ...]], current: Mapping[str, tuple[int, ...]]) -> str:
    """Return as text how stored parameters differ from the parameters of the model."""
    missing_names = [name for name in current if name not in stored]
    unknown_names = [name for name in stored if name not in current]
    reshaped_parameters = [
        f"{name} of shape {stored[name]}, not {current[name]}"
        for name in current
        if stored.get(name, current[name]) != current[name]
    ]
    differences = [f"has no parameter {', '.join(missing_names)}"] if missing_names else []
    differences += [f"has the parameter {', '.join(unknown_names)}, unknown to the model"] if unknown_names else []
    differences += [f"has the parameter {', '.join(reshaped_parameters)}"] if reshaped_parameters else []
    return " and ".join(differences)


def _make_layout_error(stored: Snapshot, difference: str) -> CheckpointError:
    """Return the error for a stored state that does not fit."""
    source = f"checkpoint {stored.path}" if stored.path else "the checkpoint"
    return CheckpointError(
        f"{source}: {difference}; resume with the version that wrote it, or delete it to train from step 0"
    )


def _describe_array(array: NDArray[Any]) -> str:
    """Return the type and the shape of an array as text."""
    return f"{array.dtype} {array.shape}"
