"""The chosen evaluation of each member: its last one, or the one with the best judged value.

The judged value (`objective.judged_values`) is taken at the selection lengths alone, so other lengths have no
influence. The chosen step holds for every metric, average and length of the member, so that comparisons stay paired.

A member without a number at its last evaluation has failed, whatever its earlier evaluations were: how often training
diverges is part of the result. Of equal values the latest is chosen: if a metric saturates at the selection lengths,
further training can still matter beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

LAST, BEST = "last", "best"
Mask = npt.NDArray[np.bool_]


def choose_steps(judged: pd.DataFrame, direction: str, evaluation: str) -> pd.DataFrame:
    """Return one row per member (config_id, seed, step, value), in the order of their last evaluations in `judged`.

    `judged` has a row per member and evaluation: config_id, seed, step, value. The last step of a configuration is the
    last of any of its members; a member that has no row there is left out, one with NaN there keeps that step and NaN.
    """
    judged = judged[["config_id", "seed", "step", "value"]]
    final = judged["step"] == judged.groupby("config_id", observed=True)["step"].transform("max")
    last = judged[final].reset_index(drop=True)
    if evaluation == LAST or not len(last):
        return last
    member, members = _members(judged)
    alive = np.zeros(len(members), dtype=bool)
    alive[member[final]] = ~last["value"].isna().to_numpy()
    value, step = judged["value"].to_numpy(dtype=np.float64), judged["step"].to_numpy(dtype=np.int64)
    candidates = np.flatnonzero(alive[member] & ~np.isnan(value))
    worse = value if direction == "minimize" else -value
    order = candidates[np.lexsort((-step[candidates], worse[candidates], member[candidates]))]  # the last key is first
    of_member = member[order]
    first = order[np.flatnonzero(np.diff(of_member, prepend=-1))]
    best = np.full(len(members), -1)
    best[member[first]] = first
    chosen = best[member[final]]
    is_chosen = chosen >= 0
    return last.assign(
        step=np.where(is_chosen, step[chosen], last["step"]), value=np.where(is_chosen, value[chosen], last["value"])
    )


def select_steps(curves: pd.DataFrame, steps: pd.DataFrame) -> Mask:
    """Return which rows of `curves` are at the step that `steps` (config_id, seed, step) names for their member."""
    rows = steps[["config_id", "seed", "step"]].itertuples(index=False, name=None)
    chosen = {(str(name), int(seed)): step for name, seed, step in rows}
    member, members = _members(curves)
    step_of = np.array([chosen.get(pair, -1) for pair in members], dtype=np.int64)
    return np.asarray(step_of[member] == curves["step"].to_numpy())


def _members(rows: pd.DataFrame) -> tuple[npt.NDArray[np.int64], list[tuple[str, int]]]:
    """Return the number of each row's member, and the members (config_id, seed) by that number."""
    import pandas as pd

    name, names = pd.factorize(rows["config_id"])
    seed, seeds = pd.factorize(rows["seed"])
    pair, pairs = pd.factorize(name * max(1, len(seeds)) + seed)
    members = [(str(names[int(code) // len(seeds)]), int(seeds[int(code) % len(seeds)])) for code in pairs]
    return pair.astype(np.int64), members
