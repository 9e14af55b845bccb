"""From a sweep's ledger to one number per member, and to the interval of a difference between members."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.evaluation_choice import BEST, LAST, at_steps
from orchestrator.results.scoring.measured_by import measured_by
from orchestrator.results.scoring.objective import choose, recorded_objective
from orchestrator.statistics.failed_seeds import score_over_seeds
from orchestrator.statistics.intervals import median_over


class Sweep:
    """A finished sweep: its members' curves by metric, average, length and step, beside the settings that differ."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.state = SweepState.load(folder)
        self.name = self.state.name
        self._tables: dict[tuple[str, str, str | int], pd.DataFrame] = {}
        self.measured = measured_by(self.state)
        self.objective = recorded_objective(self.state.spec)
        self.selection = self.objective.lengths
        first = next(iter(self.state.configurations.values()))
        of_first = self.measured[first.config_id]
        judged = of_first.metrics[self.objective.metric]
        self.trained, self.lengths = judged.trained_lengths, judged.lengths
        self.test = tuple(s for s in self.lengths if s not in {*self.trained, *self.selection})
        self.averages = of_first.averages
        self.steps: int = first.resolved["training"]["steps"]
        self._steps_of = {name: one.resolved["training"]["steps"] for name, one in self.state.configurations.items()}

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Every curve, tidy; names are categories."""
        return read_curves(self.state)

    @property
    def failed(self) -> int:
        """Members whose training diverged."""
        members = [m for c in self.state.configurations.values() for m in c.members.values()]
        return sum(member.status == "failed" for member in members)

    @property
    def size(self) -> str:
        """Configurations x seeds x steps, and how many members failed."""
        configurations = len(self.state.configurations)
        seeds = {seed for configuration in self.state.configurations.values() for seed in configuration.members}
        steps = " or ".join(f"{count:,}" for count in sorted(set(self._steps_of.values())))
        return f"{configurations} x {len(seeds)} x {steps}, {self.failed} failed"

    def resolved(self, config_id: str, key: str) -> Any:
        """The value of a dotted key as the ledger has it."""
        value: Any = self.state.configurations[config_id].resolved
        for step in key.split("."):
            value = value[step]
        return value

    def setting(self, config_id: str, key: str) -> Any:
        """The value of a dotted key; a named part (`model.position`) is its name, a list one text."""
        value = self.resolved(config_id, key)
        if isinstance(value, Mapping):
            return value["name"]
        return "+".join(map(str, value)) if isinstance(value, list | tuple) else value

    def members(
        self,
        metric: str,
        average: str,
        lengths: Sequence[int],
        *,
        settings: Iterable[str] = (),
        at: str | int = LAST,
        reduce: str = "mean",
    ) -> pd.DataFrame:
        """One row per member: config_id, seed, `value` (the metric reduced over `lengths`) and a column per setting.

        `at` is a step, LAST, or BEST: of each member its own last one, or that at which the objective is best at the
        selection lengths.
        `value` is NaN for a failed member.
        """
        table = self._table(metric, average, at)
        values = table[list(lengths)].to_numpy(dtype=np.float64)
        reduced = values.mean(axis=1) if reduce == "mean" else values.min(axis=1)
        found = pd.DataFrame({"value": reduced}, index=table.index).reset_index()
        for key in settings:
            found[key] = [self.setting(name, key) for name in found["config_id"]]
        return found

    def curve(self, metric: str, average: str, config_ids: Iterable[str], at: str | int = LAST) -> pd.DataFrame:
        """Lengths by members of the given configurations; `at` as in `members`."""
        table = self._table(metric, average, at)
        return table[table.index.get_level_values("config_id").isin(list(config_ids))].T

    @cached_property
    def _best(self) -> pd.DataFrame:
        """The step of each member at which the objective is best at the selection lengths."""
        return choose(self.curves, self.objective.model_copy(update={"evaluation": BEST}))

    def _table(self, metric: str, average: str, at: str | int) -> pd.DataFrame:
        """Members by lengths."""
        key = (metric, average, at)
        if key not in self._tables:
            rows = self.curves
            rows = rows[(rows["metric"] == metric) & (rows["average"] == average)]
            if at == BEST:
                rows = rows[at_steps(rows, self._best)]
            else:
                rows = rows[rows["step"] == (rows["config_id"].astype(str).map(self._steps_of) if at == LAST else at)]
            rows = rows[["config_id", "seed", "length", "value"]].astype({"config_id": str})
            self._tables[key] = rows.pivot(index=["config_id", "seed"], columns="length", values="value")
        return self._tables[key]

    def where(self, settings: Mapping[str, Any]) -> list[str]:
        """The configurations that have all these values."""
        return [
            name
            for name in self.state.configurations
            if all(self.setting(name, key) == value for key, value in settings.items())
        ]

    def selected(self, names: Sequence[str], average: str | None = None) -> str:
        """Which configuration is best by the objective: on the selection lengths, never on those reported."""
        judged, least = self.objective, self.objective.direction == "minimize"
        rows = self.members(judged.metric, average or judged.average, self.selection, at=judged.evaluation)
        of_seeds = rows[rows["config_id"].isin(names)].groupby("config_id")["value"]
        scores = of_seeds.agg(lambda values: score_over_seeds(values, judged.failed_seeds, judged.direction)[0].median)
        return str(scores.idxmin() if least else scores.idxmax())


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A difference or ratio with its 95 % interval over `n` of `unit`; NaN ends where n is too small."""

    value: float
    low: float
    high: float
    n: int
    unit: str
    dropped: int = 0

    def __str__(self) -> str:
        interval = "no interval" if math.isnan(self.low) else f"[{signed(self.low)}, {signed(self.high)}]"
        lost = f", {self.dropped} failed" if self.dropped else ""
        return f"{signed(self.value)} {interval}, n = {self.n} {self.unit}{lost}"

    def verdict(self, better: str) -> str:
        """Held, did not hold, or not decided: whether the whole interval lies where `better` (smaller, larger) says."""
        if math.isnan(self.low):
            return "not decided"
        smaller, larger = self.high < 0, self.low > 0
        if smaller or larger:
            return "held" if smaller == (better == "smaller") else "did not hold"
        return "not decided"


