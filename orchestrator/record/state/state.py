"""The state of a sweep, replayed from its ledger alone.

Replaying is idempotent: a repeated record changes nothing, so a resumed sweep counts nothing twice. Some records revoke
earlier ones: `retry` reopens packs that were given up, and a decision that nobody survived, `extend` and `race` reopen
configurations that get more seeds, `rung` prunes some; their scores no longer count. `recut` replaces packs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from orchestrator.errors import DamagedLedger
from orchestrator.record.ledger.fields import find_problem
from orchestrator.record.ledger.records import INLINE_SCHEMA, LEDGER_FILE, SCHEMA, Record, encode_record, read_records
from orchestrator.record.state import race as races
from orchestrator.record.state import recuts
from orchestrator.record.state.parts import ConfigurationState, MemberState, PackState, RecordedDraw, Sessions, Trained

# Records that later ones refer to are replayed first, whatever order they were written in.
_FIRST = {"sweep": 0, "configuration": 1, "pack": 2}


class SweepState:
    """A sweep as its ledger records it; `load` and `replay` make it, `apply` adds records as they are written."""

    def __init__(self, folder: Path) -> None:
        # What was begun, extended and decided.
        self.folder = folder
        self.name = self.study = self.spec_hash = ""
        self.checksum = ""  # of the first record: the same in copies of the folder
        self.specs: list[dict[str, Any]] = []  # the one it was begun with, then that of every extension
        self.more_seeds: dict[str, frozenset[int]] = {}  # by config_id, beside the seeds that every configuration has
        self.decisions: list[races.RoundDecision] = []  # those of a race over seeds, one for each round that has ended
        self.rungs: list[races.RungDecision] = []  # those of its first round, in the course of training
        self.provenance: dict[str, Any] = {}
        self.inline_curves = False  # whether small curves are in the ledger itself
        self.small_weights = False  # whether `keep_weights: auto` keeps them; sweeps of 1.0.0 did not have it
        self.claims: dict[str, str] = {}  # digests of the claims that were registered before the sweep ran, by id

        # What computed it, when, and how it ended.
        self.codes: list[dict[str, Any]] = []  # every record of the code once, the latest last
        self.environments: dict[str, dict[str, Any]] = {}  # what workers computed with, by its digest
        self.resumes: list[dict[str, Any]] = []
        self.started: float | None = None
        self.updated: float | None = None
        self.sessions = Sessions()
        self.asked: dict[str, Any] | None = None  # the options of the last `extend`, until what it added has ended
        self.ended: str | None = None
        self.message: str | None = None

        # Configurations, draws and packs, and what was done with their results.
        self.configurations: dict[str, ConfigurationState] = {}
        self.measured: dict[str, dict[str, Any]] = {}
        self.draws: dict[int, RecordedDraw] = {}
        self.packs: dict[str, PackState] = {}
        self.recuts: list[recuts.Recut] = []
        self._trained: Trained | None = None  # by all packs, kept up to date once it was asked for
        self.conflicts: list[str] = []  # packs that reported a step again with other curves; the first ones count
        self.published_at: list[str] = []  # addresses without their passwords
        self.later_evaluations: list[dict[str, Any]] = []  # of kept weights, after training

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read the ledger in `folder` without locking it; raises what `read_records` raises."""
        return cls.replay(Path(folder), read_records(Path(folder)))

    @classmethod
    def replay(cls, folder: Path, records: Iterable[Record]) -> Self:
        """Build the view from records in any order; raises DamagedLedger when they contradict each other."""
        state = cls(folder)
        for record in sorted(records, key=lambda record: (_FIRST.get(record.kind, 3), record.seq)):
            state.apply(record)
        state.configurations = dict(sorted(state.configurations.items(), key=lambda item: item[1].number))
        return state

    def apply(self, record: Record) -> None:
        """Update the state with the next record.

        Raises DamagedLedger when its kind is unknown, a field is missing, a path points out of the sweep
        folder, or it contradicts earlier ones.
        """
        if problem := find_problem(record.kind, record.fields):
            raise self._damage(record, problem)
        pack = self.packs.get(record.fields["pack_id"]) if record.kind in ("evaluation", "pack_end") else None
        before = Trained.by(pack) if self._trained and pack else None
        getattr(self, f"_{record.kind}")(record)
        if self._trained and pack and before:
            self._trained = self._trained.replaced(before, Trained.by(pack))
        elif record.kind in ("rung", "recut", "retry"):
            self._trained = None
        self.sessions.take(record)
        self.updated = record.time if self.updated is None else max(self.updated, record.time)

    @property
    def spec(self) -> dict[str, Any]:
        """The specification as it was last extended."""
        return self.specs[-1] if self.specs else {}

    @property
    def deaths(self) -> list[tuple[str, str]]:
        """(pack_id, error) of every pack that was given up, in the order they were planned."""
        return [(pack.pack_id, pack.error or "") for pack in self.packs.values() if pack.status == "failed"]

    @property
    def modules(self) -> list[dict[str, Any]]:
        """The recorded modules of `imports` that the sweep was last trained with."""
        return self.codes[-1]["modules"] if self.codes else []

    @property
    def members(self) -> list[MemberState]:
        """The members of all configurations."""
        return [member for configuration in self.configurations.values() for member in configuration.members.values()]

    def seeds(self) -> dict[str, tuple[int, ...]]:
        """Return the seeds of each configuration that are in a pack, sorted."""
        return {name: tuple(sorted(configuration.members)) for name, configuration in self.configurations.items()}

    @property
    def trained(self) -> Trained:
        """How much all packs have trained, those included that ran out of memory and were replaced."""
        if self._trained is None:
            steps = sum(pack.member_steps(pack.step) for pack in self.packs.values())
            self._trained = Trained(recuts.sum_seconds(self.packs, self.recuts), steps)
        return self._trained

    @property
    def race(self) -> races.Race | None:
        """Return the race over seeds; None for other sweeps."""
        is_race = races.is_race(self.specs)
        return races.Race(self.specs, self.configurations, self.decisions, self.rungs) if is_race else None

    def planned_seeds(self, config_id: str) -> tuple[int, ...]:
        """Return the planned seeds of a configuration: those shared by all, then its additional ones."""
        shared = races.read_common_seeds(self.specs)
        return (*shared, *sorted(self.more_seeds.get(config_id, frozenset()).difference(shared)))

    def has_all_seeds(self, configuration: ConfigurationState) -> bool:
        """Return whether the packs of all planned seeds of a configuration have ended, and it was not pruned.

        A seed may fail long before its pack ends.
        """
        packs = {member.pack_id for member in configuration.members.values()}
        planned = set(self.planned_seeds(configuration.config_id)) <= configuration.members.keys()
        ended = bool(packs) and all(self.packs[pack_id].has_ended for pack_id in packs)
        return planned and ended and configuration.pruned_at is None

    # A method for every kind of record --------------------------------------------------------------------------------

    def _sweep(self, record: Record) -> None:
        fields = record.fields
        self.checksum = hashlib.sha256(encode_record(record)).hexdigest()
        self.name, self.study = fields["name"], fields["study"]
        self.specs, self.spec_hash = [fields["spec"]], fields["spec_hash"]
        self.provenance, self.started = fields["provenance"], record.time
        self.inline_curves = fields.get("schema", SCHEMA) >= INLINE_SCHEMA
        self.small_weights, self.claims = fields.get("small_weights", False), fields.get("claims", {})
        self._code(record)

    def _code(self, record: Record) -> None:
        """Make the code of this record, if it has any, the latest."""
        if (code := record.fields.get("code")) is not None:
            self.codes = [*(known for known in self.codes if known["name"] != code["name"]), code]

    def _ran_under(self, pack: PackState, record: Record) -> None:
        """Add the code and the environment that the pack of this record ran under."""
        self.environments |= record.fields.get("environment_in_full", {})
        name = record.fields.get("environment")
        if name is not None:
            if name not in self.environments:
                raise self._damage(record, f"pack {pack.pack_id} refers to the unknown environment {name}")
            under = (self.codes[-1]["name"] if self.codes else None, name)
            pack.ran_under += [under] if under not in pack.ran_under else []

    def _configuration(self, record: Record) -> None:
        fields = record.fields
        number, name, measured = fields["number"], fields["config_id"], fields["measured"]
        self.measured |= fields.get("measured_in_full", {})
        if measured not in self.measured:
            raise self._damage(record, f"configuration {number} refers to unknown metrics, {measured}")
        if (known := self.draws.get(number)) is not None:
            if known.config_id != name:
                raise self._damage(record, f"configuration {number} is {known.config_id} and {name}")
            return
        self.draws[number] = RecordedDraw(number, name, fields["values"], fields["duplicate_of"], fields.get("draw"))
        first = self.configurations.get(name)
        if first is None:
            self.configurations[name] = ConfigurationState(name, number, fields["values"], fields["resolved"], measured)
        elif number < first.number:
            first.number, first.values = number, fields["values"]

    def _pack(self, record: Record) -> None:
        fields, pack_id = record.fields, record.fields["pack_id"]
        members = [(name, seed) for name, seed in fields["members"]]
        if (known := self.packs.get(pack_id)) is not None:
            if known.members != members or known.steps != fields["steps"]:
                raise self._damage(record, f"two records plan pack {known.pack_id} differently")
            return
        states = [MemberState(seed, pack_id) for _, seed in members]
        for (name, seed), member in zip(members, states, strict=True):
            configuration = self.configurations.get(name)
            if configuration is None:
                raise self._damage(record, f"pack {pack_id} has a member of unknown configuration {name}")
            other = configuration.members[seed].pack_id if seed in configuration.members else None
            if other in self.packs:
                raise self._damage(record, f"seed {seed} of {name} is in pack {other} and in {pack_id}")
            configuration.members[seed] = member
        self.packs[pack_id] = PackState(pack_id, members, states, fields["steps"], fields["structural_key"])

    def _recut(self, record: Record) -> None:
        """Replace packs that no worker has begun, or one that ran out of memory, by other packs."""
        try:
            new, short = recuts.apply_recut(self.packs, self.recuts, record.fields)
        except ValueError as error:
            raise self._damage(record, str(error)) from None
        for fields in new:
            self._pack(Record(record.seq, record.time, "pack", fields))
            recuts.continue_pack(self.packs[fields["pack_id"]], fields.get("earlier"), short, self.rungs)

    def _evaluation(self, record: Record) -> None:
        fields = record.fields
        pack, step = self._pack_of(record, fields["pack_id"]), fields["step"]
        self._ran_under(pack, record)
        if (known := pack.evaluations.get(step)) is not None:
            if any(known.get(name) != fields.get(name) for name in ("sha256", "curves")):
                where = f"{LEDGER_FILE}:{record.seq + 1}: pack {pack.pack_id}"
                self.conflicts.append(f"{where} reported step {step} again with other curves; the first ones count")
            return
        if (count := pack.wrong_count(fields)) is not None:
            raise self._damage(record, f"{count} members reported for the {len(pack.members)} of {pack.pack_id}")
        pack.take_evaluation(step, fields)

    def _attempt(self, record: Record) -> None:
        pack = self._pack_of(record, record.fields["pack_id"])
        pack.attempts.append(record.fields["error"])
        pack.traces.append(record.fields.get("trace"))
        self._ran_under(pack, record)

    def _pack_end(self, record: Record) -> None:
        fields, pack = record.fields, self._pack_of(record, record.fields["pack_id"])
        if pack.status != "complete":  # the first good end counts
            pack.end(fields["status"], fields["error"], fields["seconds"])

    def _retry(self, record: Record) -> None:
        """Reopen packs that were given up; their configurations are scored again."""
        races.retract_empty_decision(self.decisions, self.rungs, self.configurations, self.packs.values())
        for pack_id in record.fields["pack_ids"]:
            pack = self._pack_of(record, pack_id)
            if pack.status == "failed":
                pack.reopen()
                for name, _ in pack.members:
                    self.configurations[name].drop_score()
        self.ended = self.message = None

    def _end(self, record: Record) -> None:
        self.ended, self.message = record.fields["status"], record.fields["message"]
        if self.ended in ("complete", "failed"):
            self.asked = None

    def _resume(self, record: Record) -> None:
        self.ended = self.message = None
        self.resumes.append(record.fields["provenance"])
        self._code(record)

    def _later_evaluation(self, record: Record) -> None:
        self.later_evaluations.append(record.fields)

    def _publish(self, record: Record) -> None:
        uri = record.fields.get("uri")
        if uri and record.fields.get("ok") and uri not in self.published_at:
            self.published_at.append(uri)

    def _extend(self, record: Record) -> None:
        """Apply an `extend` record; configurations that get more seeds are scored again."""
        self._add_seeds(record, record.fields.get("seeds", {}), record.fields["spec"])
        self._resume(record)
        self.asked = record.fields.get("asked")

    def _race(self, record: Record) -> None:
        """Apply a `race` record: survivors get their next seeds and are scored again."""
        try:
            decision = races.add_decision(self.decisions, self.specs, record.fields)
        except ValueError as error:
            raise self._damage(record, str(error)) from None
        self._add_seeds(record, dict.fromkeys(decision.survivors, decision.next))

    def _rung(self, record: Record) -> None:
        """Apply a `rung` record; configurations that are pruned have no score."""
        try:
            decision = races.add_rung(self.rungs, self.specs, self.configurations, record.fields)
        except ValueError as error:
            raise self._damage(record, str(error)) from None
        for name in decision.pruned:
            self.configurations[name].pruned_at = decision.step
            self.configurations[name].drop_score()
        for pack in self.packs.values():
            pack.prune(decision.pruned, decision.step)

    def _add_seeds(self, record: Record, added: Mapping[str, Iterable[int]], *specs: dict[str, Any]) -> None:
        """Add seeds to single configurations, and those of new specifications to all; drop incomplete scores."""
        before = {name: set(self.planned_seeds(name)) for name in self.configurations}
        self.specs.extend(specs)
        for name, seeds in added.items():
            if name not in self.configurations:
                raise self._damage(record, f"more seeds of unknown configuration {name}")
            self.more_seeds[name] = self.more_seeds.get(name, frozenset()).union(seeds)
        for name, seeds in before.items():
            if set(self.planned_seeds(name)) > seeds:
                self.configurations[name].drop_score()

    def _score(self, record: Record) -> None:
        number, name = record.fields["number"], record.fields["config_id"]
        draw = self.draws.get(number)
        if draw is None or draw.config_id != name:
            raise self._damage(record, f"score of unknown configuration {number} ({name})")
        self.configurations[name].take_score(record.fields["score"], record.fields["seeds_failed"])

    def _pack_of(self, record: Record, pack_id: str) -> PackState:
        pack = self.packs.get(pack_id)
        if pack is None:
            raise self._damage(record, f"{record.kind} of unknown pack {pack_id}")
        return pack

    def _damage(self, record: Record, problem: str) -> DamagedLedger:
        return DamagedLedger(self.folder / LEDGER_FILE, record.seq + 1, problem)
