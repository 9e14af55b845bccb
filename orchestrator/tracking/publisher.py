"""The driver's side of the child process that publishes a sweep to MLflow (`publisher_process`).

A server that is down or slow keeps that process waiting and nobody else. At the end the driver waits for it no longer
than LONGEST_SECONDS and kills it; `lengthwise publish` sends what is missing.
"""

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path

from orchestrator.running.children.child import start_child
from orchestrator.text.wording import command
from search_spaces import Tracking

LONGEST_SECONDS = 30.0  # that the end of a sweep waits for MLflow


@dataclass(frozen=True)
class Attempt:
    """The address and the links of published results, or the problem in words.

    `is_refused`: whether the problem stays until the user acts: true for a wrong password, false for an outage.
    `is_last`: whether it was the one after the end of the sweep.
    """

    uri: str = ""
    links: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    is_refused: bool = False
    is_last: bool = False


class Publisher:
    """The driver's side of a child that has just been started, and imports MLflow."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = start_child("orchestrator.tracking.publisher_process", theirs.fileno())

    def follow(self, folder: Path, tracking: Tracking) -> None:
        """Request that the running sweep in `folder` is published after new scores."""
        self._folder = folder
        self._send(folder=str(folder), uri=tracking.uri or "", experiment=tracking.experiment or "")

    def read_refusals(self) -> list[str]:
        """Return why MLflow rejected the user since the last call; each reason comes once."""
        refusals = list[str]()
        with suppress(EOFError, OSError):
            while self._connection.poll(0):
                refusals.append(str(self._receive().problem))
        return refusals

    def begin_end(self) -> None:
        """Request the last publication of a sweep that has ended."""
        self._send()

    def send_files(self) -> None:
        """Request that the written files of the report are sent; call `begin_end` first."""
        self._send()

    def wait(self, seconds: float = LONGEST_SECONDS) -> Attempt:
        """Return the last attempt, or that there is none after so many seconds."""
        deadline = time.monotonic() + seconds
        problem = f"publishing to MLflow did not end in {seconds:.0f} s"
        try:
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                if (attempt := self._receive()).is_last:
                    return attempt
        except (EOFError, OSError):
            problem = "the process that publishes to MLflow has died"
        return Attempt(problem=f"{problem}; complete it with: {command('publish', self._folder)}")

    def kill(self) -> None:
        """End the child at once; does nothing the second time."""
        if self._connection.closed:  # its number may be that of another process by now
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _send(self, **request: str) -> None:
        with suppress(OSError):  # it has died: `wait` will find the connection closed
            self._connection.send_bytes(json.dumps(request).encode())

    def _receive(self) -> Attempt:
        return Attempt(**json.loads(self._connection.recv_bytes()))
