"""Passes, layers and noise for tests that call the hooks of an encoding by themselves; one layer for plain loops."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainers.models.attention import apply_attention
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.models.model import Model
from trainers.positions.context import Context, Pass
from trainers.positions.position import Position, Sizes
from trainers.random import Stream
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.task import Task
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import ParameterLayout

TASK = PaddedMultiplication(multiplier_digits=1, number_digits=4, train_digits=2)
M, B, H, T, E, D = 2, 3, 2, 6, 4, 8  # of `layer`


def pass_of(tokens: Tensor, weights: Mapping[str, Tensor], causal: bool, **more: Any) -> Pass:
    """A whole pass, unless `first` and `count` say which of the tokens are the queries."""
    queries = {"first": 0, "count": tokens.shape[-1], **more}
    return Pass(tokens=tokens, weights=weights, causal=causal, **queries)


def layer_of(q: Tensor, weights: Mapping[str, Tensor], causal: bool = False, **more: Any) -> Context:
    """The layer block0 of a pass with these queries; its keys are the queries, and its tokens 0, unless given."""
    tokens = more.pop("tokens", torch.zeros(*q.shape[:2], q.shape[3], dtype=torch.int64))
    layer = {"name": "block0", "layer": 0, "x": q[:, :, 0], "q": q, "k": q, "v": q, "state": {}, **more}
    return Context(**{**vars(pass_of(tokens, weights, causal)), **layer})


def bias_of(position: Position, q: Tensor, weights: Mapping[str, Tensor], causal: bool = False, **more: Any) -> Tensor:
    """What an encoding adds to the scores of these queries."""
    scores = position.score(layer_of(q, weights, causal, **more))
    assert scores is not None and scores.bias is not None and scores.logits is None and scores.keep is None
    return scores.bias


def sizes(longest: int, heads: int, head_width: int, std: float = 0.02, width: int = 8) -> Sizes:
    """Sizes by position: T, H, E."""
    return Sizes(longest=longest, ids=longest, width=width, heads=heads, head_width=head_width, std=std)


def noise(*seeds: int, step: int = 1, rate: float | None = None, training: bool = True, **rows: Any) -> Noise:
    """The noise of a training step of these seeds, with one rate of dropout for all."""
    rates = None if rate is None else torch.full((len(seeds),), rate, dtype=torch.float64)
    return Noise(Stream(torch.tensor(seeds), "dropout", torch.tensor(step)), None, rates, training, **rows)


def drawn(model: Model, task: Task, members: int = 2, size: float = 0.4) -> dict[str, Tensor]:
    """Weights far from their initial values, by name, float64."""
    layout = ParameterLayout(model.parameters(task))
    theta = torch.randn(members, layout.size, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    return layout.split(size * theta)


def tokens_of(shape: tuple[int, ...], high: int, seed: int = 0) -> Tensor:
    """Random tokens."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def layer(position: Position, causal: bool = True) -> tuple[dict[str, Tensor], Tensor]:
    """Weights and inputs (M, B, T, D) of one attention layer, block0."""
    model = (Decoder if causal else Encoder)(layers=1, width=D, heads=H, position=position)
    x = torch.randn(M, B, T, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return drawn(model, TASK), x


def attended(position: Position, weights: Mapping[str, Tensor], x: Tensor, causal: bool = True, **more: Any) -> Tensor:
    """What this layer makes of x, with a pass of random tokens."""
    seen = pass_of(tokens_of((M, B, x.shape[2]), TASK.inputs), weights, causal, **more)
    return apply_attention(x, seen, name="block0", layer=0, heads=H, position=position)


def heads_of(weights: Mapping[str, Tensor], x: Tensor, m: int, b: int, h: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of one head, (T, E)."""
    qkv = x[m, b] @ weights["block0.qkv"][m] + weights["block0.qkv_bias"][m]
    q, k, v = (part[:, h * E : (h + 1) * E] for part in qkv.chunk(3, dim=-1))
    return q, k, v


def projected(weights: Mapping[str, Tensor], mixed_MBHTE: Tensor) -> Tensor:
    """The output map of the layer."""
    flat = mixed_MBHTE.transpose(2, 3).flatten(-2)
    return torch.stack([flat[m] @ weights["block0.output"][m] + weights["block0.output_bias"][m] for m in range(M)])
