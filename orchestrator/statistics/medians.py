"""What the curves of a sweep say: median curves over seeds, pairs over the same members, importance by Optuna.

Everything says the n it rests on, and gives no number with a reason rather than a number without meaning. The effects
of hyperparameters and the bootstrap live next door and are offered here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from orchestrator.results.objective import quartiles
from orchestrator.statistics.bootstrap import (
    LEVEL,
    RESAMPLES,
    Estimate,
    bootstrap_clustered_median,
    bootstrap_median,
    spearman,
)
from orchestrator.statistics.effects import (
    Scores,
    Values,
    effects,
    hyperparameters,
    is_failed,
    is_numeric,
    partial_effects,
    value_label,
)

__all__ = [
    "Estimate",
    "bootstrap_median",
    "effects",
    "importances",
    "median_curves",
    "paired",
    "partial_effects",
    "spearman",
]

Floats = npt.NDArray[np.float64]
MEDIAN_CURVE_COLUMNS = (
    "config_id", "average", "metric", "length", "step", "median", "q25", "q75", "seeds", "failed"
)  # fmt: skip
PAIRED_COLUMNS = (
    "first", "second", "n", "configurations", "dropped", "median_difference", "low", "high", "q25", "q75",
    "first_smaller", "second_smaller", "ties", "wilcoxon_p", "sign_p", "reason",
)  # fmt: skip
IMPORTANCE_COLUMNS = ("hyperparameter", "importance", "n", "reason")
FEWEST_FOR_IMPORTANCE, PER_HYPERPARAMETER = 20, 8


def median_curves(curves: pd.DataFrame, directions: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the median and quartiles over the seeds of every configuration, average, metric, length and step.

    Columns: MEDIAN_CURVE_COLUMNS; `seeds` counts the rows, `failed` those that are NaN. Medians are over the survivors;
    for a metric with a direction in `directions` ("minimize" or "maximize") a failed seed counts as the worst possible
    value instead. Where every seed failed the median is NaN. Quartiles interpolate linearly (`numpy.quantile`);
    between a finite and an infinite value lies the infinite one. Takes seconds for millions of rows.
    """
    columns = ["config_id", "average", "metric", "step", "length"]
    if not len(curves):
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in MEDIAN_CURVE_COLUMNS})
    codes, labels = zip(*(_codes(curves[name]) for name in columns), strict=True)
    key = np.zeros(len(curves), dtype=np.int64)
    for code, label in zip(codes, labels, strict=True):
        key = key * len(label) + code
    order = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[order], prepend=-1))
    seeds = np.diff(np.append(start, len(key)))
    place, index = np.repeat(np.arange(len(start)), seeds), np.arange(len(key))
    values_GS = np.full((len(start), seeds.max()), np.nan)  # groups by seeds, NaN where a group has fewer
    values_GS[place, index - start[place]] = curves["value"].to_numpy(dtype=np.float64)[order]
    alive = (~np.isnan(values_GS)).sum(axis=1)
    of_group = [code[order][start] for code in codes]
    worst = np.array([_worst((directions or {}).get(name)) for name in labels[2]])[of_group[2]]
    values_GS = np.where(np.isnan(values_GS), worst[:, None], values_GS)
    values_GS[np.arange(values_GS.shape[1]) >= seeds[:, None]] = np.nan
    values_GS.sort(axis=1)  # NaN last
    counted = np.where(np.isnan(worst), alive, seeds)
    result: dict[str, Any] = {
        name: label.take(code) for name, label, code in zip(columns, labels, of_group, strict=True)
    }
    for name, fraction in (("median", 0.5), ("q25", 0.25), ("q75", 0.75)):
        result[name] = np.where(alive == 0, np.nan, _quantile(values_GS, counted, fraction, worst))
    result["seeds"], result["failed"] = seeds, seeds - alive
    return pd.DataFrame(result)[list(MEDIAN_CURVE_COLUMNS)]


