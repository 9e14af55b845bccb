"""Multiplication of a padded number by a short one: all digits in one pass (arXiv:2406.01895, section 3.2)."""

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
from trainers.tasks import digit_scores
from trainers.tasks.batch import Batch
from trainers.tasks.digit_scores import GENERAL, OUTPUTS, GroupedBatch
from trainers.tasks.digits import digit_count, multiply, of_integers, parallel_multiplication, shifted, written
from trainers.tasks.fixed_set import Draws, FixedSet, visited
from trainers.tasks.operand_layout import TIMES, Layout, Places, shown

Curves = NDArray[np.float32]
_MULTIPLIER, _NUMBER, _SHIFT, _GAPS, _TEXT = range(5)  # sites of random words
_SITES = 16  # reserved for one length


@register("task", "padded_multiplication")
class PaddedMultiplication(Settings):
    """A multiplier and a number padded to a fixed width in; out, at the number's positions, their product.

    The multiplier has a fixed number of digits and no pads. The number is uniform below 10^n: n is train_digits in
    training and the length in evaluation. P is the pad, which is trained and scored like a digit, and _ a position that
    is neither:

    >>> PaddedMultiplication(multiplier_digits=1, number_digits=4, train_digits=2).example(7, 86)
    ('7 x P P P 8 6', '_ _ P P 6 0 2')
    >>> PaddedMultiplication(multiplier_digits=2, number_digits=4, train_digits=2).example(56, 4297)
    ('5 6 x P P 4 2 9 7', '_ _ _ 2 4 0 6 3 2')

    With text, up to `text_tokens` random tokens stand before the multiplier, between it and the `x`, and after the
    number.
    """

    multiplier_digits: int = setting(1, low=1, high=9, help="digits of the multiplier")
    multiplier_range: tuple[int, int] | None = setting(
        None, low=0, help="smallest and greatest multiplier; null: 1 to 9, or all with multiplier_digits digits"
    )
    number_digits: int = setting(20, low=1, high=200, help="most digits of the other number")
    right_block_width: int | None = setting(
        None, low=2, help="positions of the number and the product; null: multiplier_digits + number_digits"
    )
    train_digits: int = setting(5, low=1, help="trained on numbers of up to so many digits")
    zero_shift: bool = setting(
        False, help="train on number and product with up to number_digits - train_digits zeros appended"
    )
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training samples; null: always fresh ones")
    text_tokens: int = setting(0, low=0, help="most text tokens in each of the three gaps")
    text_ids: int = setting(50, low=1, help="distinct text tokens")
    measured_digits: int = setting(0, low=0, help="lowest digits of the answer with a metric of their own")
    measured_rounds: tuple[int, ...] = setting((), low=0, help="numbers of carry rounds with a metric of their own")

    causal: ClassVar[bool] = False
    compiles: ClassVar[bool] = False  # compiling the shuffle of a fixed set takes many minutes

    def cross_checks(self) -> Iterator[Problem]:
        """Numbers and products fit into the block, multipliers have the digits they should have."""
        least = self.multiplier_digits + self.number_digits
        if self.block < least:
            yield Problem(
                key="right_block_width",
                given=self.right_block_width,
                message=f"a product of {self.multiplier_digits} and {self.number_digits} digits does not fit",
                allowed=f">= {least}",
            )
        if self.train_digits > self.number_digits:
            yield Problem(
                key="train_digits",
                given=self.train_digits,
                message=f"{self.train_digits} digits do not fit",
                allowed=f"<= number_digits ({self.number_digits})",
            )
        if self.measured_digits > self.block:
            yield Problem(
                key="measured_digits",
                given=self.measured_digits,
                message="is more than the answer has",
                allowed=f"<= {self.block}",
            )
        if len(set(self.measured_rounds)) != len(self.measured_rounds):
            given = list(self.measured_rounds)
            yield Problem(key="measured_rounds", given=given, message="names one twice", allowed="distinct integers")
        low, high = self.multipliers
        smallest = 0 if self.multiplier_digits == 1 else 10 ** (self.multiplier_digits - 1)
        if not smallest <= low <= high < 10**self.multiplier_digits:
            yield Problem(
                key="multiplier_range",
                given=[low, high],
                message=f"is not a range of numbers of {self.multiplier_digits} digits",
                allowed=f"ascending, within {smallest} to {10**self.multiplier_digits - 1}",
            )

    @property
    def multipliers(self) -> tuple[int, int]:
        """The smallest and the greatest multiplier."""
        least = 10 ** (self.multiplier_digits - 1)
        return self.multiplier_range or (least, 10 * least - 1)

    @property
    def block(self) -> int:
        """Positions of the number, and of the product."""
        return self.right_block_width or self.multiplier_digits + self.number_digits

    @property
    def layout(self) -> Layout:
        """Where the numbers stand."""
        return Layout(self.multiplier_digits, self.block, TIMES, self.text_tokens, self.text_ids)

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
        return tuple(range(1, self.number_digits + 1))

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        exact_match: all supervised positions right, pads included. digit_accuracy: their mean. accuracy_digit_k: the
        k-th one, units first. exact_match_rounds_r: exact match over those inputs whose carries take r parallel rounds;
        NaN where there is none. exact_match_shifted: numbers of training size with zeros appended up to this length;
        NaN below train_digits.
        """
        each = [f"accuracy_digit_{k}" for k in range(1, self.measured_digits + 1)]
        groups = [f"exact_match_rounds_{r}" for r in self.measured_rounds]
        shift = ["exact_match_shifted"] if self.zero_shift else []
        return dict.fromkeys([GENERAL, "digit_accuracy", *each, *groups, *shift], "maximize")

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

    def example(self, multiplier: int, number: int) -> tuple[str, str]:
        """Tokens and targets of one product without text, as text."""
        layout = Layout(self.multiplier_digits, self.block, TIMES)
        first = of_integers([multiplier], self.multiplier_digits)[None]
        second = of_integers([number], self.block)[None]
        draws = Stream(torch.tensor([0]), "data", torch.tensor(0))
        batch = layout.batch(first.flip(-1), self._written(second), self._answer(first, second), draws, (0, 0))
        return shown(batch.tokens[0, 0].tolist()), shown(batch.targets[0, 0].tolist())

    def measures(self, tokens: Tensor) -> dict[str, Tensor]:
        """How hard each sequence (..., T) is, int64 (...): the `rounds` in which its carries can be resolved."""
        first, second = self.layout.numbers(tokens)
        powers = 10 ** torch.arange(self.multiplier_digits, device=tokens.device)
        return {"rounds": parallel_multiplication((first * powers).sum(dim=-1), second, self.block)[1]}

    def sample(self, stream: Stream, batch: int) -> Batch:
        """A training batch for every seed of the stream. The zero shift of a sample is drawn anew at every visit."""
        draws: Draws = stream
        if self.fixed_set is not None:
            draws = FixedSet(stream.seeds_S, visited(stream, batch, self.fixed_set))
        if self.zero_shift:
            shift = stream.integers(_SHIFT, (batch,), self.number_digits - self.train_digits + 1)
        else:
            shift = torch.zeros(len(stream.seeds_S), batch, dtype=torch.int64, device=stream.seeds_S.device)
        return self._batch(draws, 0, batch, self.train_digits, shift)

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of each member over supervised positions, (M,)."""
        return digit_scores.loss(logits_MBTV, batch.targets)

    def evaluation_batches(
        self, stream: Stream, samples: int, lengths: tuple[int, ...]
    ) -> Iterator[tuple[Batch, tuple[int, ...]]]:
        """One batch for each length: uniform numbers, then numbers of training size shifted to this length."""
        nowhere = torch.zeros(len(stream.seeds_S), samples, dtype=torch.int64, device=stream.seeds_S.device)
        for length in lengths:
            site = _SITES * length
            groups = {GENERAL: self._batch(stream, site, samples, length, nowhere)}
            if self.zero_shift and length >= self.train_digits:
                shift = nowhere + length - self.train_digits
                groups["exact_match_shifted"] = self._batch(
                    stream, site + _SITES // 2, samples, self.train_digits, shift
                )
            yield digit_scores.grouped(groups), (length,)

    def score(self, logits_MBTV: Tensor, batch: GroupedBatch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Each metric at the one length of the batch, (M, 1)."""
        found = digit_scores.scores(logits_MBTV, batch, self.block, self.metrics)
        if self.measured_rounds:
            rows = batch.groups[0][1]
            whole = digit_scores.correct(logits_MBTV, batch.targets, self.block).all(dim=-1)[:, :rows]
            rounds = self.measures(batch.tokens[:, :rows])["rounds"]
            for r in self.measured_rounds:
                chosen = rounds == r
                found[f"exact_match_rounds_{r}"] = ((whole & chosen).sum(dim=1) / chosen.sum(dim=1))[:, None]
        return found

    def derived(self, curves: Mapping[str, Curves], lengths: tuple[int, ...]) -> dict[str, Curves]:
        """None."""
        return {}

    def _batch(self, draws: Draws, site: int, batch: int, digits: int, shift: Tensor) -> Batch:
        """Sequences of a multiplier and a number uniform below 10^digits, times ten to the power `shift` (S, B)."""
        low, high = self.multipliers
        multiplier = low + ((draws.bits(site + _MULTIPLIER, (batch,)) * (high - low + 1)) >> 32)
        powers = 10 ** torch.arange(self.multiplier_digits, device=shift.device)
        first = multiplier[..., None] // powers % 10
        number = (draws.bits(site + _NUMBER, (batch, digits)) * 10) >> 32
        second = shifted(torch.nn.functional.pad(number, (0, self.block - digits)), shift)
        answer = self._answer(first, second)
        return self.layout.batch(first.flip(-1), self._written(second), answer, draws, (site + _GAPS, site + _TEXT))

    def _written(self, number: Tensor) -> Tensor:
        return written(number, digit_count(number))

    def _answer(self, first: Tensor, second: Tensor) -> Tensor:
        """The tokens (S, B, block) of the product."""
        return self._written(multiply(first, second)[..., : self.block])
