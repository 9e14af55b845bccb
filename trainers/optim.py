"""Stacked AdamW (Loshchilov and Hutter, arXiv:1711.05101), plain gradient descent, per-member clipping.

Every hyperparameter is a tensor of shape (M, 1); weights, gradients and moments are (M, P). Tested against
`torch.optim.AdamW` and `torch.nn.utils.clip_grad_norm_` run member by member.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def clipped(gradient: Tensor, limit: Tensor) -> Tensor:
    """Scale each member's gradient to a norm of at most `limit` (M, 1), as `clip_grad_norm_` does."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient * torch.clamp(limit.to(gradient.dtype) / (norm + 1e-6), max=1.0)


def gradient_descent(
    theta: Tensor, gradient: Tensor, rate: Tensor, decay_mask: Tensor, h: Mapping[str, Tensor]
) -> Tensor:
    """theta - rate (gradient + weight_decay theta), the new weights; shapes as in `adamw`."""
    dtype = theta.dtype
    return theta * (1.0 - (rate * h["weight_decay"]).to(dtype) * decay_mask.to(dtype)) - rate.to(dtype) * gradient


def adamw(
    theta: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    step: Tensor,
    rate: Tensor,
    decay_mask: Tensor,
    h: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """One update: the new weights and the new first and second moments.

    step: () int64, 1 for the first update. rate: (M, 1) learning rate after its schedule. decay_mask: (P,).
    h: weight_decay, beta1, beta2, epsilon, each (M, 1) float64.
    """
    dtype = theta.dtype
    beta1, beta2 = h["beta1"], h["beta2"]
    correction1 = 1.0 - beta1 ** step.double()
    correction2 = torch.sqrt(1.0 - beta2 ** step.double())
    m = m + (1.0 - beta1).to(dtype) * (gradient - m)
    v = v * beta2.to(dtype) + (1.0 - beta2).to(dtype) * gradient * gradient
    shrunk = theta * (1.0 - (rate * h["weight_decay"]).to(dtype) * decay_mask.to(dtype))
    scale = torch.sqrt(v) / correction2.to(dtype) + h["epsilon"].to(dtype)
    return shrunk - (rate / correction1).to(dtype) * (m / scale), m, v
