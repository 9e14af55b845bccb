"""What few tasks need beside the members of `Task`: each class here is a group of members that `Task` inherits.

A task overrides those it needs; the defaults mean that it has none of it. Shapes: S seeds, M members, T positions.
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
from trainers.tasks.evaluation_batch import EvaluationBatch
from trainers.tasks.forward_pass import EvaluatedModel, ForwardPass
from trainers.tasks.metrics import Evaluated
from trainers.tensors.batch import Batch


class Layout:
    """Rows whose number of tokens or position ids does not follow from their length."""

    @property
    def train_positions(self: Any) -> int:
        """Positions of a training row."""
        return max(self.trained_lengths)  # type: ignore[no-any-return]

    @property
    def position_ids(self: Any) -> int:
        """Upper bound of position ids, and rows of position tables: `positions`, unless batches have their own ids."""
        return self.positions  # type: ignore[no-any-return]

    @property
    def has_groups(self) -> bool:
        """Whether batches have groups, in training or evaluation; then models that do not support them are refused."""
        return False


class Generation:
    """Evaluation by texts that the model generates."""

    def score_batch(self: Any, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return `score_rows` of one pass over the batch; a task that has the model generate tokens overrides it."""
        return self.score_rows(forward(batch), batch, lengths)  # type: ignore[no-any-return]

    def sample_answers(
        self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...], draws: int, temperature: float
    ) -> Tensor:
        """Return `draws` sampled answers to each row, int64 (M, B, draws, A), for metrics apart from the task.

        An answer is what counts of a generated text, such as its last state: equal answers have equal tokens, and a
        right one those of `true_answers`. A task that overrides it has `passes` above 1.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_answers")

    def true_answers(self, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return the right answer to each row, int64 (M, B, A)."""
        raise NotImplementedError(f"{type(self).__name__} has no true_answers")

    @property
    @final
    def samples_answers(self) -> bool:
        """Whether metrics apart from the task can sample answers: it overrides `sample_answers`."""
        return type(self).sample_answers is not Generation.sample_answers

    @property
    def passes(self) -> float:
        """Cost of an evaluation in passes over its rows: more than one if models generate texts.

        If they do, models that look ahead are refused, and the KV cache counts as memory.
        """
        return 1.0

    def passes_with(self, model: EvaluatedModel) -> float:
        """Return `passes` for one model: with a KV cache, earlier tokens of a text need no second pass."""
        return self.passes


class Curriculum:
    """Training in stages."""

    @property
    def stages(self) -> tuple[int, ...]:
        """The length that each stage of a curriculum adds, one of the trained ones; empty: it has no stages."""
        return ()

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch | tuple[Batch, ...]:
        """Return a training batch like `sample`, of seeds at different stages: int64 (S,), indices into `stages`.

        The stream has a seed for each member, since members of one seed may be at different stages. Shapes depend on
        the settings alone, so all stages share their widths; a row depends on its seed, step and stage.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_staged")

    def staged_problems(self) -> Iterator[Problem]:
        """Yield settings that training in stages would ignore; with a curriculum they are refused."""
        return iter(())


class StoredData:
    """Data that are read, not drawn."""

    trial_settings: ClassVar[Mapping[str, Any]] = {}  # for tests of the class on machines without the data

    def validation_batches(self: Any, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Yield the batches that early stopping and curricula use: the first distribution at its trained lengths.

        By default `evaluation_batches` of the validation stream. Override it if these are read and not drawn, like
        windows of a text: otherwise the test set would be used for validation.
        """
        first = self.distributions[0]
        for batch in self.evaluation_batches(stream, samples, tuple(sorted(first.trained_lengths))):
            if batch.distribution in ("", first.name):
                yield batch

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the text corpora it reads."""
        return ()

    @property
    def has_validation(self) -> bool:
        """Whether `validation_batches` has rows; without them early stopping is refused."""
        return True

    def stored_files(self) -> tuple[Path, dict[str, str]]:
        """Return the folder of its files, and the SHA-256 of each by its path there; by default it has none."""
        return Path(), {}

    def pin_data(self) -> Self:
        """Return this task with the hash of its data in its settings, or unchanged if the data are missing."""
        return self

    def data_problems(self) -> Iterator[Problem]:
        """Yield why its data cannot be used on this machine."""
        return iter(())


class PrefixTargets:
    """Batches that measure several lengths, for metrics apart from tasks."""

    def counted_targets(self: Any, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return which targets count at each length a batch measures, bool (M, B, T, L).

        By default those that are not masked, of a batch of one length. Raises ValueError for several lengths.
        """
        if len(lengths) > 1:
            raise ValueError(
                f"{self.name}: a batch measures lengths {list(lengths)}, and the task does not say which targets count "
                "at each; allowed: one length per batch, or a method counted_targets"
            )
        return supervised.loss_mask(batch)[..., None]


class DerivedMetrics:
    """Metrics that are charted, or computed from others."""

    @property
    def headline(self: Any) -> tuple[str, ...]:
        """Metrics that are charted; the first one unless overridden."""
        return tuple(self.metrics)[:1]

    def derive_metrics(self, history: Sequence[Evaluated], lengths: tuple[int, ...]) -> dict[str, NDArray[np.float32]]:
        """Return metrics computed from the evaluations so far, (M, averages, L); the last of `history` is the newest.

        It is called for each distribution with the curves at its lengths, by the task's own names.
        """
        return {}
