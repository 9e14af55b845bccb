"""Remember which sweeps may run their code: those that this user has begun, or has trusted with --trust.

A sweep is identified by the checksum of its ledger's first record, so copies of its folder are trusted as well. The
file `$XDG_STATE_HOME/lengthwise/trusted`, by default in `~/.local/state`, has a line for each trusted sweep.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from orchestrator.errors import UntrustedCode

_trusted_here = set[str]()  # by this process, because the file may not be writable


class Begun(Protocol):
    """The part of a sweep's state that identifies it."""

    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def checksum(self) -> str: ...  # noqa: D102


def trust_sweep(state: Begun) -> None:
    """Remember that code of this sweep may run."""
    if is_trusted(state):
        return
    _trusted_here.add(state.checksum)
    with suppress(OSError, RuntimeError):  # no home folder, or one that cannot be written
        _file().parent.mkdir(parents=True, exist_ok=True)
        with _file().open("a", encoding="ascii") as file:
            file.write(f"{state.checksum} {str(state.folder.resolve())!a}\n")


def is_trusted(state: Begun) -> bool:
    """Return whether this user has begun the sweep, or has trusted it before."""
    if state.checksum in _trusted_here:
        return True
    with suppress(OSError, RuntimeError):
        return any(
            line.partition(" ")[0] == state.checksum for line in _file().read_text(errors="replace").splitlines()
        )
    return False


def refuse_untrusted(state: Begun, what_would_run: Sequence[str]) -> None:
    """Raise UntrustedCode if a sweep that is not trusted would run these files or commands."""
    if what_would_run and not is_trusted(state):
        raise UntrustedCode(
            f"{state.folder}: this would run code of a sweep that you did not begin on this machine:\n  "
            + "\n  ".join(what_would_run)
            + "\nif you trust it, add --trust (in Python: open_sweep(DIR, trust=True)); this is remembered"
        )


def _file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lengthwise" / "trusted"
