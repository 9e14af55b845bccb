"""What a task is: the base of every task, its distributions, and the batches it is evaluated on.

Shapes: S seeds, M members, B rows, T positions, V output tokens, L lengths.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import Settings
from trainers.tasks.forward_pass import EvaluatedModel, ForwardPass
from trainers.tasks.metrics import Evaluated as Evaluated  # tasks of one's own may name all of these from here
from trainers.tasks.metrics import Family as Family
from trainers.tasks.metrics import Metric as Metric
from trainers.tasks.metrics import families as families
from trainers.tasks.metrics import steps_to as steps_to
from trainers.tensors.batch import Batch as Batch


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
    """Base of every task: what it trains on, what it is evaluated on, and its loss and metrics.

    A subclass is a frozen dataclass; its fields are the options of the YAML file.
    """

    causal: ClassVar[bool] = True  # scored after every prefix: a model must not see ahead
    tried_with: ClassVar[Mapping[str, Any]] = {}  # settings to try it with, where its defaults need data of the user's

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of input tokens."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of output tokens."""

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated, the trained ones among them; of all distributions together."""

    @property
    @abstractmethod
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths seen in training."""

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction: minimize, maximize or none."""

    @abstractmethod
    def sample(self, stream: Stream, rows: int) -> Batch | tuple[Batch, ...]:
        """A training batch of every seed of the stream; several where rows differ in width.

        Shapes depend on the settings alone, not on what is drawn.
        """

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

    @abstractmethod
    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sum of what training minimises over the batch, and the weight it is divided by, of each member, (M,)."""

    @abstractmethod
    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Batches, each with the lengths it measures; every distribution measures those of `lengths` that it has."""

    def validation_batches(self, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Batches that stopping and curricula go by: of the first distribution, at its trained lengths.

        They are `evaluation_batches` of a stream of their own, unless overridden: where these draw nothing, such as
        windows of a text, they would be the test.
        """
        first = self.distributions[0]
        for batch in self.evaluation_batches(stream, samples, tuple(sorted(first.trained_lengths))):
            if batch.distribution in ("", first.name):
                yield batch

    @abstractmethod
    def rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """What each row scores, (M, B, L) by metric, from logits at the positions of `batch`.

        A large batch comes in pieces, some of its rows at a time. What `reduce` makes of them may need other names
        and trailing shapes.
        """

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Each metric, (M, L), of what `rows` gave of the whole batch; their means over rows unless overridden."""
        return {
            name: (value if value.is_floating_point() else value.float()).mean(dim=1) for name, value in rows.items()
        }

    def scored(self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """`rows` of one pass over the batch, unless overridden: a task may ask a model to generate text."""
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

    def passes_by(self, model: EvaluatedModel) -> float:
        """`passes` where a certain model is evaluated: tokens in its KV cache need no second pass."""
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
