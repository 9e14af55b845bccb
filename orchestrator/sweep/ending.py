"""How a sweep ends: complete, failed or interrupted; what is recorded, said, drawn and published of it then."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.errors import LedgerError
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.interrupts import EXIT_CODE, Interrupts
from orchestrator.shortages import out_of_memory, out_of_space
from orchestrator.sweep.closing import Closed, Closing
from orchestrator.tracking.published import Published
from orchestrator.tracking.publisher import SweepPublishing
from orchestrator.wording import command, death_sentence
from search_spaces import SweepSpec


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a sweep ended: complete, failed or interrupted, and the exit code that says so."""

    folder: Path
    status: str
    exit_code: int


@contextmanager
def interruption_recorded(ledger: Ledger, state: SweepState, interrupts: Interrupts) -> Iterator[None]:
    """Record an interruption at once: leaving Ray takes a while, and SIGKILL may follow in three seconds."""
    try:
        yield
    except KeyboardInterrupt:
        with interrupts.held():
            record_interruption(ledger, state)
        raise


def drive_to_an_end(
    open_ledger: Callable[[], Ledger], console: Console, drive: Callable[[Ledger, Interrupts], Outcome]
) -> Outcome:
    """Return the outcome of `drive`; where a signal or a lack of space or memory ends it, record and say so."""
    with Interrupts() as interrupts, ExitStack() as opened:
        with suppress(KeyboardInterrupt), interrupts.held():
            ledger = opened.enter_context(open_ledger())
        try:
            interrupts.check()  # what came meanwhile
            return drive(ledger, interrupts)
        except KeyboardInterrupt:
            with interrupts.held():
                state = SweepState.load(ledger.folder)
                record_interruption(ledger, state)
            return _interrupted(state, console)
        except Exception as error:
            full, memory = out_of_space(error, ledger.folder), out_of_memory(error)
            if full is None and memory is None:
                raise
            state = SweepState.load(ledger.folder)
            with suppress(LedgerError):  # there may be no room for it either
                record_interruption(ledger, state, str(full or memory))
            return _interrupted(state, console, f" for lack of space: {full}" if full else f": {memory}")


def _interrupted(state: SweepState, console: Console, why: str = "") -> Outcome:
    """Say that it was interrupted, `why` behind it, and how to go on."""
    if state.ended in ("complete", "failed"):
        way_on = f"training is complete; draw the report with: {command('report', state.folder)}"
    else:
        way_on = f"go on with: {command('resume', state.folder)}"
    say(console, f"interrupted{why}; {way_on}")
    return Outcome(folder=state.folder, status="interrupted", exit_code=EXIT_CODE)


def record_interruption(ledger: Ledger, state: SweepState, why: str = "stopped by a signal") -> None:
    """Record an interruption, unless how it ended is recorded."""
    if state.ended is None:
        state.apply(ledger.append("end", status="interrupted", message=why))


def record_end(ledger: Ledger, state: SweepState, interrupts: Interrupts) -> None:
    """Record whether it is complete or failed, unless that is recorded; no signal comes between."""
    if state.ended not in ("complete", "failed"):
        status, message = _how_it_ended(state)
        with interrupts.held():
            state.apply(ledger.append("end", status=status, message=message))


def _how_it_ended(state: SweepState) -> tuple[str, str]:
    """In a word and in a sentence."""
    succeeded = sum(found.succeeded for found in state.configurations.values())
    said = f"{succeeded} of {len(state.configurations)} configurations succeeded"
    return "complete" if succeeded else "failed", said


def finish(
    ledger: Ledger,
    state: SweepState,
    console: Console,
    publishing: SweepPublishing,
    interrupts: Interrupts,
    closing: Closing | None,
) -> Outcome:
    """Say how it ended, and see to it that everything is drawn that can be drawn again."""
    record_end(ledger, state, interrupts)
    status, message = _how_it_ended(state)
    deaths = death_sentence([error for _, error in state.deaths], ledger.folder)
    closed = closing.end(console) if closing is not None else Closed()
    if not closed.drawn:
        from orchestrator.report.files import present  # matplotlib is slow to import

        present(ledger.folder, console, quiet=closed.said)
    if closed.tried_to_publish:
        publishing.record(ledger, console, closed.published, closed.problem)
    else:
        publishing.close(ledger, console)
    say(console, f"{status}: {message}" + (f"; {deaths}" if deaths else ""))
    return Outcome(folder=ledger.folder, status=status, exit_code=0 if status == "complete" else 1)


def publish_with(spec: SweepSpec, folder: Path, closing: Closing | None = None) -> Callable[..., Published]:
    """A pass to MLflow: along the way by `closing`, otherwise and where it cannot by this process."""

    def publish(*, sweep_files: bool) -> Published:
        if closing is not None and not sweep_files and (found := closing.publish()) is not None:
            return found
        from orchestrator.report import artifacts  # mlflow and matplotlib are slow to import
        from orchestrator.tracking.publish import publish as publish_here

        section = spec.tracking
        given: dict[str, Any] = {"experiment": section.experiment, "artifacts": artifacts}
        return publish_here(folder, section.uri, sweep_files=sweep_files, **given)

    return publish
