"""Two numbers to be added, and the characters that sums are written with (arXiv:2406.06467, appendix C.2).

Shapes: S seeds, B rows, D digits of the canvas.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.tasks.arithmetic.digits import add, find_carries
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import make_constant

PAD, MARK, END, START = " #.:"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
STOP = "$"  # the mark that ends the digits of a number
# The 51 characters of the authors' code, of which `!`, `,` and `?` never occur.
CHARACTERS = (PAD, MARK, END, START, *sorted(f"!+,-=?[]_|{STOP}{_DIGITS}{_LETTERS}"))
TOKEN = {character: number for number, character in enumerate(CHARACTERS)}
FILLER = tuple(TOKEN[character] for character in sorted(STOP + _DIGITS + _LETTERS))
NOWHERE = -1  # the source of a token that repeats no other token
OPERAND_SITES = 2  # sites of random words for each draw of operands


@dataclass(frozen=True)
class Operands:
    """Two numbers of `count` (S, B) digits each: digits (S, B, D), units first, 0 after the last digit.

    total: the digits of the sum, (S, B, D + 1). carry: the carry out of each place, 0 or 1, (S, B, D + 1).
    """

    first: Tensor
    second: Tensor
    total: Tensor
    carry: Tensor
    count: Tensor

    @property
    def canvas(self) -> int:
        """The largest number of digits of a number."""
        return self.first.shape[-1]

    @property
    def longer(self) -> Tensor:
        """Whether the sum has one digit more than the numbers, 0 or 1, (S, B)."""
        return torch.gather(self.carry, -1, self.count[..., None] - 1)[..., 0]


def add_numbers(first: Tensor, second: Tensor, count_SB: Tensor) -> Operands:
    """Return two numbers of `count` digits, (S, B, D) with units first, and their sum."""
    sums = first + second
    carry = torch.nn.functional.pad(find_carries(sums).to(sums.dtype), (0, 1))
    return Operands(first, second, add(first, second), carry, count_SB)


def draw_operands(draws: Draws, site: int, count_SB: Tensor, canvas: int) -> Operands:
    """Return drawn pairs of numbers with `count_SB` digits and no leading zero.

    The draw of a row depends on the canvas, not on the numbers of digits of other rows.
    """
    # The leading digit is 1 to 9, so that the number has exactly this many digits.
    position = torch.arange(canvas, device=count_SB.device)
    top = count_SB[..., None] - 1
    numbers = []
    for number in range(OPERAND_SITES):
        words = draws.bits(site + number, (count_SB.shape[1], canvas))
        leading = torch.where(position == top, 1 + ((words * 9) >> 32), 0)
        numbers.append(torch.where(position < top, (words * 10) >> 32, leading))
    return add_numbers(numbers[0], numbers[1], count_SB)


def draw_filler(draws: Draws, site: int, rows: int, count: int) -> Tensor:
    """Return drawn tokens of filler, (S, rows, count)."""
    index = draw_below(draws, site, (rows, count), len(FILLER))
    return make_constant(FILLER, index.device)[index]


def encode_text(text: str) -> Tensor:
    """Return the tokens of a text, (characters,)."""
    return torch.tensor([TOKEN[character] for character in text])


def repeat_text(text: str, like: Tensor) -> Tensor:
    """Return the tokens of a text in every row, (..., characters), with the leading shape of `like` (..., K)."""
    return make_constant(tuple(TOKEN[character] for character in text), like.device).expand(*like.shape[:-1], len(text))


def push_digits(total_SBD: Tensor, initial_SBA: Tensor, count: int) -> Tensor:
    """Return the initial window after pushing in the first 1, 2, ... `count` digits on its left, (S, B, count, A)."""
    pushed = torch.cat([TOKEN["0"] + total_SBD[..., :count].flip(-1), initial_SBA], dim=-1)
    return pushed.unfold(-1, initial_SBA.shape[-1], 1)[:, :, :count].flip(2)


def write_sum(question_SBQ: Tensor, numbers: Operands, count_SB: Tensor, longest: int) -> Text:
    """Return the text of questions answered by `count_SB` digits of the sum, at most longest + 1, and an end mark."""
    # Digits are stored units first and read the other way round.
    position = torch.arange(longest + 2, device=count_SB.device)
    last = count_SB[..., None] - 1
    digit_index = (last - position).clamp(0, numbers.canvas).expand(*count_SB.shape, longest + 2)
    digits = TOKEN["0"] + torch.gather(numbers.total, -1, digit_index)
    answer = torch.where(position <= last, digits, torch.where(position == last + 1, TOKEN[END], TOKEN[PAD]))
    return Text(
        question=question_SBQ,
        question_length=torch.full_like(count_SB, question_SBQ.shape[-1]),
        states=answer[..., None, :],
        state_length=count_SB[..., None] + 1,
    )
