"""ALiBi: scores fall linearly with distance (Press et al., arXiv:2108.12409)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.config.registry import register
from trainers.positions.position import Position, differences


@register("position", "alibi")
class Alibi(Position):
    """Scores fall by m_h |i - j| with the fixed slopes m_h = 2^(-8 h / H), h = 1..H; nothing is trained.

    The paper's models are causal. A bidirectional model sees how far a key is, and not on which side. For H that
    are no powers of two the authors' code interleaves the slopes of two powers; here the formula holds for all.
    """

    def score(
        self, q_MBHTK: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], name: str, causal: bool
    ) -> Tensor:
        """-m_h |i - j|, (H, T, T)."""
        heads, length = q_MBHTK.shape[2:4]
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=q_MBHTK.device, dtype=torch.float64) / heads)
        return (-slopes[:, None, None] * differences(length, q_MBHTK.device).abs()).to(q_MBHTK.dtype)