def paired(
    first: pd.Series[float],
    second: pd.Series[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two scores of the same members; both are indexed by (config_id, seed), NaN where a member failed.

    Returns PAIRED_COLUMNS but the two names: n members with both scores, their configurations, members dropped for
    want of one; median and quartiles of first - second, with a bootstrap interval over configurations; on how many
    members which one is smaller; two-sided p of the Wilcoxon signed-rank test and of the sign test. Seeds of one
    configuration are not independent, so the tests are on the median difference of each configuration, over those where
    it is not zero; NaN with fewer than two.
    """
    both = pd.DataFrame({"first": first, "second": second})
    kept = both.dropna()
    x, y = kept["first"].to_numpy(dtype=np.float64), kept["second"].to_numpy(dtype=np.float64)
    difference = np.zeros(len(kept))
    np.subtract(x, y, out=difference, where=x != y)  # equal infinities do not differ
    smaller, larger = int((difference < 0).sum()), int((difference > 0).sum())
    result: dict[str, Any] = dict.fromkeys(PAIRED_COLUMNS[2:], math.nan)
    names = kept.index.get_level_values(0).astype("str").to_numpy()
    result |= {"n": len(kept), "configurations": len(set(names)), "dropped": len(both) - len(kept), "reason": None}
    result |= {"first_smaller": smaller, "second_smaller": larger, "ties": len(kept) - smaller - larger}
    if not len(kept):
        return {**result, "reason": "no member has both scores"}
    q25, median, q75 = quartiles(difference)
    clusters = [difference[names == name] for name in dict.fromkeys(names)]
    estimate = bootstrap_clustered_median(clusters, level=level, resamples=resamples, seed=seed)
    low, high = estimate.interval or (math.nan, math.nan)
    result |= {"median_difference": median, "q25": q25, "q75": q75, "low": low, "high": high, "reason": estimate.reason}
    if smaller + larger == 0:
        return {**result, "reason": "no member differs"}
    medians = np.array([quartiles(cluster)[1] for cluster in clusters])
    medians = medians[(medians != 0) & ~np.isnan(medians)]
    if len(medians) < 2:
        return result
    below = int((medians < 0).sum())
    return {
        **result,
        "wilcoxon_p": _wilcoxon(medians),
        "sign_p": float(stats.binomtest(below, len(medians)).pvalue),
    }


def importances(values_by_config: Values, scores: Scores, *, seed: int = 0) -> pd.DataFrame:
    """Return the fANOVA importance of each hyperparameter, from Optuna; columns IMPORTANCE_COLUMNS.

    It is the share of what a random forest makes of the ranks of the scores that goes back to one hyperparameter alone,
    values as ranks too. Shares add up to 1 whether anything has an effect or not: with 40 configurations and five
    hyperparameters of no effect, the largest share was 0.26 in the mean of eight samples. With fewer than 20
    configurations, or 8 per hyperparameter, one of no effect often comes first, and there is a `reason` instead.
    """
    names = hyperparameters(values_by_config)
    scored = [config for config in values_by_config if config in scores and not is_failed(scores[config])]
    values = {name: [values_by_config[c][name] for c in scored if name in values_by_config[c]] for name in names}
    labels = {name: [value_label(value) for value in values[name]] for name in names}
    reasons: dict[str, str] = {}
    for name in names:
        if len(values[name]) < len(scored):
            reasons[name] = "some configurations do not have it"
        elif len(set(labels[name])) < 2:
            reasons[name] = "it is the same everywhere"
    used = [name for name in names if name not in reasons]
    n, fewest = len(scored), max(FEWEST_FOR_IMPORTANCE, PER_HYPERPARAMETER * len(used))
    response = stats.rankdata(np.array([scores[config] for config in scored], dtype=np.float64))
    problem = None
    if n < fewest:
        problem = f"n = {n} is too few for the importance of {len(used)} hyperparameters (at least {fewest})"
    elif len(used) < 2:
        problem = "it is the only one that varies"
    elif len(np.unique(response)) < 2:
        problem = "the score is the same everywhere"
    columns = {
        name: (np.asarray(stats.rankdata(values[name])) / n).tolist() if is_numeric(values[name]) else labels[name]
        for name in used
    }
    found = _fanova(columns, response.tolist(), seed) if problem is None else {}
    rows = [(name, found.get(name, math.nan), n, reasons.get(name, problem)) for name in names]
    return pd.DataFrame(rows, columns=list(IMPORTANCE_COLUMNS)).astype({"reason": object})


def _fanova(columns: Mapping[str, list[Any]], response: list[float], seed: int) -> dict[str, float]:
    import optuna  # a second to import with its forests, needed for reports only
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    distributions: dict[str, BaseDistribution] = {
        name: FloatDistribution(0.0, 1.0)
        if isinstance(column[0], float)
        else CategoricalDistribution(tuple(dict.fromkeys(column)))
        for name, column in columns.items()
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    for index, value in enumerate(response):
        params = {name: column[index] for name, column in columns.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))
    return {name: float(found[name]) for name in columns}


def _wilcoxon(difference: Floats) -> float:
    """Return the two-sided p of the signed-rank test; it looks at signs and ranks only, so infinities may stay."""
    ranks = np.sign(difference) * stats.rankdata(np.abs(difference))
    return float(stats.wilcoxon(ranks).pvalue)


def _codes(column: pd.Series[Any]) -> tuple[npt.NDArray[np.int64], pd.Index[Any]]:
    """Return integer codes and their labels, in the order of the categories, else ascending."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy().astype(np.int64)
        return codes, pd.CategoricalIndex(column.cat.categories, categories=column.cat.categories)
    labels, codes = np.unique(column.to_numpy(), return_inverse=True)
    return codes.astype(np.int64), pd.Index(labels)


def _worst(direction: str | None) -> float:
    return {"minimize": math.inf, "maximize": -math.inf}.get(direction or "", math.nan)


def _quantile(values_GS: Floats, counted: npt.NDArray[np.int64], fraction: float, worst: Floats) -> Floats:
    """Return the quantile of the first `counted` numbers, ascending, of each group (groups, seeds)."""
    place = fraction * (np.maximum(counted, 1) - 1)
    below, above = (edge(place).astype(np.int64)[:, None] for edge in (np.floor, np.ceil))
    low, high = (np.take_along_axis(values_GS, index, axis=1)[:, 0] for index in (below, above))
    weight = place - below[:, 0]
    with np.errstate(invalid="ignore"):
        step = high - low
        between = np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))  # as numpy.quantile rounds
        if fraction == 0.5:
            between = (low + high) / 2  # as numpy.median does
    between = np.where(np.isinf(high), high, np.where(np.isinf(low), low, between))
    between = np.where(np.isinf(low) & np.isinf(high), np.where(worst < 0, -np.inf, np.inf), between)
    return np.asarray(np.where((low == high) | (weight == 0), low, between))
