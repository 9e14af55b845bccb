"""Stacked layer normalisation (Ba, Kiros and Hinton, arXiv:1607.06450)."""

import torch
from torch import Tensor


def layer_norm(x: Tensor, gain_MD: Tensor, bias_MD: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last dimension of (M, ..., D), then each member's own gain and bias."""
    between = [1] * (x.dim() - 2)
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + epsilon)
    return centred * scale * gain_MD.reshape(len(gain_MD), *between, -1) + bias_MD.reshape(len(bias_MD), *between, -1)
