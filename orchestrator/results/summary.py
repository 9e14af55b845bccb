"""What a sweep came to, as plain data: ranked configurations and curve bands; tables and figures draw from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.record.curves import read_curves
from orchestrator.record.kept_code import import_recorded
from orchestrator.record.kept_weights import Kept, kept_weights
from orchestrator.record.lineage import CONFIRMS
from orchestrator.record.parts import ConfigurationState
from orchestrator.record.state import SweepState
from orchestrator.results.average_comparisons import Comparison, compare_averages
from orchestrator.results.evaluation_choice import BEST, Mask, at_steps
from orchestrator.results.hyperparameter_effects import Effect, effects_on
from orchestrator.results.last_and_best import LastAndBest, compare_last_and_best
from orchestrator.results.length_groups import LengthGroups, common_test_lengths, length_groups
from orchestrator.results.median_curves import Band, CurveKey, Quartiles, at_lengths, bands_of
from orchestrator.results.objective import (
    Objective,
    area_beyond,
    choose,
    generalization_length,
    is_judged,
    rank,
    reduced,
    score_configurations,
    score_members,
)
from orchestrator.wording import spans
from trainers.config.member import MemberConfig
from trainers.config.recorded import recorded_member
from trainers.tasks.task import Family

__all__ = ["Band", "CurveKey", "Quartiles", "Row", "Summary", "summary"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One configuration. What needs all its seeds (score, rank, quartiles) is None until they have ended.

    Of the `seeds_failed` the `seeds_crashed` were lost with a pack that was given up; the others diverged.
    """

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
    seeds_crashed: int = 0
    form: str = ""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A sweep's results; `rows` by score, unfinished configurations last.

    `pairs` are the metrics of the task to be drawn against each other, (measured, predicted); `families` has those of
    every configuration to be drawn against the number in their name; `deaths` the error of every pack given up.
    """

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
    pairs: tuple[tuple[str, str], ...]
    families: dict[str, Mapping[str, Family]]
    provenance: dict[str, Any]
    notes: tuple[str, ...]
    deaths: tuple[str, ...] = ()
    last_and_best: tuple[LastAndBest, ...] = ()
    weights: Mapping[tuple[str, int], Kept] = field(default_factory=dict)

    @property
    def objective_curve(self) -> tuple[str, str]:
        """(metric, average) that configurations are ranked by."""
        return self.objective.metric, self.objective.average

    @property
    def judged_name(self) -> str:
        """`objective_curve` in words, with the evaluation unless it is the last."""
        metric, average = self.objective_curve
        return f"{metric} ({average}{', chosen evaluation' if self.objective.evaluation == BEST else ''})"

    @property
    def score_label(self) -> str:
        """The score in words."""
        how = {"mean": "mean", "max": "largest", "last": "value at the last"}[self.objective.reduce]
        return f"score: {how} {self.judged_name} at lengths {spans(self.objective.lengths)}"

    @property
    def shows_effects(self) -> bool:
        """Whether effects of hyperparameters mean anything: configurations that were picked by score show none."""
        return self._judges_effects and self.no_effects is None

    @property
    def no_effects(self) -> str | None:
        """Why a sweep that searched shows no effects, in a sentence; None where they are shown or nothing is asked."""
        scores = [row.score for row in self.rows if row.complete and row.score is not None]
        if not self._judges_effects or not scores:
            return None
        if not any(map(math.isfinite, scores)):
            return "No configuration has a finite score, so effects of hyperparameters are not shown."
        if len(set(scores)) == 1:
            return f"All {len(scores)} configurations have the same score, so effects of hyperparameters are not shown."
        return None

    @property
    def _judges_effects(self) -> bool:
        return bool(self.searched) and self.configurations_finished > 1 and CONFIRMS not in self.provenance

    @cached_property
    def test_lengths(self) -> tuple[int, ...]:
        """The lengths beyond training and selection that every configuration was evaluated at."""
        return common_test_lengths(row.groups for row in self.rows)

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of every searched key on the score, at the selection lengths."""
        return effects_on(self._values(), {row.config_id: row.score for row in self.rows if row.complete})

    @cached_property
    def test_outcomes(self) -> dict[str, Quartiles]:
        """What every complete configuration came to at the test lengths: over seeds, of the mean over the lengths.

        A configuration that failed has its score, infinite or NaN, here too. Empty when there are no test lengths.
        """
        found: dict[str, Quartiles] = {}
        for row in self.rows if self.test_lengths else ():
            band = self.bands.get((row.config_id, *self.objective_curve))
            at = at_lengths(band, self.test_lengths, self.objective) if band and not row.failed else None
            if row.complete and row.score is not None:
                found[row.config_id] = at or Quartiles(row.score, row.score_q25, row.score_q75)
        return found

    @cached_property
    def test_effects(self) -> tuple[Effect, ...]:
        """The effect of every searched key at the test lengths, which were neither trained on nor selected by."""
        outcomes = {config_id: at.median for config_id, at in self.test_outcomes.items()}
        return effects_on(self._values(), outcomes) if self.test_lengths else ()

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every weight average against the objective's, on the same trajectories, by group of lengths."""
        return compare_averages(self.averages, self.objective.average, self.objective.direction, self._member_scores)

    def _values(self) -> dict[str, dict[str, Any]]:
        return {
            row.config_id: {key: row.values[key] for key in self.searched if key in row.values}
            for row in self.rows
            if row.complete
        }

    def _member_scores(self, average: str, group: str) -> "pd.Series[float]":
        """The objective's metric of every member at its own lengths of a group; reduced as the objective says."""
        scores: dict[tuple[str, int], float] = {}
        for row in self.rows:
            band = self.bands.get((row.config_id, self.objective.metric, average))
            lengths = getattr(row.groups, group)
            places = [i for i, length in enumerate(band.lengths) if length in lengths] if band else []
            for seed, values in band.seeds.items() if band and places else ():
                chosen = np.array([values[i] for i in places])
                scores[row.config_id, seed] = reduced(chosen, self.objective.reduce if group == "selection" else "mean")
        names = ["config_id", "seed"]
        return pd.Series(list(scores.values()), pd.MultiIndex.from_tuples(list(scores), names=names), dtype=float)

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

    @property
    def seeds_crashed(self) -> int:
        """Failed members that did not diverge: their packs were given up."""
        return sum(row.seeds_crashed for row in self.rows)


