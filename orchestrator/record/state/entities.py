"""Recorded state of configurations, members, draws and packs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.record.ledger.records import Record

STOPPED_BY_BUDGET = "stopped by its budget"  # status of an ended sweep; the others are complete, failed and interrupted

Status = Literal["planned", "running", "complete", "failed"]


@dataclass
class MemberState:
    """State of one seed of a configuration; `failed_at` is the training step at which its loss became non-finite.

    `stopped_at` is the step at which it stopped early, because its score was good enough.
    """

    seed: int
    pack_id: str
    status: Status = "planned"
    failed_at: int | None = None
    stopped_at: int | None = None
    error: str | None = None
    step: int = 0
    form: str | None = None
    compiled: bool | None = None

    @property
    def has_crashed(self) -> bool:
        """Whether an error of its pack ended the member; one that diverged has not crashed."""
        return self.status == "failed" and self.failed_at is None


@dataclass
class ConfigurationState:
    """State of a configuration with its members by seed; `score` is None until `is_scored`, and also if it failed.

    `measurements_digest` names its metrics and lengths in `SweepState.measurements_by_digest`. `scores` are all its
    scores, the newest last: it is scored again with more seeds. `seeds_failed` is the number of seeds that the score
    counted as failed. `pruned_at` is the step of the rung at which a race pruned it; a
    pruned configuration has no score.
    """

    config_id: str
    number: int
    values: dict[str, Any]
    resolved: dict[str, Any]
    measurements_digest: str
    members: dict[int, MemberState] = field(default_factory=dict)
    score: float | None = None
    scores: list[float | None] = field(default_factory=list)
    seeds_failed: int = 0
    is_scored: bool = False
    pruned_at: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether no member will be trained again: scored or pruned."""
        return self.is_scored or self.pruned_at is not None

    @property
    def has_succeeded(self) -> bool:
        """Whether the score is valid: finite, or infinite with fewer than half of the seeds failed.

        An infinite score then means a step that was never reached, not a failure.
        """
        if self.score is None or math.isnan(self.score):
            return False
        return math.isfinite(self.score) or 2 * self.seeds_failed < len(self.members)

    def drop_score(self) -> None:
        """Remove the score, so that the configuration is scored again."""
        self.is_scored, self.score = False, None

    def retract_score(self) -> None:
        """Remove the score and forget it: seeds that it counted as failed are retried."""
        if self.is_scored:
            self.scores.pop()
        self.drop_score()


@dataclass
class RecordedDraw:
    """A numbered draw of the search. Draws with equal resolved values share the configuration `duplicate_of`.

    `draw_index` is the number of the random draw, shared by all grid points; None in old ledgers (see `map_draws`).
    """

    number: int
    config_id: str
    values: dict[str, Any]
    duplicate_of: str | None
    draw_index: int | None = None


