"""What the metrics of a task say of themselves, and those that follow from earlier evaluations.

Shapes: M members, L lengths.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainers.optimization.criterion import is_reached

Curves = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Metric:
    """What a recorded metric is: the task's or model's own name for it, the distribution, which way is better.

    direction: minimize, maximize or none. lengths: those it is evaluated at; trained_lengths: those it is trained on.
    """

    base: str
    distribution: str
    direction: str
    lengths: tuple[int, ...]
    trained_lengths: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """The curves of an earlier or the present evaluation, (M, averages, L) by metric, after `step` steps."""

    step: int
    curves: Curves


@dataclass(frozen=True)
class Family:
    """Metrics that differ in one number: the number in words, and by each of its values the metric that has it."""

    label: str
    metrics: Mapping[int, str]


def steps_to(
    history: Sequence[Evaluated], metric: str, threshold: float, direction: str = "maximize"
) -> NDArray[np.float32]:
    """The step of the first evaluation at which `metric` was at its threshold or better; infinite until then."""
    if metric not in history[-1].curves:
        raise ValueError(f"steps to {metric}, which is no metric; allowed: {', '.join(history[-1].curves)}")
    curves = history[-1].curves[metric]
    first = np.full(curves.shape, np.inf, np.float32)
    for past in reversed(history):
        first = np.where(is_reached(past.curves[metric], threshold, direction), np.float32(past.step), first)
    return first


def families(**members: tuple[str, str, Iterable[int]]) -> dict[str, Family]:
    """Families by name from (label, stem, numbers), the metrics being called stem_number; without those that are empty.

    >>> families(cascade=("cascade length", "exact_match_cascade", (0, 2)), run=("run", "exact_match_run", ()))
    {'cascade': Family(label='cascade length', metrics={0: 'exact_match_cascade_0', 2: 'exact_match_cascade_2'})}
    """
    found = {
        name: Family(label, {number: f"{stem}_{number}" for number in numbers})
        for name, (label, stem, numbers) in members.items()
    }
    return {name: family for name, family in found.items() if family.metrics}
