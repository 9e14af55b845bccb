"""Stacked multi-head attention. Shapes: M member, B batch, H head, T position, K head width, D width."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from trainers.layers.linear import linear
from trainers.positions.position import Position


def attention(
    x_MBTD: Tensor,
    tokens_MBT: Tensor,
    weights: Mapping[str, Tensor],
    *,
    name: str,
    heads: int,
    causal: bool,
    position: Position,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Self-attention with weights `<name>.qkv` (D, 3HK) and `<name>.output` (HK, D) and their biases, (M, B, T, D).

    `drop` acts on the attention weights; without it and without a score term the fused kernel is used, with the
    members folded into its batch. The position may look at the tokens.
    """
    m, b, t, _ = x_MBTD.shape
    width = weights[f"{name}.output"].shape[-2] // heads
    qkv = linear(x_MBTD, weights[f"{name}.qkv"], weights[f"{name}.qkv_bias"]).reshape(m, b, t, 3, heads, width)
    q, k, v = (part.transpose(2, 3) for part in qkv.unbind(dim=3))
    q, k = position.rotate(q, k)
    bias = position.score(q, tokens_MBT, weights, name, causal)
    if bias is None and drop is None:
        shape = (m * b, heads, t, width)
        q, k, v = q.reshape(shape), k.reshape(shape), v.reshape(shape)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal).reshape(m, b, heads, t, -1)
    else:
        scores = torch.matmul(q, k.mT) / math.sqrt(width)
        if bias is not None:  # scores + bias; inductor would take a sum for the mask of its own attention, and fail
            scores = torch.sub(scores, bias, alpha=-1)
        if causal:
            ahead = torch.ones(t, t, dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(ahead, -torch.inf)
        probabilities = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(probabilities if drop is None else drop(probabilities), v)
    together = mixed.transpose(2, 3).reshape(m, b, t, heads * width)
    return linear(together, weights[f"{name}.output"], weights[f"{name}.output_bias"])
