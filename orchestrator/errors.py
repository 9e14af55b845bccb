"""The errors of the orchestrator. Their messages are written for users.

LengthwiseError                 printed as one message without a traceback; exit code 1: it ran and failed
├── UserError                   bad input; exit code 2, as for the errors below that are marked with 2
│   ├── SweepExists             a new sweep would overwrite an existing one
│   ├── NotASweep               the folder holds no ledger
│   ├── SpecChanged             the sweep file is no longer the one the ledger was begun with
│   ├── UntrustedCode           somebody else's sweep would run code here, without --trust
│   ├── SweepLocked             another driver is running this sweep
│   ├── DivergedLedger          a local copy and its address have different continuations of a sweep
│   └── StorageRefused          wrong credentials, bucket or address of a storage, or a missing object
├── LedgerError                 the ledger cannot be read or written: full disk, read-only folder
│   ├── UnexpectedEntry         2: a link, a pipe or a folder where a sweep has its own files
│   ├── TakenLedger             another driver writes it, without a working lock
│   ├── DamagedLedger           2: its bytes do not match its checksums
│   ├── NewerLedger             2: it was written by a newer version
│   └── OlderLedger             2: it was written before the first version whose ledgers are read
├── StorageError                an object store does not answer, or lacks a segment of a ledger
├── OutOfSpace                  the disk of the sweep is full
├── DamagedCurves               2: a parquet part is missing or differs from its checksum
└── DamagedWeights              2: a file of kept weights is missing or differs from its checksum
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.text.wording import command


class LengthwiseError(Exception):
    """An expected error; `str()` is the whole message."""

    exit_code = 1


class UserError(LengthwiseError):
    """Bad input; the message gives the problem, its location, and the allowed values."""

    exit_code = 2


class SweepExists(UserError):  # noqa: N818 - reads as the sentence it prints
    """The folder of a new sweep already holds one."""


class NotASweep(UserError):  # noqa: N818
    """The given folder holds no ledger."""


class SpecChanged(UserError):  # noqa: N818
    """The sweep file has changed since the sweep was begun; `differences` are (key, before, now).

    `extending` is the `extend` command that makes these changes; empty if they are more than additions.
    """

    def __init__(self, folder: Path, differences: Sequence[tuple[str, object, object]], extending: str = "") -> None:
        from trainers.settings.descriptions import as_yaml  # not for every command

        self.folder, self.differences, self.extending = folder, tuple(differences), extending
        lines = [f"  {key}: was {as_yaml(before)}, now {as_yaml(now)}" for key, before, now in self.differences]
        head = f"{folder}: this sweep started with other values than the sweep file or --set has now; undo these "
        head += "changes, or run them as another sweep (--name):"
        lines += [f"or add this to the sweep by: {extending}"] if extending else []
        super().__init__("\n".join([head, *lines]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return type(self), (self.folder, self.differences, self.extending)


class UntrustedCode(UserError):  # noqa: N818
    """A sweep that this user has neither begun nor trusted would run code."""


class SweepLocked(UserError):  # noqa: N818
    """Another driver holds the lock of this sweep; the message names it."""


class DivergedLedger(UserError):  # noqa: N818
    """A sweep was continued at its address and in its local copy; the message says how to continue one of them."""


class StorageRefused(UserError):  # noqa: N818
    """A storage that is an address refuses a request, and would refuse it again; the message has the reason."""


class StorageError(LengthwiseError):
    """A request to a storage that is an address has failed, and may succeed later; the message has the reason."""


class LedgerError(LengthwiseError):
    """The ledger could not be read or written; the message names the path."""


class DamagedLedger(LedgerError):  # noqa: N818
    """A line of the ledger is damaged; the message begins with `file:line`."""

    exit_code = 2

    def __init__(self, path: Path, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        remedy = f"the records before it can be saved: {command('repair', path.parent)}"
        if line == 1:
            remedy = "a first record cannot be repaired; put a copy of the file back, or run the sweep again"
        super().__init__(f"{path}:{line}: {problem}\n{remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return type(self), (self.path, self.line, self.problem)


class UnexpectedEntry(LedgerError):  # noqa: N818
    """An entry of a sweep folder is not a plain file, or points out of the folder; it was not read."""

    exit_code = 2


class TakenLedger(LedgerError):  # noqa: N818
    """Another driver, which the message names, has written the ledger; nothing was overwritten."""


class NewerLedger(LedgerError):  # noqa: N818
    """The ledger was written by a newer version of lengthwise."""

    exit_code = 2


class OlderLedger(LedgerError):  # noqa: N818
    """The ledger was written before version 1.0.0, whose ledgers are the oldest that can be read."""

    exit_code = 2


class OutOfSpace(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """The disk is full; the message names the file system and its free space."""


class DamagedCurves(LengthwiseError):  # noqa: N818
    """A parquet part of the curves is missing or differs from the checksum in the ledger; names the file."""

    exit_code = 2


class DamagedWeights(LengthwiseError):  # noqa: N818
    """A file of kept weights is missing or differs from the checksum in the ledger; names the file."""

    exit_code = 2

    def __str__(self) -> str:
        """Append recovery instructions."""
        return f"{super().__str__()}; put a copy of the file back, or train the configuration again in a new sweep"


@contextmanager
def refuse_unwritable(path: Path, error_class: type[LengthwiseError] = UserError) -> Iterator[None]:
    """Raise this error, naming the path, in place of an OSError of the block that writes it."""
    try:
        yield
    except OSError as error:
        raise error_class(f"{path}: cannot be written: {error.strerror}") from error
