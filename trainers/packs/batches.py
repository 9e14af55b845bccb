"""Training batches drawn for several steps at once, and returned step by step.

A draw takes as many operations for one step as for many. So the seeds are repeated, once per step, and the batch of a
step is a slice. Random numbers are keyed by seed and step, so the number of steps per draw does not change them.
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

MAX_STEPS = 64
MAX_ELEMENTS = 2**17  # of the batches of a draw: 1 MiB of int64; intermediate tensors take several times that
MAX_ELEMENTS_GPU = 2**22  # larger, because kernel launches take most of the time
_TRIAL_SEEDS, _TRIAL_STEPS, _TRIAL_ROWS = (3, 2**40), (1, 2, 10**6), 4  # of the draws in `elements_per_row`


class StepBatches:
    """The training batches of a pack, step by step."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.rows = pack, pack.training.batch_size
        self.seeds = pack.seeds_S if pack.curriculum is None else pack.seeds_M  # members may be at different stages
        self.has_one_length = pack.training.one_length_per_batch  # then the batches of two steps differ in shape
        per_row = None if self.has_one_length else elements_per_row(pack.task, pack.curriculum is not None)
        elements = None if per_row is None else per_row * self.rows * len(self.seeds)
        self.steps_at_once = 1 if elements is None else steps_per_draw(elements, pack.device.type)
        self._drawn: tuple[Batch, ...] = ()
        self._first = self._last = 0  # the drawn steps are first + 1 to last

    def batches(self, done: int, stop: int, stage_M: Tensor | None = None) -> tuple[Batch, ...]:
        """Return the batches of the step after `done` steps, (M, B, ...); draws at most up to step `stop`.

        stage_M: the stages of the members in a curriculum, constant up to step `stop`; None means the first stage.
        """
        has_stages = self.pack.curriculum is not None

        # Draw the batches of the next steps if this step was not drawn before.
        if not self._first <= done < self._last:
            self._first, self._last = done, min(done + self.steps_at_once, stop)
            stage_S = None if not has_stages else torch.zeros_like(self.seeds) if stage_M is None else stage_M
            length = self.pack.task.draw_step_length(self._last) if self.has_one_length else None
            self._drawn = _draw_steps(self.pack.task, self.seeds, self._first, self._last, self.rows, stage_S, length)

        # The slice of this step; without a curriculum members with equal seeds share rows.
        seeds, index = len(self.seeds), done - self._first
        batches = tuple(batch.slice_seeds(index * seeds, (index + 1) * seeds) for batch in self._drawn)
        return batches if has_stages else tuple(batch.for_members(self.pack.index_M) for batch in batches)


def steps_per_draw(elements: int, device: str) -> int:
    """Return how many steps to draw at once if the batches of one step have `elements` elements."""
    return max(1, min(MAX_STEPS, (MAX_ELEMENTS if device == "cpu" else MAX_ELEMENTS_GPU) // elements))


def _draw_steps(
    task: Task, seeds_S: Tensor, first: int, last: int, rows: int, stage_S: Tensor | None, length: int | None
) -> tuple[Batch, ...]:
    """Draw the batches of steps first + 1 to last, (steps * S, rows, ...): all seeds of a step, then the next step.

    length: the length of all rows of a single step; None draws them by `Task.sample`.
    """
    # A single step is a scalar, as tasks that draw one step at a time expect.
    if last == first + 1:
        step = torch.full((), last, dtype=torch.int64, device=seeds_S.device)
        return task.training_batches(Stream(seeds_S, "data", step), rows, stage_S, length)

    # Several steps: each seed once for every step.
    steps = torch.arange(first + 1, last + 1, device=seeds_S.device)[:, None].expand(-1, len(seeds_S))
    stages = None if stage_S is None else stage_S.repeat(last - first)
    return task.training_batches(Stream(seeds_S.repeat(last - first), "data", steps.flatten()), rows, stages)


def elements_per_row(task: Task, has_stages: bool = False) -> int | None:
    """Return the number of elements per row of a task's training batches.

    None if several steps cannot be drawn at once with the same numbers, because the task uses the step as a scalar, or
    depends on the number of seeds. A few draws are compared; with `has_stages` for seeds at the first and last stage.
    """
    # Draw the steps one by one, and all at once.
    seeds, steps = torch.tensor(_TRIAL_SEEDS), torch.tensor(_TRIAL_STEPS)
    stages = torch.tensor([0, len(task.stages) - 1]) if has_stages else None
    alone = [task.training_batches(Stream(seeds, "data", step), _TRIAL_ROWS, stages) for step in steps]
    step_S = steps.repeat_interleave(len(seeds))
    try:
        repeated = None if stages is None else stages.repeat(len(steps))
        together = task.training_batches(Stream(seeds.repeat(len(steps)), "data", step_S), _TRIAL_ROWS, repeated)
    except Exception:  # any error of the user's code with several steps; with a single step it was raised above
        return None

    # Both must give the same numbers.
    for k, batches in enumerate(alone):
        if not are_equal_batches(
            [batch.slice_seeds(k * len(seeds), (k + 1) * len(seeds)) for batch in together], batches
        ):
            return None

    # The elements of all batches per row, rounded up.
    return -(-sum(tensor.numel() for batch in together for tensor in batch.tensors()) // (len(step_S) * _TRIAL_ROWS))


def are_equal_batches(first: Sequence[Batch], second: Sequence[Batch]) -> bool:
    """Return whether batches have the same types and the same values, bit by bit."""
    if [type(batch) for batch in first] != [type(batch) for batch in second]:
        return False
    values = [[value for batch in batches for value in vars(batch).values()] for batches in (first, second)]
    return all(_are_equal(*pair) for pair in zip(*values, strict=True))


def _are_equal(value: Any, other: Any) -> bool:
    """Return whether two fields of batches are equal; tensors also in their dtype."""
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        return value.dtype == other.dtype and torch.equal(value, other)
    return bool(value == other)
