"""Choose the evaluation of each member: the last one, or the best by its judged value.

The judged value (`configuration_scores.compute_judged_values`) depends on the selection lengths alone. The chosen step
applies to every metric, average and length of the member, so that comparisons stay paired.

A member with NaN at its last evaluation has failed, whatever its earlier evaluations were, because the frequency of
divergence is part of the result. The latest of equal values is chosen: after a metric has saturated at the selection
lengths, further training can still matter at other lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

LAST, BEST = "last", "best"
Mask = npt.NDArray[np.bool_]


def choose_steps(judged_values: pd.DataFrame, direction: str, evaluation: str) -> pd.DataFrame:
    """Return the chosen evaluation of each member: config_id, seed, step, value, in the order of their last rows.

    `judged_values` has a row per member and evaluation with the same columns. The last step of a configuration is the
    last step of any of its members. Members without a row at that step are left out. Members with NaN at that step keep
    the step and the NaN.
    """
    import pandas as pd

    # A member without a row at the last step of its configuration is a missing seed, so it has no evaluation to choose.
    judged_values = judged_values[["config_id", "seed", "step", "value"]]
    config, config_ids = pd.factorize(judged_values["config_id"])
    step = judged_values["step"].to_numpy(dtype=np.int64)
    last_steps = np.zeros(len(config_ids), dtype=np.int64)
    np.maximum.at(last_steps, config, step)
    final = step == last_steps[config]
    last_evaluations = judged_values[final].reset_index(drop=True)
    if evaluation == LAST or not len(last_evaluations):
        return last_evaluations

    # Failed members keep their last evaluation; of the others all evaluations with a value are candidates. Of equal
    # values the latest step comes first.
    member, members = number_members(judged_values)
    is_alive = np.zeros(len(members), dtype=bool)
    is_alive[member[final]] = ~last_evaluations["value"].isna().to_numpy()
    value = judged_values["value"].to_numpy(dtype=np.float64)
    candidates = np.flatnonzero(is_alive[member] & ~np.isnan(value))
    loss = value if direction == "minimize" else -value
    sort_keys = (-step[candidates], loss[candidates], member[candidates])  # the last key has precedence
    order = candidates[np.lexsort(sort_keys)]

    # The first candidate of each member in this order is its best one.
    best_rows = order[np.flatnonzero(np.diff(member[order], prepend=-1))]
    best = np.full(len(members), -1)
    best[member[best_rows]] = best_rows
    chosen_rows = best[member[final]]
    is_chosen = chosen_rows >= 0
    return last_evaluations.assign(
        step=np.where(is_chosen, step[chosen_rows], last_evaluations["step"]),
        value=np.where(is_chosen, value[chosen_rows], last_evaluations["value"]),
    )


def select_steps(curves: pd.DataFrame, steps: pd.DataFrame) -> Mask:
    """Return a mask of the rows of `curves` at the step of their member in `steps` (config_id, seed, step)."""
    rows = steps[["config_id", "seed", "step"]].itertuples(index=False, name=None)
    step_by_member = {(str(config_id), int(seed)): step for config_id, seed, step in rows}
    member, members = number_members(curves)
    chosen_steps = np.array([step_by_member.get(pair, -1) for pair in members], dtype=np.int64)  # -1: no row matches
    return np.asarray(chosen_steps[member] == curves["step"].to_numpy())


def number_members(rows: pd.DataFrame) -> tuple[npt.NDArray[np.int64], list[tuple[str, int]]]:
    """Return the index of each row's member, and the members (config_id, seed) by index."""
    import pandas as pd

    # Integer codes of pairs are factorized faster than pairs of objects.
    config, config_ids = pd.factorize(rows["config_id"])
    seed, seeds = pd.factorize(rows["seed"])
    pair, pairs = pd.factorize(config * max(1, len(seeds)) + seed)
    members = [(str(config_ids[int(code) // len(seeds)]), int(seeds[int(code) % len(seeds)])) for code in pairs]
    return pair.astype(np.int64), members
