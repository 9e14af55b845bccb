"""The driver's side of the finisher: the child process that keeps the page, prints the end and publishes a sweep.

The finisher imports what it needs while packs train (`finisher_process`).
Whatever it has not done when it dies or hangs, the driver does itself (`ending.finish`).
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from orchestrator.running.children.child import start_child
from orchestrator.tracking.attempt import Attempt
from search_spaces import Tracking

PATIENCE = 60.0  # seconds in which a finisher that works uses at least WORK of processor time
WORK = 1.0  # seconds; waiting for MLflow uses little, and the finisher itself ends it sooner


@dataclass
class Finished:
    """What the finisher has done: printed the report, written every file, tried to publish."""

    printed: bool = False
    written: bool = False
    attempt: Attempt | None = None


class Finisher:
    """A finisher that has just been started. With `tracking` it also imports MLflow."""

    def __init__(self, *, tracking: bool) -> None:
        self._tracking = tracking
        self._connection, theirs = Pipe()
        with theirs:
            arguments = ["tracking"] if tracking else []
            module = "orchestrator.ending.finisher_process"
            self._process = start_child(module, theirs.fileno(), *arguments)

    def follow(self, folder: Path, tracking: Tracking) -> None:
        """Let it keep the page of the sweep in `folder` while it runs, and publish it if `tracking` is enabled."""
        self._send(folder=str(folder), uri=tracking.uri or "", experiment=tracking.experiment or "")

    def read_notices(self) -> list[str]:
        """Return the messages for the user since the last call, while the sweep runs."""
        notices = list[str]()
        with suppress(EOFError, OSError):
            while self._connection.poll(0):
                answer = json.loads(self._connection.recv_bytes())
                notices += [answer["notice"]] if "notice" in answer else []
        return notices

    def begin(self, folder: Path, console: Console, parameters: Mapping[str, str]) -> None:
        """Let it print for `console`, write and publish the sweep in `folder`, which has ended.

        `parameters` are those of `parameters_by_structure`, which spare it the import of the engine.
        """
        look = {
            "width": console.width,
            "force_terminal": console.is_terminal,
            "color_system": console.color_system,
            "no_color": console.no_color,
        }
        self._send(folder=str(folder), look=look, encoding=console.encoding, parameters=parameters)

    def wait(self, console: Console) -> Finished:
        """Print the report when it comes, and return what is done when everything is, or the finisher dies or hangs."""
        finished, patience = Finished(), _Patience(self._process)
        with suppress(EOFError, OSError):
            while not finished.written or (self._tracking and finished.attempt is None):
                if not self._connection.poll(1.0):
                    if patience.is_exhausted():
                        break
                    continue
                answer = json.loads(self._connection.recv_bytes())
                if "printed" in answer:
                    finished.printed = True
                    console.file.write(answer["printed"])
                elif "written" in answer:
                    finished.written = True
                elif "attempt" in answer:
                    finished.attempt = Attempt.from_json(answer["attempt"])
        return finished

    def kill(self) -> None:
        """End the finisher and its forks at once; does nothing the second time."""
        if self._connection.closed:  # its number may be that of another process by now
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _send(self, **request: Any) -> None:
        with suppress(OSError):  # it has died: `wait` will find the connection closed
            self._connection.send_bytes(json.dumps(request).encode())


class _Patience:
    """Notices that a process and its descendants have stopped using processor time."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._used, self._since = _processor_seconds(process), time.monotonic()

    def is_exhausted(self) -> bool:
        """Return whether less than WORK was used in the last PATIENCE seconds."""
        used, now = _processor_seconds(self._process), time.monotonic()
        if abs(used - self._used) >= WORK:  # less when a descendant has ended
            self._used, self._since = used, now
        return now - self._since > PATIENCE


def _processor_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process, its living descendants, and children that it has waited for."""
    seconds = 0.0
    with suppress(psutil.Error):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                seconds += sum(one.cpu_times()[:4])  # user, system, and both of its children
    return seconds