@dataclass
class PackState:
    """State of a pack. Its members resume from the newest of its `replaced_pack_ids` that has a checkpoint."""

    pack_id: str
    members: list[tuple[str, int]]  # config_id and seed
    member_states: list[MemberState]  # in the order of `members`
    steps: int
    structural_key: str
    status: Status = "planned"
    step: int = 0  # of the last recorded evaluation
    seconds: float = 0.0
    error: str | None = None
    attempts: list[str] = field(default_factory=list)  # why each failed attempt died
    traces: list[str | None] = field(default_factory=list)  # its traceback, None if it was not recorded
    evaluations: dict[int, dict[str, Any]] = field(default_factory=dict)  # fields of the records, by step
    ran_under: list[tuple[str | None, str]] = field(default_factory=list)  # code record or None, environment digest
    # Of `ran_under`, the runs that died before any report, with the time of the last such death.
    unreported: dict[tuple[str | None, str], float] = field(default_factory=dict)
    # Of `ran_under`, the runs of which nothing was used by a later run, which started from step 0 and reported.
    superseded: set[tuple[str | None, str]] = field(default_factory=set)
    pruned_at: dict[str, int] = field(default_factory=dict)  # the step at which its members were pruned, by config_id
    replaced_pack_ids: list[str] = field(default_factory=list)  # newest first

    @property
    def has_last_evaluation(self) -> bool:
        """Whether its last evaluation is recorded."""
        return any(fields["final"] for fields in self.evaluations.values())

    @property
    def is_pruned(self) -> bool:
        """Whether all members are pruned, and the pack was evaluated up to the last of these steps."""
        return all(self.step >= self.pruned_at.get(config_id, math.inf) for config_id, _ in self.members)

    @property
    def has_ended(self) -> bool:
        """Whether the pack is complete or failed."""
        return self.status in ("complete", "failed")

    def find_wrong_member_count(self, fields: Mapping[str, Any]) -> int | None:
        """Return the number of members in an evaluation if it differs from the pack's, else None."""
        rows_by_member = [fields["failed_at"], fields.get("stopped_at"), fields.get("stages")]
        rows_by_member.append(fields.get("curves", {}).get("values"))
        rows_by_member += [scores["values"] for scores in fields.get("validation", ())]
        lengths = [len(values) for values in rows_by_member if values is not None]
        return next((count for count in lengths if count != len(self.members)), None)

    def sum_member_steps(self, step: int) -> int:
        """Return the steps of all members together, with the pack at `step`."""
        total = 0
        for (config_id, _), member in zip(self.members, self.member_states, strict=True):
            total += min(step, self.pruned_at.get(config_id, step), member.stopped_at or step)
        return total

    def apply_evaluation(self, step: int, fields: dict[str, Any]) -> None:
        """Apply an `evaluation` record."""
        self.evaluations[step] = fields
        self.seconds = max(self.seconds, fields["seconds"])
        self.step = max(self.step, step)
        is_active = self.status in ("planned", "running")
        if is_active:
            self.status = "running"

        # The pack still evaluates a pruned member, whose recorded state must stay as it was when pruned.
        stopped_steps = fields.get("stopped_at", [-1] * len(self.members))
        rows = zip(self.members, self.member_states, fields["failed_at"], stopped_steps, strict=True)
        for (config_id, _), member, failed_at, stopped_at in rows:
            if config_id in self.pruned_at:
                continue
            member.stopped_at = stopped_at if stopped_at >= 0 else member.stopped_at
            member.step = max(member.step, step)
            member.form, member.compiled = fields["form"], fields["compiled"]
            if failed_at >= 0:
                member.failed_at, member.status = failed_at, "failed"
            elif is_active and member.status == "planned":
                member.status = "running"

    def apply_end(self, status: Status, error: str | None, seconds: float) -> None:
        """Apply a `pack_end` record: complete, or failed with an error."""
        self.status, self.error = status, error
        self.seconds = max(self.seconds, seconds)
        for (config_id, _), member in zip(self.members, self.member_states, strict=True):
            if config_id not in self.pruned_at:
                member.error = error
                member.status = "failed" if status == "failed" or member.failed_at is not None else "complete"

    def reopen(self) -> None:
        """Reopen a failed pack for another try; pruned members stay complete."""
        self.status, self.error = "running" if self.evaluations else "planned", None
        self.attempts, self.traces = [], []
        for (config_id, _), member in zip(self.members, self.member_states, strict=True):
            reset_status: Status = "complete" if config_id in self.pruned_at else self.status
            member.error = None
            member.status = reset_status if member.failed_at is None else "failed"

    def prune(self, config_ids: Collection[str], step: int) -> None:
        """End the members of these configurations at a step."""
        for (config_id, _), member in zip(self.members, self.member_states, strict=True):
            if config_id in config_ids:
                self.pruned_at[config_id] = step
                member.status = "failed" if member.status == "failed" else "complete"


@dataclass(frozen=True)
class TrainedAmount:
    """The amount of training: the seconds of packs and the steps of members."""

    seconds: float
    member_steps: int

    @classmethod
    def from_pack(cls, pack: PackState) -> TrainedAmount:
        """Return the training of a pack so far."""
        return cls(pack.seconds, pack.sum_member_steps(pack.step))

    def replace_part(self, previous: TrainedAmount, current: TrainedAmount) -> TrainedAmount:
        """Return the total with the amount of one pack replaced."""
        seconds = current.seconds - previous.seconds
        steps = current.member_steps - previous.member_steps
        return TrainedAmount(self.seconds + seconds, self.member_steps + steps)


@dataclass
class DriverSessions:
    """Spans of time during which drivers ran the sweep, in Unix seconds."""

    spans: list[list[float]] = field(default_factory=list)

    def add_record(self, record: Record) -> None:
        """Extend the session of a driver by a record; the first record of a command starts a session."""
        if record.kind in ("sweep", "resume", "extend"):
            self.spans.append([record.time, record.time])
        elif record.kind in ("evaluation", "attempt", "pack_end", "score", "rung", "race", "end") and self.spans:
            self.spans[-1][1] = max(self.spans[-1][1], record.time)

    @property
    def seconds(self) -> float:
        """Total seconds of all driver sessions, from their first to their last record."""
        return sum(last - first for first, last in self.spans)
