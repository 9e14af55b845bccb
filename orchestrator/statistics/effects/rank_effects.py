"""Compute the effect of each hyperparameter on the score.

Everything is based on ranks, because scores may be infinite (half the seeds failed) and hyperparameters span decades.
The `Design` defines the observations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.within import Cells, Difference, compare_within
from orchestrator.statistics.intervals import Estimate, estimate_correlation
from orchestrator.statistics.quartiles import Floats, compute_median
from orchestrator.text.wording import compact_value

ValuesByConfig = Mapping[str, Mapping[str, Any]]
ScoresByConfig = Mapping[str, float | None]
Members = Mapping[str, Mapping[int, float]]

MAX_MEDIANS = 8  # values of a hyperparameter up to which each value has a median
MIN_FOR_MIDDLE = 5  # distinct values of a number from which it has a middle
MIDDLE_LEVEL = 0.99  # of its interval, because every key is also looked at for a trend
NO_ESTIMATE = Estimate(n=0)


@dataclass(frozen=True, kw_only=True)
class KeyEffect:
    """The effect of one searched key on an outcome; a missing number is NaN, and `reason` says why.

    `kind` is "numeric" if every value is a number, else "categorical". `n` counts the independent `unit`s
    (configurations, draws or seeds). `configurations` counts those with a score, `distinct` the values of the key among
    them, `dropped` those that failed.

    A numeric drawn key has Spearman's `correlation` over units with its interval, a categorical one `p` of
    Kruskal-Wallis if every value has two units. A correlation shows a trend; `middle` shows a best or worst value in
    the middle: it is Spearman's correlation of the outcome with the distance of a value from the middle one, in ranks,
    with a 99 % interval, for MIN_FOR_MIDDLE or more numbers. A key whose values are compared within units
    (`compare_within`) has `differences` from its first value and `p` of the sign test or Friedman's `test`; with three
    or more numbers also the median `correlation` within units, with the sign test's `correlation_p`. It is `matched` if
    the values of all other compared keys were equal. `medians` and `counts` have the median outcome and the number of
    configurations by value, for up to MAX_MEDIANS values.
    """

    key: str
    kind: str
    unit: str
    n: int
    configurations: int
    distinct: int
    dropped: int
    correlation: float = math.nan
    low: float = math.nan
    high: float = math.nan
    correlation_p: float = math.nan
    middle: Estimate = NO_ESTIMATE
    test: str = ""
    p: float = math.nan
    differences: tuple[Difference, ...] = ()
    matched: bool = True
    medians: Mapping[str, float]
    counts: Mapping[str, int]
    reason: str | None = None

    @property
    def contradicts_trend(self) -> bool:
        """Whether a difference has the opposite sign of the correlation, and an interval without 0."""
        rises, falls = (any(pair.low > 0 for pair in self.differences), any(pair.high < 0 for pair in self.differences))
        return (self.correlation > 0 and falls) or (self.correlation < 0 and rises)

    @property
    def count(self) -> str:
        """The number of units as text, with the number of values if units share them: "8, 2 values"."""
        if self.distinct >= self.n or self.differences:
            return str(self.n)
        return f"{self.n}, {self.distinct} value{'' if self.distinct == 1 else 's'}"

    @property
    def sentence(self) -> str:
        """The effect as the title of a figure."""
        # A correlation has a direction, which a test does not have.
        count = f"n = {self.n} {self.unit}"
        if not math.isnan(self.correlation):
            interval = "no interval" if math.isnan(self.low) else f"95 % [{self.low:.2f}, {self.high:.2f}]"
            return f"rank correlation {self.correlation:+.2f}, {interval}, {count}"
        if not math.isnan(self.p):
            return f"{self.test} p = {self.p:.2g}, {count}"
        return self.reason or ""


def compute_effects(
    values_by_config: ValuesByConfig,
    scores: ScoresByConfig,
    design: Design | None = None,
    members: Members | None = None,
) -> tuple[KeyEffect, ...]:
    """Return the effect of every hyperparameter on the score, in order of first appearance.

    `values_by_config` are the searched values by config_id and dotted key, `scores` the scores by config_id (None or
    NaN for a failed configuration). The default `design` is independent draws. A `fixed` design needs `members`, the
    score of every seed by config_id (NaN is left out). A conditional hyperparameter is judged over the configurations
    that have it.

    A drawn key is judged over the units of the design, each with one value and one score; the score of a draw at
    several grid points is its mean rank among the draws at each grid point. Raises ValueError for a fixed design
    without members.
    """
    # A fixed design compares members, a random one configurations.
    design = design or Design.random(values_by_config)
    if design.kind == "fixed" and members is None:
        raise ValueError("a fixed design needs the score of each member")
    effects_by_key = []
    for key in list_hyperparameters(values_by_config):
        # A conditional key is judged over the configurations that have it.
        config_ids_with_key = [
            config_id for config_id in values_by_config if key in values_by_config[config_id] and config_id in scores
        ]
        used_values = {
            config_id: values_by_config[config_id]
            for config_id in config_ids_with_key
            if not is_failed(scores[config_id]) and _has_members(config_id, design, members)
        }
        values = [configuration_values[key] for configuration_values in used_values.values()]
        groups = group_scores(values, np.array([scores[config_id] for config_id in used_values], dtype=np.float64))
        numeric = is_numeric(values)
        shown_groups = groups if len(groups) <= MAX_MEDIANS else {}

        # Comparisons within units cancel what configurations of a unit share; drawn keys vary only between units.
        if design.compares_within_units(key):
            units = _group_by_unit(key, used_values, scores, design, members)
            fields = _measure_within_units(units, list(groups), numeric, design.unit)
        else:
            fields = _measure_over_units(key, used_values, scores, design, numeric)

        # Dependent units have medians, but neither intervals nor tests.
        if not design.units_are_independent:
            fields = _remove_intervals(fields) | {"reason": design.dependence}
        effects_by_key.append(
            KeyEffect(
                key=key,
                kind="numeric" if numeric else "categorical",
                unit=design.unit,
                configurations=len(used_values),
                distinct=len(groups),
                dropped=len(config_ids_with_key) - len(used_values),
                medians={value: compute_median(group.tolist()) for value, group in shown_groups.items()},
                counts={value: len(group) for value, group in shown_groups.items()},
                **fields,
            )
        )
    return tuple(effects_by_key)


def _has_members(config_id: str, design: Design, members: Members | None) -> bool:
    """Return whether a configuration has the score of any seed; True for designs that do not compare seeds."""
    return design.kind != "fixed" or not all(map(math.isnan, ((members or {}).get(config_id) or {}).values()))


def _measure_over_units(
    key: str, used_values: ValuesByConfig, scores: ScoresByConfig, design: Design, numeric: bool
) -> dict[str, Any]:
    """Return the effect of a drawn key over units as fields of KeyEffect."""
    scored_units = score_units(used_values, scores, design)
    values = [used_values[config_id][key] for config_id, _ in scored_units]
    score = np.array([mean for _, mean in scored_units])
    fields: dict[str, Any] = {"n": len(scored_units)}

    # Categories have no order, so they have a test instead of a correlation.
    if numeric:
        correlation = estimate_correlation(values, score, design.unit)
        fields |= {
            "correlation": correlation.value,
            "low": correlation.low,
            "high": correlation.high,
            "reason": correlation.reason,
            "middle": _correlate_with_middle(values, score, design.unit),
        }
    else:
        fields["test"] = "Kruskal-Wallis"
        fields["p"], fields["reason"] = _test_groups(list(group_scores(values, score).values()), design.unit)
    return fields


def _correlate_with_middle(values: Sequence[float], score: Floats, unit: str) -> Estimate:
    """Return the rank correlation of the score with the distance of a value from the middle one, in ranks.

    Its level is MIDDLE_LEVEL. It has no value for fewer than MIN_FOR_MIDDLE distinct values.
    """
    if len(set(values)) < MIN_FOR_MIDDLE:
        return Estimate(n=len(values))
    ranks = stats.rankdata(values)
    return estimate_correlation(np.abs(ranks - (len(ranks) + 1) / 2), score, unit, MIDDLE_LEVEL)


def _remove_intervals(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the effect of a key with intervals and p-values replaced by NaN."""
    missing_fields = {"low": math.nan, "high": math.nan, "p": math.nan}
    differences = tuple(
        replace(difference, **missing_fields, reason=None) for difference in fields.get("differences", ())
    )
    return fields | missing_fields | {"correlation_p": math.nan, "middle": NO_ESTIMATE, "differences": differences}


