"""The state of a sweep, replayed from its ledger.

Replaying is idempotent: a repeated record changes nothing, so a resumed sweep counts nothing twice. Some records revoke
earlier ones: `retry` reopens failed packs and a decision without survivors; `extend` and `race` reopen configurations
that get more seeds, and `rung` prunes configurations, whose scores are removed. `recut`, a repacking, replaces packs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from orchestrator.errors import DamagedLedger
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.record_kinds import find_record_problem
from orchestrator.record.ledger.records import INLINE_SCHEMA, SCHEMA, Record, encode_record, read_records
from orchestrator.record.state import race as races
from orchestrator.record.state import repackings
from orchestrator.record.state.entities import (
    ConfigurationState,
    DriverSessions,
    MemberState,
    PackState,
    RecordedDraw,
    TrainedAmount,
)

# Kinds of records that others refer to are replayed first, whatever the order in which they were written.
_REPLAY_ORDER = {"sweep": 0, "configuration": 1, "pack": 2}


class SweepState:
    """The recorded state of a sweep; made by `load` or `replay`, updated by `apply` with each new record."""

    def __init__(self, folder: Path) -> None:
        # The sweep itself, its extensions and decisions.
        self.folder = folder
        self.name = self.study = self.spec_hash = ""
        self.checksum = ""  # of the first record: the same in copies of the folder
        self.specs: list[dict[str, Any]] = []  # of the start, then of every extension
        self.additional_seeds: dict[str, frozenset[int]] = {}  # by config_id, besides the seeds of every configuration
        self.decisions: list[races.RoundDecision] = []  # of a race over seeds, for each finished round
        self.rungs: list[races.RungDecision] = []  # decided rungs of the first round
        self.provenance: dict[str, Any] = {}
        self.inline_curves = False  # whether small curves are in the ledger itself
        self.has_small_weights = False  # whether `keep_weights: auto` keeps weights; not in sweeps of 1.0.0
        self.claims: dict[str, str] = {}  # digests of claims registered before the sweep ran, by id

        # Code and environments, times, and the end.
        self.codes: list[dict[str, Any]] = []  # distinct records of the code, the latest last
        self.environments: dict[str, dict[str, Any]] = {}  # environments of workers, by digest
        self.resumes: list[dict[str, Any]] = []
        self.started_at: float | None = None
        self.updated_at: float | None = None
        self.sessions = DriverSessions()
        self.pending_extension: dict[str, Any] | None = None  # options of the last `extend` until it is finished
        self.end_status: str | None = None
        self.end_message: str | None = None

        # Configurations, draws and packs, and later uses of their results.
        self.configurations: dict[str, ConfigurationState] = {}
        self.measurements_by_digest: dict[str, dict[str, Any]] = {}
        self.draws: dict[int, RecordedDraw] = {}
        self.packs: dict[str, PackState] = {}
        self.repackings: list[repackings.Repacking] = []
        self._trained: TrainedAmount | None = None  # by all packs; updated once `trained` was read
        self.conflicts: list[str] = []  # steps reported twice with different curves; the first report counts
        self.published_at: list[str] = []  # addresses without their passwords
        self.later_evaluations: list[dict[str, Any]] = []  # of kept weights, after training

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return the state from the ledger in `folder`, without a lock. Raises what `read_records` raises."""
        return cls.replay(Path(folder), read_records(Path(folder)))

    @classmethod
    def replay(cls, folder: Path, records: Iterable[Record]) -> Self:
        """Return the state from records in any order. Raises DamagedLedger if they contradict each other."""
        state = cls(folder)
        for record in sorted(records, key=lambda record: (_REPLAY_ORDER.get(record.kind, 3), record.seq)):
            state.apply(record)
        state.configurations = dict(sorted(state.configurations.items(), key=lambda item: item[1].number))
        return state

    def apply(self, record: Record) -> None:
        """Update the state with the next record.

        Raises DamagedLedger if the kind is unknown, a field is missing, a path points out of the sweep folder, or the
        record contradicts earlier records.
        """
        if problem := find_record_problem(record.kind, record.fields):
            raise self._make_damage_error(record, problem)

        # The training total is updated by the change of one pack: a sum over thousands for each record would be slow.
        pack = self.packs.get(record.fields["pack_id"]) if record.kind in ("evaluation", "pack_end") else None
        previous_amount = TrainedAmount.from_pack(pack) if self._trained and pack else None
        getattr(self, f"_apply_{record.kind}")(record)
        if self._trained and pack and previous_amount:
            self._trained = self._trained.replace_part(previous_amount, TrainedAmount.from_pack(pack))
        elif record.kind in ("rung", "recut", "retry"):
            self._trained = None

        self.sessions.add_record(record)
        self.updated_at = record.time if self.updated_at is None else max(self.updated_at, record.time)

    @property
    def spec(self) -> dict[str, Any]:
        """The latest specification."""
        return self.specs[-1] if self.specs else {}

    @property
    def failed_packs(self) -> list[tuple[str, str]]:
        """The pack_id and error of every failed pack, in the order of planning."""
        return [(pack.pack_id, pack.error or "") for pack in self.packs.values() if pack.status == "failed"]

    @property
    def modules(self) -> list[dict[str, Any]]:
        """The recorded modules of `imports` of the last training."""
        return self.codes[-1]["modules"] if self.codes else []

    @property
    def members(self) -> list[MemberState]:
        """The members of all configurations."""
        return [member for configuration in self.configurations.values() for member in configuration.members.values()]

    @property
    def seeds_crashed(self) -> int:
        """The number of members that have crashed."""
        return sum(member.has_crashed for member in self.members)

    @property
    def configurations_done(self) -> int:
        """The number of configurations that have a result: pruned, or scored, perhaps before they got more seeds."""
        return sum(
            configuration.has_ended or bool(configuration.scores) for configuration in self.configurations.values()
        )

    def list_packed_seeds(self) -> dict[str, tuple[int, ...]]:
        """Return the seeds of each configuration that are in a pack, sorted."""
        return {
            config_id: tuple(sorted(configuration.members)) for config_id, configuration in self.configurations.items()
        }

    @property
    def trained(self) -> TrainedAmount:
        """The seconds and member-steps of all packs, also of packs that ran out of memory and were replaced."""
        if self._trained is None:
            steps = sum(pack.sum_member_steps(pack.step) for pack in self.packs.values())
            self._trained = TrainedAmount(repackings.sum_seconds(self.packs, self.repackings), steps)
        return self._trained

    @property
    def race(self) -> races.Race | None:
        """The race over seeds; None for other sweeps."""
        is_race = races.is_race(self.specs)
        return races.Race(self.specs, self.configurations, self.decisions, self.rungs) if is_race else None

    def list_planned_seeds(self, config_id: str) -> tuple[int, ...]:
        """Return the planned seeds of a configuration: those shared by all, then its additional ones."""
        common_seeds = races.read_common_seeds(self.specs)
        return (*common_seeds, *sorted(self.additional_seeds.get(config_id, frozenset()).difference(common_seeds)))

    def have_all_seeds_ended(self, configuration: ConfigurationState) -> bool:
        """Return whether the packs of all planned seeds have ended; False for a pruned configuration.

        A seed may fail long before its pack ends.
        """
        packs = {member.pack_id for member in configuration.members.values()}
        is_complete = set(self.list_planned_seeds(configuration.config_id)) <= configuration.members.keys()
        have_ended = bool(packs) and all(self.packs[pack_id].has_ended for pack_id in packs)
        return is_complete and have_ended and configuration.pruned_at is None

    # Called by name from `apply`: `_apply_KIND` for each kind -------------------------------------------------------

    def _apply_sweep(self, record: Record) -> None:
        """Apply the first record: the sweep itself."""
        fields = record.fields
        self.checksum = hashlib.sha256(encode_record(record)).hexdigest()
        self.name, self.study = fields["name"], fields["study"]
        self.specs, self.spec_hash = [fields["spec"]], fields["spec_hash"]
        self.provenance, self.started_at = fields["provenance"], record.time
        self.inline_curves = fields.get("schema", SCHEMA) >= INLINE_SCHEMA
        self.has_small_weights = fields.get("small_weights", False)
        self.claims = fields.get("claims", {})
        self._add_code(record)

    def _add_code(self, record: Record) -> None:
        """Append the code of a record that has one; code that is recorded already moves to the end."""
        if (code := record.fields.get("code")) is not None:
            self.codes = [*(earlier for earlier in self.codes if earlier["name"] != code["name"]), code]

    def _add_environment(self, pack: PackState, record: Record) -> None:
        """Add the code and environment of this record's pack; an attempt without any report is noted with its time."""
        self.environments |= record.fields.get("environment_in_full", {})
        digest = record.fields.get("environment")
        if digest is not None:
            if digest not in self.environments:
                raise self._make_damage_error(record, f"pack {pack.pack_id} refers to unknown environment {digest}")
            code_and_environment = (self.codes[-1]["name"] if self.codes else None, digest)
            is_new = code_and_environment not in pack.ran_under
            pack.ran_under += [code_and_environment] if is_new else []
            if record.kind == "evaluation":
                pack.unreported.pop(code_and_environment, None)
                # Not recorded by earlier versions: then the run may have resumed the work of earlier runs.
                if record.fields.get("from_start"):
                    pack.superseded = {run for run in pack.ran_under if run != code_and_environment}
                pack.superseded.discard(code_and_environment)
            elif not pack.evaluations and (is_new or code_and_environment in pack.unreported):
                pack.unreported[code_and_environment] = record.time

    def _apply_configuration(self, record: Record) -> None:
        """Apply a `configuration` record: add a draw, and its configuration unless an earlier draw has its values."""
        fields = record.fields
        number = fields["number"]
        config_id = fields["config_id"]
        digest = fields["measured"]

        # Equal measurements of many configurations are recorded in full only once.
        self.measurements_by_digest |= fields.get("measured_in_full", {})
        if digest not in self.measurements_by_digest:
            raise self._make_damage_error(record, f"configuration {number} refers to unknown metrics {digest}")
        if (recorded := self.draws.get(number)) is not None:
            if recorded.config_id != config_id:
                raise self._make_damage_error(
                    record, f"configuration {number} has two config_ids, {recorded.config_id} and {config_id}"
                )
            return
        self.draws[number] = RecordedDraw(
            number, config_id, fields["values"], fields["duplicate_of"], fields.get("draw")
        )

        # A repeated draw belongs to the first configuration; its number is the lowest of its draws.
        configuration = self.configurations.get(config_id)
        if configuration is None:
            self.configurations[config_id] = ConfigurationState(
                config_id, number, fields["values"], fields["resolved"], digest
            )
        elif number < configuration.number:
            configuration.number, configuration.values = number, fields["values"]

    def _apply_pack(self, record: Record) -> None:
        """Apply a `pack` record: add a pack and its members."""
        fields, pack_id = record.fields, record.fields["pack_id"]
        members = [(config_id, seed) for config_id, seed in fields["members"]]
        if (recorded := self.packs.get(pack_id)) is not None:
            if recorded.members != members or recorded.steps != fields["steps"]:
                raise self._make_damage_error(record, f"two different records plan pack {recorded.pack_id}")
            return

        # A seed may be in two packs only if a repacking has replaced the first.
        member_states = [MemberState(seed, pack_id) for _, seed in members]
        for (config_id, seed), member in zip(members, member_states, strict=True):
            configuration = self.configurations.get(config_id)
            if configuration is None:
                raise self._make_damage_error(
                    record, f"pack {pack_id} has a member of unknown configuration {config_id}"
                )
            other_pack_id = configuration.members[seed].pack_id if seed in configuration.members else None
            if other_pack_id in self.packs:
                raise self._make_damage_error(
                    record, f"seed {seed} of {config_id} is in two packs: {other_pack_id} and {pack_id}"
                )
            configuration.members[seed] = member
        self.packs[pack_id] = PackState(pack_id, members, member_states, fields["steps"], fields["structural_key"])

    def _apply_recut(self, record: Record) -> None:
        """Apply a repacking: replace packs that no worker has begun, or one that ran out of memory."""
        try:
            new_packs, out_of_memory_pack = repackings.apply_repacking(self.packs, self.repackings, record.fields)
        except ValueError as error:
            raise self._make_damage_error(record, str(error)) from None
        for fields in new_packs:
            self._apply_pack(Record(record.seq, record.time, "pack", fields))
            repackings.prepare_replacement(
                self.packs[fields["pack_id"]], fields.get("earlier"), out_of_memory_pack, self.rungs
            )

    def _apply_evaluation(self, record: Record) -> None:
        """Apply an `evaluation` record; a step that was reported before only adds a conflict if its curves differ."""
        fields = record.fields
        pack, step = self._get_pack(record, fields["pack_id"]), fields["step"]
        self._add_environment(pack, record)
        if (recorded := pack.evaluations.get(step)) is not None:
            if any(recorded.get(name) != fields.get(name) for name in ("sha256", "curves")):
                where = f"{LEDGER_FILE}:{record.seq + 1}: pack {pack.pack_id}"
                self.conflicts.append(f"{where} reported step {step} again with other curves; the first report counts")
            return
        if (count := pack.find_wrong_member_count(fields)) is not None:
            raise self._make_damage_error(
                record, f"{pack.pack_id} has {len(pack.members)} members; {count} were reported"
            )
        pack.apply_evaluation(step, fields)

    def _apply_attempt(self, record: Record) -> None:
        """Apply an `attempt` record: the pack died."""
        pack = self._get_pack(record, record.fields["pack_id"])
        pack.attempts.append(record.fields["error"])
        pack.traces.append(record.fields.get("trace"))
        self._add_environment(pack, record)

    def _apply_pack_end(self, record: Record) -> None:
        """Apply a `pack_end` record, unless the pack is complete already."""
        fields, pack = record.fields, self._get_pack(record, record.fields["pack_id"])
        if pack.status != "complete":  # the first complete end counts
            pack.apply_end(fields["status"], fields["error"], fields["seconds"])

    def _apply_retry(self, record: Record) -> None:
        """Apply a `retry` record: reopen failed packs; their configurations are scored again."""
        races.retract_empty_decision(self.decisions, self.rungs, self.configurations, self.packs.values())
        for pack_id in record.fields["pack_ids"]:
            pack = self._get_pack(record, pack_id)
            if pack.status == "failed":
                pack.reopen()
                for config_id, _ in pack.members:
                    self.configurations[config_id].retract_score()
        self.end_status = self.end_message = None

    def _apply_end(self, record: Record) -> None:
        """Apply an `end` record; an extension is finished once the sweep is."""
        self.end_status = record.fields["status"]
        self.end_message = record.fields["message"]
        if self.end_status in ("complete", "failed"):
            self.pending_extension = None

    def _apply_resume(self, record: Record) -> None:
        """Apply a `resume` record: the sweep has not ended."""
        self.end_status = self.end_message = None
        self.resumes.append(record.fields["provenance"])
        self._add_code(record)

    def _apply_later_evaluation(self, record: Record) -> None:
        """Apply a `later_evaluation` record, of `lengthwise evaluate`."""
        self.later_evaluations.append(record.fields)

    def _apply_publish(self, record: Record) -> None:
        """Apply a `publish` record: add the address if publishing succeeded."""
        uri = record.fields.get("uri")
        if uri and record.fields.get("ok") and uri not in self.published_at:
            self.published_at.append(uri)

    def _apply_extend(self, record: Record) -> None:
        """Apply an `extend` record; configurations that get more seeds are scored again."""
        self._add_seeds(record, record.fields.get("seeds", {}), record.fields["spec"])
        self._apply_resume(record)
        self.pending_extension = record.fields.get("asked")

    def _apply_race(self, record: Record) -> None:
        """Apply a `race` record: survivors get their next seeds and are scored again."""
        try:
            decision = races.add_decision(self.decisions, self.specs, record.fields)
        except ValueError as error:
            raise self._make_damage_error(record, str(error)) from None
        self._add_seeds(record, dict.fromkeys(decision.survivors, decision.next))

    def _apply_rung(self, record: Record) -> None:
        """Apply a `rung` record; configurations that are pruned have no score."""
        try:
            decision = races.add_rung(self.rungs, self.specs, self.configurations, record.fields)
        except ValueError as error:
            raise self._make_damage_error(record, str(error)) from None
        for config_id in decision.pruned:
            self.configurations[config_id].pruned_at = decision.step
            self.configurations[config_id].drop_score()
        for pack in self.packs.values():
            pack.prune(decision.pruned, decision.step)

    def _add_seeds(self, record: Record, added: Mapping[str, Iterable[int]], *specs: dict[str, Any]) -> None:
        """Add seeds to single configurations, and seeds of new specifications to all; drop scores that lack seeds."""
        seeds_before = {config_id: set(self.list_planned_seeds(config_id)) for config_id in self.configurations}
        self.specs.extend(specs)
        for config_id, seeds in added.items():
            if config_id not in self.configurations:
                raise self._make_damage_error(record, f"seeds added to unknown configuration {config_id}")
            self.additional_seeds[config_id] = self.additional_seeds.get(config_id, frozenset()).union(seeds)

        # A score over the old seeds does not cover the new ones.
        for config_id, seeds in seeds_before.items():
            if set(self.list_planned_seeds(config_id)) > seeds:
                self.configurations[config_id].drop_score()

    def _apply_score(self, record: Record) -> None:
        """Apply a `score` record."""
        number, config_id = record.fields["number"], record.fields["config_id"]
        draw = self.draws.get(number)
        if draw is None or draw.config_id != config_id:
            raise self._make_damage_error(record, f"score of unknown configuration {number} ({config_id})")

        # The first score counts, until the configuration gets more seeds.
        configuration = self.configurations[config_id]
        if not configuration.is_scored:
            configuration.is_scored = True
            configuration.scores.append(record.fields["score"])
            configuration.score, configuration.seeds_failed = record.fields["score"], record.fields["seeds_failed"]

    def _get_pack(self, record: Record, pack_id: str) -> PackState:
        """Return a pack that a record refers to. Raises DamagedLedger if it is unknown."""
        pack = self.packs.get(pack_id)
        if pack is None:
            raise self._make_damage_error(record, f"{record.kind} of unknown pack {pack_id}")
        return pack

    def _make_damage_error(self, record: Record, problem: str) -> DamagedLedger:
        """Return the error for a record that cannot be applied, with its line of the ledger."""
        return DamagedLedger(self.folder / LEDGER_FILE, record.seq + 1, problem)
