"""The session of a driver: `open_session` encloses a whole run and records how it ended.

A sweep ends as complete or failed, is interrupted, or is stopped by its budget.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from orchestrator.errors import LedgerError, LengthwiseError
from orchestrator.machine.exhaustion import describe_out_of_memory, find_out_of_space
from orchestrator.record.add_records import add_record
from orchestrator.record.ledger.folders import REPORT_HTML
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.running.driving.budget import Limit
from orchestrator.running.driving.equal_failures import EqualFailures
from orchestrator.running.driving.interrupts import INTERRUPTED_EXIT_CODE, Interrupts, set_exit_message
from orchestrator.session.webhook import WebhookNotifier
from orchestrator.text.consoles import say, wrap_sentence
from orchestrator.text.wording import format_command, format_count


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a sweep: `status` is complete, failed, interrupted or STOPPED_BY_BUDGET."""

    folder: Path
    status: str
    exit_code: int


@dataclass(kw_only=True)
class Session:
    """The run of one driver: its open ledger, and the outcome once it has ended."""

    ledger: Ledger
    console: Console
    interrupts: Interrupts
    notifier: WebhookNotifier
    outcome: Outcome = field(init=False)

    @property
    def folder(self) -> Path:
        """The folder of the sweep."""
        return self.ledger.folder

    def say(self, sentence: str) -> None:
        """Print a sentence for the user; a terminal wraps it between words."""
        self.console.print(wrap_sentence(sentence, self.console))

    def read_state(self) -> SweepState:
        """Return the state in the ledger. Raises KeyboardInterrupt for a signal that arrived while it was opened."""
        self.interrupts.raise_if_interrupted()
        if self.ledger.notice:
            self.say(self.ledger.notice)
        return SweepState.load(self.folder)

    @contextmanager
    def record_if_interrupted(self, state: SweepState) -> Iterator[None]:
        """Record an interruption of the block at once: Ray ends slowly, and SIGKILL may follow in three seconds."""
        try:
            yield
        except KeyboardInterrupt:
            with self.interrupts.hold_signals():
                self.record_interruption(state)
            raise

    def record_interruption(self, state: SweepState, reason: str = "stopped by a signal") -> None:
        """Record an interruption, unless the sweep has an end record."""
        if state.end_status is None:
            add_record(self.ledger, state, "end", status="interrupted", message=reason)

    def record_end(self, state: SweepState, stopped_by: Sequence[Limit] = ()) -> None:
        """Record whether the sweep is complete, failed or stopped by limits of its budget, unless its end is recorded.

        Signals wait until the record is written.
        """
        if state.end_status not in ("complete", "failed", STOPPED_BY_BUDGET):
            # A budget that is used up outweighs the results so far.
            status, message = _describe_stop(state, stopped_by) if stopped_by else describe_end(state)
            with self.interrupts.hold_signals():
                add_record(self.ledger, state, "end", status=status, message=message)


@contextmanager
def open_session(open_ledger: Callable[[], Ledger], console: Console, notify: str | None = None) -> Iterator[Session]:
    """Open a ledger for the block, which drives the sweep and sets the outcome.

    A signal, a full disk or lack of memory is recorded and printed, and the outcome is `interrupted`; other exceptions
    are raised. Once the ledger is open, the address `notify` gets a notice, unless the process exits at once.
    """
    # A signal while the ledger is opened is held until `Session.read_state`, which can record the interruption.
    with Interrupts() as interrupts, ExitStack() as exit_stack:
        ledger: Ledger | None = None
        with suppress(KeyboardInterrupt), interrupts.hold_signals():
            ledger = exit_stack.enter_context(open_ledger())
        if ledger is None:  # the signal came before signals were held
            raise KeyboardInterrupt
        session = Session(ledger=ledger, console=console, interrupts=interrupts, notifier=WebhookNotifier(notify))
        reason = ""

        with set_exit_message(f"interrupted; continue with: {format_command('resume', ledger.folder)}"):
            try:
                yield session
            except KeyboardInterrupt:
                with interrupts.hold_signals():
                    state = SweepState.load(ledger.folder)
                    session.record_interruption(state)
                session.outcome = _report_interruption(state, console)
                reason = "stopped by a signal"
            except Exception as error:
                if (exhaustion := _describe_exhaustion(error, ledger.folder)) is None:
                    with interrupts.hold_signals(), suppress(LengthwiseError):  # the ledger may be unreadable
                        _report_failure(session, error)
                    raise
                cause, reason = exhaustion
                state = SweepState.load(ledger.folder)
                with suppress(LedgerError):  # the disk may be too full for this record
                    session.record_interruption(state, reason)
                session.outcome = _report_interruption(state, console, cause)

        # Closing the ledger copies missing files to its address, so the notice comes after it.
        ledger.close()
        if ledger.problem is not None:
            session.say(ledger.problem)
            session.outcome = replace(session.outcome, exit_code=session.outcome.exit_code or 1)
            reason = ledger.problem
        with interrupts.hold_signals():
            session.notifier.send(ledger.folder, session.outcome.status, reason, console)


