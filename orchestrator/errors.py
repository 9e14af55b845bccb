"""The errors of the orchestrator, all of them meant to be read by the person at the keyboard.

LengthwiseError                 printed as one message without a traceback; exit code 1: it ran and failed
├── UserError                   what was given cannot be used; exit code 2
│   ├── SweepExists             a new sweep would overwrite one that is there
│   ├── NotASweep               the folder holds no ledger
│   ├── SpecChanged             the sweep file is no longer the one the ledger was begun with
│   └── SweepLocked             another driver is running this sweep
├── LedgerError                 the ledger cannot be read or written: full disk, read-only folder
│   ├── OddEntry                a link, a pipe or a folder where a sweep has its own files; exit code 2
│   ├── TakenLedger             another driver writes it, and the lock does not tell
│   ├── DamagedLedger           its bytes are not what was written
│   ├── NewerLedger             it was written by a newer version
│   └── OlderLedger             it was written before the first version whose ledgers are read
├── OutOfSpace                  nothing more can be written where the sweep is
├── DamagedCurves               a parquet part is missing or is not what the ledger says it is
├── DamagedWeights              a file of kept weights is missing or is not what the ledger says it is
└── NoMaps                      the classes that know what kept weights mean are gone or have changed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.redaction import redact
from orchestrator.wording import command


class LengthwiseError(Exception):
    """Something went wrong that lengthwise can explain; `str()` is the whole message."""

    exit_code = 1

    def __init__(self, *said: object) -> None:
        super().__init__(*(redact(one) if isinstance(one, str) else one for one in said))


class UserError(LengthwiseError):
    """What was given cannot be used: says what, where, and what is allowed."""

    exit_code = 2


class SweepExists(UserError):  # noqa: N818 - reads as the sentence it prints
    """A new sweep was asked for in a folder that already holds one."""


class NotASweep(UserError):  # noqa: N818
    """The folder that was given holds no ledger."""


class SpecChanged(UserError):  # noqa: N818
    """The sweep file is no longer the one its ledger was begun with; `differences` are (key, before, now)."""

    def __init__(self, folder: Path, differences: Sequence[tuple[str, object, object]]) -> None:
        self.folder, self.differences = folder, tuple(differences)
        lines = [f"  {key}: was {before!r}, now {now!r}" for key, before, now in self.differences]
        head = f"{folder}: this sweep was begun with another specification; undo the change, or choose another name"
        super().__init__("\n".join([head, *lines]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it was made of."""
        return type(self), (self.folder, self.differences)


class SweepLocked(UserError):  # noqa: N818
    """Another driver holds the lock of this sweep; the message names it."""


class LedgerError(LengthwiseError):
    """The ledger could not be read or written; the message names the path."""


class DamagedLedger(LedgerError):  # noqa: N818
    """A line of the ledger is not what was written; the message begins with `file:line`."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        more = f"\nwhat comes before can be saved: {command('repair', path.parent)}" if line > 1 else ""
        super().__init__(f"{path}:{line}: {problem}{more}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it was made of."""
        return type(self), (self.path, self.line, self.problem)


class OddEntry(LedgerError):  # noqa: N818
    """An entry of a sweep folder is not what its name says, or leads out of the folder; nothing was read from it."""

    exit_code = 2


class TakenLedger(LedgerError):  # noqa: N818
    """Another driver has written the ledger since this one did; names it, and nothing was written over it."""


class NewerLedger(LedgerError):  # noqa: N818
    """The ledger was written by a newer version of lengthwise."""


class OlderLedger(LedgerError):  # noqa: N818
    """The ledger was written before version 1.0.0, the first whose ledgers are read."""


class OutOfSpace(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """A file could not be written for lack of space; names the file system and how much is free there."""


class DamagedCurves(LengthwiseError):  # noqa: N818
    """A parquet part of the curves is missing or differs from the checksum in the ledger; names the file."""


class DamagedWeights(LengthwiseError):  # noqa: N818
    """A file of kept weights is missing or differs from the checksum in the ledger; names the file."""


class NoMaps(LengthwiseError):  # noqa: N818
    """Kept weights cannot be drawn: the class of their model or task is gone, or takes other values today."""
