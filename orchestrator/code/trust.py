"""Remember the sweeps whose code may run, because this user has begun them or accepted them with --trust.

A sweep is identified by the checksum of its ledger's first record, so copies of its folder are trusted as well. The
file `$XDG_STATE_HOME/lengthwise/trusted`, by default in `~/.local/state`, has a line for each trusted sweep.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from orchestrator.errors import UntrustedCode

_trusted_here = set[str]()  # in this process, because the file may not be writable


class IdentifiedSweep(Protocol):
    """The part of a sweep's state that identifies it."""

    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def checksum(self) -> str: ...  # noqa: D102


def trust_sweep(state: IdentifiedSweep) -> None:
    """Remember that code of this sweep may run."""
    if is_trusted(state):
        return
    _trusted_here.add(state.checksum)
    with suppress(OSError, RuntimeError):  # no home folder, or one that cannot be written
        _find_trust_file().parent.mkdir(parents=True, exist_ok=True)
        with _find_trust_file().open("a", encoding="ascii") as file:
            file.write(f"{state.checksum} {str(state.folder.resolve())!a}\n")


def is_trusted(state: IdentifiedSweep) -> bool:
    """Return whether this user has begun the sweep, or has trusted it before."""
    if state.checksum in _trusted_here:
        return True
    # The path behind the checksum is only for readers of the file.
    with suppress(OSError, RuntimeError):
        return any(
            line.partition(" ")[0] == state.checksum
            for line in _find_trust_file().read_text(errors="replace").splitlines()
        )
    return False


def refuse_untrusted(state: IdentifiedSweep, code_to_run: Sequence[str]) -> None:
    """Raise UntrustedCode if a sweep that is not trusted would run these files or commands."""
    if code_to_run and not is_trusted(state):
        raise UntrustedCode(
            f"{state.folder}: not begun by you on this machine; this would run code of the sweep:\n  "
            + "\n  ".join(code_to_run)
            + "\nif you trust it, add --trust (in Python: open_sweep(DIR, trust=True)); this is remembered"
        )


def _find_trust_file() -> Path:
    """Return the path of the file of trusted sweeps. Raises RuntimeError without a home folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lengthwise" / "trusted"
