"""A task small enough to be worked out by hand: a word loses its first letter in each state, until none is left."""

import torch
from torch import Tensor

from trainers.settings.fields import setting
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.scratchpad_task import NONE, ScratchpadTask
from trainers.tasks.scratchpad.text import Text

SYMBOLS = (" ", *sorted("#.:=abcd"))


class Shrinking(ScratchpadTask):
    """Length is the number of letters. As `abc=:bc#c#.` or, with the question as the first state, `abc#bc#c#.`."""

    longest: int = setting(4, low=1)
    asks: bool = setting(True, help="whether all states see the question")

    vocabulary = SYMBOLS
    start = property(lambda self: ":" if self.asks else None)
    lengths = property(lambda self: tuple(range(1, self.longest + 3)))
    trained_lengths = property(lambda self: tuple(range(1, self.longest + 1)))
    fields = ("letter", "mark")

    def question_width(self, length: int) -> int:
        return length + 1 if self.asks else 0

    def state_widths(self, length: int) -> tuple[int, ...]:
        if self.scratchpad == NONE:
            return (1,)
        return tuple(range(length if self.asks else length + 1, 0, -1))

    def length_weight(self, length: int) -> int:
        return length

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        letters = SYMBOLS.index("a") + (draws.bits(site, (length_SB.shape[1], longest)) >> 30)
        return self.written(letters, length_SB)

    def written(self, letters_SBN: Tensor, length_SB: Tensor) -> Text:
        """Rows of given words."""
        longest, count = letters_SBN.shape[-1], length_SB[..., None]
        positions = torch.arange(longest + 1)
        padded = torch.nn.functional.pad(letters_SBN, (0, longest + 1))
        equals, mark, end = (SYMBOLS.index(symbol) for symbol in "=#.")
        question = torch.where(positions < count, padded[..., : longest + 1], equals)
        states, lengths = [], []
        for lost in range(1 if self.asks else 0, longest + 1):
            left = count - lost
            letters = torch.where(positions < left, padded[..., lost : lost + longest + 1], 0)
            states.append(torch.where(positions == left, torch.where(left == 0, end, mark), letters))
            lengths.append(torch.where(left >= 0, left + 1, 0)[..., 0])
        tokens, length = torch.stack(states, dim=2), torch.stack(lengths, dim=2)
        return Text(
            question=question if self.asks else question[..., :0],
            question_length=(length_SB + 1) if self.asks else 0 * length_SB,
            states=tokens,
            state_length=length,
            given=None if self.asks else 1,
            field=torch.where(positions < length[..., None] - 1, 0, 1),
        )
