"""Training batches drawn for several steps at once, and handed out step by step.

A draw is as many small operations for one step as for many. So the seeds are repeated, each time at the next step, and
what one step trains on is a slice. Random numbers are named by seed and step: how many steps a draw has changes none.
Shapes: S seeds, M members.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainers.batch import Batch
from trainers.pack import Pack
from trainers.random import Stream
from trainers.tasks.task import Task

MOST_STEPS = 64
CELLS = 2**17  # numbers of the batches of a draw: 1 MiB of int64; what is computed on the way is several times that
_SEEDS, _STEPS, _ROWS = (3, 2**40), (1, 2, 10**6), 4  # of the draws that are compared


class Ahead:
    """What a pack trains on, step after step."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.rows = pack, pack.optimization.batch_size
        cells = cells_of_a_row(pack.task)
        self.most = 1 if cells is None else max(1, min(MOST_STEPS, CELLS // (cells * self.rows * len(pack.seeds_S))))
        self._drawn: tuple[Batch, ...] = ()
        self._first = self._last = 0  # the steps that are drawn: first + 1 to last

    def batches(self, done: int, stop: int) -> tuple[Batch, ...]:
        """What the step after `done` steps trains on, (M, B, ...). What is drawn for it ends with the step `stop`."""
        if not self._first <= done < self._last:
            self._first, self._last = done, min(done + self.most, stop)
            self._drawn = _drawn(self.pack.task, self.pack.seeds_S, self._first, self._last, self.rows)
        seeds, at = len(self.pack.seeds_S), done - self._first
        return tuple(batch.seeds(at * seeds, (at + 1) * seeds).of(self.pack.index_M) for batch in self._drawn)


def _drawn(task: Task, seeds_S: Tensor, first: int, last: int, rows: int) -> tuple[Batch, ...]:
    """The batches of the steps first + 1 to last, (steps * S, rows, ...): all seeds of a step, then the next step."""
    if last == first + 1:
        step = torch.full((), last, dtype=torch.int64, device=seeds_S.device)
        return task.training_batches(Stream(seeds_S, "data", step), rows)
    steps = torch.arange(first + 1, last + 1, device=seeds_S.device)[:, None].expand(-1, len(seeds_S))
    return task.training_batches(Stream(seeds_S.repeat(last - first), "data", steps.flatten()), rows)


def cells_of_a_row(task: Task) -> int | None:
    """Numbers in a row of its training batches; None where it has to be asked step by step.

    That is so where seeds at a step each are refused, or give other batches than they do step by step: the task looks
    at the step, or at how many seeds there are. It is tried with a few.
    """
    seeds, steps = torch.tensor(_SEEDS), torch.tensor(_STEPS)
    alone = [task.training_batches(Stream(seeds, "data", step), _ROWS) for step in steps]
    each = steps.repeat_interleave(len(seeds))
    try:
        together = task.training_batches(Stream(seeds.repeat(len(steps)), "data", each), _ROWS)
    except Exception:  # of any kind, since any code may be there: what is wrong besides is told by the draws above
        return None
    if any(not _equal(_parts(together, k * len(seeds), len(seeds)), one) for k, one in enumerate(alone)):
        return None
    return -(-sum(tensor.numel() for batch in together for tensor in _tensors(batch)) // (len(each) * _ROWS))


def _parts(batches: Sequence[Batch], first: int, count: int) -> list[Batch]:
    return [batch.seeds(first, first + count) for batch in batches]


def _tensors(batch: Batch) -> list[Tensor]:
    return [value for value in vars(batch).values() if isinstance(value, Tensor)]


def _equal(some: Sequence[Batch], others: Sequence[Batch]) -> bool:
    """Whether batches are the same, to the last bit and in everything else that they hold."""
    if [type(one) for one in some] != [type(one) for one in others]:
        return False
    pairs = (
        pair for two in zip(some, others, strict=True) for pair in zip(*(vars(b).values() for b in two), strict=True)
    )
    return all(_same(*pair) for pair in pairs)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)
