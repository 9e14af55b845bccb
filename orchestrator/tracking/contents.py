"""What MLflow should hold of a sweep, as plain data: one run for the sweep and one for each configuration.

Only what can no longer change is a point: MLflow cannot replace one, and a second value at the same step would draw a
zigzag. So a seed's curve is there when that seed has ended, a median when all seeds of its configuration have, a rank
when the sweep has. Times come from the ledger, so that sending a point twice adds nothing.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.record.ledger import Record
from orchestrator.record.lineage import CONFIRMS
from orchestrator.record.state import ConfigurationState, SweepState
from orchestrator.report.tables import first_sentence
from orchestrator.results.confirmed import Confirmed, read_confirmed
from orchestrator.results.evaluation_choice import at_steps
from orchestrator.results.length_groups import spans
from orchestrator.results.objective import choose, is_judged, quartiles
from orchestrator.results.summary import Row, Summary
from orchestrator.tracking.pages import Charts
from orchestrator.wording import compact_value, short_keys

MAX_PARAM, MAX_TAG, MAX_LABEL = 6000, 8000, 80


@dataclass(frozen=True, order=True)
class Point:
    """One value of one metric; `step` is a length, or a training step under `progress/`, or 0 for a summary."""

    key: str
    step: int
    value: float
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """Everything one MLflow run should hold, except its artifacts."""

    config_id: str | None
    name: str
    status: str
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    points: tuple[Point, ...]

    def digest(self, *more: str) -> str:
        """Changes when anything that is published changes."""
        facts = [
            self.status,
            self.end_ms,
            self.params,
            self.tags,
            [(p.key, p.step, p.value) for p in self.points],
            more,
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def sweep_id(records: Sequence[Record]) -> str:
    """Tells this sweep from any other of the same name: a hash of the ledger's first record."""
    first = records[0]
    facts = [first.time, first.fields["name"], first.fields["spec_hash"]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


class ContentsOfSweep:
    """Works out the runs of one sweep from its ledger and summary."""

    def __init__(self, state: SweepState, summary: Summary, records: Sequence[Record], curves: pd.DataFrame) -> None:
        self.state, self.summary, self.records = state, summary, records
        self.sweep_id = sweep_id(records)
        self.label = unique_names([*summary.headline, *summary.averages])
        self.times = EvaluationTimes(records)
        self.curves = curves
        judged = curves[is_judged(curves, summary.objective)]
        self.chosen = judged[at_steps(judged, choose(judged, summary.objective))]
        self.last_and_best = {one.config_id: one for one in summary.last_and_best}

    def parent(self) -> RunContents:
        """The run of the sweep itself."""
        summary, provenance = self.summary, self.state.provenance
        confirmed = read_confirmed(summary) if summary.finished else ()
        end = next((r for r in reversed(self.records) if r.kind in ("end", "resume")), None)
        ended = end is not None and end.kind == "end"
        tags = self._tags("sweep") | {
            "lengthwise.study": summary.study,
            "lengthwise.status": summary.status,
            "lengthwise.message": self.state.message or "",
            "lengthwise.git_commit": str(provenance.get("git_commit")),
            "lengthwise.git_dirty": str(provenance.get("git_dirty")).lower(),
            "lengthwise.python": str(provenance.get("python")),
            "lengthwise.hostname": str(provenance.get("hostname")),
            "mlflow.source.name": "lengthwise",
            "mlflow.source.type": "LOCAL",
            "mlflow.note.content": description(summary, confirmed),
            **self._confirmation_tags(confirmed),
            **{f"lengthwise.version.{name(n)}": str(v) for n, v in provenance.get("versions", {}).items()},
        }
        if provenance.get("git_commit"):
            tags["mlflow.source.git.commit"] = str(provenance["git_commit"])
        end_ms = milliseconds(end.time) if end is not None and ended else None
        points: list[tuple[str, int, float, int]] = []
        if summary.finished and end_ms is not None:
            numbers: dict[str, float] = {
                "configurations": len(summary.rows),
                "seeds_run": summary.seeds_run,
                "seeds_failed": summary.seeds_failed,
            }
            first = next((row for row in summary.rows if row.rank == 1 and row.score is not None), None)
            if first is not None and first.score is not None:
                numbers |= {"first_score": first.score, "first_test": first.test.median if first.test else math.nan}
            points = [(key, 0, float(value), end_ms) for key, value in numbers.items()]
        sections = ("task", "model", "training", "space", "search", "evaluation", "objective")
        params = {key: text for section in sections for key, text in flat(self.state.spec.get(section), section)}
        status = {"complete": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}.get(
            self.state.ended or "", "RUNNING"
        )
        return self._contents(None, summary.name, status, self.records[0].time, end_ms, params, tags, points)

    def children(self) -> Iterator[tuple[Row, RunContents]]:
        """The runs of the configurations, by number."""
        begun = {r.fields["config_id"]: r.time for r in reversed(self.records) if r.kind == "configuration"}
        by_configuration = dict(tuple(self.curves.groupby("config_id", observed=True)))
        for row in sorted(self.summary.rows, key=lambda row: row.number):
            configuration = self.state.configurations[row.config_id]
            curves = by_configuration.get(row.config_id, self.curves.iloc[:0])
            yield row, self._child(row, configuration, curves, begun[row.config_id])

    def charts(self) -> Charts:
        """The charts of the sweep's page: the objective first, then the other headline metrics."""
        metric, average = self.summary.objective_curve
        first = [(metric, a) for a in dict.fromkeys((average, *self.summary.averages))]
        others = [(m, average) for m in self.summary.headline if m != metric]
        return Charts(
            curves=tuple((self._key(m, a, "median"), f"{m} · {a}") for m, a in (*first, *others)),
            progress=(("progress/loss", "training loss"), (self._progress_key(), f"{metric} · {average}")),
            params=tuple(name(key) for key in self.summary.searched),
            ascending=self.summary.objective.direction == "minimize",
        )

    def _child(self, row: Row, configuration: ConfigurationState, curves: pd.DataFrame, begun: float) -> RunContents:
        ended_ms = self.times.end_ms(configuration)
        points = [*self._seed_points(row, configuration), *self._progress_points(configuration, curves)]
        if row.complete:
            points += [*self._band_points(row, ended_ms), *self._summary_points(row, ended_ms)]
        values = {name(key): text for key, value in row.values.items() for _, text in flat(value, key)}
        params = dict(flat({k: v for k, v in configuration.resolved.items() if k != "seed"})) | values
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
        if not row.complete:
            status = "KILLED" if self.state.ended else "RUNNING"
        else:
            status = "FAILED" if row.failed else "FINISHED"
        return self._contents(
            row.config_id, run_name(row), status, begun, ended_ms if status != "RUNNING" else None, params, tags, points
        )

    def _band_points(self, row: Row, time_ms: int) -> Iterator[tuple[str, int, float, int]]:
        for metric in self.summary.headline:
            for average in self.summary.averages:
                band = self.summary.bands.get((row.config_id, metric, average))
                for statistic in ("median", "q25", "q75") if band else ():
                    for length, value in zip(band.lengths, getattr(band, statistic), strict=True) if band else ():
                        yield self._key(metric, average, statistic), length, value, time_ms

    def _summary_points(self, row: Row, time_ms: int) -> Iterator[tuple[str, int, float, int]]:
        searched = {
            one["config_id"]: one["score"][0]
            for one in self.state.provenance.get(CONFIRMS, {}).get("configurations", ())
        }
        both = self.last_and_best.get(row.config_id)
        values = {
            "score": row.score,
            "score_last": both.last.selection.median if both else None,
            "score_best": both.best.selection.median if both else None,
            "search_score": searched.get(row.config_id),
            "generalization_length": row.generalization_length,
            "area_beyond": row.area_beyond,
            "seeds_run": row.seeds_run,
            "seeds_failed": row.seeds_failed,
            "rank": row.rank if self.summary.finished else None,
        }
        yield from ((key, 0, float(value), time_ms) for key, value in values.items() if value is not None)

    def _seed_points(self, row: Row, configuration: ConfigurationState) -> Iterator[tuple[str, int, float, int]]:
        metric, average = self.summary.objective_curve
        mine = self.chosen[self.chosen["config_id"] == row.config_id]
        for seed, rows in mine.groupby("seed"):
            member = configuration.members[int(str(seed))]
            if member.status in ("complete", "failed"):
                time_ms = self.times.pack_end_ms(member.pack_id)
                for length, value in zip(rows["length"], rows["value"], strict=True):
                    yield self._key(metric, average, f"seed_{seed}"), int(length), float(value), time_ms

    def _progress_points(
        self, configuration: ConfigurationState, curves: pd.DataFrame
    ) -> Iterator[tuple[str, int, float, int]]:
        """Medians over seeds at the training steps that every seed of the configuration has reached."""
        packs = {member.pack_id: self.state.packs[member.pack_id] for member in configuration.members.values()}
        if not packs:
            return
        steps = sorted(set.intersection(*(set(pack.evaluations) for pack in packs.values())))
        metric, average = self.summary.objective_curve
        mine = curves[(curves["metric"] == metric) & (curves["average"] == average)]
        mine = mine[mine["length"].isin(self.summary.objective.lengths)]
        for step in steps:
            time_ms = max(self.times.evaluation_ms(pack_id, step) for pack_id in packs)
            losses = [
                loss
                for pack in packs.values()
                for (config_id, _), loss in zip(pack.members, pack.evaluations[step]["loss"], strict=True)
                if config_id == configuration.config_id
            ]
            yield "progress/loss", step, self._median(losses, "minimize"), time_ms
            seeds = (
                mine[mine["step"] == step].groupby("seed")["value"].apply(lambda v: v.astype(float).mean(skipna=False))
            )
            yield self._progress_key(), step, self._median(seeds, self.summary.objective.direction), time_ms

    def _median(self, values: Iterable[float], direction: str) -> float:
        """The median over seeds by the policy of the objective: a failed seed is the worst, or left out."""
        array = np.array(list(values), dtype=np.float64)
        worst = math.inf if direction == "minimize" else -math.inf
        alive = ~np.isnan(array)
        if not alive.any():
            return math.nan
        counts = self.summary.objective.failed_seeds == "worst"
        return quartiles(np.where(alive, array, worst) if counts else array[alive], worst)[1]

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

    def _confirmation_tags(self, confirmed: Sequence[Confirmed]) -> dict[str, str]:
        """What the sweep confirms, and what confirms it."""
        tags = {}
        if confirms := self.state.provenance.get(CONFIRMS):
            tags["lengthwise.confirms"] = str(confirms["sweep"])
        if theirs := [one for one in confirmed if one.parent == self.summary.name]:
            scores = [(row.config_id, row.confirmed and row.confirmed.median) for one in theirs for row in one.rows]
            tags["lengthwise.confirmed_by"] = ", ".join(one.name for one in theirs)
            tags["lengthwise.confirmed_scores"] = json.dumps(scores)
        return tags

    def _contents(
        self,
        config_id: str | None,
        run_name: str,
        status: str,
        start: float,
        end_ms: int | None,
        params: Mapping[str, str],
        tags: Mapping[str, str],
        points: Iterable[tuple[str, int, float, int]],
    ) -> RunContents:
        """Drop and count values MLflow cannot hold (it would store infinity as 1.8e308), cut texts to its limits."""
        every = list(points)
        finite = sorted(Point(key, step, value, ms) for key, step, value, ms in every if math.isfinite(value))
        left_out = len(every) - len(finite)
        tags = {**tags, "lengthwise.values_left_out": f"{left_out} not finite" if left_out else "0"}
        return RunContents(
            config_id=config_id,
            name=run_name[:250],
            status=status,
            start_ms=milliseconds(start),
            end_ms=end_ms,
            params={key[:250]: text[:MAX_PARAM] for key, text in params.items()},
            tags={key[:250]: text[:MAX_TAG] for key, text in tags.items()},
            points=tuple(finite),
        )


class EvaluationTimes:
    """When the ledger took each evaluation and the end of each pack, in milliseconds; the first report counts."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.evaluations: dict[tuple[str, int], int] = {}
        self.ends: dict[str, int] = {}
        for record in records:
            if record.kind == "evaluation":
                place = (record.fields["pack_id"], record.fields["step"])
                self.evaluations.setdefault(place, milliseconds(record.time))
            if record.kind == "pack_end" and self.ends.get(record.fields["pack_id"]) is None:
                self.ends[record.fields["pack_id"]] = milliseconds(record.time)

    def evaluation_ms(self, pack_id: str, step: int) -> int:
        """When the pack's evaluation at `step` was recorded."""
        return self.evaluations[pack_id, step]

    def pack_end_ms(self, pack_id: str) -> int:
        """When the pack's end was recorded, or its last evaluation while it has no end; 0 if it has neither."""
        last = max((ms for (pack, _), ms in self.evaluations.items() if pack == pack_id), default=0)
        return self.ends.get(pack_id, last)

    def end_ms(self, configuration: ConfigurationState) -> int:
        """When the last pack of a configuration ended."""
        return max((self.pack_end_ms(member.pack_id) for member in configuration.members.values()), default=0)


def milliseconds(seconds: float) -> int:
    """Unix milliseconds."""
    return round(seconds * 1000)


def name(text: str) -> str:
    """`text` as one part of an MLflow key: letters of any script, digits, `_`, `-`, `.` and spaces.

    name("ema/0.99 (β)") -> "ema_0.99 _β_"; a part that would be empty or mean a folder becomes `_`.
    """
    cleaned = re.sub(r"[^\w.\- ]", "_", text).strip()[:MAX_LABEL].strip()
    return "_" if not cleaned.strip(".") else cleaned


def unique_names(texts: Iterable[str]) -> dict[str, str]:
    """`name` of each text; a number is added where two texts would share one."""
    names: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        candidate, count = name(text), 2
        while candidate.casefold() in {taken.casefold() for taken in names.values()}:
            candidate, count = f"{name(text)}_{count}", count + 1
        names[text] = candidate
    return names


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings as (dotted key, text): flat({"a": {"b": 1}}) -> ("a.b", "1")."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            part = name(str(key))
            yield from flat(inner, f"{prefix}.{part}" if prefix else part)
    elif not isinstance(value, Mapping):
        yield (
            name(prefix) if len(prefix) <= MAX_LABEL else prefix,
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        )


def run_name(row: Row) -> str:
    """A configuration, by its number and not its rank, which may change: `configuration 3: lr 0.00316, dropout 0.3`."""
    short = short_keys(list(row.values))
    values = ", ".join(f"{short[key]} {compact_value(value)}" for key, value in row.values.items())
    return f"configuration {row.number}: {values or row.config_id}"


def description(summary: Summary, confirmed: Sequence[Confirmed] = ()) -> str:
    """The note on the sweep's run page (Markdown)."""
    state = "finished" if summary.finished else f"**{summary.status}**"
    lines = [
        f"Sweep `{summary.name}`, {state}: {summary.configurations_finished} of {summary.planned} configurations, "
        f"{summary.seeds_run} seeds run, {summary.seeds_failed} failed.",
        f"Ranked by the median over seeds of {summary.judged_name} at lengths {spans(summary.objective.lengths)}; "
        "lengths beyond these were not used for selection.",
        "In `<metric>/<average>/...` the step is the **length**; under `progress/` it is the training step.",
        "Runs are named by the number of the configuration, the order they were drawn in; `rank` is a metric.",
        "The figures, the report and every curve (`curves.parquet`) are among the artifacts.",
    ]
    lines[1:1] = [*first_sentence(summary, code="`"), *(f"{one.sentence}." for one in confirmed)]
    return "\n\n".join(lines)
