"""The base of tasks on strings of random symbols: a prompt with a string, and an answer after it.

Rows are padded at their end to the width of the longest row, which follows from the settings.
Shapes: S seeds, M members, B rows, N symbols of the longest string, T positions.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks import supervised
from trainers.tasks.fixed_set import Draws, make_training_draws
from trainers.tasks.parts import PAD, RowPart, draw_below, join_parts
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import Batch, EvaluationBatch, Task

BEGIN, SEPARATOR, END, FIRST_SYMBOL = range(PAD + 1, PAD + 5)
SITES_PER_DRAW = 8  # sites of random words for each draw of rows
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Strings(Task):
    """Input: a prompt with a string of symbols. Output: token by token, the answer after it.

    Lengths are the ends of buckets: tests at length s have strings of up to s symbols, and more than the next smaller
    length. The number of symbols of a string is uniform.
    """

    train_length: int = setting(50, low=2, help="maximum length of a training string")
    shortest: int = setting(1, low=0, help="minimum length of a training string")
    test_lengths: tuple[int, ...] = setting(
        (100, 150, 200, 250, 300), low=3, help="ends of the buckets of longer test strings"
    )
    symbols: int = setting(32, low=3, help="number of distinct symbols")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training rows; null: always fresh ones")

    former_names = Task.former_names | {"batch_of": "make_batch"}

    # The share of rows without a mistake, and of right answer tokens.
    metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize", "token_accuracy": "maximize"}

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of `shortest`, and of ends of buckets that do not ascend."""
        if self.shortest > self.train_length:
            allowed = f"<= train_length ({self.train_length})"
            yield self._make_problem("shortest", f"{self.shortest} is more than train_length", allowed)
        if any(first >= second for first, second in pairwise(self.lengths)):
            allowed = f"ends of buckets beyond {self.train_length}, the smallest first"
            yield self._make_problem("test_lengths", "must ascend, beyond train_length", allowed)

    @abstractmethod
    def draw_answered(
        self, draws: Draws, site: int, count_SB: Tensor, longest: int
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Draw the parts of prompts and of answers; strings use `count_SB` of `longest` symbols.

        Random words come from `draws` at the SITES_PER_DRAW sites from `site` on.
        """

    @abstractmethod
    def width(self, longest: int) -> int:
        """Return the number of positions of a row whose string has at most `longest` symbols."""

    @property
    def inputs(self) -> int:
        """Number of input tokens: pad, begin, separator, end and the symbols."""
        return FIRST_SYMBOL + self.symbols

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The end of the bucket that training strings are drawn from."""
        return (self.train_length,)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The ends of all buckets."""
        return (self.train_length, *self.test_lengths)

    @property
    def positions(self) -> int:
        """Positions of the longest row."""
        return self.width(self.lengths[-1])

    @property
    def train_positions(self) -> int:
        """Positions of a training row."""
        return self.width(self.train_length)

    def sample(self, stream: Stream, rows: int) -> Batch:
        """Return a training batch for every seed of the stream."""
        draws = make_training_draws(stream, rows, self.fixed_set)
        return self._draw_rows(draws, 0, rows, self.shortest, self.train_length)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a batch of every bucket."""
        shortest = dict(zip(self.lengths, (self.shortest, *(end + 1 for end in self.lengths)), strict=False))
        for length in lengths:
            batch = self._draw_rows(stream, SITES_PER_DRAW * (1 + length), samples, shortest[length], length)
            yield EvaluationBatch(batch, (length,))

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return whether each row has no mistake, and the numbers of right tokens and of tokens, (M, B, 1)."""
        wrong = supervised.find_mistakes(logits_MBTV, batch).sum(dim=-1, keepdim=True).float()
        tokens = (batch.targets != IGNORED).sum(dim=-1, keepdim=True).float()
        return {"right": (wrong == 0).float(), "tokens_right": tokens - wrong, "tokens": tokens}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the shares of right rows and of right tokens, (M, 1)."""
        token_accuracy = rows["tokens_right"].sum(dim=1) / rows["tokens"].sum(dim=1)
        return {"accuracy": rows["right"].mean(dim=1), "token_accuracy": token_accuracy}

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text, without pads."""
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        end = max((position for position, token in enumerate(tokens) if token != PAD), default=0) + 1
        symbols = [self.format_symbol(token) for token in tokens[:end]]
        return symbols, [self.format_symbol(target) for target in targets[:end]]

    def format_symbol(self, token: int) -> str:
        """Return a token as text: B begin, | separator, E end, symbols as letters, _ for a masked target."""
        specials = {IGNORED: "_", PAD: "P", BEGIN: "B", SEPARATOR: "|", END: "E"}
        number = token - FIRST_SYMBOL
        return specials.get(token) or (_LETTERS[number] if number < len(_LETTERS) else f"s{number}")

    def make_batch(self, prompt: Sequence[RowPart], answer: Sequence[RowPart], longest: int) -> Batch:
        """Return rows (S, B, width) of the parts of prompts and answers; the last token of an answer is no input."""
        width = self.width(longest)
        text = join_parts([*prompt, *answer], width + 1)
        prompt_length, answer_length = (
            torch.stack([count for _, count in parts]).sum(dim=0)[..., None] for parts in (prompt, answer)
        )

        # The last token of the prompt predicts the first token of the answer.
        first = prompt_length - 1
        position = torch.arange(width, device=text.device)
        is_scored = (position >= first) & (position < first + answer_length)

        # The prompt stays whole even if no token of the answer is scored.
        end = first + is_scored.sum(dim=-1, keepdim=True)
        tokens = torch.where(position < torch.maximum(end, first + 1), text[..., :-1], PAD)
        return Batch(tokens, torch.where(is_scored, text[..., 1:], IGNORED))

    def draw_strings(self, draws: Draws, site: int, count_SB: Tensor, longest: int) -> Tensor:
        """Draw symbols of strings, tokens (S, B, longest), of which `count_SB` are used."""
        return FIRST_SYMBOL + draw_below(draws, site, (count_SB.shape[1], longest), self.symbols)

    def _draw_rows(self, draws: Draws, site: int, rows: int, shortest: int, longest: int) -> Batch:
        """Draw rows whose strings have `shortest` to `longest` symbols."""
        count_SB = shortest + draw_below(draws, site, (rows,), longest - shortest + 1)
        return self.make_batch(*self.draw_answered(draws, site + 1, count_SB, longest), longest)
