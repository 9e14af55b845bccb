"""Fixed sinusoidal positions (Vaswani et al., arXiv:1706.03762)."""

import torch
from torch import Tensor

from trainers.positions.context import Pass
from trainers.positions.position import Position
from trainers.settings.fields import setting
from trainers.settings.registry import register


@register("position", "sinusoidal")
class Sinusoidal(Position):
    """Sines and cosines of geometrically spaced wavelengths added to the token embedding."""

    base: float = setting(10000.0, above=1.0, help="base of the geometric series of wavelengths")

    def embed(self, x_MBTD: Tensor, forward_pass: Pass) -> Tensor:
        """Add sin(t / base^(2i/D)) at coordinate 2i and the cosine at 2i + 1."""
        width = x_MBTD.shape[-1]
        even_columns = torch.arange(0, width, 2, device=x_MBTD.device, dtype=torch.float64)
        angle = forward_pass.query_ids.to(torch.float64)[..., None] * self.base ** (-even_columns / width)
        # Sines and cosines alternate; an odd width ends in a sine.
        waves = torch.stack([torch.sin(angle), torch.cos(angle)], dim=-1).flatten(-2)[..., :width]
        return x_MBTD + waves.to(x_MBTD.dtype)
