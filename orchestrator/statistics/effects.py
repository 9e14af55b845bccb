"""The effect of each hyperparameter on the score, and what a hyperparameter and its values are.

Everything goes by ranks: scores may be infinite (half the seeds failed) and hyperparameters span decades. What counts
as one observation is said by the `Design`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.statistics.design import ADAPTIVE, Design
from orchestrator.statistics.intervals import LEVEL, spearman
from orchestrator.statistics.quartiles import Floats, middle
from orchestrator.statistics.within import Cells, compare_within

Values = Mapping[str, Mapping[str, Any]]
Scores = Mapping[str, float | None]
Members = Mapping[str, Mapping[int, float]]

EFFECT_COLUMNS = (
    "hyperparameter", "kind", "unit", "n", "dropped", "configurations", "values", "correlation", "low", "high",
    "test", "p", "differences", "matched", "medians", "counts", "reason",
)  # fmt: skip
FEW_VALUES = 8  # a hyperparameter with at most so many different values gets a median for each


def effects(
    values_by_config: Values,
    scores: Scores,
    design: Design | None = None,
    members: Members | None = None,
    *,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return one row per hyperparameter: how the score moves with it.

    `values_by_config` are the searched values by config_id and dotted key, `scores` the scores by config_id (None or
    NaN: the configuration failed), `design` how the configurations came about (default: drawn one by one). A `fixed`
    design needs `members`, the score of every seed by config_id (NaN: it is left out). A conditional hyperparameter is
    judged on the configurations that have it.

    A key that was drawn is judged over the units of the design, each with one value and one score: of the grid points
    of a draw the mean rank, each among the draws at that grid point. Columns: correlation, low, high (numbers: Spearman
    with its interval at `level`); p (categories: Kruskal-Wallis, where every value has two units). A key that is
    compared within units, see `compare_within`: differences (up to FEW_VALUES values); correlation (numbers of three
    values or more); p.

    hyperparameter; kind ("numeric" when every value is a number, else "categorical"); unit, what n counts; dropped,
    configurations (failed ones, and those used); values (how many different ones); test (whose p it is); medians,
    counts (value -> median score, configurations; None with more than FEW_VALUES values); reason (why a number is
    missing, else None). Raises ValueError for a fixed design without members.
    """
    design = design or Design.random(values_by_config)
    if design.kind == "fixed" and members is None:
        raise ValueError("a fixed design is judged over its seeds: it needs the score of each member")
    rows = []
    for name in hyperparameters(values_by_config):
        having = [config for config in values_by_config if name in values_by_config[config] and config in scores]
        used = [config for config in having if not is_failed(scores[config])]
        values = [values_by_config[config][name] for config in used]
        groups = groups_of(values, np.array([scores[config] for config in used], dtype=np.float64))
        numeric, few = is_numeric(values), len(groups) <= FEW_VALUES
        row: dict[str, Any] = dict.fromkeys(("correlation", "low", "high", "p"), math.nan)
        row |= {"test": "", "differences": (), "matched": True, "unit": design.unit, "reason": None}
        row |= {"hyperparameter": name, "kind": "numeric" if numeric else "categorical", "values": len(groups)}
        row |= {"dropped": len(having) - len(used), "configurations": len(used)}
        row["medians"] = {value: middle(group.tolist()) for value, group in groups.items()} if few else None
        row["counts"] = {value: len(group) for value, group in groups.items()} if few else None
        if design.compared(name):
            labels = list(groups)
            units = _units(name, {c: values_by_config[c] for c in used}, scores, design, members)
            row |= _compared(units, labels, numeric, level)
        else:
            row |= _drawn(name, {c: values_by_config[c] for c in used}, scores, design, numeric, level)
        rows.append(row)
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS)).astype({"reason": object})


def _drawn(name: str, used: Values, scores: Scores, design: Design, numeric: bool, level: float) -> dict[str, Any]:
    """The effect of a drawn key over units; numbers that nothing vouches for in an adaptive design are left out."""
    sample = per_unit(used, scores, design)
    values, score = [used[config][name] for config, _ in sample], np.array([mean for _, mean in sample])
    row: dict[str, Any] = {"n": len(sample)}
    if numeric:
        estimate = spearman(values, score, level=level)
        row["correlation"] = math.nan if estimate.value is None else estimate.value
        row["low"], row["high"] = estimate.ends
        row["reason"] = estimate.reason
    else:
        row["test"] = "Kruskal-Wallis"
        row["p"], row["reason"] = _kruskal(list(groups_of(values, score).values()), design.unit)
    if not design.units_are_independent:
        row |= dict.fromkeys(("low", "high", "p"), math.nan) | {"reason": ADAPTIVE}
    return row


