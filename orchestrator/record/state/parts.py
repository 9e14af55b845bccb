"""The parts of a sweep as its ledger records them: configurations, their members, draws, packs, conflicts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.record.ledger.records import Record

STOPPED = "stopped by its budget"  # how a sweep may end, beside complete, failed and interrupted

Status = Literal["planned", "running", "complete", "failed"]


@dataclass
class MemberState:
    """One seed of one configuration; `failed_at` is the training step at which it became non-finite.

    `stopped_at`: the step at which it stopped early, because it was good enough.
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


@dataclass
class ConfigurationState:
    """One configuration with its members by seed; `score` is None until `finished`, and stays None if it failed.

    `measured` names its metrics and lengths in `SweepState.measured`.
    `seeds_failed` counts the seeds that the score takes for failed. `pruned_at` is the step of the rung of a race at
    which its members ended; it never has a score then.
    """

    config_id: str
    number: int
    values: dict[str, Any]
    resolved: dict[str, Any]
    measured: str
    members: dict[int, MemberState] = field(default_factory=dict)
    score: float | None = None
    seeds_failed: int = 0
    finished: bool = False
    pruned_at: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether it trains no further: it has its score, or was pruned."""
        return self.finished or self.pruned_at is not None

    @property
    def succeeded(self) -> bool:
        """Whether its score is a result: finite, or infinite although fewer than half of its seeds failed.

        An infinite score then means a step that was never reached, not a failure.
        """
        if self.score is None or math.isnan(self.score):
            return False
        return math.isfinite(self.score) or 2 * self.seeds_failed < len(self.members)

    def take_score(self, score: float | None, seeds_failed: int) -> None:
        """Set its score, unless it has one."""
        if not self.finished:
            self.finished, self.score, self.seeds_failed = True, score, seeds_failed

    def drop_score(self) -> None:
        """Drop its score: it is scored again."""
        self.finished, self.score = False, None


@dataclass
class RecordedDraw:
    """One numbered draw of the search; draws that resolve alike share a configuration, `duplicate_of` names it.

    `draw` counts the draws of the random domains, each of which is tried at every grid point; None in ledgers that do
    not say it, where it follows from the number.
    """

    number: int
    config_id: str
    values: dict[str, Any]
    duplicate_of: str | None
    draw: int | None = None


@dataclass
class PackState:
    """One pack: its members as (config_id, seed), their states, its evaluations by step, how often and why it died.

    `traces` has the traceback of every attempt, None if none was kept. `ran_under` has (code, environment) pairs: the
    name of a code record, None without one, and the digest of an environment. `pruned_at` is the step at which members
    of a configuration were pruned, by config_id. `earlier` are the packs that this one replaces, newest first: its
    members continue from the checkpoints of the first that has any.
    """

    pack_id: str
    members: list[tuple[str, int]]
    states: list[MemberState]
    steps: int
    structural_key: str
    status: Status = "planned"
    step: int = 0
    seconds: float = 0.0
    error: str | None = None
    attempts: list[str] = field(default_factory=list)
    traces: list[str | None] = field(default_factory=list)
    evaluations: dict[int, dict[str, Any]] = field(default_factory=dict)
    ran_under: list[tuple[str | None, str]] = field(default_factory=list)
    pruned_at: dict[str, int] = field(default_factory=dict)
    earlier: list[str] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        """Whether its last evaluation is recorded."""
        return any(fields["final"] for fields in self.evaluations.values())

    @property
    def is_pruned(self) -> bool:
        """Whether all of its members are pruned, at steps up to which it has been evaluated."""
        return all(self.step >= self.pruned_at.get(name, math.inf) for name, _ in self.members)

    @property
    def has_ended(self) -> bool:
        """Whether it is complete, or was given up."""
        return self.status in ("complete", "failed")

    def wrong_count(self, fields: Mapping[str, Any]) -> int | None:
        """Return how many members an evaluation reports, if these are not as many as the pack has."""
        reported = [fields["failed_at"], fields.get("stopped_at"), fields.get("stages")]
        reported.append(fields.get("curves", {}).get("values"))
        reported += [scores["values"] for scores in fields.get("validation", ())]
        counts = [len(values) for values in reported if values is not None]
        return next((count for count in counts if count != len(self.members)), None)

    def member_steps(self, step: int) -> int:
        """Return how many steps its members have trained in all when it is at a step."""
        total = 0
        for (name, _), member in zip(self.members, self.states, strict=True):
            total += min(step, self.pruned_at.get(name, step), member.stopped_at or step)
        return total

    def take_evaluation(self, step: int, fields: dict[str, Any]) -> None:
        """Apply an `evaluation` record."""
        self.evaluations[step] = fields
        self.seconds = max(self.seconds, fields["seconds"])
        self.step = max(self.step, step)
        running = self.status in ("planned", "running")
        if running:
            self.status = "running"
        stopped = fields.get("stopped_at", [-1] * len(self.members))
        rows = zip(self.members, self.states, fields["failed_at"], stopped, strict=True)
        for (name, _), member, failed_at, stopped_at in rows:
            if name in self.pruned_at:
                continue
            member.stopped_at = stopped_at if stopped_at >= 0 else member.stopped_at
            member.step = max(member.step, step)
            member.form, member.compiled = fields["form"], fields["compiled"]
            if failed_at >= 0:
                member.failed_at, member.status = failed_at, "failed"
            elif running and member.status == "planned":
                member.status = "running"

    def end(self, status: Status, error: str | None, seconds: float) -> None:
        """Apply a `pack_end` record: complete, or failed with an error."""
        self.status, self.error = status, error
        self.seconds = max(self.seconds, seconds)
        for member in self._unpruned():
            member.error = error
            member.status = "failed" if status == "failed" or member.failed_at is not None else "complete"

    def reopen(self) -> None:
        """Undo that the pack was given up; members that were pruned since do not count as failed."""
        self.status, self.error = "running" if self.evaluations else "planned", None
        self.attempts, self.traces = [], []
        for (name, _), member in zip(self.members, self.states, strict=True):
            going_on: Status = "complete" if name in self.pruned_at else self.status
            member.error, member.status = None, going_on if member.failed_at is None else "failed"

    def prune(self, config_ids: Collection[str], step: int) -> None:
        """End the members of these configurations at a step."""
        for (name, _), member in zip(self.members, self.states, strict=True):
            if name in config_ids:
                self.pruned_at[name] = step
                member.status = "failed" if member.status == "failed" else "complete"

    def _unpruned(self) -> list[MemberState]:
        pairs = zip(self.members, self.states, strict=True)
        return [member for (name, _), member in pairs if name not in self.pruned_at]


@dataclass(frozen=True)
class Trained:
    """How much has been trained: the seconds of packs, and the steps of members."""

    seconds: float
    member_steps: int

    @classmethod
    def by(cls, pack: PackState) -> Trained:
        """Return how much a pack has trained."""
        return cls(pack.seconds, pack.member_steps(pack.step))

    def replaced(self, before: Trained, after: Trained) -> Trained:
        """Return the total after one of its packs has changed."""
        seconds, steps = after.seconds - before.seconds, after.member_steps - before.member_steps
        return Trained(self.seconds + seconds, self.member_steps + steps)


@dataclass
class Sessions:
    """The times of the first and the last record of every driver, in Unix seconds."""

    spans: list[list[float]] = field(default_factory=list)

    def take(self, record: Record) -> None:
        """Count the time of a driver: from the record that begins a command to the last that its training writes."""
        if record.kind in ("sweep", "resume", "extend"):
            self.spans.append([record.time, record.time])
        elif record.kind in ("evaluation", "attempt", "pack_end", "score", "rung", "race", "end") and self.spans:
            self.spans[-1][1] = max(self.spans[-1][1], record.time)

    @property
    def seconds(self) -> float:
        """For how long drivers have run the sweep, as far as they have left records of it."""
        return sum(last - first for first, last in self.spans)
