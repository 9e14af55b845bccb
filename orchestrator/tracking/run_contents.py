"""Compute the MLflow runs of a sweep: one for the sweep, and a child run for each configuration.

MLflow cannot replace a point, and a second value at the same step draws a zigzag. So only final values are sent: curves
and score of a configuration when all its seeds have ended, its rank at the end of the sweep. Times come from the
ledger, so that the same ledger always gives the same runs.
"""

import hashlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pandas as pd

from orchestrator.record.ledger.records import Record
from orchestrator.record.state.entities import STOPPED_BY_BUDGET, ConfigurationState
from orchestrator.results.confirmation import match_search
from orchestrator.results.scoring.configuration_scores import compute_judged_values
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.failed_seeds import summarize_seeds
from orchestrator.tracking.mlflow_names import (
    choose_name_form,
    compute_sweep_id,
    flatten,
    list_run_names,
    make_key_part,
    make_unique_names,
)
from orchestrator.tracking.pages import COLOR_TAG, COLORS, NOTE_TAG, make_note
from search_spaces.grammar.sections import list_sections

MAX_PARAM, MAX_TAG, MAX_KEY = 6000, 8000, 250
STATUSES = {"complete": "FINISHED", "failed": "FAILED", "interrupted": "KILLED", STOPPED_BY_BUDGET: "KILLED"}


class Point(NamedTuple):
    """A value of a metric; `step` is a length, under `progress/` a training step, and 0 for a single value."""

    key: str
    step: int
    value: float
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """The contents of an MLflow run, except its artifacts, within MLflow's limits.

    `other_names` are those that `publish` may have given it, when the sweep had other configurations.
    """

    name: str
    other_names: frozenset[str] = frozenset()
    status: str
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    points: Sequence[Point]

    @classmethod
    def cut_to_limits(
        cls, *, points: list[Point], params: dict[str, str], tags: dict[str, str], **other_fields: Any
    ) -> Self:
        """Return contents with long texts cut, and without infinite values, which MLflow would store as 1.8e308."""
        return cls(
            params={key[:MAX_KEY]: text[:MAX_PARAM] for key, text in params.items()},
            tags={key[:MAX_KEY]: text[:MAX_TAG] for key, text in tags.items()},
            points=sorted(point for point in points if math.isfinite(point.value)),
            **other_fields,
        )

    def compute_digest(self, *other_digests: str) -> str:
        """Return a digest of these contents and `other_digests`, without the times of points."""
        points = [(point.key, point.step, point.value) for point in self.points]
        hashed = [self.status, self.end_ms, self.params, self.tags, points, other_digests]
        return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:24]


