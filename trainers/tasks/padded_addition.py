"""Addition of padded numbers: all digits of the sum in one pass (arXiv:2406.01895, section 3.1)."""

import itertools
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.registry import register
from trainers.settings import Settings, setting
from trainers.tasks import carry_chains, digit_scores
from trainers.tasks.batch import Batch
from trainers.tasks.digit_scores import GENERAL, OUTPUTS, GroupedBatch
from trainers.tasks.digits import add, carry_run, cascade_length, digit_count, of_integers, shifted, written
from trainers.tasks.fixed_set import Draws, FixedSet, visited
from trainers.tasks.operand_layout import PLUS, Layout, Places, shown

Curves = NDArray[np.float32]
_PAIRS, _KIND, _MIXTURE, _SHIFT, _GAPS, _TEXT = range(6)  # sites of random words
_SITES, _GROUPS = 8, 1024  # sites reserved for one group of evaluation rows, and groups for one length


@register("task", "padded_addition")
class PaddedAddition(Settings):
    """Two numbers in, padded on the left to one fixed width; out, at the last width + 1 positions, their sum.

    Both numbers are uniform below 10^n: n is train_digits in training and the length in evaluation. P is the pad, which
    is trained and scored like a digit, and _ a position that is neither:

    >>> PaddedAddition(width=4, train_digits=2).example(87, 45)
    ('P P 8 7 + P P 4 5', '_ _ _ _ P P 1 3 2')
    >>> PaddedAddition(width=4, train_digits=4).example(4578, 5425)
    ('4 5 7 8 + 5 4 2 5', '_ _ _ _ 1 0 0 0 3')

    Without carries, each digit of the answer depends on one pair of digits. `sum_le_9`: every pair is uniform among the
    55 that sum to at most 9. `mod10`: any digits; the answer's digits are the pairs' sums modulo 10, as many as the
    longer number has, so that 55 + 55 gives 0 0.

    With text, up to `text_tokens` random tokens stand before the first number, between it and the `+`, and after the
    second number; the answer is read at the second number's positions, which longer sums would not fit into.
    """

    width: int = setting(20, low=1, high=200, help="digits of the padded numbers, in training too")
    train_digits: int = setting(5, low=1, help="trained on numbers of up to so many digits")
    carries: str = setting("full", choices=("full", "sum_le_9", "mod10"), help="ordinary sums, or sums without carries")
    zero_shift: bool = setting(
        False, help="train on both numbers and sum with up to width - train_digits zeros appended"
    )
    distribution: str = setting(
        "uniform",
        choices=("uniform", "complexity", "mixed"),
        help="training pairs uniform, over cascades, or half each",
    )
    longest_cascade: int | None = setting(None, low=0, help="`complexity` is uniform over 0..this; null: train_digits")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training samples; null: always fresh ones")
    text_tokens: int = setting(0, low=0, help="most text tokens in each of the three gaps")
    text_ids: int = setting(50, low=1, help="distinct text tokens")
    measured_digits: int = setting(0, low=0, help="lowest digits of the answer with a metric of their own")
    measured_cascades: tuple[int, ...] = setting((), low=0, help="cascade lengths with a metric of their own")
    measured_runs: tuple[int, ...] = setting((), low=0, help="runs of carries with a metric of their own")
    measured_samples: int = setting(200, low=1, help="inputs per length and cascade length or run")

    causal: ClassVar[bool] = False
    compiles: ClassVar[bool] = False  # compiling the shuffle of a fixed set takes many minutes

    def cross_checks(self) -> Iterator[Problem]:
        """Numbers fit into the width, and carries are there where they are asked for."""
        if self.train_digits > self.longest:
            yield Problem(
                key="train_digits",
                given=self.train_digits,
                message=f"{self.train_digits} digits do not fit",
                allowed=f"<= {self.longest}" + (" (in text, sums need one more)" if self.longest < self.width else ""),
            )
        if self.longest_cascade is not None and self.longest_cascade > self.train_digits:
            yield Problem(
                key="longest_cascade",
                given=self.longest_cascade,
                message=f"no sum of {self.train_digits} digits has a cascade of {self.longest_cascade}",
                allowed=f"<= train_digits ({self.train_digits})",
            )
        if self.measured_digits > self.answer_width:
            yield Problem(
                key="measured_digits",
                given=self.measured_digits,
                message="is more than the answer has",
                allowed=f"<= {self.answer_width}",
            )
        for key in ("measured_cascades", "measured_runs"):
            asked = getattr(self, key)
            if len(set(asked)) != len(asked) or any(c > self.longest for c in asked):
                allowed = f"distinct integers >= 0 and <= {self.longest}"
                yield Problem(key=key, given=list(asked), message="names a length twice or too long", allowed=allowed)
            if asked and self.carries != "full":
                message = f"there are no carries with carries: {self.carries}"
                yield Problem(key=key, given=list(asked), message=message, allowed="an empty list")
        if self.distribution != "uniform" and self.carries != "full":
            yield Problem(
                key="distribution",
                given=self.distribution,
                message=f"there are no cascades with carries: {self.carries}",
                allowed="uniform",
            )

    @property
    def layout(self) -> Layout:
        """Where the numbers stand."""
        return Layout(self.width, self.width, PLUS, self.text_tokens, self.text_ids)

    @property
    def longest(self) -> int:
        """Most digits of a number."""
        return self.width - 1 if self.text_tokens and self.carries == "full" else self.width

    @property
    def answer_width(self) -> int:
        """Supervised positions."""
        return self.width if self.text_tokens else self.width + 1

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
        """Positions of every input."""
        return self.train_positions

    @property
    def train_positions(self) -> int:
        """Positions of every row, in training and in evaluation."""
        return self.layout.positions

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of digits seen in training."""
        return tuple(range(1, self.train_digits + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of digits that can be evaluated."""
        return tuple(range(1, self.longest + 1))

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        exact_match: all supervised positions right, pads included. digit_accuracy: their mean. accuracy_digit_k: the
        k-th one, units first. exact_match_cascade_c, exact_match_run_c: exact match over pairs of this length whose
        longest cascade, or run of carries, is c; NaN where there is none. exact_match_shifted: pairs of training size
        with zeros appended up to this length; NaN below train_digits.
        """
        groups = [*self._chains(), *(["exact_match_shifted"] if self.zero_shift else [])]
        each = [f"accuracy_digit_{k}" for k in range(1, self.measured_digits + 1)]
        return dict.fromkeys([GENERAL, "digit_accuracy", *each, *groups], "maximize")

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart."""
        return (*(name for name in self.metrics if name.startswith(GENERAL)), "digit_accuracy")

    def places(self, tokens: Tensor) -> Places:
        """Role and significance of each position, (..., T), of sequences (..., T)."""
        return self.layout.places(tokens)

    def fixed_places(self) -> Places | None:
        """The places (T,) that all sequences share; None with text."""
        return self.layout.fixed_places()

    def example(self, first: int, second: int) -> tuple[str, str]:
        """Tokens and targets of one sum without text, as text."""
        layout = Layout(self.width, self.width, PLUS)
        a, b = (of_integers([number], self.width)[None] for number in (first, second))
        answer = self._answer(a, b)
        batch = layout.batch(*self._written(a, b), answer, Stream(torch.tensor([0]), "data", torch.tensor(0)), (0, 0))
        return shown(batch.tokens[0, 0].tolist()), shown(batch.targets[0, 0].tolist())

    def measures(self, tokens: Tensor) -> dict[str, Tensor]:
        """How hard each sequence (..., T) is, int64 (...): its `cascade` length and its `run` of carries."""
        first, second = self.layout.numbers(tokens)
        return {"cascade": cascade_length(first + second), "run": carry_run(first + second)}

    def sample(self, stream: Stream, batch: int) -> Batch:
        """A training batch for every seed of the stream. The zero shift of a sample is drawn anew at every visit."""
        draws: Draws = stream
        if self.fixed_set is not None:
            draws = FixedSet(stream.seeds_S, visited(stream, batch, self.fixed_set))
        first, second = self._training_pairs(draws, batch)
        shift = torch.zeros_like(first[..., 0])
        if self.zero_shift:
            shift = stream.integers(_SHIFT, (batch,), self.longest - self.train_digits + 1)
        return self._batch(first, second, shift, draws, 0)

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of each member over supervised positions, (M,)."""
        return digit_scores.loss(logits_MBTV, batch.targets)

    def evaluation_batches(
        self, stream: Stream, samples: int, lengths: tuple[int, ...]
    ) -> Iterator[tuple[Batch, tuple[int, ...]]]:
        """One batch for each length: uniform pairs, then pairs with each measured cascade length, run, and shift."""
        nowhere = torch.zeros(len(stream.seeds_S), samples, dtype=torch.int64, device=stream.seeds_S.device)
        few = nowhere[:, :1].expand(-1, self.measured_samples)
        for length in lengths:
            sites = itertools.count(_SITES * _GROUPS * length, _SITES)
            site = next(sites)
            pairs = self._uniform_pairs(stream, site, samples, length)
            groups = {GENERAL: self._batch(*pairs, nowhere, stream, site)}
            if self.zero_shift:
                site = next(sites)
                if length >= self.train_digits:
                    pairs = self._uniform_pairs(stream, site, samples, self.train_digits)
                    shift = nowhere + length - self.train_digits
                    groups["exact_match_shifted"] = self._batch(*pairs, shift, stream, site)
            for (name, (chain, c)), site in zip(self._chains().items(), sites, strict=False):
                if carry_chains.count(chain, c, length) > 0:
                    pairs = carry_chains.draw(stream, site, self.measured_samples, length, chain, (c,), few)
                    groups[name] = self._batch(*pairs, few, stream, site)
            yield digit_scores.grouped(groups), (length,)

    def score(self, logits_MBTV: Tensor, batch: GroupedBatch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Each metric at the one length of the batch, (M, 1)."""
        return digit_scores.scores(logits_MBTV, batch, self.answer_width, self.metrics)

    def derived(self, curves: Mapping[str, Curves], lengths: tuple[int, ...]) -> dict[str, Curves]:
        """None."""
        return {}

    def _chains(self) -> dict[str, tuple[str, int]]:
        """Metric, and the chain and length that its pairs have."""
        cascades = {f"exact_match_cascade_{c}": ("cascade", c) for c in self.measured_cascades}
        return {**cascades, **{f"exact_match_run_{c}": ("run", c) for c in self.measured_runs}}

    def _training_pairs(self, draws: Draws, batch: int) -> tuple[Tensor, Tensor]:
        """Digits (S, B, train_digits) of training pairs."""
        if self.distribution == "uniform":
            return self._uniform_pairs(draws, 0, batch, self.train_digits)
        longest = self.train_digits if self.longest_cascade is None else self.longest_cascade
        which = (draws.bits(_KIND, (batch,)) * (longest + 1)) >> 32
        if self.distribution == "mixed":
            which = torch.where(draws.bits(_MIXTURE, (batch,)) < 2**31, which, longest + 1)
        classes = (*range(longest + 1), carry_chains.FREE)
        return carry_chains.draw(draws, _PAIRS, batch, self.train_digits, "cascade", classes, which)

    def _uniform_pairs(self, draws: Draws, site: int, batch: int, digits: int) -> tuple[Tensor, Tensor]:
        """Digits (S, batch, digits) of two numbers, uniform below 10^digits, without carries where there are none."""
        if self.carries == "sum_le_9":
            return carry_chains.draw_without_carries(draws, site + _PAIRS, batch, digits)
        both = (draws.bits(site + _PAIRS, (batch, 2, digits)) * 10) >> 32
        return both[..., 0, :], both[..., 1, :]

    def _batch(self, first: Tensor, second: Tensor, shift: Tensor, draws: Draws, site: int) -> Batch:
        """Sequences of pairs of digits (S, B, n), times ten to the power `shift` (S, B)."""
        first, second = (
            shifted(torch.nn.functional.pad(number, (0, self.width - number.shape[-1])), shift)
            for number in (first, second)
        )
        sites = (site + _GAPS, site + _TEXT)
        answer = self._answer(first, second)[..., -self.answer_width :]
        return self.layout.batch(*self._written(first, second), answer, draws, sites)

    def _written(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return written(first, digit_count(first)), written(second, digit_count(second))

    def _answer(self, first: Tensor, second: Tensor) -> Tensor:
        """The tokens (S, B, width + 1) of the sum."""
        if self.carries == "mod10":
            total = torch.nn.functional.pad((first + second) % 10, (0, 1))
            return written(total, torch.maximum(digit_count(first), digit_count(second)))
        total = add(first, second)
        return written(total, digit_count(total))
