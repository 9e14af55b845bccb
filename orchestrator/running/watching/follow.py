"""Follows a sweep that another process runs, perhaps on another machine: reads its ledger again and again."""

import time
from pathlib import Path

from rich.console import Console

from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.record.ledger.lock import HEARTBEAT_SECONDS, describe_running_driver, read_owner
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.work import RunningPack
from orchestrator.running.watching.meter import count_steps_done, make_progress_rows
from orchestrator.running.watching.progress import ProgressDisplay

PAUSE = 1.0  # seconds between two looks
SILENCE = 6 * HEARTBEAT_SECONDS  # without a heartbeat; then the lock says whether there is a driver


class LedgerMeter:
    """Measures a sweep by the records of its ledger and their times, because the driver's clock may differ.

    A first driver is measured from its beginning, a later one from the creation of this meter on.
    """

    def __init__(self, state: SweepState) -> None:
        first = len(state.sessions.spans) == 1
        self._began = state.sessions.spans[0][0] if first else state.updated or 0.0
        self._before = 0 if first else sum(count_steps_done(state).values())

    def rows(self, state: SweepState, driver: str) -> list[tuple[str, str]]:
        """Return the progress as of the last record as rows; `driver` describes who runs the sweep."""
        elapsed = (state.updated or 0.0) - self._began
        done = sum(count_steps_done(state).values()) - self._before
        packs = {pack.pack_id: RunningPack() for pack in state.packs.values() if pack.status == "running"}
        speed = done / elapsed if elapsed > 0 else 0.0
        return make_progress_rows(state, packs, elapsed=elapsed, speed=speed, phase=f"run by {driver}")


def follow_sweep(folder: Path, console: Console, *, pause: float = PAUSE, silence: float = SILENCE) -> SweepState:
    """Show the progress of the sweep in `folder` until it ends or has no driver; return its last state.

    Nothing is written. Raises what `SweepState.load` raises.
    """
    state, size = SweepState.load(folder), _read_size(folder)
    meter, progress, driver = LedgerMeter(state), ProgressDisplay(console, state.name), _DriverProbe(folder, silence)
    with progress.showing():
        while state.ended is None and driver.lives():
            if progress.due:
                progress.show(meter.rows(state, driver.name))
            began = time.monotonic()
            fetch_sweep(folder)
            if (new_size := _read_size(folder)) != size:
                state, size = SweepState.load(folder), new_size
            time.sleep(max(pause, 4 * (time.monotonic() - began)))  # a large ledger takes its time to read
    return state


class _DriverProbe:
    """Whether a sweep has a driver: its heartbeat changes, by the clock of this machine, or its lock is held."""

    def __init__(self, folder: Path, silence: float) -> None:
        self._folder, self._silence = folder, silence
        self.name = describe_running_driver(folder) or ""
        self._beat, self._changed = self._heartbeat(), time.monotonic()
        self._gone = not self.name

    def lives(self) -> bool:
        """Return whether a driver runs the sweep."""
        now, beat = time.monotonic(), self._heartbeat()
        if beat != self._beat:
            self._beat, self._changed = beat, now
        elif now - self._changed > self._silence:
            self._changed, self._gone = now, describe_running_driver(self._folder) is None
        return not self._gone

    def _heartbeat(self) -> float | None:
        owner = read_owner(self._folder)
        if owner is not None:
            self.name = f"{owner.user}@{owner.host} pid {owner.pid}"
        return None if owner is None else owner.heartbeat


def _read_size(folder: Path) -> int:
    return (folder / LEDGER_FILE).stat().st_size
