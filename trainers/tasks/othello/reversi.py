"""Vectorised Othello on n x n boards: one int64 of bits for each side, any number of games at once.

Square index = n * row + column. A disc bitboard has bit `square` set. The eight directions are a trailing dimension,
so that legal moves of all games come from a few dozen elementwise operations. Everything is torch and runs on any
device. `own` is the side to move.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trainers.constants import constant
from trainers.random import Stream


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
    def _steps(self) -> tuple[list[int], list[int], list[int]]:
        """For each direction: amount of left shift, of right shift, and the squares a shifted disc may land on."""
        n = self.n
        left, right, landing = [], [], []
        for row in (-1, 0, 1):
            for column in (-1, 0, 1):
                if row or column:
                    step = n * row + column
                    left.append(max(step, 0))
                    right.append(max(-step, 0))
                    squares = (
                        1 << (n * r + c) for r in range(n) for c in range(n) if 0 <= r - row < n and 0 <= c - column < n
                    )
                    landing.append(_signed(sum(squares)))
        return left, right, landing

    def directions(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """`_steps` as int64 tensors (8,)."""
        left, right, landing = (constant(tuple(values), device) for values in self._steps)
        return left, right, landing

    def _shift(self, x: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Every disc of (..., 8) one square on, in the direction of the last dimension."""
        left, right, landing = steps
        # The right shift of an int64 copies the sign bit downwards; the landing mask cannot tell it from a disc.
        unsigned = torch.where(
            right > 0, (x >> right) & ~(torch.full_like(right, -1) << (64 - right).clamp(max=63)), x << left
        )
        return unsigned & landing

    def legal(self, own: Tensor, other: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Bits of the squares where the side to move flips at least one disc, (...)."""
        theirs = other[..., None]
        run = self._shift(own[..., None].expand(*own.shape, 8), steps) & theirs
        for _ in range(self.n - 3):
            run = run | (self._shift(run, steps) & theirs)
        ends = self._shift(run, steps)
        found = ends[..., 0]
        for direction in range(1, 8):
            found = found | ends[..., direction]
        return found & ~(own | other)

    def flips(self, own: Tensor, other: Tensor, move: Tensor, steps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Bits of the discs that turn when the side to move plays the square whose bit is `move`."""
        theirs = other[..., None]
        run = self._shift(move[..., None].expand(*move.shape, 8), steps) & theirs
        for _ in range(self.n - 3):
            run = run | (self._shift(run, steps) & theirs)
        closed = (self._shift(run, steps) & own[..., None]) != 0
        run = torch.where(closed, run, torch.zeros_like(run))
        found = run[..., 0]
        for direction in range(1, 8):
            found = found | run[..., direction]
        return found

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
        steps = self.directions(device)
        playable = self.playable
        at = constant(playable, device)
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
            allowed = ((legal[..., None] >> at) & 1).to(torch.int32)
            ranks = allowed.cumsum(dim=-1, dtype=torch.int32)
            count = ranks[..., -1]
            wanted = (words[:, index] * count) >> 32
            chosen = (ranks == wanted[..., None] + 1) & (allowed == 1)
            token = (chosen * torch.arange(1, len(playable) + 1, device=device)).sum(dim=-1)
            over = count == 0
            move = torch.where(over, 0, torch.ones_like(own) << at[(token - 1).clamp(min=0)])
            turned = self.flips(own, other, move, steps)
            tokens.append(token)
            legals.append(legal)
            own, other = other & ~turned, own | move | turned
        return torch.stack(tokens, dim=-1), torch.stack(legals, dim=-1)


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
