"""Shows the progress of a running sweep: a live table on a terminal, otherwise a line every few seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from orchestrator.wording import duration, label

PLAIN_SECONDS = 5.0
LIVE_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The progress of a sweep. `member_steps` counts optimiser steps of single members; rates are per second.

    `seeds_stopped` are those that stopped early, None where none can. `race_round` is the round of a race, to whose end
    totals and time left go; None without a race. `first_evaluation` is the seconds until the first one of the sweep
    begins, 0 while it is under way; None once it is recorded, and while no pack has measured its speed.
    """

    phase: str
    configurations_done: int
    configurations_total: int
    packs_running: int
    packs_done: int
    packs_total: int
    seeds_done: int
    seeds_total: int
    seeds_failed: int
    best_score: float | None
    best_number: int | None
    member_steps: int
    member_steps_total: int
    rate: float
    elapsed: float
    time_left: float | None
    seeds_stopped: int | None = None
    race_round: int | None = None
    first_evaluation: float | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return rows of label and text, in the order shown."""
        best = "none yet"
        if self.best_score is not None:
            best = f"{self.best_score:.4g} ({label(self.best_number)})"
        share = 100 * self.member_steps / self.member_steps_total if self.member_steps_total else 0.0
        stopped = [] if self.seeds_stopped is None else [("seeds stopped early", str(self.seeds_stopped))]
        race = [] if self.race_round is None else [("round of the race", str(self.race_round))]
        packs = f"{self.packs_done}/{self.packs_total}, {self.packs_running} running"
        first = []
        if self.first_evaluation is not None:
            begins = f"begins in about {duration(self.first_evaluation)}" if self.first_evaluation else "under way"
            first = [("first evaluation", begins)]
        return [
            *race,
            ("configurations", f"{self.configurations_done}/{self.configurations_total}"),
            ("seeds", f"{self.seeds_done}/{self.seeds_total}"),
            ("seeds failed", str(self.seeds_failed)),
            *stopped,
            ("packs", packs if self.packs_total else "-"),
            *first,
            ("best so far", best),
            ("member-steps", f"{share:.0f} %, {self.rate:,.0f} per second" if self.member_steps_total else "-"),
            ("elapsed", duration(self.elapsed)),
            ("time left", "-" if self.time_left is None else f"about {duration(self.time_left)}"),
            ("phase", self.phase),
        ]


class Progress:
    """Shows snapshots and sentences on a console."""

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
        """Whether it is time for another snapshot, which takes a few milliseconds."""
        return time.monotonic() - self._shown >= (LIVE_SECONDS if self._live else PLAIN_SECONDS)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the table anew, or print a line if it says something new."""
        self._shown = time.monotonic()
        pairs = snapshot.pairs()
        if self._live:
            table = Table.grid(padding=(0, 2))
            table.add_row(f"[bold]{self._name}[/bold]", "")
            for label, text in pairs:
                table.add_row(f"[dim]{label}[/dim]", text)
            self._live.update(table, refresh=True)
            return
        line = " · ".join(f"{label} {text}" for label, text in pairs)
        if line != self._line:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._line = line

    def say(self, text: str) -> None:
        """Print a sentence above the table."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