def signed(value: float) -> str:
    """Three digits with a sign; 0 without."""
    return "0" if value == 0 else f"{value:+.3g}"


def effect_over(groups: Sequence[Sequence[float]], unit: str, dropped: int = 0) -> Effect:
    """The effect over units that are independent of each other, with the values of each (its seeds, say).

    It is the median of the units' medians. With fewer than six units there is no interval: seeds are often all or
    nothing, and then no interval of so few covers in 95 % (Student's t covers in 62 to 82 % at three to five).
    """
    found = median_over(np.asarray(group, dtype=np.float64) for group in groups)
    low, high = found.ends
    value = math.nan if found.value is None else found.value
    return Effect(value=value, low=low, high=high, n=found.n, unit=unit, dropped=dropped)


def paired_effect(
    first: pd.DataFrame, second: pd.DataFrame, on: Sequence[str] = ("config_id", "seed"), unit: str = "seed"
) -> Effect:
    """The effect first - second over rows that agree in `on`; rows with a failed member are counted and left out.

    The units are the seeds: members of one seed share the random numbers of their start and of their data, in whatever
    configuration. Their inputs are the same where the task draws them alike: not at other batch sizes, and not between
    sampled and soft targets of set complement, which draw one token more of each row. With `unit` "config_id" the units
    are the configurations, for a search that drew them at random.
    """
    both = first.merge(second, on=list(on), suffixes=("", "_other"), validate="one_to_one")
    both = both.assign(difference=both["value"] - both["value_other"])
    kept = both.dropna(subset=["difference"])
    groups = [group["difference"].tolist() for _, group in kept.groupby(unit, sort=True)]
    return effect_over(groups, "configurations" if unit == "config_id" else "seeds", len(both) - len(kept))


def effect_of_seeds(values: "pd.Series[float]") -> Effect:
    """The effect from one value per seed; NaN values are counted and left out."""
    alive = [[value] for value in values if not math.isnan(value)]
    return effect_over(alive, "seeds", len(values) - len(alive))


def share(hits: int, of: int) -> Effect:
    """A share of seeds with its exact interval (Clopper and Pearson, 1934)."""
    if not of:
        return Effect(value=math.nan, low=math.nan, high=math.nan, n=0, unit="seeds")
    interval = stats.binomtest(hits, of).proportion_ci(0.95, method="exact")
    return Effect(value=hits / of, low=interval.low, high=interval.high, n=of, unit="seeds")


def against(
    sweep: Sweep,
    one: str,
    other: str,
    metric: str,
    average: str,
    *,
    lengths: Sequence[int] | None = None,
    at: str | int = LAST,
) -> Effect:
    """One configuration minus another, seed by seed, at the test lengths unless others are given."""
    rows = sweep.members(metric, average, lengths or sweep.test, at=at)
    return paired_effect(rows[rows["config_id"] == one], rows[rows["config_id"] == other], on=("seed",))
