"""Training batches drawn for several steps at once, and handed out step by step.

A draw is as many small operations for one step as for many. So the seeds are repeated, each time at the next step, and
what one step trains on is a slice. Random numbers are named by seed and step: how many steps a draw has changes none.
Shapes: S seeds, M members.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch

MOST_STEPS = 64
CELLS = 2**17  # numbers of the batches of a draw: 1 MiB of int64; what is computed on the way is several times that
CELLS_GPU = 2**22  # there a draw is as many launches for one number as for many
_SEEDS, _STEPS, _ROWS = (3, 2**40), (1, 2, 10**6), 4  # of the draws that are compared


class Ahead:
    """What a pack trains on, step after step."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.rows = pack, pack.training.batch_size
        self.seeds = pack.seeds_S if pack.curriculum is None else pack.seeds_M  # of members at stages of their own
        cells = cells_of_a_row(pack.task, pack.curriculum is not None)
        self.most = 1 if cells is None else steps_of_a_draw(cells * self.rows * len(self.seeds), pack.device.type)
        self._drawn: tuple[Batch, ...] = ()
        self._first = self._last = 0  # the steps that are drawn: first + 1 to last

    def batches(self, done: int, stop: int, stage_M: Tensor | None = None) -> tuple[Batch, ...]:
        """What the step after `done` steps trains on, (M, B, ...). What is drawn for it ends with the step `stop`.

        `stage_M` are the stages of the members in a curriculum, the same up to the step `stop`; None: the first.
        """
        staged = self.pack.curriculum is not None
        if not self._first <= done < self._last:
            self._first, self._last = done, min(done + self.most, stop)
            stage_S = None if not staged else torch.zeros_like(self.seeds) if stage_M is None else stage_M
            self._drawn = _drawn(self.pack.task, self.seeds, self._first, self._last, self.rows, stage_S)
        seeds, at = len(self.seeds), done - self._first
        found = tuple(batch.seeds(at * seeds, (at + 1) * seeds) for batch in self._drawn)
        return found if staged else tuple(batch.of(self.pack.index_M) for batch in found)


def steps_of_a_draw(cells: int, device: str) -> int:
    """For how many steps are drawn at once, where the batches of one have so many numbers."""
    return max(1, min(MOST_STEPS, (CELLS if device == "cpu" else CELLS_GPU) // cells))


def _drawn(task: Task, seeds_S: Tensor, first: int, last: int, rows: int, stage_S: Tensor | None) -> tuple[Batch, ...]:
    """The batches of the steps first + 1 to last, (steps * S, rows, ...): all seeds of a step, then the next step."""
    if last == first + 1:
        step = torch.full((), last, dtype=torch.int64, device=seeds_S.device)
        return task.training_batches(Stream(seeds_S, "data", step), rows, stage_S)
    steps = torch.arange(first + 1, last + 1, device=seeds_S.device)[:, None].expand(-1, len(seeds_S))
    stages = None if stage_S is None else stage_S.repeat(last - first)
    return task.training_batches(Stream(seeds_S.repeat(last - first), "data", steps.flatten()), rows, stages)


def cells_of_a_row(task: Task, staged: bool = False) -> int | None:
    """Numbers in a row of its training batches; None where it has to be asked step by step.

    That is so where seeds at a step each are refused, or give other batches than they do step by step: the task looks
    at the step, or at how many seeds there are. It is tried with a few; `staged`: one at the first stage and one at the
    last.
    """
    seeds, steps = torch.tensor(_SEEDS), torch.tensor(_STEPS)
    stages = torch.tensor([0, len(task.stages) - 1]) if staged else None
    alone = [task.training_batches(Stream(seeds, "data", step), _ROWS, stages) for step in steps]
    each = steps.repeat_interleave(len(seeds))
    try:
        repeated = None if stages is None else stages.repeat(len(steps))
        together = task.training_batches(Stream(seeds.repeat(len(steps)), "data", each), _ROWS, repeated)
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
