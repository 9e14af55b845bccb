"""Randomized positions around any encoding (Ruoss et al., arXiv:2305.16843)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import POSITION_SITE
from trainers.positions.position import Position, Sizes
from trainers.positions.upe import Upe
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter


def _delegate_property(name: str) -> Any:
    """Return a property that reads the same property of `base`."""
    return property(lambda self: getattr(self.base, name))


def _delegate_hook(name: str) -> Any:
    """Return a hook that calls the same hook of `base`."""
    return lambda self, *arguments: getattr(self.base, name)(*arguments)


@register("position", "randomized")
class Randomized(Position):
    """Another encoding at distinct random ascending positions below `longest`, in training and evaluation.

    So the positions of long inputs occur in training. Positions are drawn for each batch, as in the authors' code, or
    for each row. Encodings that do not use position ids are unchanged.
    """

    draws_random_numbers = True

    base: Position = setting("rope", kind="position", help="the encoding, by name or as {name: ...}")
    longest: int = setting(2048, low=1, help="positions are drawn from 0..longest - 1; at least the longest input")
    draw: str = setting("batch", choices=("batch", "row"), help="whether each batch or each row has its own draw")

    # Everything but the position ids is up to the base.
    looks_ahead = _delegate_property("looks_ahead")
    depends_on_adjacency = _delegate_property("depends_on_adjacency")
    has_mix = _delegate_property("has_mix")
    drops_scores = _delegate_property("drops_scores")
    metrics = _delegate_property("metrics")
    max_metrics = _delegate_property("max_metrics")
    embed = _delegate_hook("embed")
    rotate = _delegate_hook("rotate")
    key_state = _delegate_hook("key_state")
    score = _delegate_hook("score")
    mix = _delegate_hook("mix")

    def find_head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Yield the problems of the base."""
        yield from map(_move_under_base, self.base.find_head_problems(heads, head_width))

    def find_task_problems(self, task: Settings) -> Iterator[Problem]:
        """Yield a problem if inputs are longer than `longest`, and the problems of the base."""
        positions = getattr(task, "positions", 0)
        ids = getattr(task, "position_ids", 0)
        if positions > self.longest:
            message = f"inputs have up to {positions} positions, so they cannot all be distinct"
            yield Problem(key="position.longest", given=self.longest, message=message, allowed=f">= {positions}")
        elif ids > positions:
            message = f"draws positions for up to {positions} tokens, but the task has {ids} position ids"
            yield Problem(key="position", given=self.name, message=message)
        yield from map(_move_under_base, self.base.find_task_problems(task))

    def find_new_member_problems(self) -> Iterator[Problem]:
        """Yield a problem if the base does not work at random positions."""
        if isinstance(self.base, Randomized | Upe):
            message = f"{self.base.name} needs the multiplier at the first positions, and random positions move it"
            if isinstance(self.base, Randomized):
                message = "a randomized base has no effect: its longest and draw would not be read"
            allowed = "another encoding, such as rope"
            yield Problem(key="position.base", given=self.base.name, message=message, allowed=allowed)

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the shared parameters of the base encoding for inputs of `longest` positions."""
        return self.base.parameters(replace(sizes, longest=self.longest, ids=self.longest))

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return a layer's parameters of the base encoding for inputs of `longest` positions."""
        return self.base.layer_parameters(name, replace(sizes, longest=self.longest, ids=self.longest))

    def assign_ids(self, ids_MBT: Tensor | None, shape: tuple[int, int, int], noise: Noise | None) -> Tensor:
        """Return drawn positions; id t of a batch with ids becomes the t-th drawn position. Raises ValueError."""
        if noise is None:
            raise ValueError("randomized positions need noise in every pass, and noise is None")

        # The first entries of a random permutation are distinct; sorted, they keep the order of the tokens.
        shared = self.draw == "batch"
        draw_shape = (self.longest,) if shared else (shape[1], self.longest)
        drawn = noise.integers(POSITION_SITE, draw_shape, 2**31, shared=shared).argsort(dim=-1, stable=True)
        drawn = drawn[..., : shape[2]].sort(dim=-1).values
        drawn = (drawn[:, None] if shared else drawn).expand(shape)
        return drawn if ids_MBT is None else torch.gather(drawn, -1, ids_MBT)


def _move_under_base(problem: Problem) -> Problem:
    """Return a problem of the base with its key under `position.base`."""
    return replace(problem, key=problem.key.replace("position", "position.base", 1))
