"""What is decided at an evaluation: who stops, and who goes on to the next stage of the curriculum.

Shapes: M members of a pack.
"""

import numpy as np
from numpy.typing import NDArray

from trainers.errors import PackError
from trainers.evaluation.results import Validation
from trainers.optimization.criterion import is_reached
from trainers.packs.pack import Pack

Ints = NDArray[np.int64]


def good_enough(pack: Pack, seen: Validation, stage_M: Ints) -> NDArray[np.bool_]:
    """Which members stop, (M,): the mean over the trained lengths is at the threshold, at the last stage if any."""
    stop = pack.stop
    if stop is None:
        return np.zeros(len(pack), dtype=bool)
    found = is_reached(seen.mean(stop.metric, stop.average), stop.threshold, pack.directions[stop.metric])
    return found if pack.curriculum is None else found & (stage_M == len(pack.task.stages) - 1)


def next_stages(pack: Pack, seen: Validation, stage_M: Ints) -> Ints:
    """The stages that members go on at, (M,). Raises PackError for a curriculum that leads out of the stages."""
    rule, stages = pack.curriculum, pack.task.stages
    if rule is None:
        return stage_M
    scores_MN = seen.at(rule.metric, rule.average, stages)
    found = np.asarray(rule.advanced(stage_M.copy(), scores_MN, pack.directions[rule.metric]))
    if found.shape != stage_M.shape or found.dtype.kind not in "iu" or not np.isin(found, range(len(stages))).all():
        raise PackError(f"the curriculum {rule.name} goes on at stages {found.tolist()} of 0 to {len(stages) - 1}")
    return found.astype(np.int64)
