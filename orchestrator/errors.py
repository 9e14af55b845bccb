"""The errors of the orchestrator, with messages written for users.

LengthwiseError                 printed as one message without a traceback; exit code 1: it ran and failed
├── UserError                   bad input; exit code 2, as for the errors below that are marked with 2
│   ├── SweepExists             a new sweep would overwrite an existing one
│   ├── NotASweep               the folder holds no ledger
│   ├── SpecChanged             the sweep file differs from the recorded one
│   ├── UntrustedCode           a sweep of another user would run code here without --trust
│   ├── SweepLocked             another driver is running this sweep
│   ├── DivergedLedger          a sweep was continued differently in its local copy and at its address
│   └── StorageRefused          wrong credentials, bucket or address of a storage, or a missing object
├── LedgerError                 the ledger cannot be read or written: full disk, read-only folder
│   ├── UnexpectedEntry         2: a link, a pipe or a folder has the name of a file of a sweep
│   ├── TakenLedger             another driver writes it, because locks do not work here
│   ├── DamagedLedger           2: its bytes do not match its checksums
│   ├── NewerLedger             2: it was written by a newer version
│   └── OlderLedger             2: it was written before version 1.0.0
├── StorageError                an object store does not answer, or lacks a segment of a ledger
├── OutOfSpace                  the disk of the sweep is full
├── DamagedCurves               2: a parquet part is missing or differs from its checksum
└── DamagedWeights              2: a file of kept weights is missing or differs from its checksum

An error that a single module raises is defined there: UserCodeError, SmokeFailed, ReportProblem, EqualFailures,
TrackingError, UiServerError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.text.wording import format_command


class LengthwiseError(Exception):
    """An expected error; `str()` is the whole message."""

    exit_code = 1


class UserError(LengthwiseError):
    """Bad input; the message gives the problem, its location, and the allowed values."""

    exit_code = 2


class SweepExists(UserError):  # noqa: N818 - reads as the sentence it prints
    """The folder of a new sweep already holds a sweep."""


class NotASweep(UserError):  # noqa: N818
    """The given folder holds no ledger."""


class SpecChanged(UserError):  # noqa: N818
    """The sweep file differs from the recorded sweep; `differences` are (key, recorded value, value now).

    `extending` is the `extend` command that makes these changes; empty if they do more than add.
    """

    def __init__(self, folder: Path, differences: Sequence[tuple[str, object, object]], extending: str = "") -> None:
        from trainers.settings.descriptions import format_yaml  # not for every command

        self.folder, self.differences, self.extending = folder, tuple(differences), extending
        lines = [f"  {key}: was {format_yaml(old)}, now {format_yaml(new)}" for key, old, new in self.differences]
        summary = "the sweep file or --set differs from the recorded sweep; undo this or choose another --name:"
        lines += [f"or extend the sweep: {extending}"] if extending else []
        super().__init__("\n".join([f"{folder}: {summary}", *lines]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return type(self), (self.folder, self.differences, self.extending)


class UntrustedCode(UserError):  # noqa: N818
    """A sweep that this user neither began nor trusted would run code."""


class SweepLocked(UserError):  # noqa: N818
    """Another driver holds the lock of this sweep; the message names it."""


class DivergedLedger(UserError):  # noqa: N818
    """A sweep was continued at its address and in its local copy; the message gives the commands to keep either."""


class StorageRefused(UserError):  # noqa: N818
    """An object store refuses a request, and a retry would not help; the message has the reason."""


class StorageError(LengthwiseError):
    """A request to an object store failed and may succeed later; the message has the reason."""


class LedgerError(LengthwiseError):
    """The ledger could not be read or written; the message names the path."""


class DamagedLedger(LedgerError):  # noqa: N818
    """A line of the ledger is damaged; the message begins with `file:line`."""

    exit_code = 2

    def __init__(self, path: Path, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        remedy = f"the records before it can be saved: {format_command('repair', path.parent)}"
        if line == 1:
            remedy = "a first record cannot be repaired; put a copy of the file back, or run the sweep again"
        super().__init__(f"{path}:{line}: {problem}\n{remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return type(self), (self.path, self.line, self.problem)


class UnexpectedEntry(LedgerError):  # noqa: N818
    """An entry of a sweep folder is of the wrong kind or points out of the folder; it was not read."""

    exit_code = 2


class TakenLedger(LedgerError):  # noqa: N818
    """Another driver, named in the message, has written the ledger; nothing was overwritten."""


class NewerLedger(LedgerError):  # noqa: N818
    """The ledger was written by a newer version of lengthwise."""

    exit_code = 2


class OlderLedger(LedgerError):  # noqa: N818
    """The ledger was written before version 1.0.0, the oldest version whose ledgers can be read."""

    exit_code = 2


class OutOfSpace(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """The disk is full; the message names the file system and its free space."""


class DamagedCurves(LengthwiseError):  # noqa: N818
    """A parquet part of the curves, named in the message, is missing or differs from its checksum in the ledger."""

    exit_code = 2


class DamagedWeights(LengthwiseError):  # noqa: N818
    """A file of kept weights, named in the message, is missing or differs from its checksum in the ledger."""

    exit_code = 2

    def __str__(self) -> str:
        """Append recovery instructions."""
        return f"{super().__str__()}; put a copy of the file back, or train the configuration again in a new sweep"


@contextmanager
def convert_write_errors(path: Path, error_class: type[LengthwiseError] = UserError) -> Iterator[None]:
    """Convert an OSError of the block to `error_class`, whose message names the path that cannot be written."""
    try:
        yield
    except OSError as error:
        raise error_class(f"{path}: cannot be written: {error.strerror}") from error
