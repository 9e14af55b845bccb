"""Stacked layers: a linear map, a token embedding, layer norm (arXiv:1607.06450) and RMS norm (arXiv:1910.07467)."""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import matmul, upcast


def linear(x: Tensor, weight_MDE: Tensor, bias_ME: Tensor | None = None) -> Tensor:
    """Return each member's linear map of the last dimension of `x`, (M, ..., D) -> (M, ..., E)."""
    members = len(weight_MDE)
    y = matmul(x.reshape(members, -1, x.shape[-1]), weight_MDE)
    if bias_ME is not None:
        y = y + bias_ME[:, None, :].to(y.dtype)
    return y.reshape(*x.shape[:-1], weight_MDE.shape[-1])


def embedding_parameter(tokens: int, width: int, std: float, largest: float | None) -> Parameter:
    """Return the embedding table (tokens, width), without weight decay.

    Its entries start normal with `std`, or uniform in [-largest, largest) if `largest` is given.
    """
    if largest is None:
        return Parameter(name="embedding", shape=(tokens, width), std=std, decay=False)
    return uniform_parameter("embedding", (tokens, width), -largest, largest, decay=False)


def embed(table_MVD: Tensor, tokens_MBT: Tensor) -> Tensor:
    """Return the rows of each member's table for its tokens, (M, B, T, D)."""
    members, vocabulary, width = table_MVD.shape
    # Shifted ids look up all members in one stacked table, by a single kernel.
    offset = torch.arange(members, device=tokens_MBT.device) * vocabulary
    return functional.embedding(tokens_MBT + offset[:, None, None], table_MVD.reshape(members * vocabulary, width))


def layer_norm(x: Tensor, gain_MD: Tensor, bias_MD: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Return `x` (M, ..., D) normalized over its last dimension, times each member's gain, plus its bias if given."""
    inner = [1] * (x.dim() - 2)
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + epsilon)
    y = centred * scale * gain_MD.reshape(len(gain_MD), *inner, -1)
    return y if bias_MD is None else y + bias_MD.reshape(len(bias_MD), *inner, -1)


def rms_norm(x: Tensor, gain_MD: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Return `x` (M, ..., D) divided by the root mean square of its last dimension, times each member's gain if given.

    Computed in float32 at least.
    """
    wide = x.to(upcast(x.dtype))
    y = (wide * torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + epsilon)).to(x.dtype)
    return y if gain_MD is None else y * gain_MD.reshape(len(gain_MD), *[1] * (x.dim() - 2), -1)
