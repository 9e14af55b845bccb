"""Stacked normalisation of the last dimension: layer norm (arXiv:1607.06450) and RMS norm (arXiv:1910.07467)."""

import torch
from torch import Tensor

from trainers.tensors.precision import wide


def layer_norm(x: Tensor, gain_MD: Tensor, bias_MD: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last dimension of (M, ..., D), then apply each member's gain, and bias if there is one."""
    between = [1] * (x.dim() - 2)
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + epsilon)
    y = centred * scale * gain_MD.reshape(len(gain_MD), *between, -1)
    return y if bias_MD is None else y + bias_MD.reshape(len(bias_MD), *between, -1)


def rms_norm(x: Tensor, gain_MD: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Divide the last dimension of (M, ..., D) by its root mean square, in float32 at least; then apply any gain."""
    exact = x.to(wide(x.dtype))
    y = (exact * torch.rsqrt((exact * exact).mean(dim=-1, keepdim=True) + epsilon)).to(x.dtype)
    return y if gain_MD is None else y * gain_MD.reshape(len(gain_MD), *[1] * (x.dim() - 2), -1)
