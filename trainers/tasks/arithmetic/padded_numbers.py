"""What addition and multiplication of padded numbers share: settings, places, lengths, metrics, the fixed set.

A subclass says where its numbers stand (`layout`), how long they get (`longest`), what it draws (`_drawn` and
`_evaluated`) and which groups of inputs it scores apart (`_groups`).
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks.arithmetic import digit_scores
from trainers.tasks.arithmetic.digit_scores import GENERAL, OUTPUTS, GroupedBatch
from trainers.tasks.arithmetic.digits import digit_count, written
from trainers.tasks.arithmetic.operand_layout import OperandLayout, symbols
from trainers.tasks.fixed_set import Draws, training_draws
from trainers.tasks.metrics import Family, families
from trainers.tasks.task import Batch, EvaluationBatch, Task
from trainers.tensors.numerals import DIGITS, PAD, Places, places

SHIFTED = "exact_match_shifted"  # the group of training pairs with zeros appended


class PaddedNumbers(Task):
    """Two numbers in, padded on the left to a fixed width; out, at the last positions, all digits of the answer."""

    train_digits: int = setting(5, low=1, help="trained on numbers of up to so many digits")
    zero_shift: bool = setting(False, help="append zeros to training numbers and answers, up to the longest that fit")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training samples; null: always fresh ones")
    text_tokens: int = setting(0, low=0, help="most text tokens in each of the three gaps")
    text_ids: int = setting(50, low=1, help="distinct text tokens")
    measured_digits: int = setting(0, low=0, help="lowest digits of the answer with a metric of their own")

    causal: ClassVar[bool] = False
    digits: ClassVar[int] = DIGITS
    pad: ClassVar[int] = PAD
    shift_site: ClassVar[int]  # of the random words that say how many zeros are appended

    @property
    @abstractmethod
    def layout(self) -> OperandLayout:
        """Where the numbers stand."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The largest number of digits that a number can have."""

    @property
    @abstractmethod
    def longest_in_words(self) -> str:
        """The longest length, and the reason, for messages."""

    @property
    @abstractmethod
    def answer_width(self) -> int:
        """Number of supervised positions."""

    @property
    @abstractmethod
    def _groups(self) -> Mapping[str, Family]:
        """The families of metrics of inputs that are scored apart."""

    @abstractmethod
    def measures(self, tokens: Tensor) -> dict[str, Tensor]:
        """How hard each sequence (..., T) is, int64 (...), by measure."""

    @abstractmethod
    def _drawn(self, draws: Draws, batch: int, shift: Tensor) -> Batch:
        """Training sequences, times ten to the power `shift` (S, B)."""

    @abstractmethod
    def _evaluated(self, stream: Stream, samples: int, length: int) -> dict[str, Batch]:
        """Sequences of one length by the metric of their exact match, GENERAL first."""

    def cross_checks(self) -> Iterator[Problem]:
        """Problems if training numbers do not fit, or more digits are measured than an answer has."""
        if self.train_digits > self.longest:
            yield Problem(
                key="train_digits",
                given=self.train_digits,
                message=f"{self.train_digits} digits do not fit",
                allowed=f"<= {self.longest_in_words}",
            )
        if self.measured_digits > self.answer_width:
            yield Problem(
                key="measured_digits",
                given=self.measured_digits,
                message="is more than the answer has",
                allowed=f"<= {self.answer_width}",
            )

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return self.layout.inputs

    @property
    def outputs(self) -> int:
        """Number of output tokens: ten digits and the pad."""
        return OUTPUTS

    @property
    def positions(self) -> int:
        """Positions of every row, in training and in evaluation."""
        return self.layout.positions

    @property
    def train_positions(self) -> int:
        """The same."""
        return self.positions

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of digits seen in training."""
        return tuple(range(1, self.train_digits + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of digits that can be evaluated."""
        return tuple(range(1, self.longest + 1))

    @property
    def families(self) -> Mapping[str, Family]:
        """Metrics worth a chart against the number in their name."""
        digits = range(1, self.measured_digits + 1)
        return {**families(digit=("digit of the answer, units first", "accuracy_digit", digits)), **self._groups}

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        exact_match: all supervised positions right, pads included. digit_accuracy: their mean. accuracy_digit_k: the
        k-th one, units first. Then the exact match of inputs of one kind, NaN where there are none: those of `_groups`,
        and exact_match_shifted over numbers of training size with zeros appended up to this length.
        """
        each = [metric for family in self.families.values() for metric in family.metrics.values()]
        shifted = [SHIFTED] if self.zero_shift else []
        return dict.fromkeys([GENERAL, "digit_accuracy", *each, *shifted], "maximize")

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart of their own."""
        return (GENERAL, *([SHIFTED] if self.zero_shift else []), "digit_accuracy")

    def places(self, tokens: Tensor) -> Places:
        """Role and significance of each position, (..., T), of sequences (..., T)."""
        return places(tokens)

    def fixed_places(self) -> Places | None:
        """The places (T,) that all sequences share; None with text."""
        return self.layout.fixed_places()

    def shown(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Tokens and targets of a row of the first seed as one reads them."""
        return symbols(batch.tokens[0, row].tolist()), symbols(batch.targets[0, row].tolist())

    def sample(self, stream: Stream, batch: int) -> Batch:
        """A training batch for every seed of the stream. The zero shift of a sample is drawn anew at every visit."""
        draws = training_draws(stream, batch, self.fixed_set)
        if self.zero_shift:
            shift = stream.integers(self.shift_site, (batch,), self.longest - self.train_digits + 1)
        else:
            shift = torch.zeros(len(stream.seeds_S), batch, dtype=torch.int64, device=stream.seeds_S.device)
        return self._drawn(draws, batch, shift)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """One batch for each length: `samples` uniform inputs, then the groups that are scored apart."""
        for length in lengths:
            yield EvaluationBatch(digit_scores.grouped(self._evaluated(stream, samples, length)), (length,))

    def rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Whether each supervised position is right, units first, bool (M, B, A)."""
        return {"right": digit_scores.correct(logits_MBTV, batch.targets, self.answer_width)}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Each metric at the one length of the batch, (M, 1); NaN where there are no inputs of its kind."""
        assert isinstance(batch, GroupedBatch)
        return digit_scores.scores(rows["right"], batch, self.metrics)


def as_written(digits: Tensor) -> Tensor:
    """Tokens (..., W) of numbers (..., W): their digits, and pads on their left."""
    return written(digits, digit_count(digits))
