"""The effect of each hyperparameter on the score, over configurations: alone, and with the others held fixed.

Everything goes by ranks: scores may be infinite (half the seeds failed) and hyperparameters span decades.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.statistics.bootstrap import LEVEL, RESAMPLES, spearman
from orchestrator.statistics.quartiles import Floats

Values = Mapping[str, Mapping[str, Any]]
Scores = Mapping[str, float | None]

EFFECT_COLUMNS = (
    "hyperparameter", "kind", "n", "dropped", "values", "correlation", "low", "high", "p", "medians", "counts", "reason"
)  # fmt: skip
PARTIAL_COLUMNS = ("hyperparameter", "value", "coefficient", "low", "high", "p", "n", "r_squared", "reason")
FEW_VALUES = 8  # a hyperparameter with at most so many different values gets a median for each


def effects(
    values_by_config: Values, scores: Scores, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Return one row per hyperparameter: how the score moves with it over the configurations.

    `values_by_config` are the drawn values by config_id and dotted key, `scores` the scores by config_id (None or NaN:
    the configuration failed). Columns: hyperparameter; kind ("numeric" when every value is a number, else
    "categorical"); n configurations used; dropped (failed ones); values (how many different ones); correlation, low,
    high (numeric: Spearman with a bootstrap interval at `level`); p (categorical: Kruskal-Wallis); medians, counts
    (value -> median score, configurations; None with more than FEW_VALUES values); reason (why a number is missing,
    else None). A conditional hyperparameter is judged on the configurations that have it.
    """
    rows = []
    for name in hyperparameters(values_by_config):
        having = [config for config in values_by_config if name in values_by_config[config] and config in scores]
        used = [config for config in having if not is_failed(scores[config])]
        values = [values_by_config[config][name] for config in used]
        score = np.array([scores[config] for config in used], dtype=np.float64)
        groups = _groups(values, score)
        row: dict[str, Any] = dict.fromkeys(("correlation", "low", "high", "p"), math.nan)
        row |= {"hyperparameter": name, "n": len(used), "dropped": len(having) - len(used), "values": len(groups)}
        if is_numeric(values):
            row["kind"] = "numeric"
            estimate = spearman(values, score, level=level, resamples=resamples, seed=seed)
            row["correlation"] = math.nan if estimate.value is None else estimate.value
            row["low"], row["high"] = estimate.interval or (math.nan, math.nan)
            row["reason"] = estimate.reason
        else:
            row["kind"] = "categorical"
            row["p"], row["reason"] = _kruskal(list(groups.values()))
        few = len(groups) <= FEW_VALUES
        row["medians"] = {value: _median(group) for value, group in groups.items()} if few else None
        row["counts"] = {value: len(group) for value, group in groups.items()} if few else None
        rows.append(row)
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS)).astype({"reason": object})


def partial_effects(values_by_config: Values, scores: Scores, *, level: float = LEVEL) -> pd.DataFrame:
    """Return the effect of each hyperparameter with the others held fixed: least squares on standardised ranks.

    Uses the configurations that have a score and every hyperparameter. A numeric hyperparameter gives one row (`value`
    is ""), a categorical one a row for each value but its first, against that first one. Columns: PARTIAL_COLUMNS;
    coefficients are in standard deviations of the score's rank per standard deviation of the hyperparameter's rank (per
    change of value). Rows without numbers say why in `reason`.
    """
    names = hyperparameters(values_by_config)
    scored = [config for config in values_by_config if config in scores and not is_failed(scores[config])]
    everywhere = [name for name in names if all(name in values_by_config[config] for config in scored)]
    reasons = {name: "some configurations do not have it" for name in names if name not in everywhere}
    columns: dict[tuple[str, str], Floats] = {}
    for name in everywhere:
        values = [values_by_config[config][name] for config in scored]
        columns_of_it = _columns(values)
        if not columns_of_it:
            reasons[name] = "it is the same everywhere"
        columns |= {(name, value): column for value, column in columns_of_it.items()}
    response = _standardised(np.array([scores[config] for config in scored], dtype=np.float64))
    n = len(scored)
    fitted, problem = _fit(response, columns, level)
    rows: list[dict[str, Any]] = [
        {"hyperparameter": name, "value": value, "n": n, "reason": problem, **fitted.get((name, value), {})}
        for name, value in columns
    ]
    rows += [{"hyperparameter": name, "value": "", "n": n, "reason": reason} for name, reason in reasons.items()]
    rows.sort(key=lambda row: names.index(row["hyperparameter"]))
    frame = pd.DataFrame(rows, columns=list(PARTIAL_COLUMNS))
    return frame.astype(
        {"coefficient": float, "low": float, "high": float, "p": float, "r_squared": float, "reason": object}
    )


