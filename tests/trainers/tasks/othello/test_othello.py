"""Othello: perft counts, every game under a slow independent referee, targets, games that end early."""

import re

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from tests.trainers.own_tasks import mean_loss, scores_of
from trainers.random import Stream
from trainers.tasks.othello import reversi
from trainers.tasks.othello.othello import Othello
from trainers.tasks.othello.reversi import Board


def perft(board: Board, depth: int) -> list[int]:
    """Return the number of move sequences of 1..depth plies from the start; a forced pass counts as a ply."""
    steps = board.make_directions(torch.device("cpu"))
    mover, opponent = (torch.tensor([bits]) for bits in board.start)
    counts = []
    for _ in range(depth):
        mover, opponent = successors(board, mover, opponent, steps)
        counts.append(len(mover))
    return counts


def successors(
    board: Board, mover: Tensor, opponent: Tensor, steps: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return all positions one ply after the positions (N,): each legal move, or a pass; none for ended games."""
    legal = board.find_legal_moves(mover, opponent, steps)
    stuck = (legal == 0) & (board.find_legal_moves(opponent, mover, steps) != 0)
    boards, squares = (((legal[:, None] >> torch.arange(board.n**2)) & 1) == 1).nonzero(as_tuple=True)
    move = torch.ones_like(squares) << squares
    mine, theirs = mover[boards], opponent[boards]
    turned = board.find_flips(mine, theirs, move, steps)
    return torch.cat([theirs & ~turned, opponent[stuck]]), torch.cat([mine | move | turned, mover[stuck]])


class Referee:
    """Othello on a list of lists, written without bits. 1 moves first, -1 second."""

    def __init__(self, n: int) -> None:
        self.n, self.side, h = n, 1, n // 2
        self.cells = [[0] * n for _ in range(n)]
        self.cells[h - 1][h] = self.cells[h][h - 1] = 1
        self.cells[h - 1][h - 1] = self.cells[h][h] = -1

    def turned(self, row: int, column: int, side: int) -> list[tuple[int, int]]:
        if self.cells[row][column]:
            return []
        flipped = []
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                line, r, c = [], row + dr, column + dc
                while (dr or dc) and 0 <= r < self.n and 0 <= c < self.n and self.cells[r][c] == -side:
                    line.append((r, c))
                    r, c = r + dr, c + dc
                if line and 0 <= r < self.n and 0 <= c < self.n and self.cells[r][c] == side:
                    flipped += line
        return flipped

    def moves_of(self, side: int) -> list[int]:
        return [r * self.n + c for r in range(self.n) for c in range(self.n) if self.turned(r, c, side)]

    def find_legal_moves(self) -> list[int]:
        """Legal squares; passes where the side to move has none and the other has."""
        if not self.moves_of(self.side) and self.moves_of(-self.side):
            self.side = -self.side
        return self.moves_of(self.side)

    def play(self, square: int) -> None:
        row, column = divmod(square, self.n)
        for r, c in [*self.turned(row, column, self.side), (row, column)]:
            self.cells[r][c] = self.side
        self.side = -self.side


def games(n: int, count: int, moves: int, seed: int = 0):
    return Board(n).play(Stream(torch.tensor([seed]), "data", torch.tensor(1)), count, moves)


@pytest.mark.parametrize(
    ("n", "counts"),
    [
        (8, [4, 12, 56, 244, 1396, 8200, 55092]),  # the usual perft table of Othello
        (6, [4, 12, 56, 244, 1364]),
        (4, [4, 12, 44, 128, 424]),
    ],
)
def test_perft_from_the_start(n: int, counts: list[int]) -> None:
    assert perft(Board(n), len(counts)) == counts


@pytest.mark.parametrize("n", [4, 6, 8])
def test_every_game_is_legal_and_its_targets_are_the_referees(n: int) -> None:
    board = Board(n)
    count = 40
    tokens, legal = games(n, count, len(board.playable))
    ended, passes = 0, 0
    for game in range(count):
        referee = Referee(n)
        for token, bits in zip(tokens[0, game].tolist(), legal[0, game].tolist(), strict=True):
            before = referee.side
            squares = referee.find_legal_moves()
            passes += referee.side != before
            assert sorted(squares) == [s for s in range(n * n) if bits >> s & 1]
            if token == 0:
                assert not squares
                ended += 1
                break
            assert board.playable[token - 1] in squares
            referee.play(board.playable[token - 1])
        discs = sum(cell != 0 for row in referee.cells for cell in row)
        assert discs == 4 + int((tokens[0, game] > 0).sum())
    assert passes > 0 and (n == 8 or ended > 0), "the sample covers passes and early ends"


def test_moves_are_uniform_over_the_legal_ones() -> None:
    tokens, _ = games(8, 20_000, 2)
    playable = Board(8).playable
    first = np.array(playable)[tokens[0, :, 0].numpy() - 1]
    squares, counts = np.unique(first, return_counts=True)
    assert squares.tolist() == [19, 26, 37, 44] and scipy.stats.chisquare(counts).pvalue > 1e-4
    second = np.array(playable)[tokens[0, :, 1].numpy() - 1][first == 19]
    squares, counts = np.unique(second, return_counts=True)
    assert squares.tolist() == [18, 20, 34] and scipy.stats.chisquare(counts).pvalue > 1e-4


def test_six_by_six_opens_as_it_should() -> None:
    assert Othello(board=6, train_moves=16).legal_squares([]) == [8, 13, 22, 27]


@pytest.mark.parametrize(("moves", "legal"), [([0], 0), ([19, 18, 0], 2), ([19, 19], 1), ([19, 18, 18], 2)])
def test_an_illegal_move_is_named_with_the_moves_before_it(moves: list[int], legal: int) -> None:
    with pytest.raises(ValueError, match=f"{moves[legal]}.*{re.escape(str(moves[:legal]))}"):
        Othello().legal_squares(moves)


def test_loss_leaves_pads_out_and_soft_is_the_mean_of_sampled() -> None:
    task = Othello(board=4, train_moves=12)
    soft = Othello(board=4, train_moves=12, target="soft")
    stream = Stream(torch.tensor([0]), "data", torch.tensor(1))
    batch = task.sample(stream, 500)
    assert int((batch.targets == 0).sum()) > 0
    logits = torch.randn(1, 500, 11, 13, generator=torch.Generator().manual_seed(0))
    changed = torch.where((batch.targets == 0)[..., None], 100 * torch.rand_like(logits), logits)
    torch.testing.assert_close(mean_loss(task, logits, batch), mean_loss(task, changed, batch))
    constant = torch.randn(13, generator=torch.Generator().manual_seed(1)).expand(1, 500, 11, 13)
    assert float(mean_loss(soft, constant, soft.sample(stream, 500))) == pytest.approx(
        float(mean_loss(task, constant, batch)), abs=0.05
    )


def test_exact_predictions_score_zero_after_every_move() -> None:
    task = Othello(board=6, train_moves=16)
    for test in task.evaluation_batches(Stream(torch.tensor([0]), "eval", torch.tensor(0)), 200, task.lengths):
        logits = torch.where(task._mask_legal_tokens(test.batch.targets), 0.0, -60.0)
        scores = scores_of(task, logits, test.batch, test.lengths)
        going = scores["games"][0] > 0
        for name, best in {"total_variation": 0, "invalid_mass": 0, "invalid_top1": 0, "kl": 0, "margin": 60}.items():
            torch.testing.assert_close(
                scores[name][0, going], torch.full((int(going.sum()),), float(best)), atol=1e-5, rtol=0
            )
        assert scores["games"][0, 0] == 1 and scores["games"][0, -1] < 1


def test_a_word_chooses_the_legal_square_of_its_rank() -> None:
    """Many bits, few, one, none, and the sign bit alone, against counting."""
    generator = torch.Generator().manual_seed(5)
    bits = torch.randint(-(2**63), 2**63 - 1, (4, 500), generator=generator)
    bits[1] &= bits[0] & bits[2]
    bits[2, :64], bits[2, 64:99], bits[2, 99] = torch.ones(64, dtype=torch.int64) << torch.arange(64), 0, -1
    words = torch.randint(0, 2**32, bits.shape, generator=generator)
    tokens, moves = reversi._choose_square(bits, words, torch.tensor(reversi._IN_BYTE), torch.arange(100, 164))
    for legal, word, token, move in zip(*(x.flatten().tolist() for x in (bits, words, tokens, moves)), strict=True):
        squares = [square for square in range(64) if legal >> square & 1]
        square = squares[word * len(squares) >> 32] if squares else None
        assert token == (0 if square is None else 100 + square)
        assert move == (0 if square is None else reversi._make_signed(1 << square))
