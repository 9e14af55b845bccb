"""Vectorised Othello on n x n boards: one int64 of bits for each side, any number of games at once.

Square index = n * row + column. A disc bitboard has bit `square` set. Four directions, which go up, and their opposites
are a trailing dimension each, so that legal moves of all games come from a few dozen elementwise operations. Everything
is torch and runs on any device. `own` is the side to move.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tensors.device_constants import constant


def _signed(bits: int) -> int:
    """The int64 with these 64 bits."""
    return bits - 2**64 if bits >= 2**63 else bits


@dataclass(frozen=True)
class Board:
    """The geometry of an n x n board, n even, 4 to 8."""

    n: int

    @property  # not cached: a compiled step cannot enter the lock of cached_property
    def start(self) -> tuple[int, int]:
        """Bits of black (moves first) and white: the right diagonal of the centre is black's."""
        h, n = self.n // 2, self.n
        return (
            _signed(1 << (n * (h - 1) + h) | 1 << (n * h + h - 1)),
            _signed(1 << (n * (h - 1) + h - 1) | 1 << (n * h + h)),
        )

    @property
    def playable(self) -> tuple[int, ...]:
        """The squares that are empty at the start, ascending: token i + 1 is playable[i]; token 0 is the pad."""
        black, white = self.start
        return tuple(square for square in range(self.n**2) if not (black | white) >> square & 1)

    @cached_property
    def _steps(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Four distances in bits, and where a disc may land that goes so far up (left shift), or down (right shift).

        The right shift of an int64 copies the sign bit downwards, to squares where no disc lands that comes from above.
        """
        n, ways = self.n, ((0, 1), (1, -1), (1, 0), (1, 1))
        amounts = tuple(n * row + column for row, column in ways)

        def landing(row: int, column: int) -> int:
            on_board = (n * r + c for r in range(n) for c in range(n) if 0 <= r - row < n and 0 <= c - column < n)
            return sum(1 << square for square in on_board)

        up = tuple(_signed(landing(row, column)) for row, column in ways)
        down = tuple(_signed(landing(-row, -column)) for row, column in ways)
        return amounts, up, down

    def directions(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """`_steps` as int64 tensors (4,)."""
        amounts, up, down = (constant(values, device) for values in self._steps)
        return amounts, up, down

    def _runs(
        self, start: Tensor, other: Tensor, steps: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """From the discs of (...), the discs of the other side that follow without a gap, and the squares behind them.

        Runs upwards and the squares one further, then the same downwards, (..., 4) each.
        """
        by, up, down = steps
        first, theirs = start[..., None], other[..., None]
        above, below = theirs & up, theirs & down
        risen, fallen = (first << by).bitwise_and_(above), (first >> by).bitwise_and_(below)
        for _ in range(self.n - 3):
            risen |= (risen << by).bitwise_and_(above)
            fallen |= (fallen >> by).bitwise_and_(below)
        return risen, (risen << by).bitwise_and_(up), fallen, (fallen >> by).bitwise_and_(down)

    def legal(self, own: Tensor, other: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Bits of the squares where the side to move flips at least one disc, (...)."""
        _, high, _, low = self._runs(own, other, steps)
        return _united(high | low) & ~(own | other)

    def flips(self, own: Tensor, other: Tensor, move: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Bits of the discs that turn when the side to move plays the square whose bit is `move`."""
        risen, high, fallen, low = self._runs(move, other, steps)
        mine = own[..., None]
        risen &= -(high & mine != 0).long()  # all ones where a disc of one's own ends the run
        fallen &= -(low & mine != 0).long()
        return _united(risen | fallen)

    def squares(self, bits: Tensor) -> Tensor:
        """Which playable squares are set, bool (..., playable)."""
        at = constant(self.playable, bits.device)
        return ((bits[..., None] >> at) & 1).bool()

    def play(self, stream: Stream, games: int, moves: int) -> tuple[Tensor, Tensor]:
        """Random games, each move uniform over the legal ones.

        Returns tokens (S, games, moves), 0 after the end of a game, and the legal moves (S, games, moves) as bits
        before each of these moves, 0 after the end. A side that cannot move passes; passes are not recorded.
        """
        device, seeds = stream.seeds_S.device, len(stream.seeds_S)
        steps, tables = self.directions(device), (constant(_IN_BYTE, device), constant(self._tokens, device))
        black, white = (torch.full((seeds, games), bits, dtype=torch.int64, device=device) for bits in self.start)
        own, other = black, white
        words = stream.bits(0, (moves, games))
        tokens, legals = [], []
        for index in range(moves):
            legal = self.legal(own, other, steps)
            if device.type != "cpu" or bool((legal == 0).any()):  # to look would make a GPU's host wait
                passed = legal == 0
                own, other = torch.where(passed, other, own), torch.where(passed, own, other)
                legal = torch.where(passed, self.legal(own, other, steps), legal)
            token, move = _chosen(legal, words[:, index], *tables)
            turned = self.flips(own, other, move, steps)
            tokens.append(token)
            legals.append(legal)
            own, other = other & ~turned, own | move | turned
        return torch.stack(tokens, dim=-1), torch.stack(legals, dim=-1)

    @cached_property
    def _tokens(self) -> tuple[int, ...]:
        """The token of each of 64 squares; 0 where there is none."""
        number = {square: token for token, square in enumerate(self.playable, start=1)}
        return tuple(number.get(square, 0) for square in range(64))


def _chosen(legal: Tensor, words: Tensor, in_byte: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The token and the bit of one of the legal squares (...), chosen by words in [0, 2^32); 0 where there is none.

    Its rank among them is words * count >> 32. Where it is follows from the sums of bits in bytes (Vigna,
    "Broadword Implementation of Rank/Select Queries", WEA 2008, algorithm 2).
    """
    pairs = legal - ((legal >> 1) & _fill(0x55))
    fours = (pairs & _fill(0x33)) + ((pairs >> 2) & _fill(0x33))
    up_to = ((fours + (fours >> 4)) & _fill(0x0F)) * _fill(0x01)  # in byte i, the legal squares of bytes 0 to i
    count = up_to >> 56
    rank = (words * count) >> 32
    passed = ((rank * _fill(0x01)) | _fill(0x80)) - up_to  # the top bit of a byte is set where it ends before
    start = (((passed & _fill(0x80)) >> 7 & _fill(0x01)) * _fill(0x01) >> 56) * 8
    start = start.clamp(max=56)  # where there is no legal square
    before = ((up_to << 8) >> start) & 0xFF
    within = in_byte[((legal >> start) & 0xFF) * 8 + rank - before]
    move = ((count > 0).long() << start) << within
    return tokens[start + within] * (count > 0), move


def _fill(byte: int) -> int:
    """The int64 whose eight bytes are this one."""
    return _signed(byte * 0x0101010101010101)


def _united(bits: Tensor) -> Tensor:
    """Every bit that is set in one of the four of (..., 4)."""
    return (bits[..., 0] | bits[..., 1]) | (bits[..., 2] | bits[..., 3])


# By byte and rank, 8 * byte + rank: the place of the bit of this rank, 0 where it has none.
_IN_BYTE = tuple(
    ([place for place in range(8) if byte >> place & 1] + [0] * 8)[rank] for byte in range(256) for rank in range(8)
)


def perft(board: Board, depth: int) -> list[int]:
    """Number of move sequences of 1..depth plies from the start; a forced pass counts as a ply."""
    steps = board.directions(torch.device("cpu"))
    own, other = (torch.tensor([bits]) for bits in board.start)
    counts = []
    for _ in range(depth):
        own, other = successors(board, own, other, steps)
        counts.append(len(own))
    return counts


def successors(board: Board, own: Tensor, other: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Every position one ply on, from positions (N,): each legal move, or a pass; ended games have none."""
    legal = board.legal(own, other, steps)
    stuck = (legal == 0) & (board.legal(other, own, steps) != 0)
    boards, squares = (((legal[:, None] >> torch.arange(board.n**2)) & 1) == 1).nonzero(as_tuple=True)
    move = torch.ones_like(squares) << squares
    mine, theirs = own[boards], other[boards]
    turned = board.flips(mine, theirs, move, steps)
    return torch.cat([theirs & ~turned, other[stuck]]), torch.cat([mine | move | turned, own[stuck]])
