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


def members_to_stop(pack: Pack, validation: Validation, stage_M: Ints) -> NDArray[np.bool_]:
    """Return which members stop, (M,): their mean over the trained lengths reaches the threshold, in the last stage."""
    stop = pack.stop
    if stop is None:
        return np.zeros(len(pack), dtype=bool)
    reached = is_reached(validation.mean(stop.metric, stop.average), stop.threshold, pack.directions[stop.metric])
    return reached if pack.curriculum is None else reached & (stage_M == len(pack.task.stages) - 1)


def ended_members(last: Evaluation, ends_at_M: Ints) -> NDArray[np.bool_]:
    """Return which members have ended, (M,): at the step `ends_at_M`, or, with early stopping, stopped or failed."""
    ended = ends_at_M <= last.step
    return ended if last.stopped_at_M is None else ended | (last.stopped_at_M >= 0) | (last.failed_at_M >= 0)


def evaluations_left(pack: Pack, done: int) -> list[int]:
    """Return the steps of the evaluations after step `done` that a pack without active members has left to report.

    With early stopping these are all, so that a member has the same curve in any pack; else only the last one.
    """
    every, steps = pack.evaluation.every, pack.training.steps
    between = range((done // every + 1) * every, steps, every) if every and pack.stop else ()
    return [*between, *([steps] if done < steps else [])]


def next_stages(pack: Pack, validation: Validation, stage_M: Ints) -> Ints:
    """Return the next stages of the members, (M,). Raises PackError if a curriculum returns invalid stages."""
    rule, stages = pack.curriculum, pack.task.stages
    if rule is None:
        return stage_M
    scores_MN = validation.at(rule.metric, rule.average, stages)
    chosen = np.asarray(rule.advance_stages(stage_M.copy(), scores_MN, pack.directions[rule.metric]))
    if chosen.shape != stage_M.shape or chosen.dtype.kind not in "iu" or not np.isin(chosen, range(len(stages))).all():
        allowed = f"{len(stage_M)} integers from 0 to {len(stages) - 1}"
        raise PackError(f"the curriculum {rule.name} returned the stages {chosen.tolist()}; allowed: {allowed}")
    return chosen.astype(np.int64)
