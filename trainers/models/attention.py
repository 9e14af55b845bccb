"""Stacked multi-head attention.

Shapes: M members, B rows, T queries, K keys, H heads, E head width, D model width.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trainers.models.key_value_cache import LayerCache
from trainers.positions.context import Context, Pass, Recorder, Scores
from trainers.positions.position import Position
from trainers.tensors.layers import linear
from trainers.tensors.precision import matmul, upcast

Drop = Callable[[Tensor, int], Tensor]  # (values, number of the chunk of queries) -> values with dropout
_PASS_FIELDS = tuple(field.name for field in fields(Pass))  # torch 2.11 cannot trace vars()
MAX_QUERIES = 128  # in a chunk with groups, whose mask is per row, query and key


class AttentionWatcher:
    """The attention weights of a pass, (M, B, H, T, T) for each layer, joined from its chunks of queries."""

    def __init__(self, positions: int) -> None:
        self.positions = positions
        self.layers: list[Tensor] = []

    def __call__(self, context: Context, chunk_MBHTK: Tensor) -> None:
        """Store the attention weights of a chunk of queries of a layer."""
        if context.layer == len(self.layers):
            self.layers.append(chunk_MBHTK.new_zeros(*chunk_MBHTK.shape[:3], self.positions, self.positions))
        # A chunk of a causal pass may lack later keys, whose weights stay zero.
        queries = slice(context.first, context.first + context.count)
        self.layers[context.layer][..., queries, : chunk_MBHTK.shape[-1]] = chunk_MBHTK


def apply_attention(
    x_MBTD: Tensor,
    forward_pass: Pass,
    *,
    name: str,
    layer: int,
    heads: int,
    position: Position,
    drop: Drop | None = None,
    cache: LayerCache | None = None,
) -> Tensor:
    """Return the self-attention of the queries, (M, B, T, D), before the residual sum.

    Parameters: `<name>.qkv` (D, 3HE), `<name>.output` (HE, D), and `<name>.qkv_bias` and `<name>.output_bias` if they
    exist. drop: dropout of the attention weights, or of the scores if the encoding has `drops_scores`. cache: the KV
    cache of the layer. Without dropout, scores or `mix` of the encoding, a fused kernel is used.
    """
    m, b, t, _ = x_MBTD.shape
    weights = forward_pass.weights
    width = weights[f"{name}.output"].shape[-2] // heads
    qkv = linear(x_MBTD, weights[f"{name}.qkv"], weights.get(f"{name}.qkv_bias")).reshape(m, b, t, 3, heads, width)
    q, k, v = (part.transpose(2, 3) for part in qkv.unbind(dim=3))

    # The KV cache holds rotated keys, so the encoding must act on them first.
    pass_fields = {field: getattr(forward_pass, field) for field in _PASS_FIELDS}
    context = Context(**pass_fields, name=name, layer=layer, x=x_MBTD, q=q, k=k, v=v, state={})
    q, k = position.rotate(context)
    context = replace(context, q=q, k=k)
    context = replace(context, state=position.key_state(context))
    context = context if cache is None else cache.append(context)

    # With groups the mask is per row, query and key, so that all queries at once would take too much memory.
    attend = _attend if forward_pass.groups is None else _attend_in_chunks
    mixed = attend(context, position, drop).transpose(2, 3).reshape(m, b, t, heads * width)
    return linear(mixed, weights[f"{name}.output"], weights.get(f"{name}.output_bias"))


def compute_attention_weights(context: Context, scores: Scores | None, drop: Drop | None = None) -> Tensor:
    """Return the softmax of the scores over the visible keys, (M, B, H, T, K); zero for queries without keys.

    drop: dropout of the scores. Scores are float32 at least, also in a bfloat16 pass.
    """
    # An encoding may add to the scores or replace them.
    changes = scores or Scores()
    if changes.logits is None:
        logits = context.products()
    else:  # expanded, because dropout and `mix` need all rows and heads
        logits = changes.logits.expand(*context.q.shape[:-1], context.k.shape[-2])
    if changes.bias is not None:  # logits + bias; inductor would mistake a plain sum for an attention mask, and fail
        logits = torch.sub(logits, changes.bias, alpha=-1)
    logits = logits.to(upcast(logits.dtype))
    logits = logits if drop is None else drop(logits, context.chunk)

    # A mask of the encoding may leave a query without keys, for which a plain softmax would give NaN.
    allowed = context.allowed
    if changes.keep is None:
        logits = logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)
        return torch.softmax(logits, dim=-1)
    dropped = ~changes.keep if allowed is None else ~(changes.keep & allowed)
    if torch.compiler.is_compiling():  # the compiler chooses which tensors to save for the gradient
        return _masked_softmax(logits, dropped)
    weights: Tensor = _MaskedSoftmax.apply(logits, dropped)  # type: ignore[no-untyped-call]
    return weights


def _masked_softmax(logits: Tensor, dropped: Tensor) -> Tensor:
    """Return the softmax over the keys that are not dropped; zero for queries without keys."""
    logits = logits.masked_fill(dropped, torch.finfo(logits.dtype).min)  # not -inf: a row of -inf would be NaN
    return torch.softmax(logits, dim=-1).masked_fill(dropped, 0.0)


class _MaskedSoftmax(torch.autograd.Function):
    """`_masked_softmax`, bit for bit, but only its result, with zeros for dropped weights, is saved for the gradient.

    Autograd would save the softmax with and without the mask, and the mask twice.
    """

    @staticmethod
    def forward(logits: Tensor, dropped: Tensor) -> Tensor:
        return _masked_softmax(logits, dropped)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        # The plain gradient of a softmax also holds for dropped keys: their weights are zero.
        return torch.ops.aten._softmax_backward_data(gradient, weights, -1, weights.dtype), None


def _attend(context: Context, position: Position, drop: Drop | None) -> Tensor:
    """Return the attention output of each head, (M, B, H, T, E), before the output map."""
    # The fused kernel never shows scores or weights, so nothing may act on them or watch them.
    scores = position.score(context)
    if scores is None and drop is None and not position.has_mix and context.watcher is None:
        return _attend_fused(context)

    # Dropout acts either before or after the softmax.
    drop_scores, drop_weights = (drop, None) if position.drops_scores else (None, drop)
    weights = compute_attention_weights(context, scores, drop_scores).to(context.v.dtype)
    # A watcher gets the weights before dropout of the weights.
    if context.watcher is not None:
        context.watcher(context, weights)
    weights = weights if drop_weights is None else drop_weights(weights, context.chunk)
    mixed = matmul(weights, context.v)
    position_term = position.mix(context, weights)
    return mixed if position_term is None else mixed + position_term


def _attend_fused(context: Context) -> Tensor:
    """Return the attention output of each head by torch's fused kernel."""
    m, b, h, t, width = context.q.shape
    q, k, v = (part.reshape(m * b, h, -1, width) for part in (context.q, context.k, context.v))

    dtype = upcast(v.dtype) if v.device.type == "cpu" else v.dtype  # as in `matmul`
    q, k, v = (part.to(dtype) for part in (q, k, v))

    # An explicit mask would rule out the fastest kernels, so a purely causal mask is passed as a flag.
    is_causal_only = t == k.shape[2] and context.groups is None and context.visible is None
    allowed = None if is_causal_only else context.allowed
    if allowed is not None and allowed.dim() > 2:
        allowed = allowed.reshape(m * b, 1, t, -1)
    with torch.autocast(q.device.type, enabled=False):
        mixed = functional.scaled_dot_product_attention(q, k, v, allowed, is_causal=is_causal_only and context.causal)
    return mixed.reshape(m, b, h, t, -1).to(context.v.dtype)


def _attend_in_chunks(context: Context, position: Position, drop: Drop | None) -> Tensor:
    """Return the result of `_attend`, computed in chunks of queries, and record their values concatenated."""
    # A metric expects one value for each query of the layer, so values of the chunks are recorded once, joined.
    recorded: dict[str, list[Tensor]] = {}

    def collect(name: str, value: Tensor) -> None:
        recorded.setdefault(name, []).append(value)

    recorder: Recorder | None = collect if context.is_recording else None

    mixed = []
    for chunk, start in enumerate(range(0, context.count, MAX_QUERIES)):
        stop = min(start + MAX_QUERIES, context.count)
        queries = context.slice_queries(start, stop, chunk, recorder, position.looks_ahead)
        mixed.append(_attend(queries, position, drop))
    for name, values in recorded.items():
        context.record(name, torch.cat(values, dim=-1))
    return torch.cat(mixed, dim=3)
