"""From the seeds of a configuration to its score: reduce each seed's curve, then take the median under a policy.

A seed failed when it has no number to show: its value is NaN, or it has none at the last step. Policies:
worst    a failed seed counts as the worst possible value, so the median is finite while fewer than half failed
exclude  the median is over the survivors
fail     one failed seed fails the configuration
Whatever the policy, failed seeds are reported, and a configuration without survivors is failed and never best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.results.evaluation_choice import LAST, chosen_steps

Floats = npt.NDArray[np.float64]


class ObjectiveLike(Protocol):
    """The attributes of an objective that are read here; `SweepSpec.objective` and `Objective` have them."""

    @property
    def metric(self) -> str: ...  # noqa: D102
    @property
    def average(self) -> str: ...  # noqa: D102
    @property
    def lengths(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def direction(self) -> str: ...  # noqa: D102
    @property
    def reduce(self) -> str: ...  # noqa: D102
    @property
    def evaluation(self) -> str: ...  # noqa: D102
    @property
    def failed_seeds(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The `objective` section of a sweep file."""

    metric: str
    average: str
    lengths: tuple[int, ...]
    direction: str = "minimize"
    reduce: str = "mean"
    evaluation: str = LAST
    failed_seeds: str = "worst"

    @classmethod
    def from_dict(cls, section: Mapping[str, Any]) -> Self:
        """Read it from a resolved specification (`state.spec["objective"]`); keys it does not need are left alone."""
        known = {name: section[name] for name in cls.__dataclass_fields__ if name in section}
        return cls(**{**known, "lengths": tuple(section["lengths"])})


@dataclass(frozen=True, kw_only=True)
class ConfigurationScore:
    """The score of a configuration: median and quartiles over its seeds under the failed-seed policy.

    `seeds_run` counts every seed, failed ones too. The score of a `failed` configuration is NaN under the policy `fail`
    and the worst possible one (infinite) under the others; an infinite score without `failed` says that half of the
    seeds or more failed under the policy `worst`.
    """

    config_id: str
    score: float
    q25: float
    q75: float
    seeds_run: int
    seeds_failed: int
    failed: bool


def is_judged(curves: pd.DataFrame, objective: Objective) -> npt.NDArray[np.bool_]:
    """Return which rows are of the metric and average that is judged, at any length."""
    return np.asarray((curves["metric"] == objective.metric) & (curves["average"] == objective.average))


