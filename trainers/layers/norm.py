"""Stacked normalisation of the last dimension: layer norm (arXiv:1607.06450) and RMS norm (arXiv:1910.07467)."""

import torch
from torch import Tensor


def layer_norm(x: Tensor, gain_MD: Tensor, bias_MD: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last dimension of (M, ..., D), then each member's own gain and bias."""
    between = [1] * (x.dim() - 2)
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + epsilon)
    return centred * scale * gain_MD.reshape(len(gain_MD), *between, -1) + bias_MD.reshape(len(bias_MD), *between, -1)


def rms_norm(x: Tensor, gain_MD: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Divide the last dimension of (M, ..., D) by its root mean square, in float32 at least; then a gain, if any."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    found = (wide * torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + epsilon)).to(x.dtype)
    return found if gain_MD is None else found * gain_MD.reshape(len(gain_MD), *[1] * (x.dim() - 2), -1)
