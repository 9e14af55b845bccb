"""Contextual positions (CoPE, Golovneva et al., arXiv:2405.18719): positions count the keys with open gates.

g_ij = sigmoid(q_i . k_j / sqrt(E)),   p_ij = min(sum of g_il over l = j..i, npos_max - 1)
A_ij = softmax_j((q_i . k_j + q_i . e[p_ij]) / sqrt(E)),   e between two whole positions by linear interpolation
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.gates import compute_cumulative_sums
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter
from trainers.tensors.precision import matmul, sigmoid, upcast

MAX_PAIRS = 2**18  # of queries and keys at once, on a CPU


@register("position", "cope")
class Cope(Position):
    """A trained vector for each count of keys with open gates, `npos_max` vectors in each layer.

    Vectors start at zero and are shared by the heads, as in the authors' code (facebookresearch/RAM, projects/cope).
    The paper's models are causal; in a bidirectional model, keys on both sides are counted in the same way.
    """

    npos_max: int = setting(64, low=2, help="counts 0..npos_max - 1 have vectors; larger counts use the last one")
    scaled: bool = setting(True, help="also divide q . e by sqrt(head width), the default of the authors' code")

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the layer's table of npos_max vectors, initially zero."""
        return (Parameter(name=f"{name}.cope", shape=(self.npos_max, sizes.head_width), std=0.0),)

    def score(self, context: Context) -> Scores:
        """Return the logits with the term of the contextual position."""
        # A contextual position is the sum of the gates between query and key; masked keys must not count.
        scores = context.products()
        allowed = context.allowed
        table = context.weights[f"{context.name}.cope"]
        scores = scores.to(upcast(scores.dtype))  # counts are sums of many gates
        gates = sigmoid(scores)
        gates = gates if allowed is None else gates.masked_fill(~allowed, 0.0)
        sums, at_query = compute_cumulative_sums(gates, context)
        counts = at_query - sums if context.causal else (at_query - sums).abs()
        counts = (counts + gates).clamp(0.0, self.npos_max - 1.0)

        # q . e is linear in e, so interpolate the products: a vector for each pair would take too much memory.
        tables = table.mT[:, None, None]
        is_eager = not torch.compiler.is_compiling() and not torch.is_autocast_enabled(table.device.type)
        if len(table) == 1 and is_eager:  # otherwise the gradient of a lone member would be summed in another order
            tables = tables.expand(*context.q.shape[:3], -1, -1).contiguous()
        products = matmul(context.q, tables).to(scores.dtype)  # q . e of each place, (M, B, H, T, npos_max)
        # The last vector has no next one.
        slopes = torch.cat([products.diff(dim=-1), torch.zeros_like(products[..., :1])], dim=-1)

        if torch.compiler.is_compiling():  # the compiler chooses which tensors to save for the gradient
            term = _interpolate(products, slopes, counts)
        else:
            term = _Interpolate.apply(products, slopes, counts)  # type: ignore[no-untyped-call]
        term = term / math.sqrt(context.q.shape[-1]) if self.scaled else term
        return Scores(logits=torch.sub(scores, term, alpha=-1))  # scores + term; see `compute_attention_weights`


def _interpolate(products: Tensor, slopes: Tensor, counts: Tensor) -> Tensor:
    """Return products (..., T, K), interpolated at `counts` (..., T, K) from whole counts, (..., T, npos_max)."""
    lower_counts = counts.detach().floor()
    index = _make_index(lower_counts)
    return torch.addcmul(products.gather(-1, index), counts - lower_counts, slopes.gather(-1, index))


def _make_index(counts: Tensor) -> Tensor:
    """Return whole counts as indices, and the NaN of a diverged member as index 0."""
    return counts.to(torch.int64).clamp(min=0)


class _Interpolate(torch.autograd.Function):
    """`_interpolate`, bit for bit, but it saves only `slopes` and `counts` for the gradient.

    Autograd would also save the indices (int64), the fractions and the slopes of all pairs. On a CPU they are computed
    for a few rows at a time, which fit into the CPU cache.
    """

    @staticmethod
    def forward(products: Tensor, slopes: Tensor, counts: Tensor) -> Tensor:
        return torch.cat([_interpolate(*rows) for rows in _split_rows(products, slopes, counts)], dim=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        # The gradient of an interpolation does not depend on the products.
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        pieces = [_compute_gradients(*rows) for rows in _split_rows(gradient, *ctx.saved_tensors)]
        return tuple(torch.cat(part, dim=1) for part in zip(*pieces, strict=True))


def _compute_gradients(gradient: Tensor, slopes: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of products, slopes and counts from the gradient of `_interpolate`."""
    lower_counts = counts.floor()
    index = _make_index(lower_counts)
    product_gradient = torch.zeros_like(slopes).scatter_add_(-1, index, gradient)
    slope_gradient = torch.zeros_like(slopes).scatter_add_(-1, index, gradient * (counts - lower_counts))
    return product_gradient, slope_gradient, gradient * slopes.gather(-1, index)


def _split_rows(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield slices of rows of tensors (M, B, ...), so that the last tensor has at most MAX_PAIRS entries each."""
    pairs = tensors[-1]
    count = pairs.shape[1]
    if pairs.device.type == "cpu":
        count = max(1, MAX_PAIRS * count // max(pairs.numel(), 1))
    return zip(*(torch.split(tensor, count, dim=1) for tensor in tensors), strict=True)
