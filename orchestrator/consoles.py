"""Consoles that never crop a line: as wide as the terminal, or wide and unwrapped in a file or pipe."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.redaction import mask_address

WIDTH_OF_FILES = 160  # of tables in logs and pipes, where nobody has said how wide a line may be


class WholeConsole(Console):
    """A console that never crops a line: a terminal wraps long ones itself, and they can be copied whole."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Console does, without cropping and without secrets of addresses."""
        super().print(
            *(mask_address(one) if isinstance(one, str) else one for one in objects), **{"crop": False, **options}
        )


def make_console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr."""
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()  # None where the shell has closed it
    return WholeConsole(stderr=stderr, width=None if terminal else WIDTH_OF_FILES)


def open_what_is_closed() -> None:
    """Lead standard input, output and errors to nowhere where the shell has closed them, as `>&-` does.

    Otherwise the next file that is opened gets their number, and what libraries print goes into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))  # noqa: SIM115


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """Labels and texts in two columns, without trailing blanks."""
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join(f"{label:{width}}  {text}".rstrip() for label, text in rows)


def command(verb: str, folder: Path) -> str:
    """A command on a sweep directory, as it can be pasted into a shell."""
    return f"lengthwise {verb} {shlex.quote(str(folder))}"


def say(console: Console, text: str) -> None:
    """Print a sentence as it is, secrets of addresses apart: no markup, no colours of numbers, no line breaks added."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
