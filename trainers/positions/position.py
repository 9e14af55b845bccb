"""The hooks of a positional encoding, each doing nothing until overridden.

Shapes: M members, B rows, T queries, K keys, H heads, E head width, D model width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Context, Pass, Scores
from trainers.settings.fields import Settings
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter
from trainers.tensors.position_maps import Map, Weights


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What parameters are declared for: inputs of up to `longest` positions, a model of width D, H heads of width E.

    ids: position ids are below it; as many as positions unless a task gives ids of its own.
    std: the standard deviation of the model's initial matrix entries.
    """

    longest: int
    ids: int
    width: int
    heads: int
    head_width: int
    std: float


class Position(Settings):
    """Base of every positional encoding.

    In a forward pass `place` and `embed` are called once; then in every layer `rotate` and `key_state`, whose results
    may be cached, `score`, and `mix`.
    """

    @property
    def random(self) -> bool:
        """Whether training draws random numbers for it."""
        return False

    @property
    def looks_ahead(self) -> bool:
        """Whether what it does to a token depends on later tokens, so that nothing of earlier ones can be cached."""
        return False

    @property
    def by_columns(self) -> bool:
        """Whether it goes by which tokens are next to each other, so that hidden ones between others change it.

        Position ids, and counts of the tokens that a query sees, do not depend on hidden ones; an encoding whose
        `place` leaves ids that are given goes by columns.
        """
        return False

    @property
    def mixes(self) -> bool:
        """Whether `mix` adds anything: whether it is overridden, unless a class that wraps another says more."""
        return type(self).mix is not Position.mix

    @property
    def drops_scores(self) -> bool:
        """Whether dropout of attention acts on the scores, before keys are dropped, and not on the weights."""
        return False

    @property
    def metrics(self) -> Mapping[str, str]:
        """What it records of itself, and which way is better: minimize, maximize or none."""
        return {}

    @property
    def largest(self) -> frozenset[str]:
        """The metrics of which the greatest value is told; of others the mean is."""
        return frozenset()

    def head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Why this encoding cannot serve so many heads of that width."""
        return iter(())

    def task_problems(self, task: Settings) -> Iterator[Problem]:
        """Why this encoding cannot serve that task."""
        return iter(())

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Trained parameters that all layers share."""
        return ()

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Trained parameters of the attention layer `name` alone."""
        return ()

    def place(self, ids_MBT: Tensor | None, shape: tuple[int, int, int], noise: Noise | None) -> Tensor | None:
        """The position ids to go by, int64 (M, B, T) in place of those given; None means 0, 1, 2...

        `shape` is (M, B, positions), of all positions there will be: more than T where a pass is to be gone on with.
        For ids of None the result has that shape, or is None. `noise` is there in evaluation, too.
        """
        return ids_MBT

    def embed(self, x_MBTD: Tensor, seen: Pass) -> Tensor:
        """Token embeddings with positions added."""
        return x_MBTD

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys (M, B, H, T, E) of the queries' tokens with positions worked in."""
        return context.q, context.k

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        """Numbers of the queries' tokens as keys, (M, B, H, T) by name; they come back in `context.state`."""
        return {}

    def score(self, context: Context) -> Scores | None:
        """What becomes of this layer's attention scores; None: nothing."""
        return None

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        """What is added to the mixed values of each query, (M, B, H, T, E), by its attention weights; None: nothing."""
        return None

    def measured(self, lengths: tuple[int, ...], recorded: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
        """Return its metrics of every row, (M, B, L), from what each layer recorded, (M, B, H, T), by name.

        Layers and heads count by their mean, or their largest value (`largest`). Each length has the value at its last
        position; a single length the mean or largest value of all positions.
        """
        found = {}
        for name in (name for name in self.metrics if name in recorded):
            reduce = self._reduction(name)
            rows_MBT = reduce(torch.stack([reduce(value, dim=2) for value in recorded[name]]), dim=0)
            at = rows_MBT.unbind(dim=-1) if len(lengths) > 1 else ()
            found[name] = torch.stack([at[s - 1] for s in lengths], -1) if at else reduce(rows_MBT, -1, keepdim=True)
        return found

    def reduce(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return its metrics, (M, L), from what `measured` gave of all rows, (M, B, L)."""
        return {name: self._reduction(name)(value, dim=1) for name, value in rows.items()}

    def _reduction(self, name: str) -> Callable[..., Any]:
        return torch.amax if name in self.largest else torch.mean

    def maps(self, weights: Weights, task: Settings) -> Mapping[str, Map]:
        """What can be drawn of its trained parameters, of one member; see `trainers.tensors.position_maps`."""
        return {}
