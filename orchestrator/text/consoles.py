"""Consoles that never crop a line: as wide as the terminal, or wide and unwrapped in a file or pipe.

Names and messages in a ledger may be somebody else's, so consoles print no control characters but their own.
"""

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from orchestrator.text.redaction import remove_controls
from search_spaces.grammar.values import mask_passwords

ENCODING_VARIABLE = "PYTHONIOENCODING"
WIDTH_OF_FILES = 160  # of tables in logs and pipes


class UncroppedConsole(Console):
    """A console that never crops a line: a terminal wraps long lines, and they can be copied whole."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print like Console, without cropping and without passwords in addresses."""
        masked = (mask_passwords(text) if isinstance(text, str) else text for text in objects)
        super().print(*masked, **{"crop": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render like Console, without control characters in texts; colours and cursor movements are added later."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=remove_controls(segment.text))


def make_console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr."""
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()  # None where the shell has closed it
    return UncroppedConsole(stderr=stderr, width=None if terminal else WIDTH_OF_FILES)


class LenientOutput(io.FileIO):
    """A standard stream that drops its output after a failure, such as a full disk or a closed terminal.

    Results are in the ledger, so a sweep continues without its output. A closed pipe (`| head -1`) is not an error.
    """

    lost = False  # whether standard output could not be written

    def write(self, data: Any, /) -> int:
        """Write a text; after a first failure write to /dev/null."""
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 1 and not isinstance(error, BrokenPipeError):
                LenientOutput.lost = True
                sys.stderr.write(f"standard output cannot be written: {error.strerror}; the rest of it is dropped\n")
            return len(data)


def make_streams_lenient() -> None:
    """Make standard streams tolerant: `?` for characters they cannot encode, no error if they cannot be written.

    Redirect closed standard streams (`>&-`) to /dev/null: otherwise the next opened file gets their number, and
    libraries print into it. Child processes in Python replace characters as well.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:  # not a replacement of the caller
            buffer = io.BufferedWriter(LenientOutput(stream.fileno(), "w", closefd=False))
            lines, through = stream.line_buffering, stream.write_through
            replacing = io.TextIOWrapper(
                buffer, stream.encoding, "replace", line_buffering=lines, write_through=through
            )
            setattr(sys, name, replacing)
            os.environ[ENCODING_VARIABLE] = os.environ.get(ENCODING_VARIABLE, "").partition(":")[0] + ":replace"


def align_rows(rows: Sequence[tuple[str, str]]) -> str:
    """Return labels and texts in two columns, without trailing blanks."""
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join(f"{label:{width}}  {text}".rstrip() for label, text in rows)


def say(console: Console, text: str) -> None:
    """Print a sentence without markup, colours and added line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
