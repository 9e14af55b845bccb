"""The effects of the searched hyperparameters on one outcome, gathered from every statistic that says something."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.statistics.design import Design
from orchestrator.statistics.effects import effects
from orchestrator.statistics.importance import importances
from orchestrator.statistics.partial_effects import partial_effects
from orchestrator.statistics.within import Difference


@dataclass(frozen=True, kw_only=True)
class Partial:
    """An effect with the other drawn hyperparameters held fixed, with its 95 % interval; least squares on ranks.

    In standard deviations of the outcome's rank. `value` is "" for numbers, else a category against the first one.
    """

    value: str
    coefficient: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, kw_only=True)
class Effect:
    """How an outcome moves with one searched key; NaN where a reason says why there is no number.

    `n` counts the `unit` (configurations, draws or seeds: what is independent), which are of so many `configurations`
    with so many `distinct` values. A key that was drawn: numbers have Spearman's `correlation` over units with its 95 %
    interval, categories `p` of Kruskal-Wallis. A key whose values are compared within units: `differences` from its
    first value; the median `correlation` within units where there are three numbers or more; `p` of Wilcoxon's or
    Friedman's `test`. It was `matched` where all else that is compared was the same. Few values: the median outcome and
    count of configurations of each. `partial` holds the other drawn keys fixed, over `partial_n` units; `importance` is
    the share of fANOVA.
    """

    key: str
    kind: str
    unit: str
    n: int
    configurations: int
    distinct: int
    dropped: int
    correlation: float
    low: float
    high: float
    test: str
    p: float
    differences: tuple[Difference, ...]
    matched: bool
    medians: dict[str, float]
    counts: dict[str, int]
    reason: str | None
    partial: tuple[Partial, ...]
    partial_n: int
    partial_reason: str | None
    importance: float
    importance_reason: str | None

    @property
    def count(self) -> str:
        """Units, and how many values there are when units share them: "8, 2 values"."""
        if self.distinct >= self.n or self.differences:
            return str(self.n)
        return f"{self.n}, {self.distinct} value{'' if self.distinct == 1 else 's'}"

    @property
    def sentence(self) -> str:
        """The effect in a line, for titles."""
        of = f"n = {self.n} {self.unit}"
        if not math.isnan(self.correlation):
            interval = "no interval" if math.isnan(self.low) else f"95 % [{self.low:.2f}, {self.high:.2f}]"
            return f"rank correlation {self.correlation:+.2f}, {interval}, {of}"
        if not math.isnan(self.p):
            return f"{self.test} p = {self.p:.2g}, {of}"
        return self.reason or ""


def effects_on(
    values: Mapping[str, Mapping[str, Any]],
    outcome: Mapping[str, float | None],
    design: Design,
    members: Mapping[str, Mapping[int, float]],
) -> tuple[Effect, ...]:
    """The effect of every key in `values` (config_id -> dotted key -> value) on an outcome by config_id.

    `members` has the outcome of every seed by config_id, NaN for one that is left out.
    """
    importance = {row["hyperparameter"]: row for row in importances(values, outcome, design).to_dict("records")}
    partial: dict[str, list[dict[Any, Any]]] = {}
    for row in partial_effects(values, outcome, design).to_dict("records"):
        partial.setdefault(row["hyperparameter"], []).append(row)
    found = []
    for row in effects(values, outcome, design, members).to_dict("records"):
        key = row["hyperparameter"]
        held = partial.get(key, [])
        found.append(
            Effect(
                key=key,
                kind=row["kind"],
                unit=row["unit"],
                n=row["n"],
                configurations=row["configurations"],
                distinct=row["values"],
                dropped=row["dropped"],
                correlation=row["correlation"],
                low=row["low"],
                high=row["high"],
                test=row["test"],
                p=row["p"],
                differences=row["differences"],
                matched=row["matched"],
                medians=row["medians"] or {},
                counts=row["counts"] or {},
                reason=_text(row["reason"]),
                partial=tuple(
                    Partial(
                        value=one["value"], coefficient=one["coefficient"], low=one["low"], high=one["high"], p=one["p"]
                    )
                    for one in held
                    if not math.isnan(one["coefficient"])
                ),
                partial_n=held[0]["n"] if held else 0,
                partial_reason=_text(held[0]["reason"]) if held else None,
                importance=importance[key]["importance"],
                importance_reason=_text(importance[key]["reason"]),
            )
        )
    return tuple(found)


def _text(value: Any) -> str | None:
    """The text, or None also where pandas has made NaN of None."""
    return value if isinstance(value, str) else None
