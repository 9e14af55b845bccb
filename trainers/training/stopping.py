"""Decisions at an evaluation: which members stop early, and which move to the next stage of the curriculum.

Shapes: M members of a pack.
"""

import numpy as np
from numpy.typing import NDArray

from trainers.errors import PackError
from trainers.evaluation.results import Evaluation, Validation
from trainers.optimization.criterion import is_reached
from trainers.packs.pack import Pack

Ints = NDArray[np.int64]


def find_members_to_stop(pack: Pack, validation: Validation, stage_M: Ints) -> NDArray[np.bool_]:
    """Return which members stop early, (M,): their mean over the trained lengths reaches the threshold.

    stage_M: with a curriculum, only members in the last stage stop.
    """
    criterion = pack.stop_criterion
    if criterion is None:
        return np.zeros(len(pack), dtype=bool)
    scores_M = validation.mean(criterion.metric, criterion.average)
    direction = pack.directions[criterion.metric]
    is_reached_M = is_reached(scores_M, criterion.threshold, direction)
    return is_reached_M if pack.curriculum is None else is_reached_M & (stage_M == len(pack.task.stages) - 1)


def find_ended_members(last: Evaluation, end_step_M: Ints) -> NDArray[np.bool_]:
    """Return which members have ended, (M,): at step `end_step_M`; with early stopping also stopped and failed ones."""
    has_ended = end_step_M <= last.step
    return has_ended if last.stopped_at_M is None else has_ended | (last.stopped_at_M >= 0) | (last.failed_at_M >= 0)


def list_remaining_evaluations(pack: Pack, last_step: int) -> list[int]:
    """Return the steps of the evaluations after step `last_step` that a pack without active members must still report.

    With early stopping these are all evaluations, so that a member has the same curve in any pack; otherwise only the
    last step is reported.
    """
    interval, steps = pack.evaluation.every, pack.training.steps
    intermediate = range(0)
    if interval and pack.stop_criterion:
        intermediate = range((last_step // interval + 1) * interval, steps, interval)
    return [*intermediate, *([steps] if last_step < steps else [])]


def choose_next_stages(pack: Pack, validation: Validation, stage_M: Ints) -> Ints:
    """Return the next stages of the members, (M,). Raises PackError if a curriculum returns invalid stages."""
    curriculum = pack.curriculum
    stages = pack.task.stages
    if curriculum is None:
        return stage_M

    # The curriculum may be the user's code, so its result is checked.
    scores_MN = validation.select_scores(curriculum.metric, curriculum.average, stages)
    next_M = np.asarray(curriculum.advance_stages(stage_M.copy(), scores_MN, pack.directions[curriculum.metric]))
    if next_M.shape != stage_M.shape or next_M.dtype.kind not in "iu" or not np.isin(next_M, range(len(stages))).all():
        allowed = f"{len(stage_M)} integers from 0 to {len(stages) - 1}"
        raise PackError(f"curriculum {curriculum.name}: advance_stages returned {next_M.tolist()}; allowed: {allowed}")
    return next_M.astype(np.int64)
