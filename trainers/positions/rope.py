"""Rotary positions (Su et al., "RoFormer", arXiv:2104.09864)."""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Context
from trainers.positions.position import Position
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.precision import upcast


@register("position", "rope")
class Rope(Position):
    """Queries and keys rotated by angles proportional to their position; scores depend on distance alone."""

    base: float = setting(10000.0, above=1.0, help="base of the geometric series of wavelengths")
    qk_norm: bool = setting(False, help="normalize queries and keys first, without a gain")

    def find_head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Yield a problem if the head width is odd, because coordinates are rotated in pairs."""
        if head_width % 2:
            yield Problem(key="position", given="rope", message=f"rope needs an even head width, not {head_width}")

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Return queries and keys with coordinates i and i + E/2 rotated by the angle position * base^(-2i/E)."""
        q, k = context.normalized() if self.qk_norm else (context.q, context.k)
        width = q.shape[-1]

        # In float64, because angles of late positions are large and their rounding would turn the vectors.
        frequencies = self.base ** (-torch.arange(0, width, 2, device=q.device, dtype=torch.float64) / width)
        angle = context.query_ids.to(torch.float64)[..., None] * frequencies
        angle = angle if context.ids is None else angle[:, :, None]
        cos, sin = (wave.to(upcast(q.dtype)) for wave in (torch.cos(angle), torch.sin(angle)))
        return _rotate(q, cos, sin), _rotate(k, cos, sin)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return `x` with coordinates i and i + E/2 rotated by the angle with this cosine and sine."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).to(x.dtype)
