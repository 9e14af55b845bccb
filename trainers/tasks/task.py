"""What a task is: the base of every task, its distributions, and the batches it is evaluated on.

Shapes: S seeds, M members, B rows, T positions, V output tokens, L lengths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import Settings
from trainers.tasks import supervised
from trainers.tasks.metrics import Evaluated as Evaluated  # tasks of one's own may name all of these from here
from trainers.tasks.metrics import Family as Family
from trainers.tasks.metrics import Metric as Metric
from trainers.tasks.metrics import families as families
from trainers.tasks.metrics import steps_to as steps_to
from trainers.tensors.batch import Batch as Batch

if TYPE_CHECKING:
    from trainers.evaluation.forward import Forward
    from trainers.models.model import Model


@dataclass(frozen=True)
class Distribution:
    """A set of inputs that is evaluated by itself: its name, its lengths, and which of them are trained on.

    The metrics of the first one of a task have their plain names; those of the others are called <metric>.<name>.
    """

    name: str
    lengths: tuple[int, ...]
    trained_lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class EvaluationBatch:
    """Rows that measure some lengths of a distribution ("": the first), for the metrics that the task gives of them."""

    batch: Batch
    lengths: tuple[int, ...]
    distribution: str = ""


class Task(Settings, ABC):
    """Base of every task: its training batches, evaluation batches, loss and metrics.

    A subclass is a frozen dataclass; its fields are the options of the YAML file. It needs `inputs`, `lengths`,
    `trained_lengths` and `draw_rows`; what it does not override is cross-entropy, accuracy and exact match.
    """

    causal: ClassVar[bool] = True  # scored after every prefix: a model must not see ahead
    tried_with: ClassVar[Mapping[str, Any]] = {}  # settings to try it with, where its defaults need data of the user's

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
        """Lengths that can be evaluated, the trained ones among them; of all distributions together."""

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

    @property
    def stages(self) -> tuple[int, ...]:
        """The length that each stage of a curriculum adds, one of the trained ones; empty: it has no stages."""
        return ()

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch | tuple[Batch, ...]:
        """A training batch as `sample` gives, of seeds at stages of their own: int64 (S,), places in `stages`.

        The stream has a seed for each member, since members of one seed may stand at different stages. Shapes depend
        on the settings alone, so all stages share their widths; what a row is depends on its seed, step and stage.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_staged")

    def staged_problems(self) -> Iterator[Problem]:
        """Settings that training in stages would not heed; with a curriculum they are refused."""
        return iter(())

    def training_batches(self, stream: Stream, rows: int, stage_S: Tensor | None = None) -> tuple[Batch, ...]:
        """What `sample` gives, or `sample_staged` where there are stages, as batches.

        Those that have rows, where there are too few for every width.
        """
        found = self.sample(stream, rows) if stage_S is None else self.sample_staged(stream, rows, stage_S)
        batches = (found,) if isinstance(found, Batch) else tuple(found)
        return tuple(batch for batch in batches if batch.tokens.shape[1])

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed training loss of each member's batch, and the weight it is divided by, (M,) each.

        By default the cross-entropy of the targets that are not masked.
        """
        return supervised.loss(logits_MBTV, batch)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield batches with the lengths they measure: in each distribution those of `lengths` that it has.

        By default a batch of every length from `draw_rows`, all of one distribution.
        """
        for length in lengths:
            yield EvaluationBatch(self.draw_rows(stream, samples, length), (length,))

    def validation_batches(self, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Batches that stopping and curricula go by: of the first distribution, at its trained lengths.

        They are `evaluation_batches` of a stream of their own, unless overridden: where these draw nothing, such as
        windows of a text, they would be the test.
        """
        first = self.distributions[0]
        for batch in self.evaluation_batches(stream, samples, tuple(sorted(first.trained_lengths))):
            if batch.distribution in ("", first.name):
                yield batch

    def rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of each row, (M, B, L) by metric, from logits at the positions of `batch`.

        A large batch is evaluated in pieces of some rows. A task with its own `reduce` may use other names and trailing
        shapes. By default accuracy and exact_match, those of them that are declared, of a batch of one length.
        Raises ValueError for several lengths.
        """
        if len(lengths) > 1:
            raise ValueError(
                f"{self.name}: a batch measures lengths {list(lengths)}, and the default `rows` scores whole rows; "
                "allowed: one length a batch, or a `rows` that gives (M, B, lengths)"
            )
        scores = supervised.row_scores(logits_MBTV, batch)
        return {name: scores[name] for name in self.metrics if name in scores}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return each metric, (M, L), from the `rows` of the whole batch: their means over rows unless overridden."""
        return {
            name: (value if value.is_floating_point() else value.float()).mean(dim=1) for name, value in rows.items()
        }

    def scored(self, forward: Forward, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """`rows` of one pass over the batch, unless overridden: a task may ask a model to go on, token by token."""
        return self.rows(forward(batch), batch, lengths)

    def derived(self, history: Sequence[Evaluated], lengths: tuple[int, ...]) -> dict[str, NDArray[np.float32]]:
        """Metrics that follow from the scores so far, (M, averages, L); the last of `history` is the present one.

        It is called for each distribution with the curves at its lengths, by the task's own names.
        """
        return {}

    @property
    def derived_metrics(self) -> frozenset[str]:
        """The metrics that `derived` gives."""
        if type(self).derived is Task.derived:
            return frozenset()
        lengths = self.distributions[0].lengths
        curves = {name: np.zeros((1, 1, len(lengths)), np.float32) for name in self.metrics}
        return frozenset(self.derived([Evaluated(0, curves)], lengths))

    @property
    def positions(self) -> int:
        """Positions of the longest input."""
        return max(self.lengths)

    @property
    def position_ids(self) -> int:
        """Position ids are below this: as many as positions, unless batches have ids of their own."""
        return self.positions

    @property
    def grouped(self) -> bool:
        """Whether batches have groups, in training or in a test; models that cannot tell them are refused then."""
        return False

    @property
    def train_positions(self) -> int:
        """Positions of a training row."""
        return max(self.trained_lengths)

    @property
    def passes(self) -> float:
        """What an evaluation costs, in passes over its rows: more than one where models write texts of their length.

        Then models that look ahead are refused, and the keys that are kept of a row are counted.
        """
        return 1.0

    def passes_by(self, model: Model) -> float:
        """`passes` where a certain model is evaluated: what it keeps of a text need not be passed again."""
        return self.passes

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart; the first one unless overridden."""
        return tuple(self.metrics)[:1]

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The sets of inputs that are evaluated apart; the first is the one trained on."""
        return (Distribution("", self.lengths, self.trained_lengths),)

    @property
    def families(self) -> Mapping[str, Family]:
        """Metrics worth a chart against the number in their name."""
        return {}

    @property
    def paired_metrics(self) -> tuple[tuple[str, str], ...]:
        """Pairs of metrics worth a chart of the first, measured, against the second, predicted."""
        return ()

    def recorded_name(self, metric: str, distribution: str) -> str:
        """The name under which a metric of a distribution is recorded."""
        return metric if distribution in ("", self.distributions[0].name) else f"{metric}.{distribution}"

    def recorded_metrics(self, others: Mapping[str, str], evaluated: Iterable[int]) -> dict[str, Metric]:
        """Every metric that is recorded, by name: the task's, and `others`, the model's, with their directions."""
        wanted, found = set(evaluated), dict[str, Metric]()
        for distribution in self.distributions:
            lengths = tuple(length for length in sorted(distribution.lengths) if length in wanted)
            trained = tuple(length for length in lengths if length in distribution.trained_lengths)
            for base, direction in {**self.metrics, **others}.items():
                name = self.recorded_name(base, distribution.name)
                found[name] = Metric(base, distribution.name, direction, lengths, trained)
        return found

    def recorded_families(self) -> dict[str, Family]:
        """The families of every distribution, with the names under which their metrics are recorded."""
        found = dict(self.families)
        for other in self.distributions[1:]:
            for name, family in self.families.items():
                metrics = {number: self.recorded_name(metric, other.name) for number, metric in family.metrics.items()}
                found[self.recorded_name(name, other.name)] = Family(f"{family.label} ({other.name})", metrics)
        return found

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the texts that it depends on."""
        return ()

    def planned(self) -> Self:
        """This task with the data that it depends on named by hash in its settings; as it is where they are missing."""
        return self

    def data_problems(self) -> Iterator[Problem]:
        """Why data that it depends on cannot be used on this machine."""
        return iter(())

    def shown(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Tokens and targets of a row of the first seed in words: ids unless overridden, {} around possible ones."""
        targets = batch.targets[0, row]
        tokens = [str(token) for token in batch.tokens[0, row].tolist()]
        if targets.dim() == 1:
            return tokens, [str(token) for token in targets.tolist()]
        possible = [(position > 0).nonzero()[:, 0].tolist() for position in targets]
        return tokens, ["{" + " ".join(map(str, ids)) + "}" for ids in possible]

    def measures(self, tokens: Tensor) -> dict[str, Tensor]:
        """How hard each sequence (..., T) is, int64 (...), by measure; for histograms."""
        return {}