def _fit(
    response: Floats, columns: Mapping[tuple[str, str], Floats], level: float
) -> tuple[dict[tuple[str, str], dict[str, float]], str | None]:
    """Return coefficient, interval and p of each column, or a reason why there are none."""
    n, k = len(response), len(columns)
    if not k:
        return {}, None
    if n < k + 2:
        return {}, f"n = {n} is too few for {k} effects at once"
    if not response.any():
        return {}, "the score is the same everywhere"
    design = np.column_stack([np.ones(n), *columns.values()])
    if np.linalg.matrix_rank(design) < k + 1:
        return {}, "the hyperparameters move together and cannot be told apart"
    from statsmodels.regression.linear_model import OLS  # half a second to import, needed for reports only

    fit = OLS(response, design).fit()
    if fit.ssr < 1e-9 * n:
        return {}, "the fit is exact: nothing is left over to judge it by"
    intervals = fit.conf_int(alpha=1 - level)
    return {
        column: {
            "coefficient": float(fit.params[index]),
            "low": float(intervals[index][0]),
            "high": float(intervals[index][1]),
            "p": float(fit.pvalues[index]),
            "r_squared": float(fit.rsquared),
        }
        for index, column in enumerate(columns, start=1)
    }, None


def _columns(values: Sequence[Any]) -> dict[str, Floats]:
    """Return what a hyperparameter adds to the design: its ranks, or an indicator of each value but the first."""
    labels = [value_label(value) for value in values]
    if len(set(labels)) < 2:
        return {}
    if is_numeric(values):
        return {"": _standardised(np.array(values, dtype=np.float64))}
    distinct = list(_groups(values, np.zeros(len(values))))
    return {value: np.array([label == value for label in labels], dtype=np.float64) for value in distinct[1:]}


def _standardised(values: Floats) -> Floats:
    """Return ranks with mean 0 and standard deviation 1; zeros when all are equal."""
    if len(np.unique(values)) < 2:
        return np.zeros(len(values))
    ranks = np.asarray(stats.rankdata(values))
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _kruskal(groups: Sequence[Floats]) -> tuple[float, str | None]:
    if len(groups) < 2:
        return math.nan, "it is the same everywhere" if groups else "no configuration has a score"
    if len(np.unique(np.concatenate(groups))) < 2:
        return math.nan, "the score is the same everywhere"
    ranks = np.split(stats.rankdata(np.concatenate(groups)), np.cumsum([len(group) for group in groups])[:-1])
    return float(stats.kruskal(*ranks).pvalue), None


def _groups(values: Sequence[Any], score: Floats) -> dict[str, Floats]:
    """Return the scores by value, values as text: numbers ascending, then the rest in alphabetical order."""
    labels = [value_label(value) for value in values]
    first = dict(zip(labels, values, strict=True))
    numbers = sorted((label for label in first if is_numeric([first[label]])), key=lambda label: float(first[label]))
    order = [*numbers, *sorted(first.keys() - set(numbers))]
    return {label: score[[other == label for other in labels]] for label in order}


def _median(group: Floats) -> float:
    ordered = np.sort(group)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return low if low == high else (low + high) / 2


def hyperparameters(values_by_config: Values) -> list[str]:
    """The keys of all configurations, in the order they come."""
    return list(dict.fromkeys(name for values in values_by_config.values() for name in values))


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether every value is a number; true and false are none."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def value_label(value: Any) -> str:
    """A value as text."""
    return value if isinstance(value, str) else json.dumps(value)


def is_failed(score: float | None) -> bool:
    """Whether there is no score; an infinite one is a score."""
    return score is None or math.isnan(score)