class MlflowRunBuilder:
    """Builds the contents of the MLflow runs of a sweep from its `summary`, `records` and all `curves`."""

    def __init__(self, summary: Summary, records: Sequence[Record], curves: pd.DataFrame) -> None:
        self.summary = summary
        self.state = summary.state
        self.records = records
        self.sweep_id = compute_sweep_id(records)
        self._names = make_unique_names([*summary.headline, *summary.averages])
        self._search_scores = {config_id: recorded["score"][0] for recorded, config_id in match_search(summary.state)}

        # Times of the evaluations by (pack_id, step), and of each pack's last record by (pack_id, None), in which final
        # values appear. If a step was recorded twice, the first record counts.
        self._times_ms: dict[tuple[str, int | None], int] = {}
        for record in records:
            if record.kind in ("evaluation", "pack_end"):
                pack_id = record.fields["pack_id"]
                time_ms = _to_milliseconds(record.time)
                self._times_ms.setdefault((pack_id, record.fields.get("step")), time_ms)
                self._times_ms[pack_id, None] = time_ms

        # Judged values of seeds are looked up once for each training step of a configuration.
        self._judged: dict[tuple[str, int], list[float]] = defaultdict(list)
        judged_values = compute_judged_values(curves, summary.objective)
        for config_id, step, value in judged_values[["config_id", "step", "value"]].itertuples(index=False, name=None):
            self._judged[config_id, step].append(value)

    def make_sweep_run(self) -> RunContents:
        """Return the run of the sweep itself."""
        # Tags under mlflow. are shown by MLflow itself, which knows only one commit for a run.
        summary, state = self.summary, self.state
        tags = self._make_common_tags("sweep") | {
            "lengthwise.status": summary.status,
            "mlflow.source.name": "lengthwise",
            "mlflow.source.type": "LOCAL",
            NOTE_TAG: make_note(summary),
        }
        folders = state.codes[0]["folders"] if state.codes else []
        if commit := next((folder["commit"] for folder in folders if folder["commit"]), None):
            tags["mlflow.source.git.commit"] = commit
        sections = (*list_sections(state.spec), "space", "search", "objective")

        # Counts and the best score can still change until the sweep has finished.
        ends = [_to_milliseconds(record.time) for record in self.records if record.kind == "end"]
        end_ms = ends[-1] if state.end_status else None
        points = []
        if summary.has_ended and end_ms is not None:
            first = summary.first
            values = {
                "configurations": len(summary.rows),
                "seeds_run": summary.seeds_run,
                "seeds_failed": summary.seeds_failed,
                "seeds_stopped": len(summary.stop_steps) if summary.has_early_stops else None,
                "first_score": first.score if first else None,
                "first_test": first.test_quartiles.median if first and first.test_quartiles else None,
            }
            points = [*_make_points(values, end_ms), *self._make_first_curve(first, end_ms)]
        return RunContents.cut_to_limits(
            name=summary.name,
            status=STATUSES.get(state.end_status or "", "RUNNING"),
            start_ms=_to_milliseconds(self.records[0].time),
            end_ms=end_ms,
            params={key: text for section in sections for key, text in flatten(state.spec.get(section), section)},
            tags=tags,
            points=points,
        )

    def _make_first_curve(self, first: ConfigurationResult | None, time_ms: int) -> Iterator[Point]:
        """Yield the judged median curve of the configuration ranked first, by which MLflow's charts compare sweeps."""
        metric, average = self.summary.objective_curve
        if first is not None and (band := self.summary.find_judged_band(first)):
            key = f"first/{self._names[metric]}/{self._names[average]}/median"
            yield from (Point(key, *pair, time_ms) for pair in zip(band.lengths, band.median, strict=True))

    def make_configuration_runs(self, parent_run_id: str = "") -> Iterator[tuple[ConfigurationResult, RunContents]]:
        """Yield the run of each configuration, by number, as a child of the run of the sweep."""
        # If a configuration was recorded twice, the first record has its start.
        configuration_records = [record for record in self.records if record.kind == "configuration"]
        start_times = {record.fields["config_id"]: record.time for record in reversed(configuration_records)}
        form = choose_name_form(self.summary)
        for row in sorted(self.summary.rows, key=lambda row: row.number):
            configuration = self.state.configurations[row.config_id]
            packs = {member.pack_id for member in configuration.members.values()}
            end_ms = max((self._times_ms.get((pack_id, None), 0) for pack_id in packs), default=0)

            # Final values are sent once all seeds have ended; MLflow could not replace earlier ones.
            status = "FAILED" if row.has_failed else "FINISHED"
            if not row.is_complete:
                status = "KILLED" if self.state.end_status or row.pruned_at is not None else "RUNNING"
            points = list(self._make_progress_points(configuration))
            if row.is_complete:
                points += [*self._make_curve_points(row, end_ms), *self._make_summary_points(row, end_ms)]

            # Searched values also get their own keys, because MLflow's charts can put these on an axis.
            values = {make_key_part(key): text for key, value in row.values.items() for _, text in flatten(value, key)}
            resolved = {key: value for key, value in configuration.resolved.items() if key != "seed"}
            names = list_run_names(self.summary, row)
            yield (
                row,
                RunContents.cut_to_limits(
                    name=names[form],
                    other_names=frozenset(names.values()) - {names[form]},
                    status=status,
                    start_ms=_to_milliseconds(start_times[row.config_id]),
                    end_ms=end_ms if status != "RUNNING" else None,
                    params=dict(flatten(resolved)) | values,
                    tags=self._make_configuration_tags(row, configuration) | {"mlflow.parentRunId": parent_run_id},
                    points=points,
                ),
            )

    def _make_configuration_tags(self, row: ConfigurationResult, configuration: ConfigurationState) -> dict[str, str]:
        """Return the tags of a configuration's run; the first ten of a finished sweep also get a color."""
        # A seed that diverged has a step, but a seed of a pack that died has none.
        failed = [member for _, member in sorted(configuration.members.items()) if member.status == "failed"]
        failures = [
            f"{member.seed}" + (f" (at step {member.failed_at})" if member.failed_at is not None else "")
            for member in failed
        ]

        # The config_id is how `publish` finds this run again.
        tags = self._make_common_tags("configuration") | {
            "lengthwise.config_id": row.config_id,
            "lengthwise.number": str(row.number),
            "lengthwise.seeds": f"{row.seeds_run} of {row.seeds_planned}",
            "lengthwise.failed_seeds": ", ".join(failures),
        }
        if row.pruned_at is not None:
            tags["lengthwise.pruned_at"] = str(row.pruned_at)
        if self.summary.has_ended and row.rank is not None and row.rank <= len(COLORS):
            tags[COLOR_TAG] = COLORS[row.rank - 1]
        return tags

    def _make_curve_points(self, row: ConfigurationResult, time_ms: int) -> Iterator[Point]:
        """Yield the curves against length: quartiles over seeds, and for the judged metric every seed.

        They are the bands of the page: `median_curves.make_bands` takes the median over seeds at every length of the
        judged evaluation (`summarize`). Failed seeds count as `objective.failed_seeds` says.
        `statistics.failed_seeds.compute_group_quartiles` computes the median itself.
        """
        for metric in self.summary.headline:
            for average in self.summary.averages:
                band = self.summary.bands.get((row.config_id, metric, average))
                if band is None:
                    continue

                # Every seed of every metric would be too many points for MLflow's charts.
                curves = {"median": band.median, "q25": band.q25, "q75": band.q75}
                if (metric, average) == self.summary.objective_curve:
                    curves |= {f"seed_{seed}": values for seed, values in band.curves_by_seed.items()}
                for statistic, values in curves.items():
                    key = f"{self._names[metric]}/{self._names[average]}/{statistic}"
                    yield from (Point(key, *pair, time_ms) for pair in zip(band.lengths, values, strict=True))

    def _make_summary_points(self, row: ConfigurationResult, time_ms: int) -> list[Point]:
        """Return the numbers of a complete configuration as points at step 0."""
        # The rank is final only in a finished sweep; values that do not apply are None, and get no point.
        values = {
            "score": row.score,
            "search_score": self._search_scores.get(row.config_id),
            "generalization_length": row.generalization_length,
            "area_beyond": row.area_beyond,
            "seeds_run": row.seeds_run,
            "seeds_failed": row.seeds_failed,
            "rounds": row.rounds or None,
            "rank": row.rank if self.summary.has_ended else None,
            "seeds_stopped": len(row.stop_steps) if self.summary.has_early_stops else None,
            "stopped_at_median": statistics.median(row.stop_steps) if row.stop_steps else None,
        }
        return _make_points(values, time_ms)

    def _make_progress_points(self, configuration: ConfigurationState) -> Iterator[Point]:
        """Yield medians of loss and judged value against training step, at the steps that all seeds have reached."""
        # A median over part of the seeds would jump when the others follow, so all packs must have evaluated a step.
        pack_ids = dict.fromkeys(member.pack_id for member in configuration.members.values())
        packs = [self.state.packs[pack_id] for pack_id in pack_ids]
        last_step = math.inf if configuration.pruned_at is None else configuration.pruned_at
        common_steps = set.intersection(*(set(pack.evaluations) for pack in packs)) if packs else set()

        # A pack may have members of other configurations, whose losses are left out.
        metric, average = self.summary.objective_curve
        objective = self.summary.objective
        key = f"progress/{self._names[metric]}/{self._names[average]}"
        for step in sorted(step for step in common_steps if step <= last_step):
            time_ms = max(self._times_ms[pack_id, step] for pack_id in pack_ids)
            losses = [
                loss
                for pack in packs
                for (config_id, _), loss in zip(pack.members, pack.evaluations[step]["loss"], strict=True)
                if config_id == configuration.config_id
            ]
            judged_values = self._judged.get((configuration.config_id, step), ())
            for name, values, direction in (
                ("progress/loss", losses, "minimize"),
                (key, judged_values, objective.direction),
            ):
                yield Point(name, step, summarize_seeds(values, objective.failed_seeds, direction).median, time_ms)

    def _make_common_tags(self, kind: str) -> dict[str, str]:
        """Return the tags by which the runs of a sweep are found."""
        return {
            "lengthwise.kind": kind,
            "lengthwise.sweep": self.summary.name,
            "lengthwise.sweep_id": self.sweep_id,
            "lengthwise.spec_hash": self.state.spec_hash,
        }


def _make_points(values: dict[str, Any], time_ms: int) -> list[Point]:
    """Return a point at step 0 for each value that is not None."""
    return [Point(key, 0, float(value), time_ms) for key, value in values.items() if value is not None]


def _to_milliseconds(seconds: float) -> int:
    """Return seconds as the whole milliseconds that MLflow stores."""
    return round(seconds * 1000)
