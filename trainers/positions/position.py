"""The base class of positional encodings: its hooks do nothing unless overridden.

Shapes: M members, B rows, T queries, K keys, H heads, E head width, D model width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Context, Pass, Scores
from trainers.settings.fields import Settings
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that parameters are declared with.

    longest: positions of the longest input. ids: upper bound of position ids, equal to `longest` unless the task has
    ids of its own. width: D. heads: H. head_width: E. std: standard deviation of the model's initial matrix entries.
    """

    longest: int
    ids: int
    width: int
    heads: int
    head_width: int
    std: float


class Position(Settings):
    """Base of every positional encoding.

    A forward pass calls `assign_ids` and `embed` once; then in every layer `rotate` and `key_state`, whose results may
    be cached, `score`, and `mix`.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {}  # a small task for checks of the class, if set_complement does not fit
    former_names = Settings.former_names | {
        "head_problems": "find_head_problems",
        "task_problems": "find_task_problems",
        "problems_of_new": "find_new_member_problems",
    }

    @property
    def draws_random_numbers(self) -> bool:
        """Whether training draws random numbers for the encoding."""
        return False

    @property
    def looks_ahead(self) -> bool:
        """Whether a token's encoding depends on later tokens, so that no KV cache is possible."""
        return False

    @property
    def depends_on_adjacency(self) -> bool:
        """Whether it depends on which tokens are adjacent, so that masked tokens between them change it.

        False for encodings that depend on position ids, or on counts of visible tokens.
        """
        return False

    @property
    def has_mix(self) -> bool:
        """Whether `mix` adds anything: by default, whether it is overridden."""
        return type(self).mix is not Position.mix

    @property
    def drops_scores(self) -> bool:
        """Whether dropout of attention acts on the scores instead of the weights."""
        return False

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metrics that it records, with their better direction: minimize, maximize or none."""
        return {}

    @property
    def max_metrics(self) -> frozenset[str]:
        """The metrics that are maxima of their recorded values; the others are means."""
        return frozenset()

    def find_head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Yield problems of this encoding with this number of heads of this width."""
        return iter(())

    def find_task_problems(self, task: Settings) -> Iterator[Problem]:
        """Yield problems of this encoding with a task."""
        return iter(())

    def find_new_member_problems(self) -> Iterator[Problem]:
        """Yield problems that reject a new configuration, but not a recorded one."""
        return iter(())

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return trained parameters shared by all layers."""
        return ()

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return trained parameters of the attention layer `name`."""
        return ()

    def assign_ids(self, ids_MBT: Tensor | None, shape: tuple[int, int, int], noise: Noise | None) -> Tensor | None:
        """Return the position ids to use, int64 (M, B, T), instead of the ids of the batch; None means 0, 1, 2...

        shape: (M, B, positions), as wide as the KV cache if there is one; without `ids_MBT` the result has this shape,
        or is None. noise: also given in evaluation.
        """
        return ids_MBT

    def embed(self, x_MBTD: Tensor, forward_pass: Pass) -> Tensor:
        """Return the token embeddings with positions added."""
        return x_MBTD

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Return queries and keys (M, B, H, T, E) of the queries' tokens with positions applied."""
        return context.q, context.k

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        """Return values to cache with each new key, (M, B, H, T) by name; `context.state` has them for all keys."""
        return {}

    def score(self, context: Context) -> Scores | None:
        """Return changes to this layer's attention scores; None for no change."""
        return None

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        """Return a term to add to the attention output of each query, (M, B, H, T, E), or None."""
        return None

    def measure_rows(self, lengths: tuple[int, ...], recorded: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
        """Return its metrics for every row, (M, B, L), from the values that each layer recorded, (M, B, H, T).

        Layers and heads are reduced by their mean, or by their maximum (`max_metrics`). Each of several lengths gets
        the value at its last position; a single length gets the mean or maximum over all positions.
        """
        measures = {}
        for name in (name for name in self.metrics if name in recorded):
            reduce = self._get_reduction(name)
            rows_MBT = reduce(torch.stack([reduce(value, dim=2) for value in recorded[name]]), dim=0)

            # A row of several lengths measures each prefix at its last position.
            columns = rows_MBT.unbind(dim=-1) if len(lengths) > 1 else ()
            measures[name] = (
                torch.stack([columns[s - 1] for s in lengths], -1) if columns else reduce(rows_MBT, -1, keepdim=True)
            )
        return measures

    def reduce(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return its metrics, (M, L), from the results of `measure_rows` for all rows, (M, B, L)."""
        return {name: self._get_reduction(name)(value, dim=1) for name, value in rows.items()}

    def _get_reduction(self, name: str) -> Callable[..., Any]:
        """Return the function that reduces the values of a metric."""
        return torch.amax if name in self.max_metrics else torch.mean
