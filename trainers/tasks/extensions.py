"""Rarely overridden members of tasks, in groups that `Task` inherits; by default a task uses none of these features.

Shapes: S seeds, M members, B rows, T positions, L lengths, A tokens of an answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.tasks import supervised
from trainers.tasks.evaluated_model import EvaluatedModel, ForwardPass
from trainers.tasks.evaluation_batch import EvaluationBatch
from trainers.tasks.metric_descriptions import EvaluationCurves
from trainers.tensors.batch import Batch


class RowLayout:
    """Rows whose number of tokens or position ids does not follow from their length."""

    @property
    def train_positions(self: Any) -> int:
        """Number of positions of a training row."""
        return max(self.trained_lengths)  # type: ignore[no-any-return]

    @property
    def position_ids(self: Any) -> int:
        """Upper bound of position ids and size of position tables: `positions` unless batches have ids of their own."""
        return self.positions  # type: ignore[no-any-return]

    @property
    def has_groups(self) -> bool:
        """Whether batches have groups in training or evaluation, which only models with `supports_groups` allow."""
        return False


class Generation:
    """Evaluation by texts that the model generates."""

    def score_batch(self: Any, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of each row, (M, B, L) by metric: by default `score_rows` of a single pass.

        Override it to score texts that the model generates.
        """
        return self.score_rows(forward(batch), batch, lengths)  # type: ignore[no-any-return]

    def sample_answers(
        self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...], draws: int, temperature: float
    ) -> Tensor:
        """Return `draws` sampled answers to each row, int64 (M, B, draws, A), for metrics apart from the task.

        An answer is the part of a generated text that is judged, such as its last state, in the form of `true_answers`,
        so that equal answers have equal tokens. A task that overrides it has `passes` above 1.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_answers")

    def true_answers(self, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return the right answer to each row, int64 (M, B, A)."""
        raise NotImplementedError(f"{type(self).__name__} has no true_answers")

    @property
    @final
    def samples_answers(self) -> bool:
        """Whether the task overrides `sample_answers`, so that metrics apart from it can sample answers."""
        return type(self).sample_answers is not Generation.sample_answers

    @property
    def passes(self) -> float:
        """The cost of an evaluation in passes over its rows: more than 1 if models generate texts.

        Then models that look ahead are not allowed, and the KV cache counts as memory.
        """
        return 1.0

    def passes_with(self, model: EvaluatedModel) -> float:
        """Return `passes` for a model: with a KV cache, earlier tokens of a text need no second pass."""
        return self.passes


class StagedTraining:
    """Training in stages."""

    @property
    def stages(self) -> tuple[int, ...]:
        """The trained length that each stage of a curriculum adds; empty for a task without stages."""
        return ()

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch | tuple[Batch, ...]:
        """Return a training batch like `sample`, for seeds at different stages.

        stage_S: int64 (S,), indices into `stages`. The stream has a seed for each member, because members with equal
        seeds may be at different stages. Shapes depend on the settings alone, so rows are as wide in every stage; a row
        depends on its seed, step and stage.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_staged")

    def find_staged_problems(self) -> Iterator[Problem]:
        """Yield problems of settings that training in stages would ignore; they are not allowed with a curriculum."""
        return iter(())


class StoredData:
    """Tasks whose data are read from files instead of drawn."""

    def validation_batches(self: Any, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Yield the batches that early stopping and curricula use: the first distribution at its trained lengths.

        By default `evaluation_batches` with the validation stream. Override it if test rows are read instead of drawn:
        otherwise they would be used for validation.
        """
        first = self.distributions[0]
        for batch in self.evaluation_batches(stream, samples, tuple(sorted(first.trained_lengths))):
            if batch.distribution in ("", first.name):
                yield batch

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the text corpora that the task reads."""
        return ()

    @property
    def has_validation(self) -> bool:
        """Whether `validation_batches` has rows; without them early stopping is not allowed."""
        return True

    def stored_files(self) -> tuple[Path, dict[str, str]]:
        """Return the folder of the task's files, and the SHA-256 of each by its path there; by default no files."""
        return Path(), {}

    def pin_data(self) -> Self:
        """Return this task with the hash of its data in its settings; unchanged if the data are missing."""
        return self

    def find_data_problems(self) -> Iterator[Problem]:
        """Yield problems of the task's data on this machine."""
        return iter(())


class PrefixTargets:
    """Batches that measure several lengths, for metrics apart from tasks."""

    def counted_targets(self: Any, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return which targets count at each length of a batch, bool (M, B, T, L).

        By default all targets that are not masked, for a single length. Raises ValueError for several lengths.
        """
        if len(lengths) > 1:
            raise ValueError(
                f"{self.name}: a batch measures several lengths {list(lengths)} without counted_targets; allowed: one "
                "length per batch, or a method counted_targets"
            )
        return supervised.make_loss_mask(batch)[..., None]


class DerivedMetrics:
    """Metrics that are charted, metrics that are computed from others, and bounds of metrics."""

    metric_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"accuracy": (0.0, 1.0), "exact_match": (0.0, 1.0)}

    @property
    def headline(self: Any) -> tuple[str, ...]:
        """The metrics that are charted; the first metric unless overridden."""
        return tuple(self.metrics)[:1]

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        """Return metrics computed from the evaluations so far, (M, averages, L) by name.

        history: the evaluations, the newest last. Called for each distribution with the curves at its lengths, by the
        names of the metrics in the task.
        """
        return {}
