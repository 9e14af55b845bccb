"""Vectorised Othello on n x n boards: the discs of a side are the bits of an int64, for any number of games at once.

Square index = n * row + column. A bitboard has bit `square` set for a disc. Four upward directions and their opposites
are trailing dimensions, so that legal moves of all games take a few dozen elementwise operations. `own` are the discs
of the side to move, `other` of its opponent.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tensors.device_constants import constant


def _make_signed(bits: int) -> int:
    """Return the int64 with these 64 bits."""
    return bits - 2**64 if bits >= 2**63 else bits


@dataclass(frozen=True)
class Board:
    """The geometry of an n x n board, n even, 4 to 8."""

    n: int

    @property  # not cached: a compiled step cannot enter the lock of cached_property
    def start(self) -> tuple[int, int]:
        """The bits of black, who moves first, and of white: black has the right diagonal of the centre."""
        h, n = self.n // 2, self.n
        return (
            _make_signed(1 << (n * (h - 1) + h) | 1 << (n * h + h - 1)),
            _make_signed(1 << (n * (h - 1) + h - 1) | 1 << (n * h + h)),
        )

    @property
    def playable(self) -> tuple[int, ...]:
        """The squares that are empty at the start, ascending: token i + 1 is playable[i]; token 0 is the pad."""
        black, white = self.start
        return tuple(square for square in range(self.n**2) if not (black | white) >> square & 1)

    @cached_property
    def _shifts(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Four distances in bits, and masks of the squares where a shift up (left) or down (right) can land.

        The right shift of an int64 copies the sign bit to squares outside of the mask.
        """
        n, steps = self.n, ((0, 1), (1, -1), (1, 0), (1, 1))
        amounts = tuple(n * row + column for row, column in steps)

        def landing(row: int, column: int) -> int:
            on_board = (n * r + c for r in range(n) for c in range(n) if 0 <= r - row < n and 0 <= c - column < n)
            return sum(1 << square for square in on_board)

        up = tuple(_make_signed(landing(row, column)) for row, column in steps)
        down = tuple(_make_signed(landing(-row, -column)) for row, column in steps)
        return amounts, up, down

    def directions(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return `_shifts` as int64 tensors (4,)."""
        amounts, up, down = (constant(values, device) for values in self._shifts)
        return amounts, up, down

    def _find_runs(
        self, start: Tensor, other: Tensor, directions: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the adjacent runs of the other side's discs from `start` (...), and the squares after each run.

        Runs upwards and the squares after them, then the same downwards, (..., 4) each.
        """
        shifts, up, down = directions
        first, opponent = start[..., None], other[..., None]
        above, below = opponent & up, opponent & down

        # Runs grow by a disc in each turn; the longest has n - 2 discs.
        risen, fallen = (first << shifts).bitwise_and_(above), (first >> shifts).bitwise_and_(below)
        for _ in range(self.n - 3):
            risen |= (risen << shifts).bitwise_and_(above)
            fallen |= (fallen >> shifts).bitwise_and_(below)
        return risen, (risen << shifts).bitwise_and_(up), fallen, (fallen >> shifts).bitwise_and_(down)

    def find_legal_moves(self, own: Tensor, other: Tensor, directions: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return the bits of the squares where the side to move flips at least one disc, (...)."""
        _, high, _, low = self._find_runs(own, other, directions)
        return _unite_directions(high | low) & ~(own | other)

    def find_flips(self, own: Tensor, other: Tensor, move: Tensor, directions: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return the bits of the discs that are flipped by the move with the bit `move`."""
        risen, high, fallen, low = self._find_runs(move, other, directions)
        own_discs = own[..., None]
        risen &= -(high & own_discs != 0).long()  # all ones if a disc of the mover ends the run
        fallen &= -(low & own_discs != 0).long()
        return _unite_directions(risen | fallen)

    def unpack_squares(self, bits: Tensor) -> Tensor:
        """Return which playable squares are set, bool (..., playable)."""
        square = constant(self.playable, bits.device)
        return ((bits[..., None] >> square) & 1).bool()

    def play(self, stream: Stream, games: int, moves: int) -> tuple[Tensor, Tensor]:
        """Return the tokens and the legal moves of random games, int64 (S, games, moves) each.

        Moves are uniform over the legal moves. Tokens are 0 after the end of a game. Legal moves are bits before each
        move, 0 after the end. A side that cannot move passes; passes are not recorded.
        """
        # All games from the start, with a random word for each move.
        device, seeds = stream.seeds_S.device, len(stream.seeds_S)
        steps, tables = self.directions(device), (constant(_IN_BYTE, device), constant(self._tokens, device))
        black, white = (torch.full((seeds, games), bits, dtype=torch.int64, device=device) for bits in self.start)
        own, other = black, white
        words = stream.bits(0, (moves, games))
        tokens, legals = [], []
        for index in range(moves):
            # Legal moves; a side without a legal move passes.
            legal = self.find_legal_moves(own, other, steps)
            if device.type != "cpu" or bool((legal == 0).any()):  # the test would make the host wait for a GPU
                passed = legal == 0
                own, other = torch.where(passed, other, own), torch.where(passed, own, other)
                legal = torch.where(passed, self.find_legal_moves(own, other, steps), legal)

            # A random legal move, and the discs that it turns.
            token, move = _choose_square(legal, words[:, index], *tables)
            turned = self.find_flips(own, other, move, steps)
            tokens.append(token)
            legals.append(legal)
            own, other = other & ~turned, own | move | turned
        return torch.stack(tokens, dim=-1), torch.stack(legals, dim=-1)

    @cached_property
    def _tokens(self) -> tuple[int, ...]:
        """The token of each of 64 squares, 0 for squares without one."""
        number = {square: token for token, square in enumerate(self.playable, start=1)}
        return tuple(number.get(square, 0) for square in range(64))


def _choose_square(legal: Tensor, words: Tensor, in_byte: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the token and the bit of a legal square (...), chosen by words in [0, 2^32); 0 without a legal square.

    Its rank is words * count >> 32; its position follows by broadword selection (Vigna, "Broadword Implementation of
    Rank/Select Queries", WEA 2008, algorithm 2).
    """
    # Counts of the legal squares of bytes 0 to i in byte i, and the rank of the chosen square.
    pairs = legal - ((legal >> 1) & _repeat_byte(0x55))
    fours = (pairs & _repeat_byte(0x33)) + ((pairs >> 2) & _repeat_byte(0x33))
    up_to = ((fours + (fours >> 4)) & _repeat_byte(0x0F)) * _repeat_byte(0x01)
    count = up_to >> 56
    rank = (words * count) >> 32

    # The first bit of its byte.
    beyond = ((rank * _repeat_byte(0x01)) | _repeat_byte(0x80)) - up_to  # top bit set for bytes before the square
    start = (((beyond & _repeat_byte(0x80)) >> 7 & _repeat_byte(0x01)) * _repeat_byte(0x01) >> 56) * 8
    start = start.clamp(max=56)  # for games without a legal square

    # Its place within the byte, by its rank there.
    earlier = ((up_to << 8) >> start) & 0xFF
    within = in_byte[((legal >> start) & 0xFF) * 8 + rank - earlier]

    # No move without a legal square.
    move = ((count > 0).long() << start) << within
    return tokens[start + within] * (count > 0), move


def _repeat_byte(byte: int) -> int:
    """Return the int64 with eight equal bytes."""
    return _make_signed(byte * 0x0101010101010101)


def _unite_directions(bits: Tensor) -> Tensor:
    """Return the union of the bits of (..., 4)."""
    return (bits[..., 0] | bits[..., 1]) | (bits[..., 2] | bits[..., 3])


# Entry 8 * byte + rank: the index of the set bit of this rank in the byte, 0 without such a bit.
_IN_BYTE = tuple(
    ([place for place in range(8) if byte >> place & 1] + [0] * 8)[rank] for byte in range(256) for rank in range(8)
)
