"""Stacked linear map."""

from torch import Tensor

from trainers.tensors.precision import product


def linear(x: Tensor, weight_MDE: Tensor, bias_ME: Tensor | None = None) -> Tensor:
    """Apply each member's linear map to the last dimension: (M, ..., D) -> (M, ..., E)."""
    members = len(weight_MDE)
    y = product(x.reshape(members, -1, x.shape[-1]), weight_MDE)
    if bias_ME is not None:
        y = y + bias_ME[:, None, :].to(y.dtype)
    return y.reshape(*x.shape[:-1], weight_MDE.shape[-1])
