"""Induction: what followed a token earlier (after arXiv:2503.23174, whose token layout is not published)."""

import torch
from torch import Tensor

from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import Part, below, one
from trainers.tasks.recall.strings import BEGIN, FIRST_SYMBOL, SEPARATOR, Strings


@register("task", "induction")
class Induction(Strings):
    """A string of random symbols, a separator and one of the symbols in; out, the symbol that follows it in the string.

    The symbol in question occurs once in the string, not at its end. With `repeats` symbols are drawn freely, and the
    symbol after its latest occurrence before the end counts. Length is the end of a bucket of string lengths.

    >>> task, string, count = Induction(train_length=4), torch.tensor([[[7, 4, 9, 6]]]), torch.tensor([[4]])
    >>> [" ".join(of) for of in task.shown(task.batch_of(*task.asked(string, count, torch.tensor([[1]])), 4), 0)]
    ['B d a f c | a', '_ _ _ _ _ _ f']
    >>> Induction(train_length=50).train_positions
    53
    """

    shortest: int = setting(2, low=2, help="fewest symbols of a training string")
    repeats: bool = setting(False, help="the symbol may occur several times; the latest occurrence counts")

    def width(self, longest: int) -> int:
        """Positions of a row whose string has at most so many symbols."""
        return longest + 3

    def answered(self, draws: Draws, site: int, count_SB: Tensor, longest: int) -> tuple[list[Part], list[Part]]:
        """The parts of prompt and answer."""
        string = self.strings(draws, site, count_SB, longest)
        at = below(draws, site + 1, (count_SB.shape[1],), count_SB - 1)
        if not self.repeats:
            asked = string.gather(-1, at[..., None])
            others = 1 + below(draws, site + 2, (count_SB.shape[1], longest), self.symbols - 1)
            elsewhere = FIRST_SYMBOL + (asked - FIRST_SYMBOL + others) % self.symbols
            place = torch.arange(longest, device=string.device)
            string = torch.where(place == at[..., None], asked, elsewhere)
        return self.asked(string, count_SB, at)

    def asked(self, string_SBN: Tensor, count_SB: Tensor, at_SB: Tensor) -> tuple[list[Part], list[Part]]:
        """The parts of prompt and answer where the symbol at the place `at_SB` is asked for, before the last symbol."""
        asked = string_SBN.gather(-1, at_SB[..., None])
        place = torch.arange(string_SBN.shape[-1], device=string_SBN.device)
        there = (string_SBN == asked) & (place < count_SB[..., None] - 1)
        latest = torch.where(there, place, 0).amax(dim=-1, keepdim=True)
        answer = string_SBN.gather(-1, latest + 1)
        single = torch.ones_like(count_SB)
        prompt = [one(BEGIN, count_SB), (string_SBN, count_SB), one(SEPARATOR, count_SB), (asked, single)]
        return prompt, [(answer, single)]