def judged_values(curves: pd.DataFrame, objective: ObjectiveLike | Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per seed and step (config_id, seed, step, value): its curve reduced over the objective's lengths.

    NaN where the curve has one at these lengths. Raises KeyError when the metric or the average has no rows at all, or
    when a length is missing.
    """
    objective = as_objective(objective)
    rows = curves[is_judged(curves, objective)]
    if len(curves) and not len(rows):
        raise KeyError(f"the curves hold no {objective.metric} of the average {objective.average}")
    missing = sorted(set(objective.lengths) - set(rows["length"].unique().tolist()))
    if missing and len(rows):
        raise KeyError(f"the curves hold no length {', '.join(map(str, missing))}")
    keys = ["config_id", "seed", "step"]
    rows = rows.astype({"config_id": "str"})
    evaluations = pd.MultiIndex.from_frame(rows[keys].drop_duplicates())  # in the order of the curves
    table = rows[rows["length"].isin(objective.lengths)].pivot(index=keys, columns="length", values="value")
    table = table.reindex(index=evaluations, columns=sorted(objective.lengths))
    values = table.index.to_frame(index=False).astype({"config_id": "str", "seed": np.int64, "step": np.int64})
    return values.assign(value=_reduce(table.to_numpy(dtype=np.float64), objective.reduce))


def choose(curves: pd.DataFrame, objective: ObjectiveLike | Mapping[str, Any]) -> pd.DataFrame:
    """Return the step of each seed that `objective.evaluation` names, with its judged value; see `chosen_steps`."""
    objective = as_objective(objective)
    return chosen_steps(judged_values(curves, objective), objective.direction, objective.evaluation)


def score_members(
    curves: pd.DataFrame,
    objective: ObjectiveLike | Mapping[str, Any],
    seeds: Mapping[str, Iterable[int]] | None = None,
) -> pd.DataFrame:
    """Return one row per seed (config_id, seed, score): its curve reduced over the objective's lengths.

    The step is that of `objective.evaluation`, so `curves` must have every evaluation if that is `best`. The last step
    of a configuration in `curves` is its final one: give it finished configurations or members. The score is NaN for a
    seed that failed: any of its values at the last step is NaN, or `seeds` (configuration -> seeds planned, as from
    `state.seeds()`) names it and it has no row there. Raises what `judged_values` raises.
    """
    scores = choose(curves, objective).drop(columns="step").rename(columns={"value": "score"})
    if seeds is None:
        return scores
    planned = pd.DataFrame(
        [(name, seed) for name, of_it in seeds.items() for seed in of_it], columns=["config_id", "seed"]
    ).astype({"config_id": "str", "seed": np.int64})
    return planned.merge(scores, on=["config_id", "seed"], how="left")


def score_configuration(
    config_id: str, scores: Iterable[float], objective: ObjectiveLike | Mapping[str, Any]
) -> ConfigurationScore:
    """Return the score of one configuration from its seeds' scores (NaN = failed seed)."""
    objective = as_objective(objective)
    values = np.array(list(scores), dtype=np.float64)
    alive = values[~np.isnan(values)]
    seeds_failed = len(values) - len(alive)
    worst = math.inf * _sign(objective.direction)
    if objective.failed_seeds == "worst":
        counted = np.concatenate([alive, np.full(seeds_failed, worst)])
    elif objective.failed_seeds in ("exclude", "fail"):
        counted = alive
    else:
        raise ValueError(f"failed_seeds is {objective.failed_seeds!r}; allowed: worst, exclude, fail")
    failed = not len(alive) or (objective.failed_seeds == "fail" and seeds_failed > 0)
    if failed:
        q25 = score = q75 = math.nan if objective.failed_seeds == "fail" else worst
    else:
        q25, score, q75 = quartiles(counted, worst)
    return ConfigurationScore(
        config_id=config_id,
        score=score,
        q25=q25,
        q75=q75,
        seeds_run=len(values),
        seeds_failed=seeds_failed,
        failed=failed,
    )


def score_configurations(
    members: pd.DataFrame, objective: ObjectiveLike | Mapping[str, Any]
) -> list[ConfigurationScore]:
    """Return the score of every configuration in the rows of `score_members`, in the order they come there."""
    groups = members.groupby("config_id", sort=False, observed=True)["score"]
    return [score_configuration(str(name), values, objective) for name, values in groups]


def rank(scores: Iterable[ConfigurationScore], direction: str) -> list[ConfigurationScore]:
    """Return the scores best first; failed ones come last, ties keep their order."""
    sign = _sign(direction)
    return sorted(scores, key=lambda one: (one.failed, 0.0 if one.failed else sign * one.score))


def quartiles(values: Floats, worst: float = math.inf) -> tuple[float, float, float]:
    """Return q25, median, q75 of values without NaN; needs at least one.

    The usual linear interpolation, `numpy.quantile` to the bit on finite values. Between a finite and an infinite
    value lies the infinite one, between two opposite infinities the `worst` one, so that NaN never appears.
    """
    if np.isfinite(values).all():
        q25, q75 = np.quantile(values, [0.25, 0.75])
        return float(q25), float(np.median(values)), float(q75)
    ordered = np.sort(values)
    return _between(ordered, 0.25, worst), _between(ordered, 0.5, worst), _between(ordered, 0.75, worst)


def generalization_length(
    lengths: Sequence[int], median_values: Sequence[float], threshold: float, direction: str
) -> int:
    """Return the greatest length at which the median meets the threshold, and at every shorter one too; 0 if none."""
    sign = _sign(direction)
    reached = 0
    for length, value in sorted(zip(lengths, median_values, strict=True)):
        if not sign * value <= sign * threshold:  # written so that NaN does not meet it
            break
        reached = length
    return int(reached)


def area_beyond(lengths: Sequence[int], median_values: Sequence[float], trained_lengths: Iterable[int]) -> float:
    """Return the mean of the median over the lengths beyond the longest trained one; NaN when there are none."""
    longest = max(trained_lengths)
    beyond = [value for length, value in zip(lengths, median_values, strict=True) if length > longest]
    return float(np.mean(beyond)) if beyond else math.nan


def as_objective(objective: ObjectiveLike | Mapping[str, Any]) -> Objective:
    """Return the objective as this module's own dataclass, from a mapping or anything with its attributes."""
    if isinstance(objective, Mapping):
        return Objective.from_dict(objective)
    return Objective(
        metric=objective.metric,
        average=objective.average,
        lengths=tuple(objective.lengths),
        direction=objective.direction,
        reduce=objective.reduce,
        evaluation=objective.evaluation,
        failed_seeds=objective.failed_seeds,
    )


def reduced(values: Floats, how: str) -> float:
    """Return one seed's values, lengths ascending, as one number: their "mean", "max" or "last"; NaN if one is NaN."""
    return float(_reduce(values[None], how)[0])


def _reduce(values_ML: Floats, how: str) -> Floats:
    """Return one number per row of (members, lengths ascending), NaN where any of its values is NaN."""
    if not values_ML.size:
        return np.full(len(values_ML), np.nan)
    if how == "mean":
        with np.errstate(invalid="ignore"):  # inf - inf, both in one curve: no number, a failed seed
            return np.asarray(values_ML.mean(axis=1))
    if how == "max":
        return np.asarray(values_ML.max(axis=1))
    if how == "last":
        return np.where(np.isnan(values_ML).any(axis=1), np.nan, values_ML[:, -1])
    raise ValueError(f"reduce is {how!r}; allowed: mean, max, last")


def _between(ordered: Floats, fraction: float, worst: float) -> float:
    place = fraction * (len(ordered) - 1)
    low, high = float(ordered[math.floor(place)]), float(ordered[math.ceil(place)])
    if low == high or place == math.floor(place):
        return low
    if math.isinf(low) or math.isinf(high):
        return worst if math.isinf(low) and math.isinf(high) else low if math.isinf(low) else high
    if fraction == 0.5:
        return (low + high) / 2
    weight, step = place - math.floor(place), high - low
    return low + step * weight if weight < 0.5 else high - step * (1 - weight)  # as numpy.quantile rounds


def _sign(direction: str) -> float:
    if direction not in ("minimize", "maximize"):
        raise ValueError(f"direction is {direction!r}; allowed: minimize, maximize")
    return 1.0 if direction == "minimize" else -1.0
