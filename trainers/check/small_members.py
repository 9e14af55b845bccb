"""A training step and an evaluation of two small members, the same in a pack and alone."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.training.step import compute_gradients, sample_batches, train_next_step

GRADIENT_ROUNDING = 2**8  # tolerance for another order of sums, in units in the last place of a gradient's norm
BOUNDS_ROUNDING = 1e-3  # how far a metric may be out of its bounds
ROWS = 4
SMALL: dict[str, Any] = {  # the configuration in which a class is checked
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 4},
    "model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2},
    "training": {"steps": 2, "batch_size": ROWS, "learning_rate": 0.01},
}


def shrink_member(member: MemberConfig) -> MemberConfig:
    """Return a member with few training rows, few samples at two evaluated lengths, and no compilation."""
    rows = min(ROWS, member.training.batch_size)
    ends = (member.evaluated_lengths[0], member.evaluated_lengths[-1])
    accumulation = min(member.training.accumulation, rows)
    training = replace(member.training, batch_size=rows, accumulation=accumulation, compile=False)
    evaluation = replace(member.evaluation, samples=ROWS, lengths=tuple(dict.fromkeys(ends)))
    return replace(member, training=training, evaluation=evaluation)


def find_step_problems(member: MemberConfig) -> Iterator[str]:
    """Yield problems of a training step of two members, then evaluate them, which may raise an error."""
    pack = Pack([replace(member, seed=seed) for seed in (0, 1)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    train_next_step(pack, state)
    if int(state.failed_at.max()) >= 0:
        yield "its loss or its gradient is not finite in the first step"
    elif _mixes_members(pack, state):
        yield "its training depends on the other members of its pack"
    _check_bounds(pack, *evaluate(pack, state))


def _check_bounds(pack: Pack, names: Sequence[str], values_MAKL: NDArray[np.float32]) -> None:
    """Raise ValueError for a metric of the task with a value outside of its bounds; NaN has no bounds.

    Training does not check them: a sweep that has trained with other values can still be resumed.
    """
    for k, name in enumerate(names):
        base = pack.metrics[name].base
        if base not in pack.task.metrics or base not in pack.task.metric_bounds:
            continue
        low, high = pack.task.metric_bounds[base]
        is_outside = (values_MAKL[:, :, k] < low - BOUNDS_ROUNDING) | (values_MAKL[:, :, k] > high + BOUNDS_ROUNDING)
        if is_outside.any():
            m, a, column = np.argwhere(is_outside)[0]
            value, length = values_MAKL[m, a, k, column], pack.lengths[column]
            raise ValueError(
                f"{pack.task.name}: {name} is {value:.4g} at length {length}; allowed: {low:g} to {high:g}, or other "
                "metric_bounds of the task"
            )


def _mixes_members(pack: Pack, state: TrainingState) -> bool:
    """Return whether a member's initial weights, loss or gradient differ from those in its pack by more than rounding.

    Loss and gradient are computed in the dtype of the weights, at the weights of `state`. Optimizer updates are not
    compared, because AdamW amplifies gradients that are only rounding errors, such as the gradient of the key bias.
    """
    alone = Pack(pack.members[-1:], pack.device)
    results = list[tuple[Tensor, ...]]()
    for compared_pack in (alone, pack):
        # bfloat16 would round by more than the compared difference.
        compared_pack = copy(compared_pack)
        compared_pack.training = replace(compared_pack.training, compute_dtype="float32")
        theta = state.theta[-len(compared_pack) :]
        stage_M = state.stage[-len(compared_pack) :]
        batches = sample_batches(compared_pack, state.step + 1, compared_pack.training.batch_size, stage_M)
        gradient, loss_M = compute_gradients(compared_pack, theta, batches, state.step + 1)
        results.append((TrainingState.make_initial(compared_pack).theta[-1], loss_M[-1], gradient[-1]))
    rounding = GRADIENT_ROUNDING * torch.finfo(pack.dtype).eps
    return any(
        bool((single_value - pack_value).norm() > rounding * single_value.norm())
        for single_value, pack_value in zip(*results, strict=True)
    )
