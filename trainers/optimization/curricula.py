"""Curricula: when a member goes on to the next stage of its task. What is trained at a stage is the task's to say.

Shapes: M members, N stages.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from trainers.optimization.criterion import Criterion, is_reached
from trainers.settings.registry import register

Stages = NDArray[np.int64]
Scores = NDArray[np.float32]


class Curriculum(Criterion, ABC):
    """Base of every curriculum."""

    @abstractmethod
    def advanced(self, stage_M: Stages, scores_MN: Scores, direction: str) -> Stages:
        """The stages to go on at, int64 (M,), from 0 to N - 1, decided at an evaluation.

        scores_MN: the metric at the length of each stage on inputs of the validation stream; NaN for failed members.
        direction: which way the metric is better, minimize or maximize.
        """


@register("curriculum", "threshold")
class Threshold(Curriculum):
    """One stage further when the metric at the length of the member's own stage is at the threshold or better."""

    def advanced(self, stage_M: Stages, scores_MN: Scores, direction: str) -> Stages:
        """The stages to go on at: at most one further at an evaluation."""
        own_M = np.take_along_axis(scores_MN, stage_M[:, None], axis=1)[:, 0]
        further = is_reached(own_M, self.threshold, direction)
        return np.where(further, np.minimum(stage_M + 1, scores_MN.shape[1] - 1), stage_M)
