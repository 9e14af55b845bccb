"""The base of every model: its parameters, one pass over a batch, and what it measures of itself.

Shapes: M members, B rows, T positions, V output tokens, L lengths.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Recorder
from trainers.settings.fields import Settings
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter
from trainers.tensors.position_maps import Map, Weights

Recorded = Mapping[str, Sequence[Tensor]]


class Model(Settings, ABC):
    """Base of every model. Its weights arrive by name, (M, *shape). A field `dropout` may differ between members."""

    @abstractmethod
    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """What is trained, for this task."""

    @abstractmethod
    def operations(self, task: Task, rows: int, positions: int) -> float:
        """Operations (twice the multiply-adds) of one forward pass over `rows` rows of `positions` tokens."""

    @abstractmethod
    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Logits (M, B, T, V) at every position; `noise` is None where nothing is random.

        Layers tell `record` what they measure of themselves, if there is one.
        """

    @property
    def random(self) -> bool:
        """Whether training draws random numbers besides dropout."""
        return False

    @property
    def keeps_groups(self) -> bool:
        """Whether tokens of different groups of a batch do not see each other; else its batches may have none."""
        return False

    @property
    def keeps_gaps(self) -> bool:
        """Whether it goes on from kept keys, also where some of them, between others, are hidden."""
        return False

    @property
    def kept_numbers(self) -> int:
        """How many numbers are kept of each token, beside the token, where a pass is to be gone on with."""
        return 0

    @property
    def compiling(self) -> str:
        """When its steps are compiled: auto, where it is worth it; asked, where `compile: true` says so; or never."""
        return "auto"

    @property
    def narrow(self) -> bool:
        """Whether it can be computed in narrow numbers: whether `training.compute_dtype` may be bfloat16."""
        return True

    @property
    def metrics(self) -> Mapping[str, str]:
        """What it measures of itself, and which way is better: minimize, maximize or none."""
        return {}

    def task_problems(self, task: Task) -> Iterator[Problem]:
        """Why this model cannot serve that task."""
        return iter(())

    def form_used(self, task: Task) -> str:
        """Which of the forms in which it can be computed; one unless overridden."""
        return "plain"

    def initial(self, task: Task, seeds_S: Tensor) -> Mapping[str, Tensor]:
        """Initial values (S, *shape) of parameters that are not drawn as they declare, by name; see `Parameter`."""
        return {}

    def start(
        self, weights: Mapping[str, Tensor], batch: Batch, width: int, noise: Noise | None, form: str
    ) -> tuple[Tensor, "Cache"]:
        """The logits of a batch, and what is kept of it to go on up to `width` positions; here, its tokens."""
        return self.logits(weights, batch, noise, form), Cache(batch=batch, width=width)

    def extend(
        self,
        weights: Mapping[str, Tensor],
        cache: "Cache",
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None,
        visible_MBK: Tensor | None,
        noise: Noise | None,
        form: str,
    ) -> tuple[Tensor, "Cache"]:
        """The logits of the tokens that follow, and what is kept of all; here, of a pass over all of them.

        `ids_MBT` are their position ids, if the batch had any; `visible_MBK` says which positions they see, themselves
        among them; `cache` is not to be used again. Where nothing is kept but tokens, raises ValueError for
        `visible_MBK`, and after a batch with groups: the tokens that follow have none.
        """
        if visible_MBK is not None:
            raise ValueError(f"{self.name} keeps tokens alone: it cannot hide some of them")
        if cache.batch.groups is not None:
            raise ValueError(f"{self.name} keeps tokens alone: it cannot tell the groups of those that follow")
        whole = cache.grown(tokens_MBT, ids_MBT)
        return self.logits(weights, whole.batch, noise, form)[:, :, -tokens_MBT.shape[-1] :], whole

    def attended(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None) -> tuple[Tensor, ...]:
        """How much each query of a batch attends to each key, (M, B, H, T, T) of every layer; none unless overridden.

        The weights of a query sum to one, or are all zero where it attends to nothing.
        """
        return ()

    def measured(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        """What each row tells of the model's own metrics, (M, B, ...); `recorded` by its layers in the last pass."""
        return {}

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """Its own metrics, (M, L), of what `measured` gave of the whole batch; means over rows unless overridden."""
        return {name: value.mean(dim=1) for name, value in rows.items()}

    def maps(self, weights: Weights, task: Task) -> Mapping[str, Map]:
        """What can be drawn of its trained parameters, of one member; see `trainers.tensors.position_maps`."""
        return {}


@dataclass(frozen=True)
class Cache:
    """What is kept of the tokens so far, in order to go on with them, `width` at most.

    batch: the tokens, and their ids if they have any. kept: what else a model has of them, its own affair.
    """

    batch: Batch
    width: int
    kept: Any = None

    @property
    def length(self) -> int:
        """How many tokens there are."""
        return self.batch.tokens.shape[-1]

    def cut(self, length: int) -> "Cache":
        """The first tokens alone; those that follow are written over the others."""
        ids = None if self.batch.ids is None else self.batch.ids[..., :length]
        tokens = self.batch.tokens[..., :length]
        return replace(self, batch=replace(self.batch, tokens=tokens, targets=tokens, ids=ids))

    def grown(self, tokens_MBT: Tensor, ids_MBT: Tensor | None) -> "Cache":
        """With more tokens. Raises ValueError beyond its width, and where only some tokens have position ids."""
        if self.length + tokens_MBT.shape[-1] > self.width:
            raise ValueError(f"{self.length} + {tokens_MBT.shape[-1]} tokens are more than the {self.width} to keep")
        if (ids_MBT is None) != (self.batch.ids is None):
            raise ValueError("either all tokens have position ids or none")
        tokens = torch.cat([self.batch.tokens, tokens_MBT], dim=-1)
        ids = None if ids_MBT is None else torch.cat([self.batch.ids, ids_MBT], dim=-1)  # type: ignore[list-item]
        return replace(self, batch=replace(self.batch, tokens=tokens, targets=tokens, ids=ids))