def _measure_within_units(units: Sequence[Cells], labels: Sequence[str], numeric: bool, unit: str) -> dict[str, Any]:
    """Return the effect of a key whose values are compared within units, as fields of KeyEffect."""
    if not labels:
        return {"n": 0, "reason": "no configuration has a score"}
    within = compare_within(units, labels, numeric, unit)
    return vars(within) | {"differences": within.differences if len(labels) <= MAX_MEDIANS else ()}


def _group_by_unit(
    key: str, used_values: ValuesByConfig, scores: ScoresByConfig, design: Design, members: Members | None
) -> list[Cells]:
    """Return the scores of each unit by context (the values of all other compared keys) and by value of the key.

    A context has no conditional keys, which some configurations lack.
    """
    # Scores are compared only where all other compared keys are equal; conditional keys would split contexts.
    context_keys = [
        other_key
        for other_key in list_hyperparameters(used_values)
        if other_key != key
        and design.compares_within_units(other_key)
        and all(other_key in values for values in used_values.values())
    ]

    # In a fixed design every seed of a configuration is an observation, else its draw is one.
    units: dict[Hashable, dict[Hashable, dict[str, list[float]]]] = {}
    for config_id, values in used_values.items():
        context = tuple(label_value(values[other_key]) for other_key in context_keys)
        if design.kind == "fixed":
            scored_units = [(seed, score) for seed, score in ((members or {}).get(config_id) or {}).items()]
        else:
            scored_units = [(design.draws[config_id], float(scores[config_id] or 0.0))]
        for unit, score in scored_units:
            if not math.isnan(score):
                cell = units.setdefault(unit, {}).setdefault(context, {})
                cell.setdefault(label_value(values[key]), []).append(score)
    return list(units.values())


