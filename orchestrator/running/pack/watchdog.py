"""Watchdogs, which end a pack that sends no heartbeat for too long."""

import faulthandler
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from orchestrator.interface.work import CHECKPOINTS_FOLDER, PackWork
from orchestrator.running.pack.retries import MAX_TRACE

DEBUGGERS = frozenset({"bdb", "pdb", "code", "IPython", "pydevd", "_pydevd_bundle", "debugpy"})  # ipdb, pudb are bdb's


class Watchdog:
    """Ends the process after `seconds` without a heartbeat; first writes the stack of every thread to `path`.

    The scheduler then sees a dead worker and retries the pack. Nothing else ends a thread that hangs in a library.
    """

    def __init__(self, seconds: float, path: Path) -> None:
        self._seconds = seconds
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> "Watchdog":
        self._path.unlink(missing_ok=True)  # a link of this name is not followed
        self._file = self._path.open("x")
        self.beat()
        return self

    def beat(self) -> None:
        """Restart the timeout: the process is alive."""
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file or 2)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop watching while the block waits for another process."""
        faulthandler.cancel_dump_traceback_later()
        try:
            yield
        finally:
            self.beat()

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


class HeartbeatTimeout(BaseException):
    """Raised in a pack by its LocalWatchdog, past every `except Exception` of the pack."""


class LocalWatchdog:
    """Raises HeartbeatTimeout in the main thread after `seconds` without a heartbeat; first writes all stacks.

    For packs in the process of their driver, which must not end. So it can stop a pack that runs Python code, but no
    pack that hangs inside a library. The file at `path` is kept only if it has stacks. While a debugger holds the pack,
    the timeout is restarted.
    """

    def __init__(self, seconds: float, path: Path) -> None:
        self._seconds = seconds
        self._path = path
        self._deadline = math.inf  # infinite while paused
        self._has_timed_out = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._file: IO[str] | None = None
        self._previous_handler: Any = None

    def __enter__(self) -> "LocalWatchdog":
        self._path.unlink(missing_ok=True)  # a link of this name is not followed
        self._file = self._path.open("x")
        self._previous_handler = signal.signal(signal.SIGUSR2, self._on_timeout)
        self._thread.start()
        return self

    def beat(self) -> None:
        """Restart the timeout: the pack is alive. Raises HeartbeatTimeout if the timeout has passed already."""
        if self._has_timed_out:
            raise HeartbeatTimeout(f"no heartbeat for {self._seconds:g} s")
        self._deadline = time.monotonic() + self._seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop watching while the block waits for another process."""
        self._deadline = math.inf
        try:
            yield
        finally:
            self.beat()

    def __exit__(self, *_: object) -> None:
        self._deadline = math.inf
        self._ending.set()
        self._thread.join()
        signal.signal(signal.SIGUSR2, self._previous_handler)
        if self._file is not None:
            self._file.close()
        if not self._has_timed_out:
            self._path.unlink(missing_ok=True)

    def _watch(self) -> None:
        """Interrupt the main thread by SIGUSR2 once the timeout has passed; runs in a thread."""
        while not self._ending.wait(min(1.0, max(0.0, self._deadline - time.monotonic()))):
            if time.monotonic() >= self._deadline:
                # A pack that waits at a breakpoint does not hang.
                if _is_in_debugger(sys._current_frames().get(threading.main_thread().ident or 0)):
                    self._deadline += self._seconds
                    continue
                faulthandler.dump_traceback(self._file or 2, all_threads=True)
                self._has_timed_out = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
                return

    def _on_timeout(self, number: int, frame: FrameType | None) -> None:
        """Raise HeartbeatTimeout in the main thread, unless the pack waits for another process or has ended."""
        if self._has_timed_out and self._deadline < math.inf:
            self._deadline = math.inf
            raise HeartbeatTimeout(f"no heartbeat for {self._seconds:g} s")


def _is_in_debugger(frame: FrameType | None) -> bool:
    """Return whether a frame was called by a debugger, as at a breakpoint."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in DEBUGGERS:
            return True
        frame = frame.f_back
    return False


def get_stack_file(folder: Path, pack_id: str) -> Path:
    """Return the file to which the watchdog of a pack writes stacks; it is empty while the pack runs."""
    return folder / CHECKPOINTS_FOLDER / f"{pack_id}.stuck.txt"


def has_timed_out(folder: Path, pack_id: str) -> bool:
    """Return whether the watchdog ended the last attempt of a pack; False after `take_watchdog_report`."""
    path = get_stack_file(folder, pack_id)
    return path.exists() and path.stat().st_size > 0


def take_watchdog_report(folder: Path, pack_id: str, attempt: int, seconds: float) -> tuple[str, str] | None:
    """Return the error and the stacks of a pack that its watchdog ended after `seconds`; None for any other pack.

    Renames the file after the attempt, because a retry may die of another error before its watchdog starts.
    """
    if not has_timed_out(folder, pack_id):
        return None
    path = get_stack_file(folder, pack_id)
    path = path.rename(path.with_name(f"{pack_id}.attempt-{attempt}.stuck.txt"))
    trace = path.read_text(encoding="utf-8", errors="replace")[-MAX_TRACE:]
    return f"watchdog: no heartbeat for {seconds:g} s; stack traces in {path}", trace


def prepare_stack_file(work: PackWork) -> Path:
    """Return the path of the watchdog's stack file; creates its folder."""
    path = get_stack_file(Path(work.folder), work.pack_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
