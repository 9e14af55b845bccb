"""The contents of a sweep's MLflow runs as plain data: one run for the sweep and one for each configuration.

MLflow cannot replace a point, and a second value at the same step would draw a zigzag. So only final values are sent:
the curve of a seed when that seed has ended, a median when all seeds of the configuration have ended, a rank at the end
of the sweep. Times come from the ledger, so that sending a point twice adds nothing.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from orchestrator.record.ledger.records import Record
from orchestrator.record.state.parts import STOPPED, ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.results.confirmations import read_confirmations
from orchestrator.results.confirmed import match_search
from orchestrator.results.scoring.evaluation_choice import select_steps
from orchestrator.results.scoring.objective import choose_evaluations, is_judged
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.failed_seeds import over_seeds
from orchestrator.tracking.names import (
    EvaluationTimes,
    flatten,
    make_key_part,
    milliseconds,
    run_name,
    sweep_id,
    unique_names,
)
from orchestrator.tracking.pages import COLOR_TAG, COLORS, NOTE_TAG, description
from orchestrator.tracking.run_contents import Point, RunContents
from search_spaces.grammar.problems import sections_of


class ContentsOfSweep:
    """The runs of one sweep, from its ledger and summary; `sentences` are part of the note on its page."""

    def __init__(
        self,
        state: SweepState,
        summary: Summary,
        records: Sequence[Record],
        curves: pd.DataFrame,
        sentences: Sequence[str] = (),
    ) -> None:
        self.state, self.summary, self.records, self.sentences = state, summary, records, sentences
        self.sweep_id = sweep_id(records)
        self.label = unique_names([*summary.headline, *summary.averages])
        self.times = EvaluationTimes(records)
        self.curves = curves
        judged = curves[is_judged(curves, summary.objective)]
        self.chosen = judged[select_steps(judged, choose_evaluations(judged, summary.objective))]

    def parent(self) -> RunContents:
        """Return the run of the sweep itself."""
        summary, provenance = self.summary, self.state.provenance
        started = self.state.codes[0]["folders"] if self.state.codes else []
        git = next((folder for folder in started if folder["commit"]), dict[str, str]())
        confirmed = read_confirmations(summary) if summary.finished else ()
        tags = self._tags("sweep") | {
            "lengthwise.study": summary.state.study,
            "lengthwise.status": summary.status,
            "lengthwise.message": self.state.message or "",
            "lengthwise.git_commit": str(git.get("commit")),
            "lengthwise.git_dirty": str(git.get("dirty")).lower(),
            "lengthwise.python": str(provenance.get("python")),
            "lengthwise.hostname": str(provenance.get("hostname")),
            "mlflow.source.name": "lengthwise",
            "mlflow.source.type": "LOCAL",
            NOTE_TAG: description(summary, self.sentences, confirmed),
            **{f"lengthwise.version.{make_key_part(n)}": str(v) for n, v in provenance.get("versions", {}).items()},
        }
        if git:
            tags["mlflow.source.git.commit"] = git["commit"]
        ends = [milliseconds(record.time) for record in self.records if record.kind == "end"]
        end_ms = ends[-1] if self.state.ended else None
        points: list[Point] = []
        if summary.finished and end_ms is not None:
            numbers: dict[str, float] = {
                "configurations": len(summary.rows),
                "seeds_run": summary.seeds_run,
                "seeds_failed": summary.seeds_failed,
            }
            if summary.may_stop:
                numbers["seeds_stopped"] = len(summary.stopped_at)
            first = next((row for row in summary.rows if row.rank == 1 and row.score is not None), None)
            if first is not None and first.score is not None:
                numbers |= {"first_score": first.score, "first_test": first.test.median if first.test else math.nan}
            points = [Point(key, 0, float(value), end_ms) for key, value in numbers.items()]
        sections = (*sections_of(self.state.spec), "space", "search", "objective")
        params = {key: text for section in sections for key, text in flatten(self.state.spec.get(section), section)}
        status = {"complete": "FINISHED", "failed": "FAILED", "interrupted": "KILLED", STOPPED: "KILLED"}.get(
            self.state.ended or "", "RUNNING"
        )
        return RunContents(
            name=summary.name,
            status=status,
            start_ms=milliseconds(self.records[0].time),
            end_ms=end_ms,
            params=params,
            tags=tags,
            points=points,
        ).within_limits()

    def children(self) -> Iterator[tuple[Row, RunContents]]:
        """Yield the runs of the configurations, by number."""
        begun = {r.fields["config_id"]: r.time for r in reversed(self.records) if r.kind == "configuration"}
        by_configuration = dict(tuple(self.curves.groupby("config_id", observed=True)))
        for row in sorted(self.summary.rows, key=lambda row: row.number):
            configuration = self.state.configurations[row.config_id]
            curves = by_configuration.get(row.config_id, self.curves.iloc[:0])
            yield row, self._child(row, configuration, curves, begun[row.config_id])

    def _child(self, row: Row, configuration: ConfigurationState, curves: pd.DataFrame, begun: float) -> RunContents:
        ended_ms = self.times.end_ms(configuration)
        points = [*self._seed_points(row, configuration), *self._progress_points(configuration, curves)]
        if row.complete:
            points += [*self._band_points(row, ended_ms), *self._summary_points(row, ended_ms)]
        values = {make_key_part(key): text for key, value in row.values.items() for _, text in flatten(value, key)}
        params = dict(flatten({k: v for k, v in configuration.resolved.items() if k != "seed"})) | values
        failed = {s: m.failed_at for s, m in sorted(configuration.members.items()) if m.status == "failed"}
        tags = self._tags("configuration") | {
            "lengthwise.config_id": row.config_id,
            "lengthwise.number": str(row.number),
            "lengthwise.seeds": f"{row.seeds_run} of {row.seeds_planned}",
            "lengthwise.failed_seeds": ", ".join(
                f"{s} (at step {at})" if at is not None else str(s) for s, at in failed.items()
            ),
            "lengthwise.form": row.form,
        }
        if self.summary.finished and row.rank is not None and row.rank <= len(COLORS):
            tags[COLOR_TAG] = COLORS[row.rank - 1]
        if row.pruned_at is not None:
            tags["lengthwise.pruned_at"] = str(row.pruned_at)
        if self.summary.may_stop:
            stopped = {s: m.stopped_at for s, m in sorted(configuration.members.items()) if m.stopped_at is not None}
            tags["lengthwise.stopped_seeds"] = ", ".join(f"{s} (at step {at})" for s, at in stopped.items())
        if not row.complete:
            status = "KILLED" if self.state.ended or row.pruned_at is not None else "RUNNING"
        else:
            status = "FAILED" if row.failed else "FINISHED"
        return RunContents(
            name=run_name(row),
            status=status,
            start_ms=milliseconds(begun),
            end_ms=ended_ms if status != "RUNNING" else None,
            params=params,
            tags=tags,
            points=points,
        ).within_limits()

    def _band_points(self, row: Row, time_ms: int) -> Iterator[Point]:
        for metric in self.summary.headline:
            for average in self.summary.averages:
                band = self.summary.bands.get((row.config_id, metric, average))
                for statistic in ("median", "q25", "q75") if band else ():
                    for length, value in zip(band.lengths, getattr(band, statistic), strict=True) if band else ():
                        yield Point(self._key(metric, average, statistic), length, value, time_ms)

    def _summary_points(self, row: Row, time_ms: int) -> Iterator[Point]:
        searched = {name: one["score"][0] for one, name in match_search(self.state)}
        values = {
            "score": row.score,
            "search_score": searched.get(row.config_id),
            "generalization_length": row.generalization_length,
            "area_beyond": row.area_beyond,
            "seeds_run": row.seeds_run,
            "seeds_failed": row.seeds_failed,
            "rounds": row.rounds or None,
            "rank": row.rank if self.summary.finished else None,
            "seeds_stopped": len(row.stopped_at) if self.summary.may_stop else None,
            "stopped_at_median": statistics.median(row.stopped_at) if row.stopped_at else None,
        }
        yield from (Point(key, 0, float(value), time_ms) for key, value in values.items() if value is not None)

    def _seed_points(self, row: Row, configuration: ConfigurationState) -> Iterator[Point]:
        metric, average = self.summary.objective_curve
        mine = self.chosen[self.chosen["config_id"] == row.config_id]
        for seed, rows in mine.groupby("seed"):
            member = configuration.members[int(str(seed))]
            if member.status in ("complete", "failed"):
                time_ms = self.times.pack_end_ms(member.pack_id)
                for length, value in zip(rows["length"], rows["value"], strict=True):
                    yield Point(self._key(metric, average, f"seed_{seed}"), int(length), float(value), time_ms)

    def _progress_points(self, configuration: ConfigurationState, curves: pd.DataFrame) -> Iterator[Point]:
        """Yield medians over seeds at the training steps that every seed of the configuration has reached."""
        packs = {member.pack_id: self.state.packs[member.pack_id] for member in configuration.members.values()}
        if not packs:
            return
        end = math.inf if configuration.pruned_at is None else configuration.pruned_at
        evaluated = set.intersection(*(set(pack.evaluations) for pack in packs.values()))
        steps = sorted(step for step in evaluated if step <= end)
        metric, average = self.summary.objective_curve
        mine = curves[(curves["metric"] == metric) & (curves["average"] == average)]
        mine = mine[mine["length"].isin(self.summary.objective.lengths)]
        values: dict[int, dict[int, list[float]]] = {}  # by step and seed
        for step, seed, value in zip(*(mine[name].tolist() for name in ("step", "seed", "value")), strict=True):
            values.setdefault(step, {}).setdefault(seed, []).append(value)
        for step in steps:
            time_ms = max(self.times.evaluations[pack_id, step] for pack_id in packs)
            losses = [
                loss
                for pack in packs.values()
                for (config_id, _), loss in zip(pack.members, pack.evaluations[step]["loss"], strict=True)
                if config_id == configuration.config_id
            ]
            yield Point("progress/loss", step, self._median(losses, "minimize"), time_ms)
            seeds = [float(np.mean(of_seed)) for of_seed in values.get(step, {}).values()]
            yield Point(self._progress_key(), step, self._median(seeds, self.summary.objective.direction), time_ms)

    def _median(self, values: Iterable[float], direction: str) -> float:
        """Return the median over seeds (NaN for failed ones) by the objective's policy."""
        return over_seeds(values, self.summary.objective.failed_seeds, direction).median

    def _key(self, metric: str, average: str, statistic: str) -> str:
        return f"{self.label[metric]}/{self.label[average]}/{statistic}"

    def _progress_key(self) -> str:
        metric, average = self.summary.objective_curve
        return f"progress/{self.label[metric]}/{self.label[average]}"

    def _tags(self, kind: str) -> dict[str, str]:
        return {
            "lengthwise.kind": kind,
            "lengthwise.sweep": self.summary.name,
            "lengthwise.sweep_id": self.sweep_id,
            "lengthwise.spec_hash": self.state.spec_hash,
        }
