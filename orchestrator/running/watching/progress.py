"""Show the progress of a running sweep: a live table on a terminal, otherwise a short line a minute."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.text.consoles import say

PLAIN_SECONDS = 60.0
LIVE_SECONDS = 0.25
MAX_LINE_CHARACTERS = 99
PLAIN_TEXTS = {
    "configurations": "configurations {}",
    "seeds": "seeds {}",
    "steps": "{}",
    "time left": "time left {}",
    "seeds failed": "failed {}",
    "best so far": "best {}",
    "first evaluation": "first evaluation {}",
    "round of the race": "round {}",
    "phase": "{}",
}
"""The text of each row in a line without a terminal, by its label; the most important row first."""


class ProgressDisplay:
    """The progress of a sweep on a console."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name
        self._live: Live | None = None
        self._shown_at = float("-inf")
        self._line = ""

    @contextmanager
    def show_live(self) -> Iterator[None]:
        """Keep a live table up while the block runs, if the console is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def show_if_due(self, make_rows: Callable[[], Sequence[tuple[str, str]]]) -> None:
        """Show the rows that `make_rows` returns, if LIVE_SECONDS or PLAIN_SECONDS have passed since the last ones.

        Making and drawing them takes a few milliseconds.
        """
        now = time.monotonic()
        if now - self._shown_at >= (LIVE_SECONDS if self._live else PLAIN_SECONDS):
            self._shown_at = now
            self._show(make_rows())

    def _show(self, rows: Sequence[tuple[str, str]]) -> None:
        """Redraw the table of labels and texts, or print them as a line if it differs from the last one.

        The cells of the table are Text, because a message printed above it without markup redraws it without markup.
        """
        if self._live:
            table = Table.grid(padding=(0, 2))
            table.add_row(Text(self._name, "bold"), "")
            for label, text in rows:
                table.add_row(Text(label, "dim"), Text(text))
            self._live.update(table, refresh=True)
            return

        line = make_plain_line(rows)
        if line != self._line:
            say(self._console, line)
            self._line = line


def make_plain_line(rows: Sequence[tuple[str, str]]) -> str:
    """Return the rows of the table as a line of MAX_LINE_CHARACTERS at most, without the least important rows."""
    texts, line = dict(rows), ""
    for label, words in PLAIN_TEXTS.items():
        text = texts.get(label, "-").partition(",")[0]
        part = f"{' · ' if line else ''}{words.format(text)}"
        if label == "configurations" and text.startswith("0/"):
            continue  # also an extended sweep begins with none, because all lack the new seeds
        if text not in ("-", "0", "none yet") and len(line) + len(part) <= MAX_LINE_CHARACTERS:
            line += part
    return line
