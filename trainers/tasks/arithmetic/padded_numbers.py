"""The base of addition and multiplication of padded numbers: settings, rows, lengths, metrics, the fixed set.

A row has two blocks of tokens around an operator, optionally among up to N tokens of random text in each of three gaps:

    text^n0  first  text^n1  operator  second  text^n2  end^(3 N - n0 - n1 - n2)        n0, n1, n2 ~ U{0..N}

Ids: 0..9 digits, 10 pad, 11 `+`, 12 `x`; with text, `text_ids` more from 13 up and then `end`, which fills sequences up
to one size. The role of every position follows from the tokens (`trainers.tensors.numerals.find_places`).

A subclass defines the widths of the two blocks (`blocks`), the largest length (`max_digits`), its draws
(`_draw_training` and `_draw_evaluation`) and the groups of inputs with metrics of their own (`_group_metrics`).
Shapes: S seeds, M members, B rows, T positions, W digits, A supervised positions of a row.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks.arithmetic.digits import count_digits, read_digits, split_integers, write_digits
from trainers.tasks.fixed_set import Draws, make_training_draws
from trainers.tasks.parts import draw_below
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import Batch, EvaluationBatch, Task
from trainers.tensors.numerals import DIGITS, FIRST, PAD, PLUS, SECOND, TEXT, TIMES, Places, find_places

_SYMBOLS = {PAD: "P", PLUS: "+", TIMES: "x", IGNORED: "_"}
GENERAL = "exact_match"  # the group of rows drawn without a condition
SHIFTED = "exact_match_shifted"  # the group of training-sized numbers with appended zeros


@dataclass(frozen=True)
class StackedBatch(Batch):
    """Several test sets, one after another; parts: (metric of the exact match, number of rows) of each."""

    parts: tuple[tuple[str, int], ...] = ()


class PaddedNumbers(Task):
    """Input: two numbers, left-padded to a fixed width. Target: all digits of the answer, at the last positions."""

    train_digits: int = setting(5, low=1, help="trained on numbers of up to this many digits")
    zero_shift: bool = setting(False, help="append zeros to training numbers and answers, up to the longest that fit")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training samples; null: always fresh ones")
    text_tokens: int = setting(0, low=0, help="maximum number of text tokens in each of the three gaps")
    text_ids: int = setting(50, low=1, help="distinct text tokens")
    measured_digits: int = setting(0, low=0, help="number of lowest digits of the answer with their own metrics")

    causal: ClassVar[bool] = False
    outputs = 11  # ten digits and the pad
    digits: ClassVar[int] = DIGITS
    pad: ClassVar[int] = PAD
    operator: ClassVar[int]
    shift_site: ClassVar[int]  # site of the numbers of appended zeros; the next sites are for gaps and text

    @property
    @abstractmethod
    def blocks(self) -> tuple[int, int]:
        """Numbers of positions of the first and of the second number."""

    @property
    @abstractmethod
    def max_digits(self) -> int:
        """The largest number of digits of a number."""

    @property
    @abstractmethod
    def max_digits_text(self) -> str:
        """The longest length with its reason, for messages."""

    @property
    @abstractmethod
    def answer_width(self) -> int:
        """Number of supervised positions."""

    @property
    @abstractmethod
    def _group_metrics(self) -> Mapping[str, Mapping[int, str]]:
        """The metrics of groups of inputs: difficulty -> its value -> name of the metric."""

    @abstractmethod
    def _draw_training(self, draws: Draws, batch: int, shift: Tensor) -> Batch:
        """Draw training sequences, times ten to the power `shift` (S, B)."""

    @abstractmethod
    def _draw_evaluation(self, stream: Stream, samples: int, length: int) -> dict[str, Batch]:
        """Draw sequences of one length, by the metric of their exact match, GENERAL first."""

    @abstractmethod
    def _write_answer(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the tokens (S, B, W) of the answer to two numbers."""

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem of training numbers that do not fit, and of more measured digits than an answer has."""
        if self.train_digits > self.max_digits:
            yield self._make_problem(
                "train_digits", f"{self.train_digits} is more than the block holds", f"<= {self.max_digits_text}"
            )
        if self.measured_digits > self.answer_width:
            yield self._make_problem(
                "measured_digits", f"{self.measured_digits} is more than the answer has", f"<= {self.answer_width}"
            )

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return TEXT + (self.text_ids + 1 if self.text_tokens else 0)

    @property
    def positions(self) -> int:
        """Number of tokens of a row; all rows have the same width."""
        return sum(self.blocks) + 1 + 3 * self.text_tokens

    @property
    def train_positions(self) -> int:
        """Number of tokens of a training row, the same for every row."""
        return self.positions

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of digits seen in training."""
        return tuple(range(1, self.train_digits + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of digits that can be evaluated."""
        return tuple(range(1, self.max_digits + 1))

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        exact_match: whether all supervised positions are right, pads included. digit_accuracy: the share that is right.
        accuracy_digit_k: the k-th position, units first. Then the exact match of groups of inputs, NaN for empty
        groups: the groups of `_group_metrics`, and exact_match_shifted for training-sized numbers with zeros appended
        up to this length.
        """
        digits = [f"accuracy_digit_{digit}" for digit in range(1, self.measured_digits + 1)]
        groups = [metric for group in self._group_metrics.values() for metric in group.values()]
        shifted = [SHIFTED] if self.zero_shift else []
        return dict.fromkeys([GENERAL, "digit_accuracy", *digits, *groups, *shifted], "maximize")

    @property
    def headline(self) -> tuple[str, ...]:
        """Metrics that are charted."""
        return (GENERAL, *([SHIFTED] if self.zero_shift else []), "digit_accuracy")

    def example(self, first: int, second: int) -> tuple[str, str]:
        """Return tokens and targets of two numbers, without text between them, as text."""
        # Without text no random number is used, so any stream will do.
        numbers = zip((first, second), self.blocks, strict=True)
        a, b = (split_integers([number], width)[None] for number, width in numbers)
        draws = Stream(torch.tensor([0]), "data", torch.tensor(0))
        plain = replace(self, text_tokens=0)
        batch = plain._join_blocks(write_number(a), write_number(b), self._write_answer(a, b), draws, 0)
        tokens, targets = self.format_row(batch, 0)
        return " ".join(tokens), " ".join(targets)

    def places(self, tokens: Tensor) -> Places:
        """Return role and significance of each position, (..., T), of sequences (..., T).

        `significance` accepts only tasks with this method.
        """
        return find_places(tokens)

    def read_numbers(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the digits of both numbers of sequences (..., T), (..., W) each, units first."""
        role = find_places(tokens).role
        (first_width, second_width) = self.blocks
        first = _select_block(tokens, role == FIRST, first_width)
        second = _select_block(tokens, role == SECOND, second_width)
        return read_digits(first), read_digits(second)

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets as text: digits, P for pad, + and x, _ for ignored, t for text, e for end."""

        symbols = {**_SYMBOLS, TEXT + self.text_ids: "e"}

        def format_symbols(ids: Sequence[int]) -> list[str]:
            return [symbols.get(token, str(token) if token < PAD else "t") for token in ids]

        return format_symbols(batch.tokens[0, row].tolist()), format_symbols(batch.targets[0, row].tolist())

    def sample(self, stream: Stream, batch: int) -> Batch:
        """Return a training batch for every seed of the stream; shifts by zeros are drawn anew in every epoch."""
        draws = make_training_draws(stream, batch, self.fixed_set)
        if self.zero_shift:
            shift = stream.integers(self.shift_site, (batch,), self.max_digits - self.train_digits + 1)
        else:
            shift = torch.zeros(len(stream.seeds_S), batch, dtype=torch.int64, device=stream.seeds_S.device)
        return self._draw_training(draws, batch, shift)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield one batch for each length: `samples` uniform inputs, then the groups with their own metrics."""
        for length in lengths:
            groups = self._draw_evaluation(stream, samples, length)
            tokens = torch.cat([batch.tokens for batch in groups.values()], dim=1)
            targets = torch.cat([batch.targets for batch in groups.values()], dim=1)
            parts = tuple((name, batch.tokens.shape[1]) for name, batch in groups.items())
            yield EvaluationBatch(StackedBatch(tokens, targets, parts=parts), (length,))

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return whether each supervised position is right, units first, bool (M, B, A)."""
        right = logits_MBTV.argmax(dim=-1) == batch.targets
        return {"right": _select_block(right, batch.targets != IGNORED, self.answer_width).flip(-1)}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return each metric at the length of the batch, (M, 1); NaN for empty groups."""
        assert isinstance(batch, StackedBatch)
        right = rows["right"]
        start = 0
        exact = right.all(dim=-1).float()
        scores = dict[str, Tensor]()
        for name, count in batch.parts:
            scores[name] = exact[:, start : start + count].mean(dim=1)
            start += count

        # Only the first group, drawn without a condition, measures how often a digit is right.
        digits = right[:, : batch.parts[0][1]].float().mean(dim=1)
        scores["digit_accuracy"] = digits.mean(dim=1)
        scores.update({f"accuracy_digit_{k + 1}": digits[:, k] for k in range(right.shape[-1])})
        missing = torch.full_like(exact[:, 0], torch.nan)
        return {name: scores.get(name, missing)[:, None] for name in self.metrics}

    def _join_blocks(self, first_SBW: Tensor, second_SBW: Tensor, answer_SBW: Tensor, draws: Draws, site: int) -> Batch:
        """Return rows of two blocks; the answer ends where the second block ends, and may be longer.

        site: the first site of this batch's draws.
        """
        # Numbers and operator, with the answer below the last tokens.
        operator = torch.full_like(first_SBW[..., :1], self.operator)
        tokens = torch.cat([first_SBW, operator, second_SBW], dim=-1)
        targets = torch.nn.functional.pad(answer_SBW, (tokens.shape[-1] - answer_SBW.shape[-1], 0), value=IGNORED)
        if not self.text_tokens:
            return Batch(tokens, targets)

        # Every row gathers its blocks from the row without text, so that shapes do not depend on the gaps.
        rows = tokens.shape[1]
        width = self.positions
        first_width = self.blocks[0]
        gaps = draw_below(draws, site + self.shift_site + 1, (rows, 3), self.text_tokens + 1)
        text = TEXT + draw_below(draws, site + self.shift_site + 2, (rows, width), self.text_ids)

        # Each column takes a token of the first block, of the operator and the second block, or of neither.
        column = torch.arange(width, device=tokens.device)
        shift_first = gaps[..., :1]
        shift_second = gaps[..., :2].sum(dim=-1, keepdim=True)
        end = shift_second + tokens.shape[-1]
        is_second = column >= shift_first + first_width + gaps[..., 1:2]  # from the operator on
        source = torch.where(is_second, column - shift_second, column - shift_first)
        is_first = (column >= shift_first) & (column < shift_first + first_width)
        is_block = torch.where(is_second, column < end, is_first)
        source = torch.where(is_block, source, 0)

        # Beyond the last gap comes the end token, as often as needed for the common width.
        filler = torch.where(column < end + gaps[..., 2:], text, TEXT + self.text_ids)
        return Batch(
            torch.where(is_block, torch.gather(tokens, -1, source), filler),
            torch.where(is_block, torch.gather(targets, -1, source), IGNORED),
        )


def _select_block(values: Tensor, is_inside: Tensor, width: int) -> Tensor:
    """Return the `width` adjacent entries of each row that are inside of a block."""
    start = is_inside.long().argmax(dim=-1, keepdim=True)
    return torch.gather(values, -1, start + torch.arange(width, device=values.device))


def write_number(digits: Tensor) -> Tensor:
    """Return tokens (..., W) of numbers (..., W): pads, then their digits."""
    return write_digits(digits, count_digits(digits))
