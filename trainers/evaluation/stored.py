"""Curves of stored weights, also at other lengths or task settings than in training.

Shapes: M members, A averages, K metrics, L lengths, P parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.evaluation.evaluate import evaluate_weights
from trainers.packs.pack import Pack

Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredCurves:
    """The curves of members: values_MAKL, float32 (members, averages, metrics, lengths)."""

    step: int
    averages: tuple[str, ...]
    metrics: tuple[str, ...]
    lengths: tuple[int, ...]
    values_MAKL: NDArray[np.float32]


def evaluate_stored(
    members: Sequence[MemberConfig], weights: Sequence[Mapping[str, Weights]], *, device: str = "cpu"
) -> StoredCurves:
    """Return the curves of members at their current settings, with the given weights of each member.

    weights: {average: {parameter: array}} of each member. The members have one structural key and the same averages.
    Raises ConfigError, with keys that start with `model`, if weights and model differ in shapes, and
    the errors of `evaluate`.
    """
    pack = Pack(members, torch.device(device))
    averages = tuple(weights[0])
    # Members of one structural key have the same shapes in every average, so the first represents all.
    _check_shapes(pack, weights[0][averages[0]])
    theta = [torch.cat([_flatten_weights(pack, stored[average]) for stored in weights]) for average in averages]
    metrics, values = evaluate_weights(pack, [vector.to(pack.device) for vector in theta])
    return StoredCurves(
        step=members[0].training.steps, averages=averages, metrics=metrics, lengths=pack.lengths, values_MAKL=values
    )


def _flatten_weights(pack: Pack, weights: Weights) -> Tensor:
    """Return the weights of a member as a row (1, P)."""
    return pack.layout.flatten({name: torch.as_tensor(np.array(weights[name]))[None] for name, _ in pack.layout.shapes})


def _check_shapes(pack: Pack, weights: Weights) -> None:
    """Raise ConfigError unless the weights have the names and shapes of the model's parameters."""
    stored_shapes = {name: tuple(weights[name].shape) for name in weights}
    needed_shapes = dict(pack.layout.shapes)
    if stored_shapes.keys() != needed_shapes.keys():
        differing = ", ".join(sorted(stored_shapes.keys() ^ needed_shapes.keys()))
        message = f"the stored weights and the model have different parameters for this task: {differing}"
        raise ConfigError([Problem(key="model", given=pack.model.name, message=message)])

    # Shapes differ if a setting of the task resizes a table, so name each parameter with both shapes.
    problems = [
        Problem(
            key=f"model, parameter {name}",
            given=list(stored_shapes[name]),
            message=f"the weights were trained with shape {stored_shapes[name]}, and this task needs {shape}",
            allowed="lengths and task settings that keep the shape",
        )
        for name, shape in needed_shapes.items()
        if stored_shapes[name] != shape
    ]
    if problems:
        raise ConfigError(problems)
