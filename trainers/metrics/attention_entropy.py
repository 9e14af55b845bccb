"""The entropy of attention weights, which measures how widely attention is dispersed over the keys.

Shapes: M members, B rows, H heads, T positions, K keys, L lengths.
"""

from typing import ClassVar

import torch
from torch import Tensor

from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.settings.registry import register


@register("metric", "attention_entropy")
class AttentionEntropy(Metric):
    """Mean entropy of the attention weights at the counted targets, in nats, over all layers and heads."""

    direction: ClassVar[str] = "none"

    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        """Return the mean entropy over counted targets, (M, B, L)."""
        entropies = [torch.special.entr(weights_MBHTK).sum(dim=-1).mean(dim=2) for weights_MBHTK in evaluated.attention]
        return evaluated.mean_over_targets(torch.stack(entropies).mean(dim=0))
