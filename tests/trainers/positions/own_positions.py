"""Throw-away encodings, one for each hook that no shipped one fills."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from trainers.config.settings import setting
from trainers.layers.linear import linear
from trainers.noise import Noise
from trainers.parameters import Parameter
from trainers.positions.context import PLACE_SITE, Context, Pass, Scores
from trainers.positions.position import Position, Sizes


class PairValues(Position):
    """Trained vectors of clipped differences on the values (Shaw et al., arXiv:1803.02155, eq. 3)."""

    clip: int = setting(2)

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        return (Parameter(name=f"{name}.values", shape=(2 * self.clip + 1, sizes.head_width), std=sizes.std),)

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor:
        rows = context.differences().clamp(-self.clip, self.clip) + self.clip
        by_row = attention_MBHTK.new_zeros(*attention_MBHTK.shape[:-1], 2 * self.clip + 1)
        by_row = by_row.scatter_add(-1, rows.expand_as(attention_MBHTK), attention_MBHTK)
        return torch.matmul(by_row, context.weights[f"{context.name}.values"][:, None, None])


class Threshold(Position):
    """Keys of no positive score are dropped; distance counts those that remain, times a gate of the query.

    Threshold relative attention (Opper et al., arXiv:2503.23174); `contextual` False: times i - j.
    """

    contextual: bool = setting(True)
    metrics: ClassVar[Mapping[str, str]] = {"alive": "none", "gate": "none"}

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        return (
            Parameter(name=f"{name}.gate", shape=(sizes.width, sizes.heads), std=sizes.std),
            Parameter(name=f"{name}.gate_bias", shape=(sizes.heads,), std=0.0, decay=False),
        )

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        q, k = (x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) for x in (context.q, context.k))
        return q, k

    def score(self, context: Context) -> Scores:
        weights, name = context.weights, context.name
        scores, allowed = context.products(), context.allowed
        alive = scores > 0 if allowed is None else (scores > 0) & allowed
        gate = functional.logsigmoid(linear(context.x, weights[f"{name}.gate"], weights[f"{name}.gate_bias"]))
        distance = context.differences().to(scores.dtype)
        if self.contextual:
            distance = alive.to(scores.dtype).flip(-1).cumsum(dim=-1).flip(-1)
        if context.recording:
            context.record("alive", alive.to(scores.dtype).sum(dim=-1))
            context.record("gate", gate.transpose(2, 3))
        logits = scores + gate.transpose(2, 3)[..., None] * distance
        if context.noise is not None:
            logits = context.noise(logits, context.site(0))
        return Scores(logits=logits, keep=alive)


class Forgetting(Position):
    """Scores fall by the log of what every later token lets through (Lin et al., arXiv:2503.02130)."""

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        return (Parameter(name=f"{name}.forget", shape=(sizes.width, sizes.heads), std=sizes.std),)

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        kept = functional.logsigmoid(linear(context.x, context.weights[f"{context.name}.forget"]))
        return {"kept": kept.transpose(2, 3)}

    def score(self, context: Context) -> Scores:
        total = context.state["kept"].cumsum(dim=-1)
        return Scores(bias=context.of_queries(total)[..., :, None] - total[..., None, :])


class Everything(Threshold, Forgetting, PairValues):
    """All of the above."""

    metrics: ClassVar[Mapping[str, str]] = {"alive": "none", "gate": "none"}

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        bases = (Threshold, Forgetting, PairValues)
        return tuple(parameter for base in bases for parameter in base.layer_parameters(self, name, sizes))

    def score(self, context: Context) -> Scores:
        threshold, forgetting = Threshold.score(self, context), Forgetting.score(self, context)
        assert threshold.logits is not None and forgetting.bias is not None
        return replace(threshold, logits=threshold.logits + forgetting.bias)


class Randomized(Position):
    """Any encoding at distinct random positions below `most`, ascending, also in tests (arXiv:2305.16843)."""

    most: int = setting(32)
    base: Position = setting("rope", kind="position")

    @property
    def random(self) -> bool:
        return True

    @property
    def looks_ahead(self) -> bool:
        return self.base.looks_ahead

    @property
    def mixes(self) -> bool:
        return self.base.mixes

    @property
    def metrics(self) -> Mapping[str, str]:
        return self.base.metrics

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        return self.base.parameters(replace(sizes, longest=self.most))

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        return self.base.layer_parameters(name, replace(sizes, longest=self.most))

    def place(self, ids_MBT: Tensor | None, shape: tuple[int, int, int], noise: Noise | None) -> Tensor:
        assert noise is not None
        order = noise.integers(PLACE_SITE, (shape[1], self.most), 2**31).argsort(dim=-1, stable=True)
        drawn = order[..., : shape[2]].sort(dim=-1).values.expand(shape)
        return drawn if ids_MBT is None else torch.gather(drawn, -1, ids_MBT)

    def embed(self, x_MBTD: Tensor, seen: Pass) -> Tensor:
        return self.base.embed(x_MBTD, seen)

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        return self.base.rotate(context)

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        return self.base.key_state(context)

    def score(self, context: Context) -> Scores | None:
        return self.base.score(context)

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        return self.base.mix(context, attention_MBHTK)
