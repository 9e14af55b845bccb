"""The base class of every model: its parameters, a forward pass, and its own metrics.

Shapes: M members, B rows, T positions, V output tokens, L lengths.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Recorder
from trainers.positions.position import Position
from trainers.settings.fields import Settings
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter

Recorded = Mapping[str, Sequence[Tensor]]


class Model(Settings, ABC):
    """Base of every model. Weights are passed by name, (M, *shape). A field `dropout` may differ between members."""

    trial_task: ClassVar[Mapping[str, Any]] = {}  # a small task for checks of the class, if set_complement does not fit
    supports_groups: ClassVar[bool] = False  # batches with groups, whose tokens do not see other groups
    supports_bfloat16: ClassVar[bool] = True  # whether `training.compute_dtype` may be bfloat16
    # When its steps are compiled: `auto`, if it saves time; `asked`, only with `compile: true`; or `never`.
    compiling: ClassVar[str] = "auto"
    former_names = Settings.former_names | {
        "operations": "count_operations",
        "task_problems": "find_task_problems",
        "problems_of_new": "find_new_member_problems",
        "initial": "make_initial_values",
        "start": "prefill",
        "extend": "decode",
    }

    @abstractmethod
    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return the trained parameters for this task."""

    @abstractmethod
    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return the operations (twice the multiply-adds) of a forward pass over `rows` rows of `positions` tokens."""

    @abstractmethod
    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Return logits (M, B, T, V) at every position.

        noise: None if nothing is random. form: the result of `choose_form`. record: gets values that layers record.
        """

    @property
    def draws_random_numbers(self) -> bool:
        """Whether training draws random numbers other than dropout."""
        return False

    @property
    def supports_masked_cache(self) -> bool:
        """Whether its KV cache works with masked positions."""
        return False

    @property
    def cache_size_per_token(self) -> int:
        """The size of its KV cache per token, in numbers; 0 without a cache."""
        return 0

    @property
    def scores_per_pair(self) -> int:
        """The attention scores of a layer for each pair of positions: the field `heads`, 0 without this field."""
        return int(getattr(self, "heads", 0))

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metrics of the model, with their better direction: minimize, maximize or none."""
        return {}

    @property
    def recorded_metrics(self) -> tuple[str, ...]:
        """The metrics of the model that are means of values recorded by its layers under these names."""
        return ()

    def find_task_problems(self, task: Task) -> Iterator[Problem]:
        """Yield problems of this model with a task."""
        return iter(())

    def find_new_member_problems(self) -> Iterator[Problem]:
        """Yield problems that reject a new configuration, but not a recorded one.

        By default a dropout without sites, and the problems of the field `position`.
        """
        if (rate := getattr(self, "dropout", 0.0)) and getattr(self, "dropout_sites", None) == ():
            message = f"is empty, so a dropout of {rate:g} drops nothing"
            yield Problem(key="dropout_sites", given=[], message=message, allowed="at least one site, or dropout: 0")
        if isinstance(position := getattr(self, "position", None), Position):
            yield from position.find_new_member_problems()

    def choose_form(self, task: Task) -> str:
        """Return which of several equivalent computations `logits` uses."""
        return "plain"

    def explain_loop(self, task: Task) -> str | None:
        """Return why the members of a pack are computed one after another; None if all are computed at once."""
        return None

    def make_initial_values(self, task: Task, seeds_S: Tensor) -> Mapping[str, Tensor]:
        """Return initial values (S, *shape) by name, for parameters not drawn as their `Parameter` declares."""
        return {}

    def other_tensors(self, task: Task) -> Mapping[str, Tensor | str]:
        """Return further names in stored weights: name -> constant tensor, or name of the parameter it is tied to.

        These are the buffers and the tied parameters in the state_dict of a module.
        """
        return {}

    def prefill(
        self, weights: Mapping[str, Tensor], batch: Batch, width: int, noise: Noise | None, form: str
    ) -> tuple[Tensor, "Cache"]:
        """Return the logits (M, B, T, V) of a batch, and a cache for `width` tokens; by default of tokens only."""
        return self.logits(weights, batch, noise, form), Cache(batch=batch, width=width)

    def decode(
        self,
        weights: Mapping[str, Tensor],
        cache: "Cache",
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None,
        visible_MBK: Tensor | None,
        noise: Noise | None,
        form: str,
    ) -> tuple[Tensor, "Cache"]:
        """Return the logits of the following tokens, and the extended cache; by default all tokens are computed again.

        ids_MBT: their position ids, if the batch had ids. visible_MBK: mask of the positions they see, including
        themselves. The old `cache` must not be used again. Without a KV cache raises ValueError for `visible_MBK`, and
        after a batch with groups.
        """
        if visible_MBK is not None:
            raise ValueError(f"{self.name} has no KV cache and cannot mask positions")
        if cache.batch.groups is not None:
            raise ValueError(f"{self.name} has no KV cache and cannot continue a batch with groups")
        # Computing all tokens again gives the logits that a KV cache would give, in more time.
        extended = cache.append(tokens_MBT, ids_MBT)
        return self.logits(weights, extended.batch, noise, form)[:, :, -tokens_MBT.shape[-1] :], extended

    def compute_attention(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None) -> tuple[Tensor, ...]:
        """Return the attention weights (M, B, H, T, T) of every layer, queries by keys; empty unless overridden.

        The weights of a query sum to 1, or are all 0 if the query has no keys.
        """
        return ()

    def measure_rows(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        """Return values of each row for the model's metrics, (M, B, ...); recorded: values of the last pass by name."""
        return {}

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """Return the model's metrics, (M, L), from `measure_rows` of all rows: means over rows unless overridden."""
        return {name: value.mean(dim=1) for name, value in rows.items()}


@dataclass(frozen=True)
class Cache:
    """The tokens so far, at most `width`, and the model's cache of them.

    batch: the tokens, and their ids if the batch has ids. state: the model's KV cache, None without it.
    """

    batch: Batch
    width: int
    state: Any = None

    @property
    def length(self) -> int:
        """Number of cached tokens."""
        return self.batch.tokens.shape[-1]

    def truncate(self, length: int) -> "Cache":
        """Return the cache of the first `length` tokens."""
        # Generation reads no targets, so the tokens are given as targets.
        ids = None if self.batch.ids is None else self.batch.ids[..., :length]
        tokens = self.batch.tokens[..., :length]
        return replace(self, batch=replace(self.batch, tokens=tokens, targets=tokens, ids=ids))

    def append(self, tokens_MBT: Tensor, ids_MBT: Tensor | None) -> "Cache":
        """Return the cache with more tokens.

        Raises ValueError beyond its width, if only some tokens have ids, or if the batch has padded rows.
        """
        if self.batch.lengths is not None:
            raise ValueError("a batch with lengths cannot be continued: tokens would follow its padding")
        if self.length + tokens_MBT.shape[-1] > self.width:
            raise ValueError(f"{self.length} + {tokens_MBT.shape[-1]} tokens do not fit into a cache of {self.width}")
        if (ids_MBT is None) != (self.batch.ids is None):
            raise ValueError("only some tokens have position ids; allowed: all or none")

        tokens = torch.cat([self.batch.tokens, tokens_MBT], dim=-1)
        ids = None if ids_MBT is None else torch.cat([self.batch.ids, ids_MBT], dim=-1)  # type: ignore[list-item]
        return replace(self, batch=replace(self.batch, tokens=tokens, targets=tokens, ids=ids))
