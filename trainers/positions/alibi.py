"""ALiBi: scores fall linearly with distance (Press et al., arXiv:2108.12409)."""

import torch

from trainers.positions.context import Context, Scores
from trainers.positions.position import Position
from trainers.settings.registry import register
from trainers.tensors.precision import upcast


@register("position", "alibi")
class Alibi(Position):
    """Scores fall by m_h |i - j| with the fixed slopes m_h = 2^(-8 h / H), h = 1..H; nothing is trained.

    The paper's models are causal. In a bidirectional model the bias has no sign of direction. For H that is not a power
    of two the authors' code interleaves the slopes of two powers; here the formula is used for all H.
    """

    def score(self, context: Context) -> Scores:
        """Return the bias -m_h |i - j|."""
        q = context.q
        heads = context.q.shape[2]
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=q.device, dtype=torch.float64) / heads)
        return Scores(bias=(-slopes[:, None, None] * context.differences().abs()).to(upcast(q.dtype)))
