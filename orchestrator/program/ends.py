"""Says why a program has ended early, and whether another attempt may get further.

ProgramEnded    the program ended before its last report, or reported nonsense
"""

import errno
import os
from pathlib import Path
from typing import Literal

from orchestrator.errors import OutOfSpace
from orchestrator.program.reports import MergedReports

USAGE_ERROR = 2
AGAIN = 75  # EX_TEMPFAIL: the exit code by which a program asks to be started again, which does not count as a death
_FIRST_LINES, _LAST_LINES = 10, 40  # of a log that are shown
_SHOWN_BYTES = 10_000  # of the first and of the last lines: a line may be as long as the log
_MAX_LINE_CHARACTERS = 300  # characters of the line that says why a program failed
_PROBE_BYTES = 2**20  # a disk with less space is full


RetryRule = Literal["never", "once", "always"]  # always: as often as `resources.retries` allows


class ProgramEnded(Exception):  # noqa: N818 - named by what happened
    """A program ended before its last report. `retry`: whether another attempt may get further."""

    def __init__(self, message: str, trace: str | None, retry: RetryRule) -> None:
        super().__init__(message, trace, retry)
        self.message, self.trace, self.retry = message, trace, retry

    def __str__(self) -> str:
        return self.message


def judge_end(code: int, reason: str | None, log: Path, reports: MergedReports, start_step: int) -> bool:
    """Return True if a program that ended early asks, by its exit code, to be started again at once.

    code: its exit code, negative if a signal has killed it. reason: why it was stopped, None if it was not or the sweep
    did. log: of this attempt, in the folder of the member. reports: of all attempts. start_step: the last complete step
    when this one began. Raises ProgramEnded otherwise, OutOfSpace or OSError if the disk is full.
    """
    completed, steps = reports.completed, reports.declared.steps
    where = f"after step {last} of {steps}" if (last := reports.last_step) else "before its first report"
    if reason is None and code == AGAIN:
        return True

    # A full disk concerns the whole sweep.
    trace = read_log(log)
    line = _find_error_line(trace)
    _refuse_full_disk(log, line)

    # Explain the end, and decide whether another attempt may get further.
    if reason is not None:
        has_stalled = "hours" in reason and _has_used_up_hours(log.parent, completed)
        raise ProgramEnded(f"{reason}, {where}", trace, "never" if has_stalled else "always")
    if code == 0:
        raise ProgramEnded(f"it ended {where}, without {reports.describe_missing()}", trace, "never")
    if code < 0:
        raise ProgramEnded(f"killed by signal {-code}, {where}", trace, "always")

    # Before its first report it may have met other members, such as at a file that all of them create; but a command
    # line that it does not understand stays the same (exit code 2, as of argparse).
    is_new = completed == 0 and code != USAGE_ERROR
    retry: RetryRule = "always" if completed > start_step else "once" if is_new else "never"
    raise ProgramEnded(f"exit code {code}, {where}: {line}", trace, retry)


def _refuse_full_disk(log: Path, line: str) -> None:
    """Raise OutOfSpace, or the OSError of a full disk, if a full disk has ended the program."""
    if any(os.strerror(number) in line for number in (errno.ENOSPC, errno.EDQUOT)):
        raise OutOfSpace(f"{log}: {line}")
    probe = log.parent / "probe"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _has_used_up_hours(folder: Path, completed: int) -> bool:
    """Return whether an earlier attempt used up `member_hours` at this step; note that this attempt did."""
    note, step = folder / "member_hours_used_up_at", str(completed)
    before = note.read_text() if note.exists() else ""
    note.write_text(step)
    return before == step


def _find_error_line(log: str | None) -> str:
    """Return the line of a log that explains the failure: of the last exception, else the last line."""
    lines = (log or "").strip().splitlines() or ["its log is empty"]
    last = max((i for i, line in enumerate(lines) if line.startswith("Traceback ")), default=len(lines))
    return next((line for line in lines[last + 1 :] if not line.startswith(" ")), lines[-1]).strip()[
        :_MAX_LINE_CHARACTERS
    ]


def read_log(log: Path) -> str | None:
    """Return the first and the last lines of a log; None if there is no log."""
    if not log.exists():
        return None
    with log.open("rb") as file:
        first = file.read(_SHOWN_BYTES)
        left_out = log.stat().st_size - 2 * _SHOWN_BYTES
        file.seek(max(0, left_out), os.SEEK_CUR)
        last = file.read()
    shortened = f"... more is in {log} ..."
    between = f"\n{shortened}\n".encode() if left_out > 0 else b""
    lines = (first + between + last).decode(errors="replace").splitlines()
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        lines = [*lines[:_FIRST_LINES], shortened, *lines[-_LAST_LINES:]]
    return "\n".join(lines)
