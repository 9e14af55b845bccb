"""A stored state brought into the layout that today's code has, or refused by name.

Weights, moments and averages are rows of all parameters, one after the other, so the same shape says nothing about what
is where: names and shapes of the parameters say it. Checkpoints of 0.1.0 have no names and are taken where shapes fit.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.errors import CheckpointError
from trainers.files.checkpoint import Shapes, Snapshot

Arrays = Mapping[str, NDArray[Any]]


def fitted(
    stored: Snapshot,
    initial: Arrays,
    parameters: Shapes,
    averages: Sequence[str],
    exact_when_new: Container[str] = (),
) -> dict[str, NDArray[Any]]:
    """The arrays of a stored state, under the names and in the shapes of the `initial` state of the same pack.

    `parameters` are names and shapes in today's order, `averages` the labels of the pack. Arrays named in
    `exact_when_new` are taken from `initial` where the stored state has none. Raises CheckpointError that says what
    does not fit.
    """
    arrays = dict(stored.arrays)
    if stored.parameters is None:
        arrays = {_labelled(name, averages): array for name, array in arrays.items()}
    elif list(stored.parameters) != list(parameters):
        arrays = _reordered(arrays, stored, parameters)
    for name in initial:
        if name not in arrays and name in exact_when_new:
            arrays[name] = initial[name]
    if lacking := [name for name in initial if name not in arrays]:
        raise _refused(stored, f"has no {', '.join(lacking)}")
    if unknown := [name for name in arrays if name not in initial]:
        raise _refused(stored, f"has {', '.join(unknown)}, which this version does not know")
    for name, array in arrays.items():
        if (array.shape, array.dtype) != (initial[name].shape, initial[name].dtype):
            raise _refused(stored, f"has {name} as {_kind(array)}, not {_kind(initial[name])}")
    return {name: arrays[name] for name in initial}


def _labelled(name: str, averages: Sequence[str]) -> str:
    """The name of an array of a checkpoint that numbers its averages, with the label of the average."""
    kind, _, rest = name.partition(".")
    index, _, buffer = rest.partition(".")
    known = kind == "averages" and index.isdigit() and int(index) < len(averages)
    return f"averages.{averages[int(index)]}.{buffer}" if known else name


def _reordered(arrays: Arrays, stored: Snapshot, parameters: Shapes) -> dict[str, NDArray[Any]]:
    """The arrays with their columns in the order of `parameters`, where these are the same in another order."""
    before, now = dict(stored.parameters or ()), dict(parameters)
    if before != now:
        raise _refused(stored, _other_parameters(before, now))
    ends = np.cumsum([_size(shape) for shape in before.values()])
    columns = {name: np.arange(end - _size(before[name]), end) for name, end in zip(before, ends, strict=True)}
    order = np.concatenate([columns[name] for name in now])
    weights = arrays["theta"].shape if "theta" in arrays else None
    # take, not array[:, order]: rows that do not lie in one piece are multiplied in another order, to other last bits
    return {name: array.take(order, axis=1) if array.shape == weights else array for name, array in arrays.items()}


def _other_parameters(before: Mapping[str, tuple[int, ...]], now: Mapping[str, tuple[int, ...]]) -> str:
    lacking, unknown = [name for name in now if name not in before], [name for name in before if name not in now]
    changed = [
        f"{name} of shape {before[name]}, not {now[name]}" for name in now if before.get(name, now[name]) != now[name]
    ]
    said = [f"has no parameter {', '.join(lacking)}"] if lacking else []
    said += [f"has the parameter {', '.join(unknown)}, which the model does not have"] if unknown else []
    said += [f"has the parameter {', '.join(changed)}"] if changed else []
    return " and ".join(said)


def _refused(stored: Snapshot, why: str) -> CheckpointError:
    where = f"checkpoint {stored.path}" if stored.path else "the checkpoint"
    return CheckpointError(
        f"{where} has another layout than this version writes: it {why}; go on with the version that wrote it, or "
        "delete it to train the pack again from its start"
    )


def _kind(array: NDArray[Any]) -> str:
    return f"{array.dtype} {array.shape}"


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