def _describe_exhaustion(error: Exception, folder: Path) -> tuple[str, str] | None:
    """Return (text to print, text to record) if the disk is full or memory ran out, else None.

    Exhaustion is an interruption, because the sweep can be resumed; every other error ends it as failed.
    """
    if (full := find_out_of_space(error, folder)) is not None:
        return f" for lack of space: {full}", str(full)
    if (memory := describe_out_of_memory(error)) is not None:
        return f": {memory}", str(memory)
    return None


def _report_failure(session: Session, error: Exception) -> None:
    """Send the notice of an error that ends the sweep; equal failures of its members are recorded first."""
    if isinstance(error, EqualFailures):
        session.record_interruption(SweepState.load(session.folder), str(error).partition("\n")[0])
        _update_page(session.folder)
    session.notifier.send(session.folder, "failed", f"{type(error).__name__}: {error}", session.console)


def _report_interruption(state: SweepState, console: Console, cause: str = "") -> Outcome:
    """Print that the sweep was interrupted, the cause, and the command that continues it; return the outcome."""
    # A sweep that was interrupted after its end record lacks only the report.
    if state.end_status in ("complete", "failed"):
        advice = f"training is complete; draw the report with: {format_command('report', state.folder)}"
    else:
        advice = f"continue with: {format_command('resume', state.folder)}"
    say(console, f"interrupted{cause}; {advice}")
    _update_page(state.folder)
    return Outcome(folder=state.folder, status="interrupted", exit_code=INTERRUPTED_EXIT_CODE)


def _update_page(folder: Path) -> None:
    """Write report.html of an interrupted sweep again, if it exists, so that it no longer says "running"."""
    if (folder / REPORT_HTML).is_file():
        from orchestrator.report.write_report import write_page  # imports pandas and scipy

        with suppress(LengthwiseError, OSError):
            write_page(folder)


def _describe_stop(state: SweepState, limits: Sequence[Limit]) -> tuple[str, str]:
    """Return the status of a sweep that limits of its budget have stopped, and a sentence with the next command."""
    # A pack that does not fit may stop the sweep long before a limit is reached.
    message = f"{' and '.join(limit.text for limit in limits)} used"
    if pack_id := limits[0].blocked_pack_id:
        message += f", and the next pack ({pack_id}) needs {' and '.join(limit.needed for limit in limits)}"
    message += f"; {state.configurations_done} of {count_planned(state)} configurations done"
    options = [limit.option for limit in limits if limit.option]
    resume = " ".join([format_command("resume", state.folder), *options])
    return STOPPED_BY_BUDGET, f"{message}; continue with: {resume}"


def describe_end(state: SweepState) -> tuple[str, str]:
    """Return the status, complete or failed, and a sentence on the configurations and their failed seeds."""
    scored = sum(configuration.has_succeeded for configuration in state.configurations.values())
    pruned = sum(configuration.pruned_at is not None for configuration in state.configurations.values())
    message = f"{scored} of {format_count(len(state.configurations), 'configuration')} scored"
    message += f", {pruned} were pruned" if pruned else ""

    # Without this a sweep whose seeds failed would end like one without failures.
    failed = sum(member.status == "failed" for member in state.members)
    counts = {"crashed": state.seeds_crashed, "diverged": failed - state.seeds_crashed}
    if reasons := " and ".join(f"{count} {reason}" for reason, count in counts.items() if count):
        message += f"; of {format_count(len(state.members), 'seed')} {reasons}"
    return "complete" if scored else "failed", message
