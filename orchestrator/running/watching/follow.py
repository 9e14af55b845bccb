"""Follow a sweep run by another process, perhaps on another machine, by polling its ledger."""

import time
from functools import partial
from pathlib import Path

from rich.console import Console

from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.lock import HEARTBEAT_SECONDS, describe_running_driver, read_owner
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.running_pack import RunningPack
from orchestrator.running.watching.meter import count_steps_done, make_progress_rows
from orchestrator.running.watching.progress import ProgressDisplay

POLL_SECONDS = 1.0
HEARTBEAT_TIMEOUT = 6 * HEARTBEAT_SECONDS  # after it the lock decides whether the driver is alive


class LedgerMeter:
    """Measures a sweep by the records of its ledger and their times, because the driver's clock may differ.

    The first driver is measured from its start; later drivers from the creation of this meter.
    """

    def __init__(self, state: SweepState) -> None:
        is_first_driver = len(state.sessions.spans) == 1
        self._began_at = state.sessions.spans[0][0] if is_first_driver else state.updated_at or 0.0
        self._steps_before = 0 if is_first_driver else sum(count_steps_done(state).values())

    def make_rows(self, state: SweepState, driver: str) -> list[tuple[str, str]]:
        """Return the progress as of the last record as rows; `driver` describes who runs the sweep."""
        elapsed = (state.updated_at or 0.0) - self._began_at
        done = sum(count_steps_done(state).values()) - self._steps_before
        running_packs = [pack for pack in state.packs.values() if pack.status == "running"]  # each has an evaluation
        packs = {pack.pack_id: RunningPack(phase="train") for pack in running_packs}
        speed = done / elapsed if elapsed > 0 else 0.0
        return make_progress_rows(state, packs, elapsed=elapsed, speed=speed, phase=f"run by {driver}")


def follow_sweep(
    folder: Path, console: Console, *, poll_seconds: float = POLL_SECONDS, timeout: float = HEARTBEAT_TIMEOUT
) -> SweepState:
    """Show the progress of the sweep in `folder` until it ends or has no driver; return its last state.

    Nothing is written. Raises what `SweepState.load` raises.
    """
    state, size = SweepState.load(folder), _read_size(folder)
    meter = LedgerMeter(state)
    progress = ProgressDisplay(console, state.name)
    driver = _DriverProbe(folder, timeout)

    with progress.show_live():
        while state.end_status is None and driver.is_alive():
            progress.show_if_due(partial(meter.make_rows, state, driver.name))
            began = time.monotonic()
            fetch_sweep(folder)
            if (new_size := _read_size(folder)) != size:
                state, size = SweepState.load(folder), new_size
            time.sleep(max(poll_seconds, 4 * (time.monotonic() - began)))  # polls a large ledger less often
    return state


class _DriverProbe:
    """Probes whether a sweep has a driver: its heartbeat changes (clocks may differ), or its lock is held."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        self.name = describe_running_driver(folder) or ""
        self._last_heartbeat = self._read_heartbeat()
        self._changed_at = time.monotonic()
        self._is_gone = not self.name

    def is_alive(self) -> bool:
        """Return whether a driver runs the sweep."""
        # A changed heartbeat shows that it is alive; after a timeout its lock decides.
        now, heartbeat = time.monotonic(), self._read_heartbeat()
        if heartbeat != self._last_heartbeat:
            self._last_heartbeat, self._changed_at = heartbeat, now
        elif now - self._changed_at > self._timeout:
            self._changed_at = now
            self._is_gone = describe_running_driver(self._folder) is None
        return not self._is_gone

    def _read_heartbeat(self) -> float | None:
        """Return the last heartbeat of the driver, None without one; remembers who the driver is."""
        owner = read_owner(self._folder)
        if owner is not None:
            self.name = f"{owner.user}@{owner.host} pid {owner.pid}"
        return None if owner is None else owner.heartbeat


def _read_size(folder: Path) -> int:
    """Return the bytes of the ledger; -1 if the sweep was deleted meanwhile."""
    path = folder / LEDGER_FILE
    return path.stat().st_size if path.exists() else -1
