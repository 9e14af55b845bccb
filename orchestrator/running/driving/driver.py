"""The driver of one sweep: hands out its packs and records their results, always in the ledger first.

All of its state can be rebuilt from the ledger: a `SweepDriver` starts from a replayed `SweepState`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from typing import Any

from orchestrator.plan import optuna_draws
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.packing.packs import Packer, WorkerPool
from orchestrator.record.add_records import add_records
from orchestrator.record.files import curves as curve_store
from orchestrator.record.files import weights
from orchestrator.record.ledger.folders import STOP_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.lineage import may_have_checkpoint
from orchestrator.record.state.repackings import describe_repacking
from orchestrator.record.state.state import SweepState
from orchestrator.results.confirmation import read_search_labels
from orchestrator.results.pack_seeds import name_pack_seeds
from orchestrator.results.seed_failures import describe_divergences
from orchestrator.running.driving.budget import Limit, SweepBudget
from orchestrator.running.driving.decide import (
    DecideRound,
    DecideRung,
    DrawGeneration,
    HandOut,
    Situation,
    StopSweep,
    Wait,
    decide,
)
from orchestrator.running.driving.equal_failures import refuse_equal_failures
from orchestrator.running.driving.evaluation_record import make_evaluation_fields
from orchestrator.running.driving.pack_work import make_pack_work
from orchestrator.running.driving.racing import (
    has_race_ended,
    is_paused,
    is_round_due,
    is_rung_due,
    make_race_fields,
    make_rung_fields,
)
from orchestrator.running.driving.repacking import make_repacking_fields, make_shortage_fields
from orchestrator.running.driving.running_pack import RunningPack
from orchestrator.running.driving.running_scores import RecordedScores
from orchestrator.running.driving.sampler import ConfigurationSampler, find_missing_members
from orchestrator.running.pack.reported_environments import ReportedEnvironments
from orchestrator.running.pack.watchdog import take_watchdog_report
from orchestrator.text.wording import format_count, group_errors
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec
from trainers.evaluation.results import Evaluation

RECORDS_AT_ONCE = 256  # records per write; signals are held meanwhile


class SweepDriver:
    """Implements `orchestrator.running.pack.protocol.Driver` on a ledger and the state replayed from it.

    `packer` groups members that have no pack into packs for the available `workers`. `max_seconds` is how long this
    driver may run, within the sweep's budget. `first_generation`: the configurations of the first generation, if the
    check of `spec` has built them. `hold_signals` delays signals while a record is written. `say` is called with every
    sentence for the user, and `tick` ten times a second.
    """

    def __init__(
        self,
        spec: SweepSpec,
        ledger: Ledger,
        state: SweepState,
        *,
        packer: Packer,
        workers: int = 1,
        max_seconds: float | None = None,
        first_generation: Iterable[Configuration] = (),
        hold_signals: Callable[[], AbstractContextManager[None]] = nullcontext,
        say: Callable[[str], None] = lambda text: None,
        tick: Callable[["SweepDriver"], None] = lambda driver: None,
    ) -> None:
        # The recorded sweep, and how the driver reports to the user.
        self.spec = spec
        self.ledger = ledger
        self.state = state
        self.running: dict[str, RunningPack] = {}
        self._environments = ReportedEnvironments()
        self._started_over = set[str]()  # the pack_ids of packs that ran before, and were handed out without checkpoint
        self._shown_errors = dict[str, str]()  # each error that was shown, with its first pack
        self._shown_notices = set[str]()
        self._packer = packer
        self._hold_signals = hold_signals
        self._say = say
        self._tick = tick

        # The queue of packs, and the limits at which it stops.
        self._workers = WorkerPool(workers)
        self.queue: deque[str] = deque()
        self.stopped_by: Sequence[Limit] = ()  # the limits of the budget that have stopped the sweep
        self._budget = SweepBudget(spec, state, max_seconds)
        self._stop_file = state.folder / STOP_FILE
        self.remove_stop_file()  # left by a killed driver

        # Generations that are not drawn yet; the rest of the state comes from the ledger.
        self._generations = deque(optuna_draws.list_generations(spec))
        self._scores = RecordedScores(spec.objective, state)
        self._sampler = ConfigurationSampler(spec, state, first_generation)
        self._resume_recorded()

    # Callbacks of the scheduler ---------------------------------------------------------------------------------------

    def take_next_pack(self) -> tuple[str, str] | None:
        """Take the next pack from the queue, None if no pack can be handed out now.

        First carries out what `decide` returns: draws configurations, decides rungs and rounds, or stops the sweep.
        """
        while True:
            match decide(self._make_situation()):
                # Hand out a pack, or draw configurations first.
                case HandOut(pack_id):
                    self.queue.remove(pack_id)
                    return pack_id, make_pack_work(self.spec.resources, self.state, pack_id).encode()
                case DrawGeneration(numbers):
                    self._generations.popleft()
                    self._draw_and_pack(numbers)
                # Decisions of a race: record each before its effects.
                case DecideRung():
                    fields = make_rung_fields(self.spec, self.state)
                    self.record_all("rung", [fields])
                    self._resume_packs()
                    self._record_scores(set(fields["survivors"]))  # survivors whose members have all ended
                case DecideRound():
                    fields = make_race_fields(self.spec, self.state, self._scores)
                    self.record_all("race", [fields])
                    self._plan_packs(set(fields["survivors"]), should_queue=True)
                    self._record_scores(set(fields["survivors"]))  # survivors that already have the new seeds
                # No pack can be handed out now.
                case StopSweep(limits):
                    self.stopped_by = limits
                    return None
                case Wait():
                    return None

    def has_ended(self) -> bool:
        """Return whether nothing is left to plan or to queue, or nothing more fits into the budget."""
        return bool(self.stopped_by) or not (self.queue or self._generations or not has_race_ended(self.state))

    def tick(self) -> None:
        """Redraw the display if it is due."""
        self._tick(self)

    def on_resize(self, workers: int, bytes_per_worker: float | None = None) -> None:
        """Repack waiting packs if that shortens the sweep enough, or if a pack no longer fits into memory."""
        self._workers = WorkerPool(workers, bytes_per_worker)
        self._repack_queue()

    def on_hand_out(self, pack_id: str) -> None:
        """Note that a worker has the pack, for the first time or again."""
        # Only now is it known whether the pack resumes: it may write its first checkpoint before its next report.
        pack, previous = self.state.packs[pack_id], self.running.get(pack_id)
        self._started_over.discard(pack_id)
        if pack.ran_under and not may_have_checkpoint(self.state, pack):
            self._started_over.add(pack_id)
        step = 0 if pack_id in self._started_over else pack.step
        self.running[pack_id] = RunningPack(step=step, seconds=previous.seconds if previous else pack.seconds)

    def on_environment(self, pack_id: str, environment: dict[str, Any]) -> None:
        """Keep the environment of the pack for its records; warn if the worker runs different code."""
        if (warning := self._environments.store_and_compare(pack_id, environment)) is not None:
            self._say(f"{self._describe_pack(pack_id)}: {warning}")

    def on_evaluation(self, pack_id: str, evaluation: bytes) -> None:
        """Write the curves, then the record that names them; a step already in the ledger is not changed."""
        decoded = Evaluation.from_bytes(evaluation)
        pack = self.state.packs[pack_id]
        running = self.running[pack_id]
        running.step = max(running.step, decoded.step)
        running.phase = "train" if running.phase == "starting" else running.phase  # it may end before a heartbeat

        # A pack resumes from its last checkpoint, so it may report steps again that are in the ledger.
        if decoded.step not in pack.evaluations:
            curves = curve_store.store_curves(self.state, pack, decoded)
            fields = make_evaluation_fields(pack_id, decoded, curves)
            fields |= self._environments.make_fields(pack_id, self.state.environments)
            fields |= {"from_start": True} if pack_id in self._started_over else {}
            fields |= {"weights": weights.make_weights_fields(decoded.weights)} if decoded.weights else {}
            earlier_failures = [member.failed_at for member in pack.member_states]
            self.record_all("evaluation", [fields])
            labels = read_search_labels(self.state.provenance)
            if text := describe_divergences(self.state, pack, earlier_failures, labels):
                self._say(text)
            if decoded.final:
                self._scores.score_final(pack_id, decoded)

        # Earlier attempts of the pack may have left files of weights that no record names.
        if decoded.weights:
            weights.delete_unrecorded_weights(self.state, pack_id)
        running.seconds = decoded.seconds
        self._stop_if_budget_is_used_up()

    def on_progress(self, pack_id: str, progress: dict[str, Any]) -> None:
        """Keep the progress for the display, and stop if time is up: a program may report few evaluations."""
        self.running[pack_id] = RunningPack(
            phase=progress["phase"],
            step=progress["step"],
            member_steps_per_second=progress["member_steps_per_second"],
            seconds=progress["seconds"],
        )
        self._stop_if_budget_is_used_up()

    def on_notice(self, pack_id: str, text: str) -> None:
        """Show a worker's message to the user; a message on a program, which all members share, only once."""
        if not self.spec.program:
            self._say(f"{self._describe_pack(pack_id)}: {text}")
        elif text not in self._shown_notices:
            self._shown_notices.add(text)
            self._say(f"warning: {text}")

    def on_lost_worker(self, pack_id: str, error: str) -> None:
        """Tell the user that a worker died before it began the pack, and is replaced; nothing is recorded."""
        self._say(f"{self._describe_pack(pack_id)}: {error}; it had not begun, so another starts without using a retry")

    def repack_after_shortage(self, pack_id: str, error: str) -> bool:
        """Repack the pack and similar packs that no worker has begun into smaller ones; return whether that worked."""
        pack, device = self.state.packs[pack_id], self._environments.get_device(pack_id)
        shortage = make_shortage_fields(pack, self._packer, device, error, self.running[pack_id].seconds)
        waiting = self._repack([*self.queue, pack_id], shortage) if shortage else None
        if waiting is None:
            return False
        self.running.pop(pack_id, None)
        self.queue = deque(waiting)
        self._repack_queue()
        return True

    def on_retry(self, pack_id: str, error: str, trace: str | None = None) -> None:
        """Record why the pack died; it is retried from its newest checkpoint."""
        error = self._record_death(pack_id, error, trace)
        self.on_hand_out(pack_id)  # the pack is running again, so a rung waits for it
        shown_error = self._shorten_repeated(pack_id, error)
        has_start = may_have_checkpoint(self.state, self.state.packs[pack_id])
        start = "from its newest checkpoint if it has one" if has_start else "from the start"
        self._say(f"{self._describe_pack(pack_id)}: {shown_error}; retrying {start}")

    def on_complete(self, pack_id: str) -> None:
        """Close the pack and score the configurations that it finishes; a stopped pack stays open."""
        # A pack that was stopped, or waits at a rung, gets no end record, so that it is resumed later.
        if self.state.packs[pack_id].has_last_evaluation:
            self._record_pack_end(pack_id, "complete", None)
        elif self.stopped_by or is_paused(self.state.race, self.state.packs[pack_id]):
            self.running.pop(pack_id, None)
        else:
            self.on_failure(pack_id, "the worker stopped before the last evaluation")

    def on_failure(self, pack_id: str, error: str, trace: str | None = None) -> None:
        """Record that the pack and its members have failed for good; the sweep continues."""
        error = self._record_death(pack_id, error, trace)
        attempts = format_count(len(self.state.packs[pack_id].attempts), "attempt")
        shown_error = self._shorten_repeated(pack_id, error)
        self._say(f"{self._describe_pack(pack_id)}: {shown_error}; failed after {attempts}")
        self._record_pack_end(pack_id, "failed", error)
        refuse_equal_failures(self.state, get_trainer(self.spec.sections).max_equal_failures)

    def _describe_pack(self, pack_id: str) -> str:
        """Return a pack as messages name it: "#0 seeds 1-3 (pack 0c1b66877d7e)"; a run of a program: "#0 seed 1"."""
        seeds = name_pack_seeds(self.state, [pack_id])
        return seeds if self.spec.program else f"{seeds} (pack {pack_id})"

    def _shorten_repeated(self, pack_id: str, error: str) -> str:
        """Return the error, or the pack that had the same error first, perhaps with other numbers."""
        for shown, first in self._shown_errors.items():
            if len(group_errors([(shown, first), (error, pack_id)])) == 1:
                qualifier = "" if error == shown else ", except for numbers"
                origin = "again" if first == pack_id else f"as {self._describe_pack(first)}"
                return f"the same error {origin}{qualifier}"
        self._shown_errors[error] = pack_id
        return error

    # Called by the sweep ----------------------------------------------------------------------------------------------

    def record_all(self, kind: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Write records of a kind, RECORDS_AT_ONCE per write to disk, and apply them to the state."""
        for first in range(0, len(entries), RECORDS_AT_ONCE):
            with self._hold_signals():
                add_records(self.ledger, self.state, kind, entries[first : first + RECORDS_AT_ONCE])

    def remove_stop_file(self) -> None:
        """Remove the stop file, once no pack is running."""
        with suppress(NotADirectoryError):  # the sweep folder is a file; packs report it
            self._stop_file.unlink(missing_ok=True)

    # Internals --------------------------------------------------------------------------------------------------------

    def _make_situation(self) -> Situation:
        """Return the inputs of `decide` from the state and the queue."""
        # Without the configurations of this generation: a killed driver may have recorded some of them.
        state = self.state
        generation = self._generations[0] if self._generations else None
        earlier_configurations = [
            configuration
            for configuration in state.configurations.values()
            if generation and configuration.number < generation.start
        ]
        next_pack_id, exceeded_limits = self._budget.find_pack_within_budget(self.queue, self.running)
        return Situation(
            running_pack_ids=self.running,
            next_pack_id=next_pack_id,
            exceeded_limits=exceeded_limits,
            generation=generation,
            is_scored=all(configuration.is_scored for configuration in earlier_configurations),
            is_rung_due=is_rung_due(state),
            is_round_due=is_round_due(state),
            is_budget_used_up=bool(self.stopped_by),
        )

    def _resume_recorded(self) -> None:
        """Queue the unfinished packs of a recorded sweep, and record the ends and scores that a killed driver left out.

        Queued are packs without an end (`_resume_packs`) and seeds without a pack (`find_missing_members`). Generations
        that were not drawn are left to `decide`.
        """
        # A killed driver may not have scored the members of packs whose last evaluation is recorded, and may have had
        # another number of workers.
        configurations = self.state.configurations
        unscored_ids = [config_id for config_id, configuration in configurations.items() if not configuration.is_scored]
        racing_ids = [] if self.state.race is None or has_race_ended(self.state) else self.state.race.contenders
        open_ids = {*unscored_ids, *racing_ids}
        pack_ids = {member.pack_id for config_id in open_ids for member in configurations[config_id].members.values()}
        self._scores.score_recorded({pack_id for pack_id in pack_ids if self.state.packs[pack_id].has_last_evaluation})
        self._repack(self.state.packs)  # `_resume_packs` queues the new packs

        # Pack generations that were drawn completely: a driver may have been killed between drawing and packing.
        while self._generations and all(number in self.state.draws for number in self._generations[0]):
            numbers = self._generations.popleft()
            self._plan_packs({self.state.draws[number].config_id for number in numbers}, should_queue=False)
        self._resume_packs()
        self._record_scores(set(self.state.configurations))

    def _resume_packs(self) -> None:
        """Close packs that only lack their last record, and queue packs that have steps left to train."""
        race = self.state.race
        for pack in [pack for pack in self.state.packs.values() if not pack.has_ended]:
            if pack.has_last_evaluation or pack.is_pruned:
                self._record_pack_end(pack.pack_id, "complete", None)
            elif not is_paused(race, pack):
                self.queue.append(pack.pack_id)

    def _repack_queue(self) -> None:
        """Repack the queue if that shortens the sweep enough (`pack_sizes.MIN_GAIN`)."""
        if (waiting := self._repack(self.queue)) is not None:
            self.queue = deque(waiting)

    def _repack(self, waiting: Collection[str], shortage: Mapping[str, Any] | None = None) -> list[str] | None:
        """Repack waiting packs if that shortens the sweep enough, or after a shortage of memory.

        Returns the pack_ids that wait afterwards, None if no pack is repacked.
        """
        repacking = make_repacking_fields(self.state, waiting, self.running, self._packer, self._workers, shortage)
        if repacking is None:
            return None
        fields, still_waiting = repacking
        self.record_all("recut", [fields])  # the ledger's word for a repacking
        self._say(describe_repacking(self.state.repackings[-1]))
        return still_waiting

    def _draw_and_pack(self, numbers: range) -> None:
        """Draw, build and pack one generation; skip configurations and packs that are already recorded."""
        new = self._sampler.draw_new(numbers)
        self.record_all("configuration", self._sampler.make_record_fields(new))
        config_ids = {self.state.draws[number].config_id for number in numbers}
        built_by_id = {drawn.config_id: drawn for drawn in new if drawn.duplicate_of is None}
        self._plan_packs(config_ids, should_queue=True, built_by_id=built_by_id)

    def _plan_packs(
        self, config_ids: set[str], should_queue: bool, built_by_id: Mapping[str, Configuration] | None = None
    ) -> None:
        """Record packs for the members of these configurations that have no pack.

        `built_by_id`: configurations that are already built, by config_id.
        """
        packs = [
            pack
            for waiting in find_missing_members(self.state, config_ids, built_by_id or {})
            for pack in self._packer.pack_members(waiting)
        ]
        self.record_all("pack", [asdict(pack) for pack in packs])
        if should_queue:
            self.queue.extend(pack.pack_id for pack in packs)

    def _stop_if_budget_is_used_up(self) -> None:
        """Ask all packs to stop once the budget is used up; workers look for the stop file after each evaluation."""
        if limits := self._budget.list_reached_limits():
            self.stopped_by = limits
            self._stop_file.parent.mkdir(parents=True, exist_ok=True)
            self._stop_file.touch()

    def _record_death(self, pack_id: str, error: str, trace: str | None) -> str:
        """Record that the pack died, with the watchdog's reason if it wrote one."""
        attempt = len(self.state.packs[pack_id].attempts) + 1
        timeout = self.spec.resources.heartbeat_timeout
        if report := take_watchdog_report(self.state.folder, pack_id, attempt, timeout):
            error, trace = report
        fields = {"pack_id": pack_id, "attempt": attempt, "error": error}
        fields |= self._environments.make_fields(pack_id, self.state.environments)
        fields |= {"trace": trace} if trace else {}
        self.record_all("attempt", [fields])
        return error

    def _record_pack_end(self, pack_id: str, status: str, error: str | None) -> None:
        """Record the end of a pack, and the scores of the configurations that it finishes."""
        pack = self.state.packs[pack_id]
        running = self.running.pop(pack_id, RunningPack())  # a resumed driver only closes packs that have ended
        seconds = max(running.seconds, pack.seconds)
        self.record_all("pack_end", [{"pack_id": pack_id, "status": status, "error": error, "seconds": seconds}])
        self._record_scores({config_id for config_id, _ in pack.members})

    def _record_scores(self, config_ids: set[str]) -> None:
        """Record the score of every one of these configurations whose members have all ended."""
        entries = []
        configurations = [self.state.configurations[config_id] for config_id in config_ids]
        for configuration in sorted(configurations, key=lambda configuration: configuration.number):
            if self.state.have_all_seeds_ended(configuration) and not configuration.is_scored:
                entries.append(self._scores.make_score_fields(configuration))
        self.record_all("score", entries)
