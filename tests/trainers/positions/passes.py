"""Passes, layers and noise for tests that call the hooks of an encoding by themselves."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainers.models.model import Model
from trainers.noise import Noise
from trainers.parameters import Layout
from trainers.positions.context import Context, Pass
from trainers.positions.position import Position, Sizes
from trainers.random import Stream
from trainers.tasks.task import Task


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
    return Sizes(longest=longest, width=width, heads=heads, head_width=head_width, std=std)


def noise(*seeds: int, step: int = 1, rate: float | None = None, training: bool = True, **rows: Any) -> Noise:
    """The noise of a training step of these seeds, with one rate of dropout for all."""
    rates = None if rate is None else torch.full((len(seeds),), rate, dtype=torch.float64)
    return Noise(Stream(torch.tensor(seeds), "dropout", torch.tensor(step)), None, rates, training, **rows)


def drawn(model: Model, task: Task, members: int = 2, size: float = 0.4) -> dict[str, Tensor]:
    """Weights far from their initial values, by name, float64."""
    layout = Layout(model.parameters(task))
    theta = torch.randn(members, layout.size, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    return layout.views(size * theta)


def tokens_of(shape: tuple[int, ...], high: int, seed: int = 0) -> Tensor:
    """Random tokens."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))
