"""Curricula: rules that move members to the next stage of their task. The task defines what a stage trains on.

Shapes: M members, N stages.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from trainers.optimization.criterion import Criterion, is_reached
from trainers.settings.registry import register

Stages = NDArray[np.int64]
StageScores = NDArray[np.float32]


class Curriculum(Criterion, ABC):
    """Base of every curriculum."""

    @abstractmethod
    def advance_stages(self, stage_M: Stages, scores_MN: StageScores, direction: str) -> Stages:
        """Return the stages after an evaluation, int64 (M,), from 0 to N - 1.

        scores_MN: the metric at the length of each stage on inputs of the validation stream; NaN for failed members.
        direction: minimize or maximize.
        """


@register("curriculum", "threshold")
class Threshold(Curriculum):
    """Move to the next stage when the metric at the length of the member's stage reaches the threshold."""

    def advance_stages(self, stage_M: Stages, scores_MN: StageScores, direction: str) -> Stages:
        """Return the stages after an evaluation: a member advances by at most one stage."""
        score_M = np.take_along_axis(scores_MN, stage_M[:, None], axis=1)[:, 0]
        advances_M = is_reached(score_M, self.threshold, direction)
        return np.where(advances_M, np.minimum(stage_M + 1, scores_MN.shape[1] - 1), stage_M)