def score_units(used_values: ValuesByConfig, scores: ScoresByConfig, design: Design) -> list[tuple[str, float]]:
    """Return one configuration of each unit, for its drawn values, and the unit's score.

    The score of a draw at several grid points is its mean rank among all draws at each grid point, scaled to between 0
    and 1, so that all grid points have the same weight. Failed configurations are left out.
    """
    score_by_config = {
        config_id: math.nan if (score := scores[config_id]) is None else score for config_id in used_values
    }
    if design.kind != "grid_by_random":
        return list(score_by_config.items())

    # Scores of different grid points have different scales, so only ranks within a grid point are averaged.
    points: dict[Hashable, list[str]] = {}
    for config_id, values in used_values.items():
        points.setdefault(design.get_grid_point(values), []).append(config_id)
    ranks: dict[int, list[float]] = {}
    first_ids: dict[int, str] = {}
    for config_ids in points.values():
        scaled = (stats.rankdata([score_by_config[config_id] for config_id in config_ids]) - 0.5) / len(config_ids)
        for config_id, rank in zip(config_ids, scaled, strict=True):
            ranks.setdefault(design.draws[config_id], []).append(float(rank))
            first_ids.setdefault(design.draws[config_id], config_id)
    return [(first_ids[draw], float(np.mean(ranks[draw]))) for draw in ranks]


def _test_groups(groups: Sequence[Floats], unit: str) -> tuple[float, str | None]:
    """Return p of the Kruskal-Wallis test that groups of scores differ, or NaN and the reason."""
    if len(groups) < 2:
        return math.nan, "constant" if groups else "no configuration has a score"
    if len(np.unique(np.concatenate(groups))) < 2:
        return math.nan, "the score is constant"
    if min(map(len, groups)) < 2:
        return math.nan, f"a value has only one of the {unit}"

    # Scores may be infinite; their ranks give the same statistic.
    ranks = np.split(stats.rankdata(np.concatenate(groups)), np.cumsum([len(group) for group in groups])[:-1])
    return float(stats.kruskal(*ranks).pvalue), None


def group_scores(values: Sequence[Any], score: Floats) -> dict[str, Floats]:
    """Return the scores by label of the value: numbers ascending, then other values in alphabetical order."""
    # Text order would put "10" before "9", so numbers are sorted by value.
    labels = [label_value(value) for value in values]
    value_by_label = dict(zip(labels, values, strict=True))
    numbers = [label for label, value in value_by_label.items() if is_numeric([value])]
    numbers.sort(key=lambda label: float(value_by_label[label]))
    order = [*numbers, *sorted(value_by_label.keys() - set(numbers))]

    indices: dict[str, list[int]] = {label: [] for label in order}
    for index, label in enumerate(labels):
        indices[label].append(index)
    return {label: score[indices[label]] for label in order}


def list_hyperparameters(values_by_config: ValuesByConfig) -> list[str]:
    """Return the keys that any configuration has, in order of first appearance."""
    return list(dict.fromkeys(key for values in values_by_config.values() for key in values))


def is_numeric(values: Sequence[Any]) -> bool:
    """Return whether every value is a number; true and false are not numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def label_value(value: Any) -> str:
    """Return a value as a text that distinguishes it from other values, in scientific notation if that is exact.

    A text is quoted if it looks like another value; mappings with the same short text are not distinguished.
    label_value(0.05), label_value(1e12), label_value(123456789.0) -> "0.05", "1e+12", "123456789.0"
    label_value("pre"), label_value("1"), label_value(None) -> "pre", '"1"', "null"
    """
    if isinstance(value, Mapping):
        return compact_value(value)
    if isinstance(value, str):
        return json.dumps(value) if _is_json(value) else value
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if "e" in short and float(short) == value else json.dumps(value)


def _is_json(text: str) -> bool:
    """Return whether a text is a value in JSON, such as "1", "null" or "[1, 2]"."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def is_failed(score: float | None) -> bool:
    """Return whether a score is None or NaN; an infinite score has not failed."""
    return score is None or math.isnan(score)
