"""Descriptions of metrics, and metrics computed from earlier evaluations.

Shapes: M members, L lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainers.optimization.criterion import is_reached

Curves = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class RecordedMetric:
    """A recorded metric.

    base: its name in the task or model. distribution: name of the distribution. direction: minimize, maximize or none.
    lengths: the evaluated lengths. trained_lengths: the trained lengths among them.
    """

    base: str
    distribution: str
    direction: str
    lengths: tuple[int, ...]
    trained_lengths: tuple[int, ...]


@dataclass(frozen=True)
class EvaluationCurves:
    """The curves of an evaluation after `step` steps, (M, averages, L) by metric."""

    step: int
    curves: Curves


Evaluated = EvaluationCurves  # its name in 1.0, which tasks of users may import


def steps_to(
    history: Sequence[EvaluationCurves], metric: str, threshold: float, direction: str = "maximize"
) -> NDArray[np.float32]:
    """Return the step of the first evaluation at which a metric reached its threshold, (M, averages, L).

    Infinite if it has not. Raises ValueError for an unknown metric.
    """
    if metric not in history[-1].curves:
        raise ValueError(f"steps_to: there is no metric {metric!r}; allowed: {', '.join(history[-1].curves)}")
    curves = history[-1].curves[metric]
    steps = np.full(curves.shape, np.inf, np.float32)
    for evaluation in reversed(history):  # the earliest evaluation overwrites later ones
        is_solved = is_reached(evaluation.curves[metric], threshold, direction)
        steps = np.where(is_solved, np.float32(evaluation.step), steps)
    return steps