def _compared(units: Sequence[Cells], labels: Sequence[str], numeric: bool, level: float) -> dict[str, Any]:
    if not labels:
        return {"n": 0, "reason": "no configuration has a score"}
    found = compare_within(units, labels, numeric, level=level)
    row: dict[str, Any] = {"n": found.n, "p": found.p, "test": found.test, "reason": found.reason}
    row |= {"matched": found.matched, "differences": found.differences if len(labels) <= FEW_VALUES else ()}
    if found.correlation is not None:
        row["correlation"] = math.nan if found.correlation.value is None else found.correlation.value
        row["low"], row["high"] = found.correlation.ends
    return row


def _units(name: str, used: Values, scores: Scores, design: Design, members: Members | None) -> list[Cells]:
    """The scores of each unit by all that is compared but the key, and by its value, as text.

    Conditional keys, which some of the configurations do not have, do not part contexts.
    """
    others = [
        key
        for key in hyperparameters(used)
        if key != name and design.compared(key) and all(key in values for values in used.values())
    ]
    units: dict[Hashable, dict[Hashable, dict[str, list[float]]]] = {}
    for config, values in used.items():
        context = tuple(value_label(values[key]) for key in others)
        if design.kind == "fixed":
            found = [(seed, score) for seed, score in ((members or {}).get(config) or {}).items()]
        else:
            found = [(design.draw[config], float(scores[config] or 0.0))]
        for unit, score in found:
            if not math.isnan(score):
                cell = units.setdefault(unit, {}).setdefault(context, {})
                cell.setdefault(value_label(values[name]), []).append(score)
    return list(units.values())


def per_unit(used: Values, scores: Scores, design: Design) -> list[tuple[str, float]]:
    """One configuration of each unit, for its drawn values, and the unit's score.

    Of a draw at several grid points that is the mean of its ranks, scaled to between 0 and 1, each among all draws at
    that grid point: grid points of a higher level or wider spread weigh no more, and one that failed is left out.
    """
    score_of = {config: math.nan if (score := scores[config]) is None else score for config in used}
    if design.kind != "grid_by_random":
        return list(score_of.items())
    points: dict[Hashable, list[str]] = {}
    for config, values in used.items():
        points.setdefault(design.grid_point(values), []).append(config)
    ranks: dict[int, list[float]] = {}
    first: dict[int, str] = {}
    for configs in points.values():
        scaled = (stats.rankdata([score_of[config] for config in configs]) - 0.5) / len(configs)
        for config, rank in zip(configs, scaled, strict=True):
            ranks.setdefault(design.draw[config], []).append(float(rank))
            first.setdefault(design.draw[config], config)
    return [(first[draw], float(np.mean(ranks[draw]))) for draw in ranks]


def _kruskal(groups: Sequence[Floats], unit: str) -> tuple[float, str | None]:
    if len(groups) < 2:
        return math.nan, "it is the same everywhere" if groups else "no configuration has a score"
    if len(np.unique(np.concatenate(groups))) < 2:
        return math.nan, "the score is the same everywhere"
    if min(map(len, groups)) < 2:
        return math.nan, f"a value has one of the {unit} only"
    ranks = np.split(stats.rankdata(np.concatenate(groups)), np.cumsum([len(group) for group in groups])[:-1])
    return float(stats.kruskal(*ranks).pvalue), None


def groups_of(values: Sequence[Any], score: Floats) -> dict[str, Floats]:
    """Return the scores by value, values as text: numbers ascending, then the rest in alphabetical order."""
    labels = [value_label(value) for value in values]
    first = dict(zip(labels, values, strict=True))
    numbers = sorted((label for label in first if is_numeric([first[label]])), key=lambda label: float(first[label]))
    order = [*numbers, *sorted(first.keys() - set(numbers))]
    places: dict[str, list[int]] = {label: [] for label in order}
    for place, label in enumerate(labels):
        places[label].append(place)
    return {label: score[places[label]] for label in order}


def hyperparameters(values_by_config: Values) -> list[str]:
    """The keys of all configurations, in the order they come."""
    return list(dict.fromkeys(name for values in values_by_config.values() for name in values))


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether every value is a number; true and false are none."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def value_label(value: Any) -> str:
    """A value as text; of a number with many zeros the power of ten, where that is the same number.

    value_label(0.05), value_label(1e12), value_label(123456789.0) -> "0.05", "1e+12", "123456789.0"
    """
    short = f"{value:g}" if isinstance(value, float) else ""
    return value if isinstance(value, str) else short if "e" in short and float(short) == value else json.dumps(value)


def is_failed(score: float | None) -> bool:
    """Whether there is no score; an infinite one is a score."""
    return score is None or math.isnan(score)
