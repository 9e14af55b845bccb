"""Rotary positions (Su et al., "RoFormer", arXiv:2104.09864)."""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.config.registry import register
from trainers.config.settings import setting
from trainers.errors import Problem
from trainers.positions.position import Position


@register("position", "rope")
class Rope(Position):
    """Queries and keys rotated by angles proportional to their position; scores depend on distance alone."""

    base: float = setting(10000.0, above=1.0, help="base of the geometric series of wavelengths")

    def head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """A problem if the head width is odd: coordinates are rotated in pairs."""
        if head_width % 2:
            yield Problem(key="position", given="rope", message=f"rope needs an even head width, not {head_width}")

    def rotate(self, q_MBHTK: Tensor, k_MBHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates i and i + K/2 turn by position * base^(-2i/K)."""
        length, width = q_MBHTK.shape[-2:]
        turns = self.base ** (-torch.arange(0, width, 2, device=q_MBHTK.device, dtype=torch.float64) / width)
        angle = torch.arange(length, device=q_MBHTK.device, dtype=torch.float64)[:, None] * turns
        cos, sin = torch.cos(angle).to(q_MBHTK.dtype), torch.sin(angle).to(q_MBHTK.dtype)
        return _turned(q_MBHTK, cos, sin), _turned(k_MBHTK, cos, sin)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, dim=-1)
    return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)
