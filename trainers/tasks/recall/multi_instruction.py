"""Seven instructions on strings: a substitute for the third task of arXiv:2503.23174, which the paper does not define.

The paper only states that the training set has examples of several instructions with strings of 0 to 50 tokens, and
that test strings have 51 to 500. The instructions are chosen here.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import RowPart, draw_below, repeat_token
from trainers.tasks.recall.strings import BEGIN, END, FIRST_SYMBOL, SEPARATOR, Strings
from trainers.tasks.task import Batch

INSTRUCTIONS = ("copy", "reverse", "first", "last", "kth_marked", "successor_of_marked", "swap_ends")
_LETTERS = "CRFLKSX"


@register("task", "multi_instruction")
class MultiInstruction(Strings):
    """Input: an instruction, a string and a separator. Output: the result of the instruction, and an end token.

    A substitute for the third task of arXiv:2503.23174, whose definition is not known. Instructions, equally likely:
    copy (C), reverse (R), first (F), last (L), the k-th marked symbol (K, `marked + 1` symbols are marked), the symbol
    after the marked symbol (S; one is marked, not the last), and the two ends swapped (X). Answers have no marks.
    Without a result, such as the first symbol of an empty string, the answer is the end token alone.

    >>> task, string, count = MultiInstruction(train_length=3), torch.tensor([[[14, 6, 4]]]), torch.tensor([[3]])
    >>> def example(name, positions):
    ...     instruction, marked = torch.tensor([[INSTRUCTIONS.index(name)]]), torch.tensor([[positions]])
    ...     parts = task.instruction_parts(instruction, string, count, marked)
    ...     return [" ".join(symbols) for symbols in task.format_row(task.make_batch(*parts, 3), 0)]
    >>> example("reverse", [3])
    ['B R k c a | a c k', '_ _ _ _ _ a c k E']
    >>> example("successor_of_marked", [1])
    ['B S k c* a | a', '_ _ _ _ _ a E']
    """

    shortest: int = setting(0, low=0, help="minimum length of a training string")
    test_lengths: tuple[int, ...] = setting(
        (100, 200, 300, 400, 500), low=3, help="ends of the buckets of longer test strings"
    )
    marked: int = setting(2, low=1, help="which marked symbol, counted from 1, the instruction K asks for")

    # accuracy and token_accuracy over all instructions; accuracy_NAME: the share of rows of an instruction answered
    # without a mistake, NaN without such rows.
    metrics: ClassVar[Mapping[str, str]] = {
        **Strings.metrics,
        **{f"accuracy_{name}": "maximize" for name in INSTRUCTIONS},
    }

    @property
    def inputs(self) -> int:
        """Number of input tokens: pad, begin, separator, end, symbols, marked symbols, instructions."""
        return self.outputs + self.symbols + len(INSTRUCTIONS)

    @property
    def outputs(self) -> int:
        """Number of output tokens: the input tokens without marked symbols and instructions."""
        return FIRST_SYMBOL + self.symbols

    def width(self, longest: int) -> int:
        """Return the number of positions of a row whose string has at most `longest` symbols."""
        return 2 * longest + 3

    def draw_answered(
        self, draws: Draws, site: int, count_SB: Tensor, longest: int
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Draw the parts of prompts and answers."""
        rows = count_SB.shape[1]
        instruction_SB = draw_below(draws, site, (rows,), len(INSTRUCTIONS))
        is_kth, is_successor = (
            instruction_SB == INSTRUCTIONS.index(name) for name in ("kth_marked", "successor_of_marked")
        )

        # One symbol more than k is marked: otherwise the k-th mark would always be the last one.
        marks = torch.where(is_kth, self.marked + 1, torch.where(is_successor, 1, 0))

        # The first candidates in a random order are marked; the last symbol has no successor.
        candidates = torch.where(is_successor, count_SB - 1, count_SB)
        position = torch.arange(longest, device=instruction_SB.device)
        # 2**32 is above every word, so that the other positions are sorted last.
        words = torch.where(position < candidates[..., None], draws.bits(site + 1, (rows, longest)), 2**32)
        chosen = words.argsort(dim=-1, stable=True)[..., : self.marked + 1]
        is_used = torch.arange(chosen.shape[-1], device=chosen.device) < torch.minimum(marks, candidates)[..., None]
        string = self.draw_strings(draws, site + 2, count_SB, longest)
        return self.instruction_parts(instruction_SB, string, count_SB, torch.where(is_used, chosen, longest))

    def instruction_parts(
        self, instruction_SB: Tensor, string_SBN: Tensor, count_SB: Tensor, marked_SBK: Tensor
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Return the parts of prompts and answers of the given instructions.

        marked_SBK: the positions of the marked symbols, N for unused entries.
        """
        # Answer all instructions for every row, each with the positions and the number of the answer's symbols.
        longest = string_SBN.shape[-1]
        marked = marked_SBK.sort(dim=-1).values
        missing = torch.full_like(marked[..., :1], longest)
        kth = marked[..., self.marked - 1] if marked.shape[-1] >= self.marked else missing[..., 0]
        last = count_SB - 1
        position = torch.arange(longest, device=instruction_SB.device)
        single = (count_SB > 0).long()
        start = torch.zeros_like(position)
        ends = torch.where(position == 0, last[..., None], torch.where(position == last[..., None], 0, position))
        answers = {
            "copy": (position, count_SB),
            "reverse": (last[..., None] - position, count_SB),
            "first": (start, single),
            "last": (last[..., None] + start, single),
            "kth_marked": (kth[..., None] + start, (kth < longest).long()),
            "successor_of_marked": (marked[..., :1] + 1 + start, (marked[..., 0] < last).long()),
            "swap_ends": (ends, count_SB),
        }

        # Choose the answer of each row's instruction.
        source = torch.zeros_like(string_SBN)
        length = torch.zeros_like(count_SB)
        for number, name in enumerate(INSTRUCTIONS):
            is_selected = instruction_SB == number
            source = torch.where(is_selected[..., None], answers[name][0], source)
            length = torch.where(is_selected, answers[name][1], length)

        # Positions beyond the answer's length are arbitrary, and clamped so that gather accepts them.
        answer = string_SBN.gather(-1, source.clamp(0, longest - 1))
        with_marks = string_SBN + self.symbols * (position == marked[..., None]).any(dim=-2)
        instruction = (self.outputs + self.symbols + instruction_SB)[..., None]
        prompt = [repeat_token(BEGIN, count_SB), (instruction, torch.ones_like(count_SB)), (with_marks, count_SB)]
        return [*prompt, repeat_token(SEPARATOR, count_SB)], [(answer, length), repeat_token(END, count_SB)]

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of all rows, and whether the rows of each instruction are right, NaN for other rows."""
        scores = super().score_rows(logits_MBTV, batch, lengths)
        instruction = batch.tokens[..., 1:2] - self.outputs - self.symbols
        for number, name in enumerate(INSTRUCTIONS):
            scores[f"accuracy_{name}"] = torch.where(instruction == number, scores["right"], torch.nan)
        return scores

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return shares of rows, of tokens, and of the rows of each instruction, (M, 1)."""
        by_instruction = {name: rows[name].nanmean(dim=1) for name in self.metrics if name in rows}
        return {**super().reduce(rows, batch, lengths), **by_instruction}

    def format_symbol(self, token: int) -> str:
        """Return a token as text: a marked symbol has a star, instructions are capitals."""
        if token >= self.outputs + self.symbols:
            return _LETTERS[token - self.outputs - self.symbols]
        return (
            super().format_symbol(token) if token < self.outputs else super().format_symbol(token - self.symbols) + "*"
        )
