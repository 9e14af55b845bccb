"""Shows the progress of a running sweep: a live table on a terminal, otherwise a line every few seconds."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from orchestrator.consoles import say

PLAIN_SECONDS = 5.0
LIVE_SECONDS = 0.25


class Progress:
    """Shows how far a sweep is on a console."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._live: Live | None = None
        self._shown = float("-inf")
        self._line = ""

    @contextmanager
    def showing(self) -> Iterator[None]:
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

    @property
    def due(self) -> bool:
        """Whether it is time to show it again, which takes a few milliseconds."""
        return time.monotonic() - self._shown >= (LIVE_SECONDS if self._live else PLAIN_SECONDS)

    def show(self, rows: Sequence[tuple[str, str]]) -> None:
        """Draw the table of labels and texts anew, or print them as a line if it says something new."""
        self._shown = time.monotonic()
        if self._live:
            table = Table.grid(padding=(0, 2))
            table.add_row(f"[bold]{self._name}[/bold]", "")
            for label, text in rows:
                table.add_row(f"[dim]{label}[/dim]", text)
            self._live.update(table, refresh=True)
            return
        line = " · ".join(f"{label} {text}" for label, text in rows)
        if line != self._line:
            say(self._console, line)
            self._line = line
