"""The base class of every task.

Shapes: S seeds, M members, B rows, T positions, V output tokens, L lengths.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor

from trainers.errors import ConfigError, Problem
from trainers.random import Stream
from trainers.settings.fields import Settings, settings_fields, to_plain_value
from trainers.tasks import supervised
from trainers.tasks.evaluation_batch import Distribution as Distribution
from trainers.tasks.evaluation_batch import EvaluationBatch as EvaluationBatch
from trainers.tasks.extensions import DerivedMetrics, Generation, PrefixTargets, RowLayout, StagedTraining, StoredData
from trainers.tasks.metric_descriptions import Evaluated as Evaluated  # users' tasks may import all of these from here
from trainers.tasks.metric_descriptions import EvaluationCurves as EvaluationCurves
from trainers.tasks.metric_descriptions import RecordedMetric as RecordedMetric
from trainers.tasks.metric_descriptions import steps_to as steps_to
from trainers.tensors.batch import Batch as Batch


class Task(RowLayout, Generation, StagedTraining, StoredData, PrefixTargets, DerivedMetrics, Settings, ABC):
    """Base of every task: its training batches, evaluation batches, loss and metrics.

    A subclass is a frozen dataclass; its fields are the options of the YAML file. It needs `inputs`, `lengths`,
    `trained_lengths` and `draw_rows`; the defaults are cross-entropy, accuracy and exact match. Rarely overridden
    members are in `trainers.tasks.extensions`.
    """

    causal: ClassVar[bool] = True  # scored after every prefix, so models must be causal
    former_names = Settings.former_names | {
        "data_problems": "find_data_problems",
        "staged_problems": "find_staged_problems",
    }

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of input tokens."""

    @property
    def outputs(self) -> int:
        """Number of output tokens: as many as input tokens unless overridden."""
        return self.inputs

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated, including the trained lengths; of all distributions together."""

    @property
    @abstractmethod
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths seen in training."""

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction: minimize, maximize or none.

        By default accuracy, the share of targets of a row that are right, and exact_match, the share of rows without a
        mistake. A task with one target in a row declares accuracy alone.
        """
        return {"accuracy": "maximize", "exact_match": "maximize"}

    @property
    def positions(self) -> int:
        """Number of positions of the longest input."""
        return max(self.lengths)

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The sets of inputs that are evaluated separately; the first is trained on."""
        return (Distribution("", self.lengths, self.trained_lengths),)

    def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
        """Return rows of one length for every seed of the stream, for training and evaluation.

        Shapes depend on the settings and the length alone, not on random numbers. A task that overrides both `sample`
        and `evaluation_batches` does not need it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method draw_rows")

    def sample(self, stream: Stream, rows: int) -> Batch | tuple[Batch, ...]:
        """Return a training batch of every seed of the stream, or several batches if rows differ in width.

        By default rows of the longest trained length. Shapes depend on the settings alone, not on random numbers.
        """
        return self.draw_rows(stream, rows, max(self.trained_lengths))

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed training loss of each member's batch, and the weight to divide it by, (M,) each.

        By default the cross-entropy of the targets that are not masked.
        """
        return supervised.compute_loss(logits_MBTV, batch)

    @property
    @final
    def has_own_loss(self) -> bool:
        """Whether the task overrides the default loss, the cross-entropy."""
        return type(self).loss is not Task.loss

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield batches that measure these lengths, in each distribution as far as it has them.

        samples: rows for each length. By default a batch of `draw_rows` for each length of a single distribution.
        """
        for length in lengths:
            yield EvaluationBatch(self.draw_rows(stream, samples, length), (length,))

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of each row, (M, B, L) by metric, from logits at the positions of `batch`.

        A large batch is evaluated in pieces. A task that overrides `reduce` may use other names and trailing shapes. By
        default accuracy and exact_match, as far as they are declared, for a single length. Raises ValueError for
        several lengths.
        """
        if len(lengths) > 1:
            raise ValueError(
                f"{self.name}: a batch measures several lengths {list(lengths)} with the default score_rows; allowed: "
                "one length per batch, or a score_rows that returns (M, B, lengths)"
            )
        scores = supervised.score_accuracy(logits_MBTV, batch)
        return {name: scores[name] for name in self.metrics if name in scores}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return each metric, (M, L), from `score_rows` of all rows: by default means over rows."""
        return {
            name: (value if value.is_floating_point() else value.float()).mean(dim=1) for name, value in rows.items()
        }

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text: ids, or {ids} for a target distribution."""
        targets = batch.targets[0, row]
        tokens = [str(token) for token in batch.tokens[0, row].tolist()]
        if targets.dim() == 1:
            return tokens, [str(token) for token in targets.tolist()]
        possible = [(position > 0).nonzero()[:, 0].tolist() for position in targets]
        return tokens, ["{" + " ".join(map(str, ids)) + "}" for ids in possible]

    # Called by the engine; a task does not override them.

    @property
    @final
    def draws_rows(self) -> bool:
        """Whether the task draws rows of a given length."""
        return type(self).draw_rows is not Task.draw_rows

    @final
    def draw_step_length(self, step: int) -> int:
        """Return the length of all rows of a training step: each trained length has the same probability.

        The length depends on the step alone, because all seeds of a pack need batches of the same shape, and is drawn
        on the host.
        """
        stream = Stream(torch.tensor([0]), "length", torch.tensor(step))
        lengths = sorted(self.trained_lengths)
        return lengths[int(stream.integers(0, (), len(lengths)))]

    @final
    def training_batches(
        self, stream: Stream, rows: int, stage_S: Tensor | None = None, length: int | None = None
    ) -> tuple[Batch, ...]:
        """Return the training batches of a step from `sample`, without empty ones.

        With stages they come from `sample_staged`, with a length from `draw_rows`.
        """
        if length is not None:
            return (self.draw_rows(stream, rows, length),)
        sampled = self.sample(stream, rows) if stage_S is None else self.sample_staged(stream, rows, stage_S)
        batches = (sampled,) if isinstance(sampled, Batch) else tuple(sampled)
        return tuple(batch for batch in batches if batch.tokens.shape[1])

    @final
    def with_lengths(self, lengths: Iterable[int]) -> Self:
        """Return this task with further lengths that can be evaluated; unchanged if `draw_rows` cannot draw them.

        It can if it draws all rows of the task, and a row has one more token per unit of length.
        """
        # A class that overrides one of these has rows or widths that `draw_rows` alone does not decide.
        new_lengths = set(lengths) - set(self.lengths)
        cls = type(self)
        overridden = any(
            getattr(cls, name) is not getattr(Task, name)
            for name in ("evaluation_batches", "positions", "distributions")
        )
        if not new_lengths or overridden:
            return self

        # Positions are counted by length, so a row of another width would not fit.
        longest = max(self.lengths)
        stream = Stream(torch.tensor([0]), "eval", torch.tensor(0))
        try:
            widths = {length: self.draw_rows(stream, 1, length).tokens.shape[-1] for length in (longest, *new_lengths)}
        except Exception:  # any error of the user's code means that it cannot draw them
            return self
        if any(width - widths[longest] != length - longest for length, width in widths.items()):
            return self

        # `lengths` is a setting, which may have bounds, or a property of the class, so that more need a subclass.
        extended = tuple(sorted({*self.lengths, *new_lengths}))
        values = {field.name: getattr(self, field.name) for field in settings_fields(cls)}
        if "lengths" in values:
            with suppress(ConfigError):
                return cls(**{**values, "lengths": extended})
            return self
        longer = type(cls.__name__, (cls,), {"lengths": property(lambda self: extended), "__module__": cls.__module__})
        built: Self = longer(**values)
        return built

    @property
    @final
    def derived_metrics(self) -> frozenset[str]:
        """Names of the metrics that `derive_metrics` returns."""
        if type(self).derive_metrics is Task.derive_metrics:
            return frozenset()
        lengths = self.distributions[0].lengths
        curves = {name: np.zeros((1, 1, len(lengths)), np.float32) for name in self.metrics}
        return frozenset(self.derive_metrics([EvaluationCurves(0, curves)], lengths))

    @final
    def recorded_name(self, metric: str, distribution: str) -> str:
        """Return the name under which a metric of a distribution is recorded."""
        return metric if distribution in ("", self.distributions[0].name) else f"{metric}.{distribution}"

    @final
    def recorded_metrics(
        self, other_metrics: Mapping[str, str], evaluated_lengths: Iterable[int]
    ) -> dict[str, RecordedMetric]:
        """Return every recorded metric by name: of the task, and other metrics, given with their better directions."""
        evaluated = set(evaluated_lengths)
        metrics = dict[str, RecordedMetric]()
        for distribution in self.distributions:
            lengths = tuple(length for length in sorted(distribution.lengths) if length in evaluated)
            trained_lengths = tuple(length for length in lengths if length in distribution.trained_lengths)
            for base, direction in {**self.metrics, **other_metrics}.items():
                name = self.recorded_name(base, distribution.name)
                metrics[name] = RecordedMetric(base, distribution.name, direction, lengths, trained_lengths)
        return metrics

    def _make_problem(self, key: str, message: str, allowed: str | None = None) -> Problem:
        """Return the problem of a setting, with its value."""
        return Problem(key=key, given=to_plain_value(getattr(self, key)), message=message, allowed=allowed)
