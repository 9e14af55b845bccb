"""Make consoles that never crop a line: as wide as the terminal, or FILE_WIDTH wide in a file or pipe.

Names and messages in a ledger may come from another user, so consoles print no control characters from texts.
"""

import io
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.text import Text

from orchestrator.text.redaction import remove_controls
from search_spaces.grammar.passwords import mask_passwords

if TYPE_CHECKING:
    from rich.live import Live

ENCODING_VARIABLE = "PYTHONIOENCODING"
FILE_WIDTH = 160  # characters of a table in a log or pipe
_COMMAND = re.compile(r"(?:^|(?<=: )|(?<=  )|(?<=[(`]))(?:lengthwise|cp) [^;,()`]*[^;,()`\s]")
_LABEL = re.compile(r"\S+(?: \S+)* {2,}")


class UncroppedConsole(Console):
    """A console that never crops a line: a terminal wraps long lines, so that they can be copied."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print like Console, without cropping, and with passwords in addresses masked."""
        masked_objects = (mask_passwords(text) if isinstance(text, str) else text for text in objects)
        super().print(*masked_objects, **{"crop": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render like Console, without control characters in texts; rich adds colors and cursor movements later."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=remove_controls(segment.text))


def make_console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr, with a fixed width if the stream is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream is not None and stream.isatty()  # None if the shell has closed it
    return UncroppedConsole(stderr=stderr, width=None if is_terminal else FILE_WIDTH)


class LenientOutput(io.FileIO):
    """A standard stream that drops its output once it cannot be written: full disk, closed terminal.

    A sweep continues without its output, because results are in the ledger. A closed pipe (`| head -1`) is no error.
    """

    lost = False  # True once standard output could not be written

    def write(self, data: Any, /) -> int:
        """Write data; after the first failure write to /dev/null."""
        try:
            return super().write(data)
        except OSError as error:
            # Replacing the descriptor itself also silences child processes, and later writes cannot fail again.
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 1 and not isinstance(error, BrokenPipeError):
                LenientOutput.lost = True
                sys.stderr.write(f"standard output cannot be written: {error.strerror}; further output is dropped\n")
            return len(data)


def make_streams_lenient() -> None:
    """Make standard streams tolerant: `?` for characters that they cannot encode, no error if they cannot be written.

    Redirects closed standard streams (`>&-`) to /dev/null: otherwise the next opened file gets their descriptor, and
    libraries print into it. Python child processes inherit the replacement of characters.
    """
    # This comes first, because the next opened file, such as the ledger, would get a closed stream's descriptor.
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))  # noqa: SIM115

    # A caller, such as a test or a notebook, may have replaced the streams; those are left alone.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:
            buffer = io.BufferedWriter(LenientOutput(stream.fileno(), "w", closefd=False))
            line_buffering = stream.line_buffering
            write_through = stream.write_through
            lenient_stream = io.TextIOWrapper(buffer, stream.encoding, "replace", None, line_buffering, write_through)
            setattr(sys, name, lenient_stream)
            os.environ[ENCODING_VARIABLE] = os.environ.get(ENCODING_VARIABLE, "").partition(":")[0] + ":replace"


def align_rows(rows: Sequence[tuple[str, str]]) -> str:
    """Return labels and texts as lines of two columns, without trailing blanks."""
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join(f"{label:{width}}  {text}".rstrip() for label, text in rows)


def say(console: Console, text: str) -> None:
    """Print a text without markup or colors; a terminal breaks its lines between words."""
    console.print(wrap_words(text, console), highlight=False, markup=False, soft_wrap=True)


def wrap_words(text: str, console: Console) -> str:
    """Return a text with its long lines broken between words for a terminal; unchanged in files.

    Commands and paths, which are copied, stay whole, as do indented lines, such as those of a traceback. Behind a label
    of `align_rows` all lines of a text are indented.
    """
    if not console.is_terminal:
        return text
    wrapper, lines = textwrap.TextWrapper(console.width, break_long_words=False, break_on_hyphens=False), list[str]()
    for line in text.split("\n"):
        label = _LABEL.match(line)
        wrapper.subsequent_indent = " " * len(label[0]) if label and len(label[0]) < console.width // 2 else ""
        whole_commands = _COMMAND.sub(lambda command: command[0].replace(" ", "\0"), line)
        is_long = len(line) > console.width and not line.startswith(" ")
        lines += wrapper.wrap(whole_commands) if is_long else [line]
    return "\n".join(lines).replace("\0", " ")


def show_until_stopped(console: Console, text: str) -> "Live":
    """Return a context that shows a line on a terminal until it ends or is stopped; files do not have the line.

    It has no thread and leaves the standard streams alone, so that processes can be started in it.
    """
    from rich.live import Live

    line = Text(text, "dim")
    return Live(line, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)


def wrap_sentence(text: str, console: Console, style: str = "") -> RenderableType:
    """Return a sentence as `say` prints it, with a style."""
    # In a group, because rich joins bare texts into a new one, which would wrap.
    return Group(Text(wrap_words(mask_passwords(text), console), style=style, no_wrap=True, overflow="ignore"))
