"""The cross-entropy of the targets, in nats, at every length."""

from typing import ClassVar

import torch
from torch import Tensor

from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.settings.registry import register
from trainers.tasks import supervised


@register("metric", "cross_entropy")
class CrossEntropy(Metric):
    """Mean cross-entropy of the counted targets of a row, in nats, also of distributions over tokens."""

    direction: ClassVar[str] = "minimize"

    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        """Return the mean cross-entropy over counted targets, (M, B, L)."""
        logs_MBT = supervised.compute_log_likelihoods(evaluated.logits, evaluated.batch.targets)
        losses_MBL = evaluated.mean_over_targets(-logs_MBT)

        # NaN leaves a row out of the mean, which is right for a row without targets. A row with NaN logits counts as
        # infinite.
        has_targets_MBL = evaluated.target_mask.any(dim=2)
        return losses_MBL.masked_fill(losses_MBL.isnan() & has_targets_MBL, torch.inf)
