"""Log gates of tokens and heads, and cumulative sums over keys, for TRA, FoX and CoPE.

Shapes: M members, B rows, T queries, K keys, H heads, D model width.
"""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.positions.context import Context
from trainers.positions.position import Sizes
from trainers.tensors.layers import linear
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import upcast


def declare_gate_parameters(name: str, sizes: Sizes) -> tuple[Parameter, Parameter]:
    """Return the parameters of a map D -> H for layer `name`, initialized as torch.nn.Linear; no decay of the bias."""
    bound = sizes.width**-0.5
    return (
        uniform_parameter(f"{name}.gate", (sizes.width, sizes.heads), -bound, bound),
        uniform_parameter(f"{name}.gate_bias", (sizes.heads,), -bound, bound, decay=False),
    )


def compute_log_gates(context: Context) -> Tensor:
    """Return log sigmoid(W x + b) of the layer's input, (M, B, H, T), float32 at least."""
    x = context.x
    matrix = context.weights[f"{context.name}.gate"]
    bias = context.weights[f"{context.name}.gate_bias"]
    if matrix.shape[-1] == 1:  # the bits of a matrix product with one column depend on the number of members
        logits = (x * matrix[:, None, None, :, 0]).sum(dim=-1, keepdim=True) + bias[:, None, None]
    else:
        logits = linear(x, matrix, bias)
    return functional.logsigmoid(logits.to(upcast(logits.dtype))).transpose(2, 3)


def compute_cumulative_sums(
    values: Tensor, context: Context, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Return sums of `values` (..., T, K) over the keys up to each key, (..., T, K), and up to the query, (..., T, 1).

    The second minus the first is the sum over the keys after key j up to query i; for later keys it is negative. Values
    of masked keys must be zero.
    """
    sums = values.cumsum(dim=-1, dtype=dtype)
    if context.causal:  # values of keys after the query are zero
        return sums, sums[..., -1:]
    query = torch.arange(context.first, context.first + context.count, device=sums.device)[:, None]
    return sums, sums.gather(-1, query.expand(*sums.shape[:-1], 1))
