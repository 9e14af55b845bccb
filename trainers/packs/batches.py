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

# Of the draws in `count_elements_per_row`.
_TRIAL_SEEDS = (3, 2**40)
_TRIAL_STEPS = (1, 2, 10**6)
_TRIAL_ROWS = 4


class StepBatches:
    """The training batches of a pack, step by step."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.rows = pack.training.batch_size
        self.seeds = pack.seeds_S if pack.curriculum is None else pack.seeds_M  # members may be at different stages
        self.has_one_length = pack.training.one_length_per_batch  # then the batches of two steps differ in shape
        per_row = None if self.has_one_length else count_elements_per_row(pack.task, pack.curriculum is not None)
        elements = None if per_row is None else per_row * self.rows * len(self.seeds)
        self.steps_at_once = 1 if elements is None else choose_steps_per_draw(elements, pack.device.type)
        self._drawn: tuple[Batch, ...] = ()
        self._first = self._last = 0  # the drawn steps are first + 1 to last

    def get_batches(self, steps_done: int, last_step: int, stage_M: Tensor | None = None) -> tuple[Batch, ...]:
        """Return the batches of the step after `steps_done` steps, (M, B, ...); draws at most up to step `last_step`.

        stage_M: the stages of the members in a curriculum, constant up to step `last_step`; None means the first stage.
        """
        has_stages = self.pack.curriculum is not None

        # One draw serves several steps, because its operations cost the same for one step as for many.
        if not self._first <= steps_done < self._last:
            self._first = steps_done
            self._last = min(steps_done + self.steps_at_once, last_step)
            stage_S = None if not has_stages else torch.zeros_like(self.seeds) if stage_M is None else stage_M
            length = self.pack.task.draw_step_length(self._last) if self.has_one_length else None
            self._drawn = _draw_steps(self.pack.task, self.seeds, self._first, self._last, self.rows, stage_S, length)

        # Select this step. Without a curriculum members with equal seeds share rows, so they were drawn once.
        count = len(self.seeds)
        index = steps_done - self._first
        batches = tuple(batch.slice_seeds(index * count, (index + 1) * count) for batch in self._drawn)
        return batches if has_stages else tuple(batch.for_members(self.pack.seed_index_M) for batch in batches)


def choose_steps_per_draw(elements: int, device: str) -> int:
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

    # Repeat the seeds once per step, each time with the random numbers of that step.
    steps = torch.arange(first + 1, last + 1, device=seeds_S.device)[:, None].expand(-1, len(seeds_S))
    stages = None if stage_S is None else stage_S.repeat(last - first)
    return task.training_batches(Stream(seeds_S.repeat(last - first), "data", steps.flatten()), rows, stages)


def count_elements_per_row(task: Task, has_stages: bool = False) -> int | None:
    """Return the number of elements per row of a task's training batches.

    None if several steps drawn at once would have other numbers, because the task uses the step as a scalar, or depends
    on the number of seeds. A few draws are compared, with `has_stages` at the first and at the last stage.
    """
    # Draw the steps one by one, and all at once.
    seeds, steps = torch.tensor(_TRIAL_SEEDS), torch.tensor(_TRIAL_STEPS)
    stages = torch.tensor([0, len(task.stages) - 1]) if has_stages else None
    single_draws = [task.training_batches(Stream(seeds, "data", step), _TRIAL_ROWS, stages) for step in steps]
    step_S = steps.repeat_interleave(len(seeds))
    try:
        repeated_stages = None if stages is None else stages.repeat(len(steps))
        joint_draw = task.training_batches(
            Stream(seeds.repeat(len(steps)), "data", step_S), _TRIAL_ROWS, repeated_stages
        )
    except Exception:  # any error of the user's code with several steps; with a single step it was raised above
        return None

    # Training must not depend on how many steps are drawn at once, so both must give the same bits.
    for k, batches in enumerate(single_draws):
        if not are_equal_batches(
            [batch.slice_seeds(k * len(seeds), (k + 1) * len(seeds)) for batch in joint_draw], batches
        ):
            return None

    # Round up, so that a draw stays below the limit.
    elements = sum(tensor.numel() for batch in joint_draw for tensor in batch.tensors())
    return -(-elements // (len(step_S) * _TRIAL_ROWS))


def are_equal_batches(first: Sequence[Batch], second: Sequence[Batch]) -> bool:
    """Return whether batches have the same types and the same values, bit by bit."""
    if [type(batch) for batch in first] != [type(batch) for batch in second]:
        return False
    values = [[value for batch in batches for value in vars(batch).values()] for batches in (first, second)]
    return all(_are_equal_fields(*pair) for pair in zip(*values, strict=True))


def _are_equal_fields(first: Any, second: Any) -> bool:
    """Return whether two fields of batches are equal; tensors also in their dtype."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second)
