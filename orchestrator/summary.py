"""What a sweep came to, as plain data: ranked configurations, curve bands, effects; tables and figures draw from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator import statistics
from orchestrator.length_groups import LengthGroups, length_groups, spans
from orchestrator.objective import (
    Objective,
    area_beyond,
    generalization_length,
    quartiles,
    rank,
    score_configurations,
    score_members,
)
from orchestrator.state import ConfigurationState, SweepState
from trainers.config import MemberConfig

Floats = npt.NDArray[np.float64]
CurveKey = tuple[str, str, str]  # config_id, metric, average


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles over the seeds of a configuration; infinite where failed seeds decide them."""

    median: float
    q25: float
    q75: float


@dataclass(frozen=True, kw_only=True)
class Band:
    """A metric of a weight average against length: median and quartiles over seeds, and every seed's own curve."""

    lengths: tuple[int, ...]
    median: tuple[float, ...]
    q25: tuple[float, ...]
    q75: tuple[float, ...]
    seeds: dict[int, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One configuration. What needs all its seeds (score, rank, quartiles) is None until they have ended."""

    config_id: str
    number: int
    values: dict[str, Any]
    groups: LengthGroups
    complete: bool
    failed: bool = False
    rank: int | None = None
    score: float | None = None
    score_q25: float = math.nan
    score_q75: float = math.nan
    trained: Quartiles | None = None
    selection: Quartiles | None = None
    test: Quartiles | None = None
    generalization_length: int | None = None
    area_beyond: float | None = None
    seeds_planned: int = 0
    seeds_run: int = 0
    seeds_failed: int = 0
    form: str = ""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """How the score moves with one searched key, over configurations; NaN where `reason` says why there is no number.

    Numbers: Spearman `correlation` with its 95 % bootstrap interval, and `partial`, the coefficient of its rank with
    the other keys held fixed. Categories: `p` of Kruskal-Wallis. Few values: the median score and count of each.
    """

    key: str
    kind: str
    n: int
    correlation: float
    low: float
    high: float
    p: float
    partial: tuple[float, float, float] | None
    medians: dict[str, float]
    counts: dict[str, int]
    reason: str | None

    @property
    def sentence(self) -> str:
        """The effect in a line, for titles."""
        if self.kind == "numeric" and not math.isnan(self.correlation):
            interval = "no interval" if math.isnan(self.low) else f"95 % [{self.low:.2f}, {self.high:.2f}]"
            return f"rank correlation {self.correlation:+.2f}, {interval}, n = {self.n}"
        if not math.isnan(self.p):
            return f"Kruskal-Wallis p = {self.p:.2g}, n = {self.n}"
        return self.reason or ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two weight averages of the same members by the objective: median of first - second, and who wins how often."""

    first: str
    second: str
    n: int
    configurations: int
    difference: float
    low: float
    high: float
    first_better: int
    second_better: int
    ties: int
    wilcoxon_p: float
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A sweep's results; `rows` best first, unfinished configurations last."""

    name: str
    study: str
    folder: Path
    status: str
    finished: bool
    planned: int
    objective: Objective
    threshold: float | None
    directions: dict[str, str]
    headline: tuple[str, ...]
    averages: tuple[str, ...]
    searched: dict[str, str]
    rows: tuple[Row, ...]
    bands: dict[CurveKey, Band]
    effects: tuple[Effect, ...]
    comparisons: tuple[Comparison, ...]
    provenance: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def objective_curve(self) -> tuple[str, str]:
        """(metric, average) that configurations are ranked by."""
        return self.objective.metric, self.objective.average

    @property
    def score_label(self) -> str:
        """The score in words."""
        how = {"mean": "mean", "max": "largest", "last": "value at the last"}[self.objective.reduce]
        metric, average = self.objective_curve
        return f"score: {how} {metric} ({average}) at lengths {spans(self.objective.lengths)}"

    @property
    def configurations_finished(self) -> int:
        """How many configurations have all their seeds."""
        return sum(row.complete for row in self.rows)

    @property
    def seeds_planned(self) -> int:
        """Seeds of a configuration (the largest number, should they differ)."""
        return max((row.seeds_planned for row in self.rows), default=0)

    @property
    def seeds_run(self) -> int:
        """Members that have ended, over all configurations."""
        return sum(row.seeds_run for row in self.rows)

    @property
    def seeds_failed(self) -> int:
        """Members that failed, over all configurations."""
        return sum(row.seeds_failed for row in self.rows)


def summary(state: SweepState) -> Summary:
    """Summarise a sweep, finished or not. Raises DamagedCurves if a parquet part is not what the ledger names."""
    objective, threshold = Objective.from_dict(state.spec["objective"]), state.spec["objective"].get("threshold")
    members = {c.config_id: MemberConfig.from_dict({**c.resolved, "seed": 0}) for c in state.configurations.values()}
    directions = {metric: way for member in members.values() for metric, way in member.task.metrics.items()}
    headline = _in_order(objective.metric, *(metric for m in members.values() for metric in m.task.headline))
    averages = _in_order(objective.average, *(average for m in members.values() for average in m.averages))
    done = {c.config_id for c in state.configurations.values() if _complete(state, c)}
    curves = state.curves(final_only=True)
    curves = curves[curves["config_id"].isin(done)]
    bands = _bands(curves, objective, directions)
    rows = [
        replace(_row(c, members[c.config_id], bands, objective, threshold), complete=c.config_id in done)
        for c in state.configurations.values()
    ]
    rows = _scored(rows, curves, state, objective)
    searched = {key: _domain(state.spec["space"].get(key)) for key in _searched(state)}
    return Summary(
        name=state.name,
        study=state.study,
        folder=state.folder,
        status=state.ended or "unfinished",
        finished=state.ended in ("complete", "failed"),
        planned=max(_planned(state.spec), len(state.configurations)) if not state.ended else len(state.configurations),
        objective=objective,
        threshold=threshold,
        directions=directions,
        headline=headline,
        averages=averages,
        searched=searched,
        rows=tuple(rows),
        bands=bands,
        effects=_effects(rows, list(searched)),
        comparisons=_comparisons(curves, objective),
        provenance=state.provenance,
        notes=tuple(str(conflict) for conflict in state.conflicts),
    )


def _complete(state: SweepState, configuration: ConfigurationState) -> bool:
    """Whether every pack with a seed of the configuration has ended: a seed may fail long before its pack ends."""
    packs = {member.pack_id for member in configuration.members.values()}
    return bool(packs) and all(state.packs[pack_id].status in ("complete", "failed") for pack_id in packs)


def _bands(curves: pd.DataFrame, objective: Objective, directions: Mapping[str, str]) -> dict[CurveKey, Band]:
    """A band for every curve; failed seeds count as the worst value where the policy of the objective says so."""
    counted = {**directions, objective.metric: objective.direction} if objective.failed_seeds == "worst" else {}
    medians = statistics.median_curves(curves, counted)
    keys = ["config_id", "metric", "average"]
    groups = dict(iter(curves.groupby(keys, observed=True)))
    bands: dict[CurveKey, Band] = {}
    for key, table in medians.groupby(keys, observed=True):
        config_id, metric, average = map(str, key)
        table = table.sort_values("length")
        seeds = groups[key].sort_values("length").groupby("seed")["value"]
        bands[config_id, metric, average] = Band(
            lengths=tuple(table["length"].tolist()),
            median=tuple(table["median"].tolist()),
            q25=tuple(table["q25"].tolist()),
            q75=tuple(table["q75"].tolist()),
            seeds={int(str(seed)): tuple(values.astype(float).tolist()) for seed, values in seeds},
        )
    return bands


def _row(
    configuration: ConfigurationState,
    member: MemberConfig,
    bands: Mapping[CurveKey, Band],
    objective: Objective,
    threshold: float | None,
) -> Row:
    members = configuration.members.values()
    groups = length_groups(member, objective.lengths)
    ended = [m for m in members if m.status in ("complete", "failed")]
    row = Row(
        config_id=configuration.config_id,
        number=configuration.number,
        values=configuration.values,
        groups=groups,
        complete=False,
        seeds_planned=len(members),
        seeds_run=len(ended),
        seeds_failed=sum(m.status == "failed" for m in ended),
        form=", ".join(sorted({m.form for m in members if m.form})),
    )
    band = bands.get((configuration.config_id, objective.metric, objective.average))
    if band is None:
        return row
    return replace(
        row,
        trained=_at(band, groups.trained, objective),
        selection=_at(band, groups.selection, objective),
        test=_at(band, groups.test, objective),
        generalization_length=None
        if threshold is None
        else generalization_length(band.lengths, band.median, threshold, objective.direction),
        area_beyond=area_beyond(band.lengths, band.median, groups.trained) if groups.trained else None,
    )


def _at(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Quartiles over seeds of each seed's mean over `lengths`; NaN when every seed failed."""
    places = [i for i, length in enumerate(band.lengths) if length in lengths]
    if not places:
        return None
    means = np.array([np.mean([values[i] for i in places]) for values in band.seeds.values()])
    alive = ~np.isnan(means)
    if not alive.any():
        return Quartiles(math.nan, math.nan, math.nan)
    worst = math.inf if objective.direction == "minimize" else -math.inf
    counted = np.where(alive, means, worst) if objective.failed_seeds == "worst" else means[alive]
    low, middle, high = quartiles(counted, worst)
    return Quartiles(middle, low, high)


def _scored(rows: Sequence[Row], curves: pd.DataFrame, state: SweepState, objective: Objective) -> list[Row]:
    """Rows with score and rank, best first; configurations without all their seeds follow in their own order."""
    complete = {row.config_id: row for row in rows if row.complete}
    seeds = {name: seeds for name, seeds in state.seeds().items() if name in complete}
    scores = score_configurations(score_members(curves, objective, seeds), objective)
    ranked = []
    for place, one in enumerate(rank(scores, objective.direction), start=1):
        row = replace(complete[one.config_id], score_q25=one.q25, score_q75=one.q75, failed=one.failed)
        ranked.append(replace(row, score=one.score, rank=None if one.failed else place))
    return [*ranked, *(row for row in rows if not row.complete)]


def _effects(rows: Sequence[Row], keys: Sequence[str]) -> tuple[Effect, ...]:
    complete = [row for row in rows if row.complete]
    values = {row.config_id: {key: row.values[key] for key in keys if key in row.values} for row in complete}
    scores = {row.config_id: row.score for row in complete}
    partial = {
        row["hyperparameter"]: (row["coefficient"], row["low"], row["high"])
        for row in statistics.partial_effects(values, scores).to_dict("records")
        if row["value"] == "" and not math.isnan(row["coefficient"])
    }
    return tuple(
        Effect(
            key=row["hyperparameter"],
            kind=row["kind"],
            n=row["n"],
            correlation=row["correlation"],
            low=row["low"],
            high=row["high"],
            p=row["p"],
            partial=partial.get(row["hyperparameter"]),
            medians=row["medians"] or {},
            counts=row["counts"] or {},
            reason=row["reason"],
        )
        for row in statistics.effects(values, scores).to_dict("records")
    )


def _comparisons(curves: pd.DataFrame, objective: Objective) -> tuple[Comparison, ...]:
    if not len(curves):
        return ()
    minimize = objective.direction == "minimize"
    return tuple(
        Comparison(
            first=row["first"],
            second=row["second"],
            n=row["n"],
            configurations=row["configurations"],
            difference=row["median_difference"],
            low=row["low"],
            high=row["high"],
            first_better=row["first_smaller" if minimize else "second_smaller"],
            second_better=row["second_smaller" if minimize else "first_smaller"],
            ties=row["ties"],
            wilcoxon_p=row["wilcoxon_p"],
            reason=row["reason"],
        )
        for row in statistics.paired_averages(curves, objective).to_dict("records")
    )


def _searched(state: SweepState) -> list[str]:
    """Keys that were drawn, in alphabetical order (the ledger keeps no other)."""
    return sorted({key for configuration in state.configurations.values() for key in configuration.values})


def _domain(domain: Any) -> str:
    """The kind of a domain in a resolved specification: the key of its mapping that is not an option."""
    kinds = ("choice", "grid", "uniform", "log_uniform", "one_minus_log_uniform", "int_uniform", "normal")
    return next((kind for kind in kinds if isinstance(domain, Mapping) and kind in domain), "choice")


def _planned(spec: Mapping[str, Any]) -> int:
    draws = spec["search"].get("configurations") or 1
    grids = [len(domain["grid"]) for domain in spec["space"].values() if _domain(domain) == "grid"]
    return int(draws * math.prod(grids))


def _in_order(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
