"""A gate of each token and head, 0 < f < 1, as its logarithm; and running sums over the keys. TRA, FoX and CoPE.

Shapes: M members, B rows, T queries, K keys, H heads, D model width.
"""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.positions.context import Context
from trainers.positions.position import Sizes
from trainers.tensors.linear import linear
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import wide


def gate_parameters(name: str, sizes: Sizes) -> tuple[Parameter, Parameter]:
    """A linear map from D to H for layer `name`, with initial values as of torch.nn.Linear; its bias does not decay."""
    side = sizes.width**-0.5
    return (
        uniform_parameter(f"{name}.gate", (sizes.width, sizes.heads), -side, side),
        uniform_parameter(f"{name}.gate_bias", (sizes.heads,), -side, side, decay=False),
    )


def log_gates(context: Context) -> Tensor:
    """log sigmoid(W x + b) of what the layer reads, (M, B, H, T), float32 at least."""
    x, matrix = context.x, context.weights[f"{context.name}.gate"]
    bias = context.weights[f"{context.name}.gate_bias"]
    if matrix.shape[-1] == 1:  # written out: the bits of a product with one column depend on how many members there are
        found = (x * matrix[:, None, None, :, 0]).sum(dim=-1, keepdim=True) + bias[:, None, None]
    else:
        found = linear(x, matrix, bias)
    return functional.logsigmoid(found.to(wide(found.dtype))).transpose(2, 3)


def running(values: Tensor, context: Context, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Sums of `values` (..., T, K) over the keys up to each key, and up to the query's own, (..., T, 1).

    The second less the first is the sum over the keys after key j up to query i, and for later keys less than zero.
    Of keys that a query does not see the values must be zero.
    """
    sums = values.cumsum(dim=-1, dtype=dtype)
    if context.causal:  # what is after the query's own key is zero
        return sums, sums[..., -1:]
    own = torch.arange(context.first, context.first + context.count, device=sums.device)[:, None]
    return sums, sums.gather(-1, own.expand(*sums.shape[:-1], 1))
