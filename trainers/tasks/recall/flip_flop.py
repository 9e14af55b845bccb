"""Flip-flop language modelling: read the bit that was written last (Liu et al., arXiv:2306.00946).

Shapes: S seeds, M members, B rows, N pairs of a row, T = 2 N positions.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks import supervised
from trainers.tasks.fixed_set import Draws, make_training_draws
from trainers.tasks.parts import draw_below
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import Batch, Distribution, EvaluationBatch, Task

PAD, WRITE, READ, IGNORE, ZERO, ONE = range(6)
_SYMBOLS = {PAD: "P", WRITE: "w", READ: "r", IGNORE: "i", ZERO: "0", ONE: "1", IGNORED: "_"}
_DISTANCE_METRIC = "read_error_distance"


@register("task", "flip_flop")
class FlipFlop(Task):
    """Input: pairs of an instruction and a bit. Output: at every read instruction, the bit that was written last.

    Instructions are w (write), r (read) and i (ignore). The first is w, the last is r; the others are i with the
    probability `ignore`, and else w or r, equally likely. Bits after w and i are random. Length is the number of pairs.
    Tokens: pad 0 (never drawn), w 1, r 2, i 3, bit 0 is 4, bit 1 is 5. Only the bit after each r is trained and scored.

    Three distributions are evaluated: `iid` as in training, `sparse` (few writes) and `dense` (many writes).

    >>> task = FlipFlop(pairs=5)
    >>> batch = task.make_batch(torch.tensor([[[1, 3, 1, 3, 2]]]), torch.tensor([[[1, 0, 0, 1, 0]]]))
    >>> " ".join(task.format_row(batch, 0)[0])
    'w 1 i 0 w 0 i 1 r 0'
    >>> " ".join(task.format_row(batch, 0)[1])
    '_ _ _ _ _ _ _ _ 0 _'
    """

    pairs: int = setting(256, low=2, help="pairs of a training row")
    ignore: float = setting(0.8, low=0.0, high=1.0, help="share of ignore instructions in training and in iid tests")
    sparse: float = setting(0.98, low=0.0, high=1.0, help="share of ignore instructions in sparse tests")
    dense: float = setting(0.1, low=0.0, high=1.0, help="share of ignore instructions in dense tests")
    test_pairs: tuple[int, ...] = setting((), low=2, help="other numbers of pairs that are evaluated")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training rows; null: always fresh ones")
    measured_distances: tuple[int, ...] = setting(
        (), low=1, help="the read error is also measured for distances from each of these up to the next one"
    )

    former_names = Task.former_names | {"batch_of": "make_batch"}

    inputs = 6
    headline = ("accuracy", "read_error")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if distances do not ascend."""
        if any(first >= second for first, second in pairwise(self.measured_distances)):
            yield self._make_problem(
                "measured_distances", "must ascend", "ascending numbers of pairs, such as [1, 2, 4, 8]"
            )

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The number of pairs in a training row."""
        return (self.pairs,)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of pairs that can be evaluated, in each distribution."""
        return tuple(sorted({self.pairs, *self.test_pairs}))

    @property
    def positions(self) -> int:
        """Number of tokens of the longest row."""
        return 2 * max(self.lengths)

    @property
    def train_positions(self) -> int:
        """Number of tokens of a training row."""
        return 2 * self.pairs

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """Rows as in training, with few writes, and with many writes."""
        return tuple(
            Distribution(name, self.lengths, self.trained_lengths if name == "iid" else ())
            for name in self._ignored_shares
        )

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        accuracy: share of rows whose reads are all right. read_error: share of wrong reads of all rows together.
        read_error_distance_k: the same for reads whose write is at least k pairs back, but less than the next measured
        distance; NaN without such reads.
        """
        distances = (f"{_DISTANCE_METRIC}_{distance}" for distance in self.measured_distances)
        return {"accuracy": "maximize", "read_error": "minimize", **dict.fromkeys(distances, "minimize")}

    @property
    def _ignored_shares(self) -> dict[str, float]:
        """The share of ignore instructions in each distribution."""
        return {"iid": self.ignore, "sparse": self.sparse, "dense": self.dense}

    def make_batch(self, instructions_SBN: Tensor, bits_SBN: Tensor) -> Batch:
        """Return rows of given instructions and bits; a bit after a read is replaced by the last written bit."""
        written_bits = bits_SBN.gather(-1, find_last_writes(instructions_SBN))
        bits = ZERO + torch.where(instructions_SBN == READ, written_bits, bits_SBN)
        targets = torch.where(instructions_SBN == READ, bits, IGNORED)
        tokens = torch.stack([instructions_SBN, bits], dim=-1).flatten(-2)
        return Batch(tokens, torch.stack([targets, torch.full_like(targets, IGNORED)], dim=-1).flatten(-2))

    def sample(self, stream: Stream, rows: int) -> Batch:
        """Return a training batch for every seed of the stream."""
        return self._draw_rows(make_training_draws(stream, rows, self.fixed_set), 0, rows, self.pairs, self.ignore)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a batch of every distribution at every length."""
        for number, (name, ignored) in enumerate(self._ignored_shares.items()):
            for length in lengths:
                batch = self._draw_rows(
                    stream, 2 * (len(self._ignored_shares) * length + number), samples, length, ignored
                )
                yield EvaluationBatch(batch, (length,), name)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the numbers of reads and of wrong reads of each row, (M, B, 1), in total and at each distance."""
        is_wrong = supervised.find_mistakes(logits_MBTV, batch)
        is_read = batch.targets != IGNORED
        counts = {"wrong": _count_true(is_wrong), "reads": _count_true(is_read)}
        if not self.measured_distances:
            return counts

        # Repeat each distance for both tokens of its pair, to get the shape of the targets.
        distance = self._measure_distances(batch.tokens).repeat_interleave(2, dim=-1)
        for low, high in pairwise((*self.measured_distances, self.positions)):
            in_range = (distance >= low) & (distance < high)
            counts[f"wrong_{low}"] = _count_true(is_wrong & in_range)
            counts[f"reads_{low}"] = _count_true(is_read & in_range)
        return counts

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the share of rows without a mistake, and of wrong reads, (M, 1)."""
        suffixes = {"read_error": "", **{f"{_DISTANCE_METRIC}_{low}": f"_{low}" for low in self.measured_distances}}
        shares = {
            name: rows[f"wrong{suffix}"].sum(dim=1) / rows[f"reads{suffix}"].sum(dim=1)
            for name, suffix in suffixes.items()
        }
        return {"accuracy": (rows["wrong"] == 0).float().mean(dim=1), **shares}

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text."""
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        return [_SYMBOLS[token] for token in tokens], [_SYMBOLS[target] for target in targets]

    def _draw_rows(self, draws: Draws, site: int, rows: int, pairs: int, ignored: float) -> Batch:
        """Draw rows (S, rows, 2 * pairs); takes two sites."""
        kind = draws.bits(site, (rows, pairs))
        share = round((1.0 - ignored) * 2**31)
        instructions = torch.where(kind < share, READ, torch.where(kind < 2 * share, WRITE, IGNORE))
        instructions[..., 0], instructions[..., -1] = WRITE, READ
        return self.make_batch(instructions, draw_below(draws, site + 1, (rows, pairs), 2))

    def _measure_distances(self, tokens: Tensor) -> Tensor:
        """Return how many pairs back the last write is, for each pair, (..., N)."""
        last_write = find_last_writes(tokens[..., ::2])
        return torch.arange(last_write.shape[-1], device=last_write.device) - last_write


def find_last_writes(instructions: Tensor) -> Tensor:
    """Return the index of the last write at each pair, (..., N).

    >>> find_last_writes(torch.tensor([WRITE, IGNORE, WRITE, READ, IGNORE])).tolist()
    [0, 0, 2, 2, 2]
    """
    position = torch.arange(instructions.shape[-1], device=instructions.device)
    return torch.where(instructions == WRITE, position, 0).cummax(dim=-1).values


def _count_true(mask_MBT: Tensor) -> Tensor:
    """Return the number of true entries of each row, (M, B, 1)."""
    return mask_MBT.sum(dim=-1, keepdim=True).float()
