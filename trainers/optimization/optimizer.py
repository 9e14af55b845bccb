"""Stacked AdamW (Loshchilov and Hutter, arXiv:1711.05101), plain gradient descent, per-member clipping.

Every hyperparameter is a tensor of shape (M, 1); weights, gradients and moments are (M, P). Tested against
`torch.optim.AdamW` and `torch.nn.utils.clip_grad_norm_` run member by member.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def clip_gradient(gradient: Tensor, limit: Tensor) -> Tensor:
    """Scale each member's gradient to a norm of at most `limit` (M, 1), as `clip_grad_norm_` does."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient * torch.clamp(limit.to(gradient.dtype) / (norm + 1e-6), max=1.0)


def gradient_descent(
    theta: Tensor, gradient: Tensor, rate: Tensor, decay_mask: Tensor | None, h: Mapping[str, Tensor]
) -> Tensor:
    """Return the new weights theta - rate (gradient + weight_decay theta); shapes as in `adamw`."""
    return _decay_weights(theta, rate, decay_mask, h).sub_(rate.to(theta.dtype) * gradient)


def adamw(
    theta: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    step: Tensor,
    rate: Tensor,
    decay_mask: Tensor | None,
    h: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new weights and the new first and second moments.

    step: int64 (), 1 for the first update. rate: learning rate after its schedule, (M, 1). decay_mask: (P,), see
    `ParameterLayout.decay_mask`. h: weight_decay, beta1, beta2, epsilon, float64 (M, 1) each.
    """
    dtype = theta.dtype
    beta1, beta2, t = h["beta1"], h["beta2"], step.double()
    correction1 = 1.0 - beta1**t
    correction2 = torch.sqrt(1.0 - beta2**t)
    # In-place operations on new tensors: the same bits as m + (1 - beta1) (gradient - m) etc. with less memory.
    m = (gradient - m).mul_((1.0 - beta1).to(dtype)).add_(m)
    v = (v * beta2.to(dtype)).add_(((1.0 - beta2).to(dtype) * gradient).mul_(gradient))
    scale = torch.sqrt(v).div_(correction2.to(dtype)).add_(h["epsilon"].to(dtype))
    change = (m / scale).mul_((rate / correction1).to(dtype))
    return _decay_weights(theta, rate, decay_mask, h).sub_(change), m, v


def _decay_weights(theta: Tensor, rate: Tensor, decay_mask: Tensor | None, h: Mapping[str, Tensor]) -> Tensor:
    lost = (rate * h["weight_decay"]).to(theta.dtype)
    return theta * (1.0 - (lost if decay_mask is None else lost * decay_mask.to(theta.dtype)))
