"""How a sweep ends, in the driver: complete, failed or interrupted.

`run_and_record_end` encloses the whole run and records an interruption; `finish` ends a sweep whose packs have ended.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.ending.notice import Notice
from orchestrator.ending.publisher import Publisher
from orchestrator.errors import LedgerError, LengthwiseError
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.parts import STOPPED
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.running.driving.budget import Limit
from orchestrator.running.driving.equal_failures import EqualFailures
from orchestrator.running.driving.interrupts import EXIT_CODE, Interrupts, last_words
from orchestrator.shortages import out_of_memory, out_of_space
from orchestrator.tracking.attempt import LONGEST_SECONDS, Attempt, BackgroundAttempt
from orchestrator.wording import command, describe_deaths
from search_spaces import SweepSpec


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a sweep ended: `status` is complete, failed, interrupted or STOPPED."""

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


def run_and_record_end(
    open_ledger: Callable[[], Ledger],
    console: Console,
    drive: Callable[[Ledger, Interrupts], Outcome],
    notice: Notice,
) -> Outcome:
    """Return the outcome of `drive`; if a signal, a full disk or lack of memory stops it, record that and say so.

    Once the ledger is open, `notice` is sent whatever happens.
    """
    with Interrupts() as interrupts, ExitStack() as opened:
        with suppress(KeyboardInterrupt), interrupts.held():
            ledger = opened.enter_context(open_ledger())
        way_on = f"interrupted; continue with: {command('resume', ledger.folder)}"
        with last_words(way_on):
            try:
                interrupts.check()  # a signal that came while the ledger was opened
                outcome = drive(ledger, interrupts)
                why = ""
            except KeyboardInterrupt:
                with interrupts.held():
                    state = SweepState.load(ledger.folder)
                    record_interruption(ledger, state)
                outcome, why = _interrupted(state, console), "stopped by a signal"
            except Exception as error:
                full, memory = out_of_space(error, ledger.folder), out_of_memory(error)
                if full is None and memory is None:
                    with interrupts.held(), suppress(LengthwiseError):  # of a ledger that cannot be read
                        if isinstance(error, EqualFailures):
                            record_interruption(ledger, SweepState.load(ledger.folder), str(error).partition("\n")[0])
                        notice.send(ledger.folder, "failed", f"{type(error).__name__}: {error}", console)
                    raise
                state = SweepState.load(ledger.folder)
                why = str(full or memory)
                with suppress(LedgerError):  # there may be no room for it either
                    record_interruption(ledger, state, why)
                outcome = _interrupted(state, console, f" for lack of space: {full}" if full else f": {memory}")
        ledger.close()  # which copies missing files to the address
        if ledger.problem is not None:
            say(console, ledger.problem)
            outcome, why = replace(outcome, exit_code=outcome.exit_code or 1), ledger.problem
        with interrupts.held():
            notice.send(ledger.folder, outcome.status, why, console)
        return outcome


def _interrupted(state: SweepState, console: Console, why: str = "") -> Outcome:
    """Say that the sweep was interrupted, why, and which command continues it."""
    if state.ended in ("complete", "failed"):
        advice = f"training is complete; draw the report with: {command('report', state.folder)}"
    else:
        advice = f"continue with: {command('resume', state.folder)}"
    say(console, f"interrupted{why}; {advice}")
    return Outcome(folder=state.folder, status="interrupted", exit_code=EXIT_CODE)


def record_interruption(ledger: Ledger, state: SweepState, why: str = "stopped by a signal") -> None:
    """Record an interruption, unless the sweep has an end record."""
    if state.ended is None:
        state.apply(ledger.append("end", status="interrupted", message=why))


def record_end(ledger: Ledger, state: SweepState, interrupts: Interrupts, stopped_by: Sequence[Limit] = ()) -> None:
    """Record whether the sweep is complete, failed or stopped by limits of its budget, unless that is recorded.

    Signals wait until it is.
    """
    if state.ended not in ("complete", "failed", STOPPED):
        status, message = _describe_end(state)
        if stopped_by:
            finished = sum(configuration.is_done for configuration in state.configurations.values())
            used = " and ".join(limit.words for limit in stopped_by)
            more = "".join(limit.option for limit in stopped_by)
            status = STOPPED
            message = f"{used} used, {finished} of {count_planned(state)} configurations done; continue with: "
            message += f"{command('resume', state.folder)}{more}"
        with interrupts.held():
            state.apply(ledger.append("end", status=status, message=message))


def _describe_end(state: SweepState) -> tuple[str, str]:
    """Return the status, complete or failed, and a sentence."""
    succeeded = sum(configuration.succeeded for configuration in state.configurations.values())
    pruned = sum(configuration.pruned_at is not None for configuration in state.configurations.values())
    message = f"{succeeded} of {len(state.configurations)} configurations succeeded"
    message += f", {pruned} were pruned" if pruned else ""
    return "complete" if succeeded else "failed", message


def finish(
    spec: SweepSpec,
    ledger: Ledger,
    state: SweepState,
    console: Console,
    interrupts: Interrupts,
    publisher: Publisher | None,
) -> Outcome:
    """Record how the sweep ended, write its report, publish it, then print the outcome and return it."""
    record_end(ledger, state, interrupts)
    status, message = str(state.ended), state.message
    deaths = describe_deaths([error for _, error in state.deaths], ledger.folder)
    from orchestrator.report.files import present  # imports pandas and scipy

    present(ledger.folder, console)
    if spec.tracking.enabled:
        attempt = publisher.publish_end() if publisher is not None else None
        _record_attempt(spec, ledger, console, attempt or _publish(spec, ledger.folder))
    say(console, f"{status}: {message}" + (f"; {deaths}" if deaths else ""))
    return Outcome(folder=ledger.folder, status=status, exit_code=1 if status == "failed" else 0)


def _publish(spec: SweepSpec, folder: Path) -> Attempt:
    """Publish the whole sweep from this process; wait no longer than LONGEST_SECONDS."""
    from orchestrator.report import artifacts  # mlflow is slow to import
    from orchestrator.tracking.publish import publish

    section = spec.tracking
    publish_sweep = partial(
        publish, folder, section.uri or "", experiment=section.experiment or "", artifacts=artifacts
    )
    return BackgroundAttempt(folder, publish_sweep).wait(LONGEST_SECONDS)


def _record_attempt(spec: SweepSpec, ledger: Ledger, console: Console, attempt: Attempt) -> None:
    """Record and print what was published, or why nothing was; a failure does not fail the sweep."""
    uri = attempt.published.uri if attempt.published is not None else spec.tracking.uri
    experiment = spec.tracking.experiment or spec.study
    ledger.append("publish", uri=uri, ok=attempt.problem is None, message=attempt.problem or "", experiment=experiment)
    if attempt.published is None:
        say(console, f"not published: {attempt.problem}")
    else:
        for name, link in attempt.published.links:
            say(console, f"{name}: {link}")
