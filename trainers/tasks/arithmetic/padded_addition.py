"""Addition of padded numbers: all digits of the sum in one pass (arXiv:2406.01895, section 3.1)."""

import itertools
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.arithmetic import carry_chains
from trainers.tasks.arithmetic.digits import (
    add,
    count_digits,
    measure_carry_run,
    measure_cascade,
    shift_digits,
    write_digits,
)
from trainers.tasks.arithmetic.padded_numbers import GENERAL, SHIFTED, PaddedNumbers, write_number
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.task import Batch
from trainers.tensors.numerals import PLUS

# Sites of random words; the three sites from `shift_site` on lie between them.
_PAIRS_SITE, _KIND_SITE, _MIXTURE_SITE, _DIGITS_SITE = 0, 1, 2, 6
_SITES = 8  # sites reserved for one group of evaluation rows
_GROUPS = 1024  # groups reserved for one length


@register("task", "padded_addition")
class PaddedAddition(PaddedNumbers):
    """Input: two numbers, padded on the left to a fixed width. Output: at the last width + 1 positions, their sum.

    Both numbers are uniform below 10^n: n is train_digits in training and the length in evaluation. P is the pad, which
    is trained and scored like a digit, and _ a position that is neither:

    >>> PaddedAddition(width=4, train_digits=2).example(87, 45)
    ('P P 8 7 + P P 4 5', '_ _ _ _ P P 1 3 2')
    >>> PaddedAddition(width=4, train_digits=4).example(4578, 5425)
    ('4 5 7 8 + 5 4 2 5', '_ _ _ _ 1 0 0 0 3')

    Without carries, each digit of the answer depends on one pair of digits. `sum_le_9`: every pair is uniform among the
    55 that sum to at most 9. `mod10`: any digits; the answer's digits are the pairs' sums modulo 10, as many as the
    longer number has, so that 55 + 55 gives 0 0.

    Nine of ten numbers below 10^n have n digits, so that the lengths of two differ in a fifth of the sums, mostly by
    one. With `uniform_lengths` each training number is uniform below 10^k, k uniform from 1 to train_digits.

    With text, up to `text_tokens` random tokens come before the first number, between it and the `+`, and after the
    second number; the answer is read at the second number's positions, which longer sums would not fit into.
    """

    width: int = setting(20, low=1, high=200, help="digits of the padded numbers, in training too")
    carries: str = setting("full", choices=("full", "sum_le_9", "mod10"), help="ordinary sums, or sums without carries")
    distribution: str = setting(
        "uniform",
        choices=("uniform", "complexity", "mixed"),
        help="training pairs: uniform, uniform over cascades, or half of each",
    )
    uniform_lengths: bool = setting(False, help="draw the number of digits of each uniform training number first")
    longest_cascade: int | None = setting(None, low=0, help="`complexity` is uniform over 0..this; null: train_digits")
    measured_cascades: tuple[int, ...] = setting((), low=0, help="cascade lengths with a metric of their own")
    measured_runs: tuple[int, ...] = setting((), low=0, help="runs of carries with a metric of their own")
    measured_samples: int = setting(200, low=1, help="inputs per length and cascade length or run")

    operator = PLUS
    shift_site = 3

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of numbers that do not fit, and of measured carries that no sum has."""
        yield from super().find_combination_problems()

        if self.longest_cascade is not None and self.longest_cascade > self.train_digits:
            yield self._make_problem(
                "longest_cascade",
                f"no sum of {self.train_digits} digits has a cascade of {self.longest_cascade}",
                f"<= train_digits ({self.train_digits})",
            )

        # A metric of a chain that no sum has would always be NaN.
        for key in ("measured_cascades", "measured_runs"):
            measured_lengths = getattr(self, key)
            allowed = f"distinct integers >= 0 and <= {self.max_digits}"
            if impossible := [c for c in measured_lengths if c > self.max_digits]:
                message = f"{', '.join(map(str, impossible))} cannot occur in numbers of {self.max_digits} digits"
                yield self._make_problem(key, message, allowed)
            elif len(set(measured_lengths)) != len(measured_lengths):
                yield self._make_problem(key, "has a length twice", allowed)
            if measured_lengths and self.carries != "full":
                yield self._make_problem(key, f"sums have no carries with carries: {self.carries}", "an empty list")

        # A pair with a given cascade cannot also be uniform, and pairs without carries have no cascade.
        if self.uniform_lengths and self.distribution == "complexity":
            message = "no training pair is uniform with distribution: complexity"
            yield self._make_problem("uniform_lengths", message, "false")
        if self.distribution != "uniform" and self.carries != "full":
            yield self._make_problem("distribution", f"sums have no cascades with carries: {self.carries}", "uniform")

    @property
    def blocks(self) -> tuple[int, int]:
        """Numbers of positions of the first and of the second number."""
        return self.width, self.width

    @property
    def max_digits(self) -> int:
        """The largest number of digits of a number."""
        return self.width - 1 if self.text_tokens and self.carries == "full" else self.width

    @property
    def max_digits_text(self) -> str:
        """The longest length with its reason, for messages."""
        return f"{self.max_digits}" + (" (in text, sums need one more)" if self.max_digits < self.width else "")

    @property
    def answer_width(self) -> int:
        """Number of supervised positions."""
        return self.width if self.text_tokens else self.width + 1

    @property
    def _group_metrics(self) -> Mapping[str, Mapping[int, str]]:
        """The metrics of pairs by the length of their longest cascade, and of their longest run of carries."""
        numbers = {"cascade": self.measured_cascades, "run": self.measured_runs}
        return {name: {number: f"exact_match_{name}_{number}" for number in numbers[name]} for name in numbers}

    def measure_difficulty(self, tokens: Tensor) -> dict[str, Tensor]:
        """Return the difficulty of each sequence (..., T), int64 (...): its `cascade` length and `run` of carries."""
        first, second = self.read_numbers(tokens)
        return {"cascade": measure_cascade(first + second), "run": measure_carry_run(first + second)}

    def _draw_training(self, draws: Draws, batch: int, shift: Tensor) -> Batch:
        """Draw training sequences, times ten to the power `shift` (S, B)."""
        return self._make_batch(*self._draw_training_pairs(draws, batch), shift, draws, 0)

    def _draw_evaluation(self, stream: Stream, samples: int, length: int) -> dict[str, Batch]:
        """Draw uniform pairs, then training-sized pairs shifted to this length, then pairs with each measured chain."""
        # Groups draw at sites of their own, so that their rows are independent.
        no_shift = torch.zeros(len(stream.seeds_S), samples, dtype=torch.int64, device=stream.seeds_S.device)
        sites = itertools.count(_SITES * _GROUPS * length, _SITES)
        site = next(sites)
        batches = {
            GENERAL: self._make_batch(*self._draw_uniform_pairs(stream, site, samples, length), no_shift, stream, site)
        }
        if self.zero_shift:
            site = next(sites)
            if length >= self.train_digits:
                pairs = self._draw_uniform_pairs(stream, site, samples, self.train_digits)
                batches[SHIFTED] = self._make_batch(*pairs, no_shift + length - self.train_digits, stream, site)

        # Short numbers have no long chains: their metrics stay NaN at this length.
        zeros = no_shift[:, :1].expand(-1, self.measured_samples)
        chains = [(chain, c, metric) for chain, group in self._group_metrics.items() for c, metric in group.items()]
        for (chain, c, metric), site in zip(chains, sites, strict=False):
            if carry_chains.count_pairs(chain, c, length) > 0:
                pairs = carry_chains.draw_pairs(stream, site, self.measured_samples, length, chain, (c,), zeros)
                batches[metric] = self._make_batch(*pairs, zeros, stream, site)
        return batches

    def _draw_training_pairs(self, draws: Draws, batch: int) -> tuple[Tensor, Tensor]:
        """Draw the digits (S, B, train_digits) of training pairs."""
        if self.distribution == "uniform":
            return self._cut_digits(self._draw_uniform_pairs(draws, 0, batch, self.train_digits), draws)

        # With `mixed` the class after the longest cascade is FREE, which half of the pairs get.
        longest = self.train_digits if self.longest_cascade is None else self.longest_cascade
        class_SB = draw_below(draws, _KIND_SITE, (batch,), longest + 1)
        if self.distribution == "mixed":
            class_SB = torch.where(draws.bits(_MIXTURE_SITE, (batch,)) < 2**31, class_SB, longest + 1)
        classes = (*range(longest + 1), carry_chains.FREE)
        pairs = carry_chains.draw_pairs(draws, _PAIRS_SITE, batch, self.train_digits, "cascade", classes, class_SB)
        return self._cut_digits(pairs, draws, class_SB > longest)

    def _cut_digits(
        self, pairs: tuple[Tensor, Tensor], draws: Draws, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the pairs (S, B, train_digits), with the numbers of the given rows cut to random numbers of digits.

        rows: mask (S, B) of the rows; None means all.
        """
        if not self.uniform_lengths:
            return pairs
        batch = pairs[0].shape[1]
        position = torch.arange(self.train_digits, device=pairs[0].device)
        last_digit = draw_below(draws, _DIGITS_SITE, (batch, 2), self.train_digits)
        last_digit = last_digit if rows is None else torch.where(rows[..., None], last_digit, self.train_digits)
        first, second = (torch.where(position <= last_digit[..., number, None], pairs[number], 0) for number in (0, 1))
        return first, second

    def _draw_uniform_pairs(self, draws: Draws, site: int, batch: int, digits: int) -> tuple[Tensor, Tensor]:
        """Draw the digits (S, batch, digits) of two numbers, uniform below 10^digits or among pairs without carries."""
        if self.carries == "sum_le_9":
            return carry_chains.draw_pairs_without_carries(draws, site + _PAIRS_SITE, batch, digits)
        pair = draw_below(draws, site + _PAIRS_SITE, (batch, 2, digits), 10)
        return pair[..., 0, :], pair[..., 1, :]

    def _make_batch(self, first: Tensor, second: Tensor, shift: Tensor, draws: Draws, site: int) -> Batch:
        """Return sequences of pairs of numbers (S, B, n), times ten to the power `shift` (S, B)."""
        first, second = (
            shift_digits(torch.nn.functional.pad(number, (0, self.width - number.shape[-1])), shift)
            for number in (first, second)
        )
        answer = self._write_answer(first, second)[..., -self.answer_width :]
        return self._join_blocks(write_number(first), write_number(second), answer, draws, site)

    def _write_answer(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the tokens (S, B, width + 1) of the sum."""
        if self.carries == "mod10":
            total = torch.nn.functional.pad((first + second) % 10, (0, 1))
            return write_digits(total, torch.maximum(count_digits(first), count_digits(second)))
        return write_number(add(first, second))
