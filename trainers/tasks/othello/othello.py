"""Othello: predict the next move of random games (Li et al., arXiv:2210.13382; EMA claim of arXiv:2510.08341)."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks import uniform
from trainers.tasks.othello.reversi import Board
from trainers.tasks.task import Batch, EvaluationBatch, Task
from trainers.tensors.device_constants import make_constant


@register("task", "othello")
class Othello(Task):
    """Input: moves of a random game. Output: after every move, the distribution of the next, uniform over legal moves.

    Tokens: 0 is the pad after a game's end, token i + 1 is the i-th playable square (the four central ones never
    occur). Passes are not recorded. Length s is the number of moves seen; trained on the first `train_moves` moves, so
    on lengths 1..train_moves-1. Before the first move of the 8x8 game black has four, after 19 white has three:

    >>> Othello().legal_squares([])
    [19, 26, 37, 44]
    >>> Othello().legal_squares([19])
    [18, 20, 34]
    """

    board: int = setting(8, choices=(4, 6, 8), help="rows and columns")
    train_moves: int = setting(30, low=2, help="trained on the first moves of each game")
    target: str = setting("sampled", choices=("sampled", "soft"), help="next move, or the whole distribution")

    # The metrics of `trainers.tasks.uniform`, with legal moves as the allowed tokens, are means over games with a next
    # move, NaN without any. invalid_mass is the probability of illegal moves and of the pad. games: share of games that
    # have not ended.
    metrics: ClassVar[Mapping[str, str]] = {**uniform.METRICS, "games": "none"}
    headline = ("total_variation", "invalid_mass", "invalid_top1")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if a game has fewer moves than `train_moves`."""
        if self.train_moves > self.inputs - 1:
            yield self._make_problem(
                "train_moves", f"{self.train_moves} exceeds the moves of a game", f"<= {self.inputs - 1}"
            )

    @property
    def geometry(self) -> Board:
        """The geometry of the board."""
        return Board(self.board)

    @property
    def inputs(self) -> int:
        """Number of input tokens: the playable squares and the pad."""
        return self.board**2 - 3

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Numbers of moves seen in training."""
        return tuple(range(1, self.train_moves))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of moves that can be followed by another move."""
        return tuple(range(1, self.inputs - 1))

    def legal_squares(self, moves: list[int]) -> list[int]:
        """Return the legal squares after `moves` (squares, without passes). Raises ValueError for an illegal move."""
        board = self.geometry
        directions = self.geometry.make_directions(torch.device("cpu"))
        mover, opponent = (torch.tensor(bits) for bits in board.start)
        for number, square in enumerate([*moves, None]):
            # A side without a legal move passes.
            legal = board.find_legal_moves(mover, opponent, directions)
            if int(legal) == 0:
                mover, opponent = opponent, mover
                legal = board.find_legal_moves(mover, opponent, directions)
            if square is None:
                break

            move = torch.tensor(1) << square
            if int(legal & move) == 0:
                raise ValueError(f"square {square} is not legal after {moves[:number]}")
            flips = board.find_flips(mover, opponent, move, directions)
            mover, opponent = opponent & ~flips, mover | move | flips
        return [s for s in board.playable if int(legal >> s) & 1]

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return moves as text, column and row, -- after the end; for `soft` targets all legal moves."""
        playable = self.geometry.playable
        squares = [f"{'abcdefgh'[square % self.board]}{square // self.board + 1}" for square in playable]
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        moves = [["--", *squares][token] for token in tokens]
        if self.target == "sampled":
            return moves, [["--", *squares][token] for token in targets]
        legal = ([name for name, i in zip(squares, playable, strict=True) if bits >> i & 1] for bits in targets)
        return moves, [" ".join(names) or "--" for names in legal]

    def sample(self, stream: Stream, batch: int) -> Batch:
        """Return the first `train_moves` moves of a new game for every row."""
        tokens, legal = self.geometry.play(stream, batch, self.train_moves)
        return Batch(tokens[..., :-1], tokens[..., 1:] if self.target == "sampled" else legal[..., 1:])

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy summed over each member's moves, without pads, and their number, (M,)."""
        logs = torch.log_softmax(logits_MBTV, dim=-1)
        if self.target == "sampled":
            is_counted = batch.targets > 0
            likelihoods = torch.gather(logs, -1, batch.targets[..., None])[..., 0]
        else:  # the mean over the legal moves
            legal = self._mask_legal_tokens(batch.targets)
            is_counted = legal.any(dim=-1)
            likelihoods = (logs * uniform.make_uniform(legal)).sum(dim=-1)

        # A game that has ended has no next move.
        weight = is_counted.to(logs.dtype)
        return -(likelihoods * weight).sum(dim=(1, 2)), weight.sum(dim=(1, 2))

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a single batch of games for all lengths; its targets are the legal moves as bits."""
        tokens, legal = self.geometry.play(stream, samples, max(lengths) + 1)
        yield EvaluationBatch(Batch(tokens[..., :-1], legal[..., 1:]), lengths)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of every game, and whether it has a next move, (M, B, L)."""
        columns = make_constant(tuple(s - 1 for s in lengths), logits_MBTV.device)
        legal = self._mask_legal_tokens(batch.targets.index_select(2, columns))
        legal_MVLB = uniform.select_lengths(legal, tuple(range(1, len(lengths) + 1)))
        rows, _, _ = uniform.score_uniformity(uniform.select_lengths(logits_MBTV, lengths), legal_MVLB)
        return {**rows, "games": legal.any(dim=-1)}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return means over the games with a next move, and their share, (M, L)."""
        active = rows["games"]
        count = active.sum(dim=1)
        means = {name: torch.where(active, rows[name], 0.0).sum(dim=1) / count for name in uniform.METRICS}
        return {**means, "games": active.float().mean(dim=1)}

    def _mask_legal_tokens(self, legal: Tensor) -> Tensor:
        """Return whether each token is a legal move, bool (..., V), from the bits of the legal squares (...)."""
        pad = torch.zeros(*legal.shape, 1, dtype=torch.bool, device=legal.device)
        return torch.cat([pad, self.geometry.unpack_squares(legal)], dim=-1)
