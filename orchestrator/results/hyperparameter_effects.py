"""The effects of the searched hyperparameters on one outcome, gathered from every statistic that says something."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.statistics.effects import effects, partial_effects
from orchestrator.statistics.importance import importances


@dataclass(frozen=True, kw_only=True)
class Partial:
    """An effect with the other hyperparameters held fixed, with its 95 % interval; least squares on ranks.

    In standard deviations of the outcome's rank. `value` is "" for numbers, else a category against the first one.
    """

    value: str
    coefficient: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, kw_only=True)
class Effect:
    """How an outcome moves with one searched key, over configurations; NaN where a reason says why there is no number.

    `n` configurations have `distinct` values. Numbers: Spearman `correlation` with its 95 % bootstrap interval.
    Categories: `p` of Kruskal-Wallis. Few values: the median outcome and count of each. `partial` holds the other keys
    fixed, over `partial_n` configurations; `importance` is the share of fANOVA.
    """

    key: str
    kind: str
    n: int
    distinct: int
    dropped: int
    correlation: float
    low: float
    high: float
    p: float
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
        """Configurations, and how many values they have when some share one: "8, 2 values"."""
        if self.distinct >= self.n:
            return str(self.n)
        return f"{self.n}, {self.distinct} value{'' if self.distinct == 1 else 's'}"

    @property
    def sentence(self) -> str:
        """The effect in a line, for titles."""
        if self.kind == "numeric" and not math.isnan(self.correlation):
            interval = "no interval" if math.isnan(self.low) else f"95 % [{self.low:.2f}, {self.high:.2f}]"
            return f"rank correlation {self.correlation:+.2f}, {interval}, n = {self.count}"
        if not math.isnan(self.p):
            return f"Kruskal-Wallis p = {self.p:.2g}, n = {self.count}"
        return self.reason or ""


def effects_on(values: Mapping[str, Mapping[str, Any]], outcome: Mapping[str, float | None]) -> tuple[Effect, ...]:
    """The effect of every key in `values` (config_id -> dotted key -> value) on an outcome by config_id."""
    importance = {row["hyperparameter"]: row for row in importances(values, outcome).to_dict("records")}
    partial: dict[str, list[dict[Any, Any]]] = {}
    for row in partial_effects(values, outcome).to_dict("records"):
        partial.setdefault(row["hyperparameter"], []).append(row)
    found = []
    for row in effects(values, outcome).to_dict("records"):
        key = row["hyperparameter"]
        held = partial.get(key, [])
        found.append(
            Effect(
                key=key,
                kind=row["kind"],
                n=row["n"],
                distinct=row["values"],
                dropped=row["dropped"],
                correlation=row["correlation"],
                low=row["low"],
                high=row["high"],
                p=row["p"],
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
