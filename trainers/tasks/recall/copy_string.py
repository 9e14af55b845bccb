"""Copying a string (after arXiv:2503.23174, whose token layout is not published; this one was chosen here)."""

from torch import Tensor

from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import RowPart, repeat_token
from trainers.tasks.recall.strings import BEGIN, END, SEPARATOR, Strings


@register("task", "copy_string")
class CopyString(Strings):
    """Input: a string of random symbols and a separator. Output: the same string after the separator, and an end token.

    Length is the end of a bucket of string lengths. With B begin, | separator, E end and _ not scored:

    >>> task, string, count = CopyString(train_length=4), torch.tensor([[[14, 6, 4, 9]]]), torch.tensor([[3]])
    >>> [" ".join(symbols) for symbols in task.format_row(task.make_batch(*task.copy_parts(string, count), 4), 0)]
    ['B k c a | k c a', '_ _ _ _ k c a E']
    >>> CopyString(train_length=50).train_positions
    102
    """

    def width(self, longest: int) -> int:
        """Return the number of positions of a row whose string has at most `longest` symbols."""
        return 2 * longest + 2

    def draw_answered(
        self, draws: Draws, site: int, count_SB: Tensor, longest: int
    ) -> tuple[list[RowPart], list[RowPart]]:
        """Draw the parts of prompts and answers."""
        return self.copy_parts(self.draw_strings(draws, site, count_SB, longest), count_SB)

    def copy_parts(self, string_SBN: Tensor, count_SB: Tensor) -> tuple[list[RowPart], list[RowPart]]:
        """Return the parts of prompts and answers for given strings, of which `count_SB` symbols are used."""
        string = (string_SBN, count_SB)
        end = repeat_token(END, count_SB)
        return [repeat_token(BEGIN, count_SB), string, repeat_token(SEPARATOR, count_SB)], [string, end]
