"""Score configurations: each seed's curve is reduced to a number, and the score is a statistic of these numbers.

The statistic is `objective.seeds`, by default the median.

A seed failed if its value is NaN or missing at the last step; `statistics.failed_seeds` says how it counts. Failed
seeds are always reported, and a configuration is failed and not ranked if all of its seeds failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from orchestrator.errors import LedgerError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.results.scoring.evaluation_choice import choose_steps, number_members
from orchestrator.statistics.failed_seeds import SeedStatistics, get_sign, get_worst_value, score_seeds, summarize_seeds
from orchestrator.statistics.quartiles import Floats, Quartiles, compute_quantile
from search_spaces import Objective
from search_spaces.grammar.objective import SeedQuantile, ShareAbove

ROUNDING = 1e-6  # relative tolerance at a threshold: curves are float32, in which 0.9 is 0.89999998

if TYPE_CHECKING:
    import pandas as pd  # slow to import, and a driver does without it


def read_objective(spec: Mapping[str, Any]) -> Objective:
    """Return the objective of a recorded specification, such as `SweepState.spec`.

    Raises LedgerError if this version cannot read it.
    """
    try:
        return Objective.model_validate(spec.get("objective", {}))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, ("objective", *problem["loc"])))
        raise LedgerError(f"{LEDGER_FILE}:1: this version cannot read the recorded {key}: {problem['msg']}") from error


def mask_judged_rows(curves: pd.DataFrame, objective: Objective) -> npt.NDArray[np.bool_]:
    """Return which rows have the judged metric and average, at any length."""
    return np.asarray((curves["metric"] == objective.metric) & (curves["average"] == objective.average))


def compute_judged_values(curves: pd.DataFrame, objective: Objective) -> pd.DataFrame:
    """Return a row per seed and step (config_id, seed, step, value): the curve reduced over the objective's lengths.

    The value is NaN if the curve has a NaN at these lengths. Raises KeyError if the metric or the average has no rows,
    or if a length is missing.
    """
    # A missing metric or length would silently give NaN, which means a failed seed.
    rows = curves[mask_judged_rows(curves, objective)]
    if len(curves) and not len(rows):
        raise KeyError(f"the curves have no {objective.metric} of the average {objective.average}")
    missing = sorted(set(objective.lengths) - set(rows["length"].unique().tolist()))
    if missing and len(rows):
        raise KeyError(f"the curves lack length {', '.join(map(str, missing))}")
    import pandas as pd

    # Evaluations are numbered in the order of the curves. In the table a length without a row is NaN, and makes the
    # value of its evaluation NaN. Filling it here is several times as fast as `pivot`.
    member, members = number_members(rows)
    step, steps = pd.factorize(rows["step"])
    evaluation, evaluations = pd.factorize(member * max(1, len(steps)) + step)
    lengths = np.array(sorted(objective.lengths))
    length = rows["length"].to_numpy()
    is_judged_length = np.isin(length, lengths)
    values_EL = np.full((len(evaluations), len(lengths)), np.nan)
    cells = evaluation[is_judged_length], np.searchsorted(lengths, length[is_judged_length])
    values_EL[cells] = rows["value"].to_numpy()[is_judged_length]

    # Numbers of members and steps become names again.
    evaluated_members = [members[index] for index in evaluations // max(1, len(steps))]
    return pd.DataFrame({
        "config_id": pd.Series([config_id for config_id, _ in evaluated_members], dtype="str"),
        "seed": np.array([seed for _, seed in evaluated_members], dtype=np.int64),
        "step": np.asarray(steps, dtype=np.int64)[evaluations % max(1, len(steps))],
        "value": reduce_rows(values_EL, objective.reduce),
    })  # fmt: skip


def choose_evaluations(curves: pd.DataFrame, objective: Objective) -> pd.DataFrame:
    """Return the evaluation of each seed that `objective.evaluation` selects; see `choose_steps`."""
    return choose_steps(compute_judged_values(curves, objective), objective.direction, objective.evaluation)


def score_members(
    curves: pd.DataFrame,
    objective: Objective,
    planned_seeds: Mapping[str, Iterable[int]] | None = None,
) -> pd.DataFrame:
    """Return a row per seed (config_id, seed, score): the chosen curve reduced over the objective's lengths.

    `curves` are the curves of finished configurations or members, because their last step counts as final. They have
    all evaluations if `objective.evaluation` is best. A seed has failed, with the score NaN, if its judged value at the
    last step is NaN, or if it is in `planned_seeds` (by config_id) without a row there. Raises what
    `compute_judged_values` raises.
    """
    return score_evaluations(choose_evaluations(curves, objective), planned_seeds)


def score_evaluations(
    evaluations: pd.DataFrame, planned_seeds: Mapping[str, Iterable[int]] | None = None
) -> pd.DataFrame:
    """Return the scores of `score_members` from the chosen evaluations of its curves (`choose_evaluations`)."""
    scores = evaluations.drop(columns="step").rename(columns={"value": "score"})
    if planned_seeds is None:
        return scores
    import pandas as pd

    # A seed whose pack died has no rows, but counts as failed.
    pairs = [(config_id, seed) for config_id, seeds in planned_seeds.items() for seed in seeds]
    members = zip(scores["config_id"].tolist(), scores["seed"].tolist(), strict=True)
    score_by_member = dict(zip(members, scores["score"].tolist(), strict=True))
    return pd.DataFrame({
        "config_id": pd.Series([config_id for config_id, _ in pairs], dtype="str"),
        "seed": np.array([seed for _, seed in pairs], dtype=np.int64),
        "score": np.array([score_by_member.get(pair, math.nan) for pair in pairs], dtype=np.float64),
    })  # fmt: skip


def score_configuration(scores: Iterable[float], objective: Objective) -> SeedStatistics:
    """Return the score of a configuration from the scores of its seeds (NaN: failed seed)."""
    return score_seeds(scores, objective.failed_seeds, objective.direction, make_seed_statistic(objective))


def make_seed_statistic(objective: Objective) -> Callable[[Floats], float] | None:
    """Return the statistic over seeds that `objective.seeds` names; None for the median.

    Under `worst` a failed seed makes a mean infinite. A statistic between opposite infinities is the worst value.
    """
    seeds = objective.seeds
    worst = get_worst_value(objective.direction)
    if seeds == "median":  # computed with the quartiles
        return None

    def compute_statistic(values: Floats) -> float:
        if isinstance(seeds, SeedQuantile):
            return compute_quantile(sorted(values.tolist()), seeds.quantile, worst)
        if isinstance(seeds, ShareAbove):
            return float(np.mean(meets_threshold(values, seeds.share_above, "maximize")))

        # A mean of opposite infinities is NaN, which would mean that all seeds failed.
        if seeds != "mean":
            return float(values.max() if seeds == "max" else values.min())
        with np.errstate(invalid="ignore"):
            mean = float(values.mean())
        return worst if math.isnan(mean) else mean

    return compute_statistic


def compute_judged_quartiles(values: Iterable[float], objective: Objective) -> Quartiles:
    """Return the quartiles of a value of the judged metric per seed (NaN: failed seed); NaN if all failed."""
    return summarize_seeds(values, objective.failed_seeds, objective.direction).quartiles


def score_configurations(members: pd.DataFrame, objective: Objective) -> dict[str, SeedStatistics]:
    """Return the score of every configuration in the rows of `score_members`, by config_id in order of appearance."""
    groups = members.groupby("config_id", sort=False, observed=True)["score"]
    return {str(name): score_configuration(values, objective) for name, values in groups}


def rank_configurations(scores: Mapping[str, SeedStatistics], direction: str) -> list[str]:
    """Return the config_ids sorted by score, best first; failed ones last, ties in their order."""
    # The score of a failed configuration may be NaN, which cannot be sorted.
    sign = get_sign(direction)
    sort_keys = {
        config_id: (score.is_failed, 0.0 if score.is_failed else sign * score.score)
        for config_id, score in scores.items()
    }
    return sorted(sort_keys, key=lambda config_id: sort_keys[config_id])


def meets_threshold(values: Any, threshold: float, direction: str) -> Any:
    """Return whether values are at most (minimize) or at least (maximize) a threshold, up to ROUNDING; NaN: False."""
    sign = get_sign(direction)
    return sign * values <= sign * threshold + ROUNDING * abs(threshold)


def find_generalization_length(
    lengths: Sequence[int], median_values: Sequence[float], threshold: float, direction: str
) -> int:
    """Return the greatest length up to which every median meets the threshold; 0 if the first median does not."""
    greatest = 0
    for length, value in sorted(zip(lengths, median_values, strict=True)):
        if not meets_threshold(value, threshold, direction):
            break
        greatest = length
    return int(greatest)


def compute_area_beyond(lengths: Sequence[int], median_values: Sequence[float], used_lengths: Iterable[int]) -> float:
    """Return the mean of the medians over lengths beyond the longest of `used_lengths`; NaN without such lengths.

    `used_lengths` are the trained and the selection lengths.
    """
    longest = max(used_lengths)
    beyond = [value for length, value in zip(lengths, median_values, strict=True) if length > longest]
    return float(np.mean(beyond)) if beyond else math.nan


def reduce_rows(values_ML: Floats, reduce: str) -> Floats:
    """Return the "mean", "max" or "last" (members,) of each row (members, ascending lengths); NaN if a value is NaN."""
    if not values_ML.size:
        return np.full(len(values_ML), np.nan)

    # A NaN at any length means a failed seed, so it must not be lost, not even by "last".
    if reduce == "mean":
        with np.errstate(invalid="ignore"):  # inf - inf within a curve is NaN, a failed seed
            return np.asarray(values_ML.mean(axis=1))
    if reduce == "max":
        return np.asarray(values_ML.max(axis=1))
    return np.where(np.isnan(values_ML).any(axis=1), np.nan, values_ML[:, -1])
