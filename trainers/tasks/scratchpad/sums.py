"""The base of both addition tasks with scratchpads: settings, lengths and scores.

A model invents some filler, so later tokens are compared with the model's own filler.
Shapes: S seeds, M members, B rows, G tokens of an answer.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.settings.fields import setting
from trainers.tasks.decoding import Decoding
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.operands import (
    CHARACTERS,
    END,
    FILLER,
    NOWHERE,
    OPERAND_SITES,
    PAD,
    STOP,
    TOKEN,
    Operands,
    draw_operands,
)
from trainers.tasks.scratchpad.scratchpad_task import NONE, ScratchpadTask
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import make_constant


@dataclass(frozen=True, kw_only=True)
class SumBatch(ScratchpadBatch):
    """A test batch of sums.

    source: for each token of an answer the index of the token that it repeats, (S, B, G): its own index for new filler,
    NOWHERE for other tokens.
    """

    source: Tensor


class Sums(ScratchpadTask):
    """Input: two equally long numbers in a canvas. Target: the states of their addition, the last with the sum.

    Length is the number of digits of each number. Training has s digits with a probability proportional to s.
    """

    canvas: int = setting(30, low=1, help="largest number of digits of a number")
    train_digits: int = setting(10, low=1, help="trained on numbers of up to this many digits")
    test_digits: tuple[int, ...] = setting(tuple(range(12, 31, 2)), low=1, help="digits of longer test numbers")
    greedy_states: bool = setting(False, help="sample only the filler, and decode states greedily; not in the paper")

    vocabulary = CHARACTERS
    # exact_match: the full answer is right, given the model's own filler. sum: the end mark is at the right place
    # after the right sum, whatever the states are.
    generation_metrics = ("exact_match", "sum")
    headline = ("sum", "exact_match", "state_accuracy")  # the first is the metric of the paper

    @abstractmethod
    def write_text(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """Return the text of given numbers; takes two sites for places and filler."""

    @abstractmethod
    def list_sources(self, longest: int) -> tuple[int, ...]:
        """Return, for each token of the answer to numbers of `longest` digits, the index of the token that it repeats.

        New filler repeats itself; NOWHERE marks a token that repeats no token.
        """

    @property
    @abstractmethod
    def filler_width(self) -> int:
        """Number of `$` and filler tokens at the start of the answer."""

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of the numbers of digits, and of greedy states without sampling."""
        yield from super().find_combination_problems()
        if self.train_digits > self.canvas:
            message = f"{self.train_digits} digits do not fit on the canvas"
            allowed = f"<= canvas ({self.canvas})"
            yield self._make_problem("train_digits", message, allowed)
        elif list(self.test_digits) != sorted({*self.test_digits} & {*range(self.train_digits + 1, self.canvas + 1)}):
            lengths = list(self.test_digits)
            message = f"{lengths} must ascend, beyond the trained lengths"
            allowed = f"from {self.train_digits + 1} to canvas ({self.canvas}), the smallest first"
            yield self._make_problem("test_digits", message, allowed)

        # At temperature 0 filler is not sampled either.
        if self.greedy_states and not self.temperature:
            message = "has no effect with temperature 0"
            allowed = "false, or a temperature above 0"
            yield self._make_problem("greedy_states", message, allowed)

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of digits seen in training."""
        return tuple(range(1, self.train_digits + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of digits that can be evaluated: the trained ones and `test_digits`."""
        return (*self.trained_lengths, *self.test_digits)

    @property
    def decoding(self) -> Decoding:
        """The settings of text generation."""
        return replace(super().decoding, sampled_tokens=self.filler_width if self.greedy_states else None)

    def length_weight(self, length: int) -> int:
        """Return a weight proportional to the length."""
        return length

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn rows of these lengths; the random numbers of a row do not depend on the longest row."""
        return self.write_text(draw_operands(draws, site, length_SB, self.canvas), draws, site + OPERAND_SITES, longest)

    def test_batch(self, text: Text, length: int) -> SumBatch:
        """Return the test batch of a text whose rows have this length, with the sources of its tokens."""
        batch = super().test_batch(text, length)
        sources = () if self.scratchpad == NONE else self.list_sources(length)
        sources = (*sources, *[NOWHERE] * (batch.answer.shape[-1] - len(sources)))
        return SumBatch(**vars(batch), source=make_constant(sources, batch.answer.device).expand(batch.answer.shape))

    def score_generated(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Return for each of `generation_metrics` whether each row is right, (M, B)."""
        assert isinstance(batch, SumBatch)
        # The model invents filler once; later filler is right if it repeats the model's filler, not the answer's.
        answer, source = batch.answer, batch.source
        has_source = (source != NOWHERE) & (answer != TOKEN[PAD])
        filler_tokens = tuple(token in FILLER for token in range(len(CHARACTERS)))
        is_filler = make_constant(filler_tokens, answer.device, torch.bool)[written_MBG]
        is_repeated = is_filler & (written_MBG == torch.gather(written_MBG, -1, source.clamp(min=0)))

        exact = torch.where(has_source, is_repeated, written_MBG == answer).all(dim=-1)
        is_sum_right = exact if self.scratchpad == NONE else self._is_sum_right(written_MBG, answer)
        return {"exact_match": exact, "sum": is_sum_right}

    def answer_mask(self, text: Tensor) -> Tensor:
        """Return which tokens of texts (..., G) are the answer: the sum in the last state, with its `$` if it has one.

        The filler after it was invented by the model.
        """
        in_last_state = super().answer_mask(text)
        index = torch.arange(text.shape[-1], device=text.device)
        if self.scratchpad == NONE:
            return in_last_state
        end = torch.where(text == TOKEN[END], index, -1).amax(dim=-1, keepdim=True)
        in_window = in_last_state & (index >= end - self.canvas - 2) & (index < end)
        is_stop = in_window & (text == TOKEN[STOP])
        return in_window & (is_stop.cumsum(dim=-1) - is_stop.long() == 0)  # no `$` before the token

    def _is_sum_right(self, written_MBG: Tensor, answer_MBG: Tensor) -> Tensor:
        """Return whether the end mark is at its place, and the canvas + 2 tokens before it start with sum and `$`."""
        end = (answer_MBG == TOKEN[END]).long().argmax(dim=-1, keepdim=True)
        window = end - torch.arange(self.canvas + 2, 0, -1, device=end.device)
        written, answer = (torch.gather(tokens, -1, window) for tokens in (written_MBG, answer_MBG))
        is_stop = answer == TOKEN[STOP]
        in_sum = is_stop.cumsum(dim=-1) - is_stop.long() == 0  # the digits, and the first `$`
        is_ended = torch.gather(written_MBG, -1, end)[..., 0] == TOKEN[END]
        return is_ended & ((written == answer) | ~in_sum).all(dim=-1)
