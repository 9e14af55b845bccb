"""The layout of two numbers in a sequence of tokens: block, operator, block, optionally among random text.

    text^n0  first  text^n1  operator  second  text^n2  end^(3 N - n0 - n1 - n2)        n0, n1, n2 ~ U{0..N}

Ids: 0..9 digits, 10 pad, 11 `+`, 12 `x`; with text, `text_ids` more from 13 up and then `end`, which fills sequences up
to one size. The role of every position follows from the tokens (`trainers.tensors.numerals.find_places`).
Shapes: S seeds (or M members), B rows, T positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.tasks.arithmetic.digits import read_digits
from trainers.tasks.fixed_set import Draws
from trainers.tasks.supervised import IGNORED
from trainers.tensors.batch import Batch
from trainers.tensors.numerals import FIRST, OPERATOR, PAD, PLUS, SECOND, TEXT, TIMES, Places, find_places

_SYMBOLS = {PAD: "P", PLUS: "+", TIMES: "x", IGNORED: "_"}


@dataclass(frozen=True)
class OperandLayout:
    """Blocks of `first` and `second` positions around an operator, and up to `gap` text tokens in three gaps."""

    first: int
    second: int
    operator: int
    gap: int = 0
    text_ids: int = 0

    @property
    def positions(self) -> int:
        """Tokens of a sequence."""
        return self.first + 1 + self.second + 3 * self.gap

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return TEXT + (self.text_ids + 1 if self.gap else 0)

    def batch(
        self, first_SBT: Tensor, second_SBT: Tensor, answer_SBT: Tensor, draws: Draws, sites: tuple[int, int]
    ) -> Batch:
        """Return sequences of the two blocks; the answer ends where the second block ends, and may be longer."""
        operator = torch.full_like(first_SBT[..., :1], self.operator)
        tokens = torch.cat([first_SBT, operator, second_SBT], dim=-1)
        targets = torch.nn.functional.pad(answer_SBT, (tokens.shape[-1] - answer_SBT.shape[-1], 0), value=IGNORED)
        return Batch(tokens, targets) if self.gap == 0 else self._in_text(tokens, targets, draws, sites)

    def _in_text(self, tokens: Tensor, targets: Tensor, draws: Draws, sites: tuple[int, int]) -> Batch:
        """Insert the sequences into random text."""
        rows = tokens.shape[1]
        gaps = (draws.bits(sites[0], (rows, 3)) * (self.gap + 1)) >> 32
        text = TEXT + ((draws.bits(sites[1], (rows, self.positions)) * self.text_ids) >> 32)
        at = torch.arange(self.positions, device=tokens.device)
        before, until = gaps[..., :1], gaps[..., :2].sum(dim=-1, keepdim=True)
        end = until + tokens.shape[-1]
        later = at >= before + self.first + gaps[..., 1:2]  # from the operator on
        source = torch.where(later, at - until, at - before)
        number = torch.where(later, at < end, (at >= before) & (at < before + self.first))
        source = torch.where(number, source, 0)
        filled = torch.where(at < end + gaps[..., 2:], text, TEXT + self.text_ids)
        return Batch(
            torch.where(number, torch.gather(tokens, -1, source), filled),
            torch.where(number, torch.gather(targets, -1, source), IGNORED),
        )

    def fixed_places(self) -> Places | None:
        """Return the places (T,) that all sequences share; None with text, where they differ (`find_places`)."""
        if self.gap:
            return None
        role = [FIRST] * self.first + [OPERATOR] + [SECOND] * self.second
        significance = [*range(self.first, 0, -1), 0, *range(self.second, 0, -1)]
        return Places(torch.tensor(role), torch.tensor(significance))

    def numbers(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the digits of both numbers, units first, (..., first) and (..., second)."""
        role = find_places(tokens).role
        return (
            read_digits(_block(tokens, role == FIRST, self.first)),
            read_digits(_block(tokens, role == SECOND, self.second)),
        )


def answers(values: Tensor, targets: Tensor, width: int) -> Tensor:
    """Return `values` (..., T) at the `width` supervised positions of targets (..., T), units first, (..., width)."""
    return _block(values, targets != IGNORED, width).flip(-1)


def symbols(ids: Sequence[int]) -> list[str]:
    """Return tokens or targets as text: digits, P for pad, + and x, _ for ignored, t for text."""
    return [_SYMBOLS.get(token, str(token) if token < PAD else "t") for token in ids]


def _block(values: Tensor, inside: Tensor, width: int) -> Tensor:
    """Return the `width` adjacent entries of each row where `inside` holds."""
    start = inside.long().argmax(dim=-1, keepdim=True)
    return torch.gather(values, -1, start + torch.arange(width, device=values.device))
