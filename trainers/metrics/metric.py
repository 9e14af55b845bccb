"""The base class of metrics that belong to no task, and the batch of an evaluation that they score.

Shapes: M members, B rows, T positions, V output tokens, L lengths, H heads, K keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem, suggest_nearest
from trainers.settings.fields import Settings
from trainers.tasks import supervised
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluatedBatch:
    """A batch of an evaluation, or a piece of its rows, with the models of M members.

    batch: tensors (M, B, ...). lengths: the lengths that the batch measures. weights: weights of the evaluated average,
    (M, *shape) by name. step: training steps at the evaluation, int64 (); for kept weights, the steps of the
    configuration. compute_logits, compute_attention, sample: run passes of the models on demand. values: values that
    the model recorded in the pass, by name.
    """

    batch: Batch
    lengths: tuple[int, ...]
    task: Task
    weights: Mapping[str, Tensor]
    step: Tensor
    compute_logits: Callable[[], Tensor]
    compute_attention: Callable[[], tuple[Tensor, ...]]
    values: Mapping[str, Sequence[Tensor]]
    sample: Callable[[int, float], Tensor]

    @cached_property
    def logits(self) -> Tensor:
        """The logits (M, B, T, V)."""
        return self.compute_logits()

    def recorded(self, name: str) -> tuple[Tensor, ...]:
        """Return the values, (M, ...) each, that the model recorded under a name. Raises ValueError if it has none."""
        if name not in self.values:
            allowed = ", ".join(self.values) or "none"
            hint = suggest_nearest(name, self.values)
            raise ValueError(f"the model records no value named {name!r}; allowed: {allowed}{hint}")
        return tuple(self.values[name])

    @cached_property
    def attention(self) -> tuple[Tensor, ...]:
        """The attention weights (M, B, H, T, K) of every layer, from a second pass. Raises ValueError without any."""
        if not (weights := self.compute_attention()):
            raise ValueError("the model has no attention weights")
        return weights

    def sample_answers(self, *, draws: int, temperature: float) -> Tensor:
        """Return `draws` answers to each row, sampled with a temperature, int64 (M, B, draws, A).

        Draw k of a row is the same text for every metric and every number of draws. Metrics with the same draws and
        temperature share the samples. Raises NotImplementedError for a task without `sample_answers`.
        """
        if (draws, temperature) not in self._sampled:
            self._sampled[draws, temperature] = self.sample(draws, temperature)
        return self._sampled[draws, temperature]

    @cached_property
    def true_answers(self) -> Tensor:
        """The right answer to each row, int64 (M, B, A)."""
        return self.task.true_answers(self.batch, self.lengths)

    @cached_property
    def _sampled(self) -> dict[tuple[int, float], Tensor]:
        """The answers sampled so far, by draws and temperature."""
        return {}

    @cached_property
    def target_mask(self) -> Tensor:
        """The mask of targets that count at each length, bool (M, B, T, L)."""
        return self.task.counted_targets(self.batch, self.lengths)

    @cached_property
    def mistake_mask(self) -> Tensor:
        """The mask of counted targets that are predicted wrongly, bool (M, B, T)."""
        return supervised.find_mistakes(self.logits, self.batch)

    @property
    def counted(self) -> Tensor:
        """The former name of `target_mask`, for metrics of users."""
        return self.target_mask

    @property
    def mistakes(self) -> Tensor:
        """The former name of `mistake_mask`, for metrics of users."""
        return self.mistake_mask

    def mean_over_targets(self, values_MBT: Tensor) -> Tensor:
        """Return the mean of values over the counted targets of each row, (M, B, L); NaN for a row without targets."""
        totals_MBL = torch.where(self.target_mask, values_MBT[..., None], 0.0).sum(dim=2)  # masked values may be NaN
        return totals_MBL / self.target_mask.sum(dim=2)


class Metric(Settings, ABC):
    """Base of every metric that belongs to no task; its fields are options of the sweep file.

    direction: the better direction, minimize, maximize or none. Rows whose value is NaN are left out of the mean. A
    metric only adds curves, so it is not part of `config_id`.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {}  # a small task for `trainers.check`, if copy_string does not fit
    direction: ClassVar[str]
    former_names = Settings.former_names | {"task_problems": "find_task_problems"}
    draws: ClassVar[int] = 0  # answers sampled for each row; metrics that sample make it a setting

    @abstractmethod
    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        """Return the value of each row, (M, B, L); with an overridden `reduce` any shape (M, B, ...).

        A large batch is scored in pieces.
        """

    def reduce(self, rows: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Return the metric, (M, L), from `score_rows` of all rows: by default the mean over rows that are not NaN."""
        return rows.nanmean(dim=1)

    def defined_lengths(self, task: Task, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lengths at which the metric is defined, by default all; other lengths are not recorded."""
        return lengths

    def find_task_problems(self, task: Task) -> Iterator[Problem]:
        """Yield problems of this metric with a task.

        By default a problem if it samples answers and the task has none, or if it reads logits and the task scores
        generated texts.
        """
        if self.draws:
            if not task.samples_answers:
                message = f"the task {task.name} has no answers to sample"
                yield Problem(key="", given=self.name, message=message, allowed="a task with sample_answers")
        elif type(task).score_batch is not Task.score_batch:
            message = f"the task {task.name} scores generated texts, not logits"
            yield Problem(key="", given=self.name, message=message, allowed="the metrics of the task")
