"""Parity of bits at random places of a canvas, and of the first half of a row of bits (Abbe et al., arXiv:2406.06467).

Shapes: S seeds, B rows, C cells, N bits of the longest row, W tokens of a state.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random.draws import argsort_smallest
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.scratchpad.scratchpad_task import FULL, NONE, ScratchpadTask
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import make_constant

# The 23 characters of the authors' code, of which `$`, `;`, `?` and `|` never occur; sorted, the pad first.
SYMBOLS = (" ", *sorted("#.:$,;=?[]_|0123456789"))
NUMBER = {symbol: number for number, symbol in enumerate(SYMBOLS)}
ZERO = NUMBER["0"]  # the other digits follow it
STATE_WIDTH = 8


@register("task", "parity")
class Parity(ScratchpadTask):
    """Input: a canvas with bits in some cells. Output: for each bit, its place, the bit and the parity so far.

    Length is the number of bits. They are at random places, and the other cells are `_`. A state is [place]bit,parity;
    the last state has the width of the canvas as its place and no bit. Without a scratchpad the answer is the parity. #
    ends a state, . the answer, and ~ is a masked target; inductive rows have copies:

    >>> task = Parity(canvas=6, train_bits=3, scratchpad="full")
    >>> text = task.write_text(torch.tensor([[[0, 1, 3]]]), torch.tensor([[[1, 1, 1]]]), torch.tensor([[3]]))
    >>> "".join(task.format_row(task.test_batch(text, 3), 0)[0])
    '11_1__=:[00]1,1#[01]1,0#[03]1,1#[06]_,1'
    >>> task = Parity(canvas=6, train_bits=3)
    >>> text = task.write_text(torch.tensor([[[0, 3]]]), torch.tensor([[[1, 1]]]), torch.tensor([[2]]))
    >>> ["".join(symbols) for symbols in task.format_row(task.test_batch(text, 2), 0)]
    ['1__1__=:[00]1,1#[00]1,1#[03]1,0#[03]1,0#[06]_,0', '__1__=:[00]1,1#~~~~~~~~[03]1,0#~~~~~~~~[06]_,0.']
    """

    canvas: int = setting(60, low=1, high=99, help="cells, and the largest number of bits")
    train_bits: int = setting(30, low=1, help="largest number of bits in training")

    vocabulary = SYMBOLS
    state_fields = ("form", "place", "bit", "parity")  # `form` is the brackets, comma and mark

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if the canvas is too small."""
        yield from super().find_combination_problems()
        if self.train_bits > self.canvas:
            yield self._make_problem(
                "train_bits", f"{self.train_bits} is more than the {self.canvas} cells", f"<= canvas ({self.canvas})"
            )

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of bits seen in training, equally often."""
        return tuple(range(1, self.train_bits + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """All numbers of bits that fit on the canvas."""
        return tuple(range(1, self.canvas + 1))

    @property
    def start(self) -> str | None:
        """The token before the first state."""
        return None if self.scratchpad == NONE else ":"

    def question_width(self, length: int) -> int:
        """Return the number of tokens of the canvas and the equals sign."""
        return self.canvas + 1

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of each state: a state for each bit, and the last state."""
        return (2,) if self.scratchpad == NONE else (STATE_WIDTH,) * (length + 1)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn rows with these numbers of bits; takes two sites."""
        # The cells with the smallest random words are distinct and equally likely; unused ones are sorted last.
        rows = length_SB.shape[1]
        cells = argsort_smallest(draws.bits(site, (rows, self.canvas)), longest)
        is_used = torch.arange(longest, device=cells.device) < length_SB[..., None]
        cells = torch.where(is_used, cells, self.canvas).sort(dim=-1).values
        return self.write_text(cells, draw_below(draws, site + 1, (rows, longest), 2), length_SB)

    def write_text(self, cells_SBN: Tensor, bits_SBN: Tensor, length_SB: Tensor) -> Text:
        """Return rows of given bits in given ascending cells, of which `length` are used."""
        # There is one place more than bits, for the last state.
        index = torch.arange(cells_SBN.shape[-1] + 1, device=length_SB.device)
        count = length_SB[..., None]
        is_used = index < count
        cells, bits = (torch.nn.functional.pad(values, (0, 1)) for values in (cells_SBN, bits_SBN))

        # Unused bits are zero, so that they do not change the parity.
        bits = torch.where(is_used, bits, 0)
        parity = bits.cumsum(dim=-1) % 2

        # The cell after the canvas is the equals sign; unused bits are written there, too.
        cells = torch.where(is_used, cells, self.canvas)
        canvas = torch.full_like(cells[..., :1], NUMBER["_"]).expand(*cells.shape[:-1], self.canvas + 1)
        canvas = canvas.scatter(-1, cells, torch.where(is_used, ZERO + bits, NUMBER["="]))

        # The text of every state, or without a scratchpad the answer alone.
        length = torch.where(index <= count, STATE_WIDTH, 0)
        last = index == count
        if self.scratchpad == NONE:
            answer = ZERO + parity[..., -1:]
            states = torch.stack([answer, torch.full_like(answer, NUMBER["."])], dim=-1)
            length = torch.full_like(answer, 2)
        else:
            # [place]bit,parity and a mark; the last state has the place after the canvas, and no bit.
            bit = torch.where(last, NUMBER["_"], ZERO + bits)
            mark = torch.where(last, NUMBER["."], NUMBER["#"])
            left, right, comma = (torch.full_like(mark, NUMBER[symbol]) for symbol in "[],")
            place = (ZERO + cells // 10, ZERO + cells % 10)
            states = torch.stack([left, *place, right, bit, comma, ZERO + parity, mark], dim=-1)

        # Indices of state_fields for the tokens [ p p ] bit , parity mark.
        field = make_constant((0, 1, 1, 0, 2, 0, 3, 0), states.device).expand(*length.shape, STATE_WIDTH)
        return Text(
            question=canvas,
            question_length=torch.full_like(length_SB, self.canvas + 1),
            states=states,
            state_length=length,
            field=None if self.scratchpad == NONE else field,
        )


@register("task", "half_parity")
class HalfParity(ScratchpadTask):
    """Input: a row of bits. Output: the parities of its first bit, its first two, and so on up to half of the row.

    All rows have 2 `size` bits, and length 1: configurations of different sizes are compared by `size`. Without a
    scratchpad the answer is the parity of the first half.

    >>> task = HalfParity(size=2)
    >>> text = task.write_text(torch.tensor([[[1, 0, 0, 0]]]))
    >>> ["".join(symbols) for symbols in task.format_row(task.test_batch(text, 1), 0)]
    ['1000=11', '000=11.']
    >>> task = HalfParity(size=2, scratchpad="none")
    >>> "".join(task.format_row(task.test_batch(task.write_text(torch.tensor([[[1, 1, 0, 0]]])), 1), 0)[1])
    '100=0.'
    """

    scratchpad: str = setting(FULL, choices=(NONE, FULL), help="the text before the answer: none, or parities")
    size: int = setting(40, low=1, help="bits whose parity is asked for; as many irrelevant ones follow")

    vocabulary = SYMBOLS
    lengths = trained_lengths = (1,)  # all rows are alike

    def question_width(self, length: int) -> int:
        """Return the number of tokens of the bits and the equals sign."""
        return 2 * self.size + 1

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of the parities and the end mark."""
        return (2,) if self.scratchpad == NONE else (self.size + 1,)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn rows of random bits; takes one site."""
        return self.write_text(draw_below(draws, site, (length_SB.shape[1], 2 * self.size), 2))

    def write_text(self, bits_SBN: Tensor) -> Text:
        """Return rows of given bits."""
        equals, end = (torch.full_like(bits_SBN[..., :1], NUMBER[symbol]) for symbol in "=.")
        question = torch.cat([ZERO + bits_SBN, equals], dim=-1)
        parity = ZERO + bits_SBN[..., : self.size].cumsum(dim=-1) % 2
        states = torch.cat([parity[..., -1:] if self.scratchpad == NONE else parity, end], dim=-1)
        return Text(
            question=question,
            question_length=torch.full_like(bits_SBN[..., 0], question.shape[-1]),
            states=states[..., None, :],
            state_length=torch.full_like(bits_SBN[..., :1], states.shape[-1]),
        )