def summary(state: SweepState, curves: pd.DataFrame | None = None) -> Summary:
    """Summarise a sweep, finished or not; `curves` (all of `read_curves(state)`) spares reading them.

    Raises DamagedCurves if a parquet part is not what the ledger names.
    """
    import_recorded(state)
    objective, threshold = Objective.from_dict(state.spec["objective"]), state.spec["objective"].get("threshold")
    members = {c.config_id: recorded_member(c.resolved, 0) for c in state.configurations.values()}
    directions = {metric: way for member in members.values() for metric, way in member.task.metrics.items()}
    headline = _in_order(objective.metric, *(metric for m in members.values() for metric in m.task.headline))
    averages = _in_order(objective.average, *(average for m in members.values() for average in m.averages))
    done = {c.config_id for c in state.configurations.values() if _complete(state, c)}
    needed = partial(_needed, objective)
    curves = read_curves(state, keep=needed) if curves is None else curves[needed(curves)]
    curves = curves[curves["config_id"].isin(done)]
    bands = bands_of(curves[at_steps(curves, choose(curves, objective))], objective, directions)
    rows = [
        replace(_row(c, members[c.config_id], bands, objective, threshold), complete=c.config_id in done)
        for c in state.configurations.values()
    ]
    rows = _scored(rows, curves, state, objective)
    groups = {row.config_id: row.groups for row in rows if row.complete}
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
        pairs=tuple(dict.fromkeys(p for m in members.values() for p in getattr(m.task, "paired_metrics", ()))),
        families={config_id: getattr(m.task, "families", {}) for config_id, m in members.items()},
        provenance=state.provenance,
        notes=tuple(str(conflict) for conflict in state.conflicts),
        deaths=tuple(error for _, error in state.deaths),
        last_and_best=compare_last_and_best(curves, objective, groups, state.seeds()),
        weights=kept_weights(state),
    )


def _needed(objective: Objective, curves: pd.DataFrame) -> Mask:
    """What a summary reads of whole packs: all of the step that counts, the judged curve of every step."""
    return at_steps(curves, choose(curves, objective)) | is_judged(curves, objective)


def _complete(state: SweepState, configuration: ConfigurationState) -> bool:
    """Whether every pack with a seed of the configuration has ended: a seed may fail long before its pack ends."""
    packs = {member.pack_id for member in configuration.members.values()}
    return bool(packs) and all(state.packs[pack_id].status in ("complete", "failed") for pack_id in packs)


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
        seeds_crashed=sum(m.status == "failed" and m.failed_at is None for m in ended),
        form=", ".join(sorted({m.form for m in members if m.form})),
    )
    band = bands.get((configuration.config_id, objective.metric, objective.average))
    if band is None:
        return row
    return replace(
        row,
        trained=at_lengths(band, groups.trained, objective),
        selection=at_lengths(band, groups.selection, objective),
        test=at_lengths(band, groups.test, objective),
        generalization_length=None
        if threshold is None
        else generalization_length(band.lengths, band.median, threshold, objective.direction),
        area_beyond=area_beyond(band.lengths, band.median, groups.trained) if groups.trained else None,
    )


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


def _searched(state: SweepState) -> list[str]:
    """Keys that were drawn, in alphabetical order (the ledger keeps no other)."""
    return sorted({key for configuration in state.configurations.values() for key in configuration.values})


def _domain(domain: Any) -> str:
    """The kind of a domain in a resolved specification: the key of its mapping that is not an option.

    A key without a domain has its values from search.listed.
    """
    if domain is None:
        return "listed"
    kinds = ("choice", "grid", "uniform", "log_uniform", "one_minus_log_uniform", "int_uniform", "normal")
    return next((kind for kind in kinds if isinstance(domain, Mapping) and kind in domain), "choice")


def _planned(spec: Mapping[str, Any]) -> int:
    draws = len(spec["search"].get("listed") or ()) or spec["search"].get("configurations") or 1
    grids = [len(domain["grid"]) for domain in spec["space"].values() if _domain(domain) == "grid"]
    return int(draws * math.prod(grids))


def _in_order(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
