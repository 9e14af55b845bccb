"""Induction: recall which token followed a given token (after arXiv:2503.23174, whose layout is not published)."""

import torch
from torch import Tensor

from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import RowPart, draw_below, repeat_token
from trainers.tasks.recall.strings import BEGIN, FIRST_SYMBOL, SEPARATOR, Strings


@register("task", "induction")
class Induction(Strings):
    """Input: random symbols, a separator, one of the symbols. Output: the symbol that follows it.

    The symbol occurs once in the string, not at its end. With `repeats` symbols may repeat, and the answer follows its
    last occurrence before the end. Length is the end of a bucket of string lengths.

    >>> task, string, count = Induction(train_length=4), torch.tensor([[[7, 4, 9, 6]]]), torch.tensor([[4]])
    >>> batch = task.make_batch(*task.question_parts(string, count, torch.tensor([[1]])), 4)
    >>> [" ".join(symbols) for symbols in task.format_row(batch, 0)]
    ['B d a f c | a', '_ _ _ _ _ _ f']
    >>> Induction(train_length=50).train_positions
    53
    """

    shortest: int = setting(2, low=2, help="minimum length of a training string")
    repeats: bool = setting(False, help="the symbol may occur several times; the latest occurrence counts")

    def width(self, longest: int) -> int:
        """Return the number of positions of a row whose string has at most `longest` symbols."""
        return longest + 3

    def draw_answered(
        self, draws: Draws, site: int, count_SB: Tensor, longest: int
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Draw the parts of prompts and answers."""
        string = self.draw_strings(draws, site, count_SB, longest)
        queried_position = draw_below(draws, site + 1, (count_SB.shape[1],), count_SB - 1)

        # Without repeats every other symbol is drawn as the queried one plus 1 to symbols - 1, so that none equals it.
        if not self.repeats:
            queried = string.gather(-1, queried_position[..., None])
            shift = 1 + draw_below(draws, site + 2, (count_SB.shape[1], longest), self.symbols - 1)
            different = FIRST_SYMBOL + (queried - FIRST_SYMBOL + shift) % self.symbols
            position = torch.arange(longest, device=string.device)
            string = torch.where(position == queried_position[..., None], queried, different)
        return self.question_parts(string, count_SB, queried_position)

    def question_parts(
        self, string_SBN: Tensor, count_SB: Tensor, position_SB: Tensor
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Return the parts of prompts and answers that ask for the symbol at `position_SB`, before the last symbol."""
        # The last symbol of a string has no successor, so its occurrence does not count.
        queried = string_SBN.gather(-1, position_SB[..., None])
        position = torch.arange(string_SBN.shape[-1], device=string_SBN.device)
        occurs = (string_SBN == queried) & (position < count_SB[..., None] - 1)
        latest = torch.where(occurs, position, 0).amax(dim=-1, keepdim=True)
        answer = string_SBN.gather(-1, latest + 1)

        single = torch.ones_like(count_SB)
        begin = repeat_token(BEGIN, count_SB)
        separator = repeat_token(SEPARATOR, count_SB)
        return [begin, (string_SBN, count_SB), separator, (queried, single)], [(answer, single)]
