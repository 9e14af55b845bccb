"""Randomized positions around any encoding (Ruoss et al., arXiv:2305.16843)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import PLACE_SITE, Context, Pass, Scores
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter


@register("position", "randomized")
class Randomized(Position):
    """Another encoding at distinct random positions below `longest`, ascending; they are drawn in tests, too.

    So positions of long tests are trained on. A batch has one draw, as in the authors' code, or each row its own.
    Encodings that do not go by position ids stay as they are.
    """

    base: Position = setting("rope", kind="position", help="the encoding, by name or as {name: ...}")
    longest: int = setting(2048, low=1, help="positions are drawn from 0..longest - 1; at least the longest input")
    draw: str = setting("batch", choices=("batch", "row"), help="what has a draw of its own")

    @property
    def random(self) -> bool:
        """Positions are drawn."""
        return True

    @property
    def looks_ahead(self) -> bool:
        """As the base does."""
        return self.base.looks_ahead

    @property
    def by_columns(self) -> bool:
        """As the base does."""
        return self.base.by_columns

    @property
    def mixes(self) -> bool:
        """As the base does."""
        return self.base.mixes

    @property
    def drops_scores(self) -> bool:
        """As the base does."""
        return self.base.drops_scores

    @property
    def metrics(self) -> Mapping[str, str]:
        """Those of the base."""
        return self.base.metrics

    @property
    def largest(self) -> frozenset[str]:
        """Those of the base."""
        return self.base.largest

    def head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Those of the base."""
        yield from map(_within, self.base.head_problems(heads, head_width))

    def task_problems(self, task: Settings) -> Iterator[Problem]:
        """A problem if inputs are longer than there are positions; and those of the base."""
        positions, ids = getattr(task, "positions", 0), getattr(task, "position_ids", 0)
        if positions > self.longest:
            message = f"inputs have up to {positions} positions, which cannot all differ"
            yield Problem(key="position.longest", given=self.longest, message=message, allowed=f">= {positions}")
        elif ids > positions:
            message = f"draws a position for each of up to {positions} tokens, and the task has {ids} position ids"
            yield Problem(key="position", given=self.name, message=message)
        yield from map(_within, self.base.task_problems(task))

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Those of the base for inputs of `longest` positions."""
        return self.base.parameters(replace(sizes, longest=self.longest, ids=self.longest))

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Those of the base for inputs of `longest` positions."""
        return self.base.layer_parameters(name, replace(sizes, longest=self.longest, ids=self.longest))

    def place(self, ids_MBT: Tensor | None, shape: tuple[int, int, int], noise: Noise | None) -> Tensor:
        """The draw; id t of a batch that has ids is the t-th of the positions drawn."""
        if noise is None:
            raise ValueError("randomized positions are drawn in every pass, and there is no noise to draw them from")
        shared = self.draw == "batch"
        order = (self.longest,) if shared else (shape[1], self.longest)
        drawn = noise.integers(PLACE_SITE, order, 2**31, shared=shared).argsort(dim=-1, stable=True)
        drawn = drawn[..., : shape[2]].sort(dim=-1).values
        drawn = (drawn[:, None] if shared else drawn).expand(shape)
        return drawn if ids_MBT is None else torch.gather(drawn, -1, ids_MBT)

    def embed(self, x_MBTD: Tensor, seen: Pass) -> Tensor:
        """As the base does."""
        return self.base.embed(x_MBTD, seen)

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """As the base does."""
        return self.base.rotate(context)

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        """As the base does."""
        return self.base.key_state(context)

    def score(self, context: Context) -> Scores | None:
        """As the base does."""
        return self.base.score(context)

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        """As the base does."""
        return self.base.mix(context, attention_MBHTK)


def _within(problem: Problem) -> Problem:
    """A problem of the base, under its own key."""
    return replace(problem, key=problem.key.replace("position", "position.base", 1))
