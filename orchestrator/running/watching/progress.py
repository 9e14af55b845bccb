"""Show the progress of a running sweep: a live table on a terminal, otherwise a short line now and then."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.text.consoles import say

LIVE_SECONDS = 0.25  # between updates of the table
PLAIN_SECONDS, LATER_SECONDS = 15.0, 60.0  # between lines, if no PLAIN_PERCENT of the steps are done earlier
LATER_AFTER = 600.0  # seconds; a run of days would print a line every 15 seconds
PLAIN_PERCENT = 10
CHECK_SECONDS = 1.0  # between looks at the steps
MAX_LINE_CHARACTERS = 99
BAR_WIDTH = 24  # characters
PLAIN_TEXTS = {
    "elapsed": "{}",
    "seeds": "seeds {}",
    "steps": "steps {}",
    "time left": "time left: {}",
    "seeds failed": "failed {}",
    "configurations": "configurations {}",
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
        self._began_at = time.monotonic()
        self._checked_at = self._shown_at = float("-inf")
        self._shown_part = 0  # of the steps, in PLAIN_PERCENT

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
        """Show the rows of `make_rows` if enough time has passed, or enough steps are done, since they were last shown.

        Making and drawing them takes a few milliseconds.
        """
        now = time.monotonic()
        if now - self._checked_at < (LIVE_SECONDS if self._live else CHECK_SECONDS):
            return
        self._checked_at = now
        rows = make_rows()
        if self._live:
            self._live.update(self._make_table(rows), refresh=True)
            return
        pause = PLAIN_SECONDS if now - self._began_at < LATER_AFTER else LATER_SECONDS
        part = _read_percent(rows) // PLAIN_PERCENT
        if now - self._shown_at >= pause or part > self._shown_part:
            self._shown_at, self._shown_part = now, part
            say(self._console, make_plain_line(rows))

    def _make_table(self, rows: Sequence[tuple[str, str]]) -> Table:
        """Return a table of labels and texts, with a bar for the steps.

        Its cells are Text, because a message printed above it without markup redraws it without markup.
        """
        table = Table.grid(padding=(0, 2))
        table.add_row(Text(self._name, "bold"), "")
        for label, text in rows:
            cell: RenderableType = Text(text)
            if label == "steps":
                cell = Table.grid(padding=(0, 2))
                cell.add_row(ProgressBar(100, _read_percent(rows), width=BAR_WIDTH), Text(text))
            table.add_row(Text(label, "dim"), cell)
        return table


def _read_percent(rows: Sequence[tuple[str, str]]) -> int:
    """Return how much of the steps is done, in percent; 0 if it is unknown."""
    percent = dict(rows).get("steps", "").partition(" ")[0]
    return int(percent) if percent.isdigit() else 0


def make_plain_line(rows: Sequence[tuple[str, str]]) -> str:
    """Return the rows of the table as a line of MAX_LINE_CHARACTERS at most, without the least important rows."""
    texts, line = dict(rows), ""
    for label, words in PLAIN_TEXTS.items():
        text = texts.get(label, "-").partition(",")[0]
        part = f"{' · ' if line else ''}{words.format(text)}"
        if text not in ("-", "0", "none yet", "done") and len(line) + len(part) <= MAX_LINE_CHARACTERS:
            line += part
    return line
