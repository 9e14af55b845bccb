"""Vectorized Othello on n x n boards: the discs of a side are the bits of an int64, for any number of games at once.

Square index = n * row + column. A bitboard has bit `square` set for a disc. Four upward directions and their opposites
are trailing dimensions, so that legal moves of all games take a few dozen elementwise operations. `mover` are the discs
of the side to move, `opponent` the discs of the other side.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tensors.device_constants import make_constant


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
        n = self.n
        steps = ((0, 1), (1, -1), (1, 0), (1, 1))
        distances = tuple(n * row + column for row, column in steps)

        def mask_landings(row: int, column: int) -> int:
            on_board = (n * r + c for r in range(n) for c in range(n) if 0 <= r - row < n and 0 <= c - column < n)
            return sum(1 << square for square in on_board)

        up = tuple(_make_signed(mask_landings(row, column)) for row, column in steps)
        down = tuple(_make_signed(mask_landings(-row, -column)) for row, column in steps)
        return distances, up, down

    def make_directions(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return `_shifts` as int64 tensors (4,)."""
        distances, up, down = (make_constant(values, device) for values in self._shifts)
        return distances, up, down

    def _find_runs(
        self, start: Tensor, opponent: Tensor, directions: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the runs of the opponent's discs that begin beside the squares `start` (...), and where they end.

        The runs upwards and the squares after them, then the same downwards, as bits (..., 4) each.
        """
        distances, up, down = directions
        first = start[..., None]
        above, below = opponent[..., None] & up, opponent[..., None] & down

        # Runs grow by a disc in each turn; the longest has n - 2 discs.
        up_runs = (first << distances).bitwise_and_(above)
        down_runs = (first >> distances).bitwise_and_(below)
        for _ in range(self.n - 3):
            up_runs |= (up_runs << distances).bitwise_and_(above)
            down_runs |= (down_runs >> distances).bitwise_and_(below)
        up_ends = (up_runs << distances).bitwise_and_(up)
        down_ends = (down_runs >> distances).bitwise_and_(down)
        return up_runs, up_ends, down_runs, down_ends

    def find_legal_moves(self, mover: Tensor, opponent: Tensor, directions: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return the bits of the squares where the side to move flips at least one disc, (...)."""
        _, up_ends, _, down_ends = self._find_runs(mover, opponent, directions)
        return _unite_directions(up_ends | down_ends) & ~(mover | opponent)

    def find_flips(
        self, mover: Tensor, opponent: Tensor, move: Tensor, directions: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        """Return the bits of the discs that are flipped by the move with the bit `move`."""
        up_runs, up_ends, down_runs, down_ends = self._find_runs(move, opponent, directions)
        mover_discs = mover[..., None]
        up_runs &= -(up_ends & mover_discs != 0).long()  # all ones if a disc of the mover ends the run
        down_runs &= -(down_ends & mover_discs != 0).long()
        return _unite_directions(up_runs | down_runs)

    def unpack_squares(self, bits: Tensor) -> Tensor:
        """Return which playable squares are set, bool (..., playable)."""
        square = make_constant(self.playable, bits.device)
        return ((bits[..., None] >> square) & 1).bool()

    def play(self, stream: Stream, games: int, moves: int) -> tuple[Tensor, Tensor]:
        """Return the tokens and the legal moves of random games, int64 (S, games, moves) each.

        Moves are uniform over the legal moves. Tokens are 0 after the end of a game. Legal moves are bits before each
        move, 0 after the end. A side that cannot move passes; passes are not recorded.
        """
        device = stream.seeds_S.device
        seeds = len(stream.seeds_S)
        directions = self.make_directions(device)
        tables = (make_constant(_IN_BYTE, device), make_constant(self._tokens, device))
        black, white = (torch.full((seeds, games), bits, dtype=torch.int64, device=device) for bits in self.start)
        mover, opponent = black, white
        words = stream.bits(0, (moves, games))
        tokens, legals = [], []
        for index in range(moves):
            # A side without a legal move passes. A CPU skips this if no side has to; on a GPU the host would wait.
            legal = self.find_legal_moves(mover, opponent, directions)
            if device.type != "cpu" or bool((legal == 0).any()):
                must_pass = legal == 0
                mover, opponent = torch.where(must_pass, opponent, mover), torch.where(must_pass, mover, opponent)
                legal = torch.where(must_pass, self.find_legal_moves(mover, opponent, directions), legal)

            token, move = _choose_square(legal, words[:, index], *tables)
            flips = self.find_flips(mover, opponent, move, directions)
            tokens.append(token)
            legals.append(legal)
            mover, opponent = opponent & ~flips, mover | move | flips
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
    # Byte i of `cumulative` counts the legal squares in bytes 0 to i, summed over bits, pairs of bits, and halves.
    pairs = legal - ((legal >> 1) & _repeat_byte(0x55))
    fours = (pairs & _repeat_byte(0x33)) + ((pairs >> 2) & _repeat_byte(0x33))
    cumulative = ((fours + (fours >> 4)) & _repeat_byte(0x0F)) * _repeat_byte(0x01)
    count = cumulative >> 56
    rank = (words * count) >> 32

    # The bytes before the square are those whose cumulative count is at most its rank: their top bit stays set.
    comparison = ((rank * _repeat_byte(0x01)) | _repeat_byte(0x80)) - cumulative
    first_bit = (((comparison & _repeat_byte(0x80)) >> 7 & _repeat_byte(0x01)) * _repeat_byte(0x01) >> 56) * 8
    first_bit = first_bit.clamp(max=56)  # for games without a legal square

    # A table gives the bit of this rank within the byte.
    count_before = ((cumulative << 8) >> first_bit) & 0xFF
    bit = in_byte[((legal >> first_bit) & 0xFF) * 8 + rank - count_before]
    move = ((count > 0).long() << first_bit) << bit
    return tokens[first_bit + bit] * (count > 0), move


def _repeat_byte(byte: int) -> int:
    """Return the int64 with eight equal bytes."""
    return _make_signed(byte * 0x0101010101010101)


def _unite_directions(bits: Tensor) -> Tensor:
    """Return the union of the bits of (..., 4)."""
    return (bits[..., 0] | bits[..., 1]) | (bits[..., 2] | bits[..., 3])


# Entry 8 * byte + rank: the index of the set bit of this rank in the byte, 0 without such a bit.
_IN_BYTE = tuple(
    ([bit for bit in range(8) if byte >> bit & 1] + [0] * 8)[rank] for byte in range(256) for rank in range(8)
)
