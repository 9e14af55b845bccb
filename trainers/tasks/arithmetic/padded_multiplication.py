"""Multiplication of a padded number by a short one: all digits in one pass (arXiv:2406.01895, section 3.2)."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.arithmetic.digits import multiply, multiply_in_parallel, shift_digits
from trainers.tasks.arithmetic.padded_numbers import GENERAL, SHIFTED, PaddedNumbers, StackedBatch, write_number
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.task import Batch
from trainers.tensors.numerals import TIMES

_MULTIPLIER_SITE, _NUMBER_SITE = range(2)  # sites of random words, besides three sites from `shift_site` on
_SITES = 16  # reserved for one length


@register("task", "padded_multiplication")
class PaddedMultiplication(PaddedNumbers):
    """Input: a multiplier, and a number padded to a fixed width. Target: their product, at the number's positions.

    The multiplier has a fixed number of digits and no pads. The number is uniform below 10^n: n is train_digits in
    training and the length in evaluation. P is the pad, which is trained and scored like a digit, and _ a position that
    is neither:

    >>> PaddedMultiplication(multiplier_digits=1, number_digits=4, train_digits=2).example(7, 86)
    ('7 x P P P 8 6', '_ _ P P 6 0 2')
    >>> PaddedMultiplication(multiplier_digits=2, number_digits=4, train_digits=2).example(56, 4297)
    ('5 6 x P P 4 2 9 7', '_ _ _ 2 4 0 6 3 2')

    With text, up to `text_tokens` random tokens come before the multiplier, between it and the `x`, and after the
    number.
    """

    multiplier_digits: int = setting(1, low=1, high=9, help="digits of the multiplier")
    multiplier_range: tuple[int, int] | None = setting(
        None, low=0, help="smallest and greatest multiplier; null: 1 to 9, or all with multiplier_digits digits"
    )
    number_digits: int = setting(20, low=1, high=200, help="maximum number of digits of the other number")
    right_block_width: int | None = setting(
        None, low=2, help="positions of the number and the product; null: multiplier_digits + number_digits"
    )
    measured_rounds: tuple[int, ...] = setting((), low=0, help="numbers of carry rounds with a metric of their own")

    operator = TIMES
    shift_site = 2

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of numbers or products that do not fit, and of multipliers with other digits."""
        smallest_width = self.multiplier_digits + self.number_digits
        if self.block < smallest_width:
            yield self._make_problem(
                "right_block_width",
                f"a product of {self.multiplier_digits} and {self.number_digits} digits does not fit",
                f">= {smallest_width}",
            )
        yield from super().find_combination_problems()

        # The multiplier has no pads, so all multipliers must have the same number of digits.
        if len(set(self.measured_rounds)) != len(self.measured_rounds):
            yield self._make_problem("measured_rounds", "has a number twice", "distinct integers")
        low, high = self.multiplier_bounds
        smallest = 0 if self.multiplier_digits == 1 else 10 ** (self.multiplier_digits - 1)
        if not smallest <= low <= high < 10**self.multiplier_digits:
            yield Problem(
                key="multiplier_range",
                given=[low, high],
                message=f"is not a range of numbers of {self.multiplier_digits} digits",
                allowed=f"ascending, within {smallest} to {10**self.multiplier_digits - 1}",
            )

    @property
    def multiplier_bounds(self) -> tuple[int, int]:
        """The smallest and the greatest multiplier."""
        smallest = 10 ** (self.multiplier_digits - 1)
        return self.multiplier_range or (smallest, 10 * smallest - 1)

    @property
    def block(self) -> int:
        """Number of positions of the number, and of the product."""
        return self.right_block_width or self.multiplier_digits + self.number_digits

    @property
    def blocks(self) -> tuple[int, int]:
        """Numbers of positions of the multiplier and of the number."""
        return self.multiplier_digits, self.block

    @property
    def max_digits(self) -> int:
        """The largest number of digits of the number that is multiplied."""
        return self.number_digits

    @property
    def max_digits_text(self) -> str:
        """The longest length with its reason, for messages."""
        return f"number_digits ({self.number_digits})"

    @property
    def answer_width(self) -> int:
        """Number of supervised positions."""
        return self.block

    @property
    def _group_metrics(self) -> Mapping[str, Mapping[int, str]]:
        """The metrics of inputs by the parallel rounds that their carries take."""
        return {"rounds": {number: f"exact_match_rounds_{number}" for number in self.measured_rounds}}

    def measure_difficulty(self, tokens: Tensor) -> dict[str, Tensor]:
        """Return the difficulty of each sequence (..., T), int64 (...): the `rounds` that its carries take."""
        first, second = self.read_numbers(tokens)
        powers = 10 ** torch.arange(self.multiplier_digits, device=tokens.device)
        return {"rounds": multiply_in_parallel((first * powers).sum(dim=-1), second, self.block)[1]}

    def _draw_training(self, draws: Draws, batch: int, shift: Tensor) -> Batch:
        """Draw training sequences, times ten to the power `shift` (S, B)."""
        return self._make_batch(draws, 0, batch, self.train_digits, shift)

    def _draw_evaluation(self, stream: Stream, samples: int, length: int) -> dict[str, Batch]:
        """Draw uniform numbers, then training-sized numbers shifted to this length."""
        no_shift = torch.zeros(len(stream.seeds_S), samples, dtype=torch.int64, device=stream.seeds_S.device)
        site = _SITES * length
        batches = {GENERAL: self._make_batch(stream, site, samples, length, no_shift)}
        if self.zero_shift and length >= self.train_digits:
            shift = no_shift + length - self.train_digits
            batches[SHIFTED] = self._make_batch(stream, site + _SITES // 2, samples, self.train_digits, shift)
        return batches

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return each metric at the length of the batch, (M, 1)."""
        scores = super().reduce(rows, batch, lengths)
        if self.measured_rounds:
            assert isinstance(batch, StackedBatch)
            count = batch.parts[0][1]
            exact = rows["right"].all(dim=-1)[:, :count]
            rounds = self.measure_difficulty(batch.tokens[:, :count])["rounds"]
            for number, metric in self._group_metrics["rounds"].items():
                in_group = rounds == number
                scores[metric] = ((exact & in_group).sum(dim=1) / in_group.sum(dim=1))[:, None]
        return scores

    def _make_batch(self, draws: Draws, site: int, batch: int, digits: int, shift: Tensor) -> Batch:
        """Draw sequences of a multiplier and a number below 10^digits, times ten to the power `shift` (S, B)."""
        low, high = self.multiplier_bounds
        multiplier = low + draw_below(draws, site + _MULTIPLIER_SITE, (batch,), high - low + 1)
        powers = 10 ** torch.arange(self.multiplier_digits, device=shift.device)
        first = multiplier[..., None] // powers % 10
        number = draw_below(draws, site + _NUMBER_SITE, (batch, digits), 10)
        second = shift_digits(torch.nn.functional.pad(number, (0, self.block - digits)), shift)

        # `first` has no pads, so its digits are its tokens.
        answer = self._write_answer(first, second)
        return self._join_blocks(first.flip(-1), write_number(second), answer, draws, site)

    def _write_answer(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the tokens (S, B, block) of the product."""
        return write_number(multiply(first, second)[..., : self.block])
