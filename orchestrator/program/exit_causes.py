"""Explain why a program ended early, and decide whether to retry it.

ProgramEnded    the program ended before its last report, or wrote a line that is not a report
"""

import builtins
import errno
import os
import re
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from orchestrator.errors import OutOfSpace
from orchestrator.program.member_folder import USED_UP_HOURS_FILE
from orchestrator.program.reports import MergedReports

USAGE_ERROR = 2  # the exit code of argparse
RESTART_CODE = 75  # EX_TEMPFAIL: a program that exits with it is started again, and has not failed
_FIRST_LINES, _LAST_LINES = 10, 40  # shown lines of a log
_SHOWN_BYTES = 10_000  # limit for the first and for the last lines, because a line may be as long as the log
_MAX_LINE_CHARACTERS = 300  # of the line that explains a failure
_PROBE_BYTES = 2**20  # a disk with less free space counts as full
_CLIENT = "lengthwise.py"
_MACHINE_STATE = re.compile(  # in a RuntimeError, which PyTorch raises for mistakes and machines alike
    r"cuda|cudnn|cublas|nccl|gloo|memory|address|connect|time[d ]*out|\bworker|\block", re.IGNORECASE
)
_REPORT_ERROR = re.compile(r"\blengthwise\.ReportError: (.*)")
_CLIENT_FRAME = re.compile(rf'^  File ".*\b{re.escape(_CLIENT)}", line \d+, in report\n(?: {{4}}.*\n)*', re.MULTILINE)
_FRAME = re.compile(r'File "([^<].*)", line (\d+)')

RetryRule = Literal["never", "once", "always"]  # always: as often as `resources.retries` allows


class ProgramEnded(Exception):  # noqa: N818 - named by what happened
    """A program ended before its last report. `retry`: whether another attempt may get further."""

    def __init__(self, message: str, trace: str | None, retry: RetryRule) -> None:
        super().__init__(message, trace, retry)
        self.message = message
        self.trace = trace
        self.retry = retry

    def __str__(self) -> str:
        return self.message


class ReachedLimit(NamedTuple):
    """The limit that stopped a program, as text; `is_member_hours`: it was `resources.member_hours`, not silence."""

    text: str
    is_member_hours: bool


class EndedAttempt(NamedTuple):
    """How the process of an attempt ended."""

    code: int  # its exit code, -N if signal N killed it
    limit: ReachedLimit | None  # that stopped it
    log: Path  # in the folder of the member
    start_step: int  # the last complete step when the attempt began


def explain_end(attempt: EndedAttempt, reports: MergedReports) -> ProgramEnded:
    """Return why an attempt ended before its last report, and whether to retry it; `reports` are of all attempts.

    Raises OutOfSpace or OSError if the disk is full.
    """
    # A full disk stops the whole sweep, because every other member would fail on it as well.
    trace = read_log(attempt.log)
    line = find_error_line(trace)
    _refuse_full_disk(attempt.log, line)

    # Retry after a limit or a signal; not if two attempts used up their hours at the same step.
    code, limit, completed = attempt.code, attempt.limit, reports.completed_step
    progress = (
        f"after step {last} of {reports.declared.steps}" if (last := reports.last_step) else "before its first report"
    )
    if limit is not None:
        has_stalled = limit.is_member_hours and _note_used_up_hours(attempt.log.parent, completed)
        return ProgramEnded(f"{limit.text}, {progress}", trace, "never" if has_stalled else "always")
    if code == 0:
        ended = f"the program ended {progress}," if reports.last_step else "the program ended"
        return ProgramEnded(f"{ended} without {reports.describe_missing()}", trace, "never")
    if code < 0:
        return ProgramEnded(f"killed by signal {-code}, {progress}", trace, "always")

    # A crash before the first report may be a race between members, such as for a file that all of them create; a usage
    # error, or a mistake in the code, would only be repeated.
    may_be_race = completed == 0 and code != USAGE_ERROR and not _is_mistake(line)
    retry: RetryRule = "always" if completed > attempt.start_step else "once" if may_be_race else "never"
    return ProgramEnded(f"exit code {code}, {progress}: {line}", trace, retry)


def find_report_error(log: Path) -> str | None:
    """Return the ReportError of the client in a log as `file:line: message`, with the line that called `report`."""
    text = read_log(log) or ""
    errors = list(_REPORT_ERROR.finditer(text))
    if not errors:
        return None
    frames = [frame for frame in _FRAME.findall(text[: errors[-1].start()]) if Path(frame[0]).name != _CLIENT]
    where = f"{Path(frames[-1][0]).name}:{frames[-1][1]}: " if frames else ""
    return where + errors[-1][1].strip()[:_MAX_LINE_CHARACTERS]


def _refuse_full_disk(log: Path, line: str) -> None:
    """Raise OutOfSpace if the log names a full disk, or the OSError of writing a file if the disk is still full."""
    if any(os.strerror(number) in line for number in (errno.ENOSPC, errno.EDQUOT)):
        raise OutOfSpace(f"{log}: {line}")
    with tempfile.TemporaryFile(dir=log.parent) as file:
        file.write(bytes(_PROBE_BYTES))
        file.flush()


def _note_used_up_hours(folder: Path, completed: int) -> bool:
    """Return whether an earlier attempt used up `member_hours` at this step; note in a file that this attempt has."""
    note = folder / USED_UP_HOURS_FILE
    step = str(completed)
    earlier_step = note.read_text() if note.exists() else ""
    note.write_text(step)
    return earlier_step == step


def find_error_line(log: str | None) -> str:
    """Return the line of a log that explains the failure: the message of the last exception, else the last line."""
    lines = (log or "").strip().splitlines() or ["its log is empty"]
    last = max((i for i, line in enumerate(lines) if line.startswith("Traceback ")), default=len(lines))

    # Below "Traceback" the frames are indented; the first line that is not has the exception.
    message = next((line for line in lines[last + 1 :] if not line.startswith(" ")), lines[-1])
    return message.strip()[:_MAX_LINE_CHARACTERS]


def _is_mistake(line: str) -> bool:
    """Return whether a line names a built-in exception that does not depend on the state of the machine.

    _is_mistake("KeyError: 'lr'") -> True; _is_mistake("FileExistsError: ...") -> False
    """
    name, _, text = line.partition(":")
    exception = getattr(builtins, name, None)
    if not isinstance(exception, type) or not issubclass(exception, Exception):
        return False
    if issubclass(exception, OSError | MemoryError | EOFError):  # EOFError: another member still writes the file
        return False
    return exception is not RuntimeError or _MACHINE_STATE.search(text) is None


def read_log(log: Path) -> str | None:
    """Return the first and the last lines of a log, without frames of the client; None if there is no log."""
    if not log.exists():
        return None

    # A log may be larger than the memory, so only its two ends are read.
    with log.open("rb") as file:
        first = file.read(_SHOWN_BYTES)
        skipped_bytes = log.stat().st_size - 2 * _SHOWN_BYTES
        file.seek(max(0, skipped_bytes), os.SEEK_CUR)
        last = file.read()
    gap = f"... more is in {log} ..."
    lines = (first + (f"\n{gap}\n".encode() if skipped_bytes > 0 else b"") + last).decode(errors="replace").splitlines()
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        lines = [*lines[:_FIRST_LINES], gap, *lines[-_LAST_LINES:]]
    return _CLIENT_FRAME.sub("", "\n".join(lines))
