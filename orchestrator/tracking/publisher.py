"""Control the child process of the driver that publishes a sweep to MLflow (`publisher_process`).

Only this process waits for a server that is down or slow. At the end the driver waits at most MAX_WAIT_SECONDS, then
kills the process; `lengthwise publish` sends what is missing.
"""

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Literal

from orchestrator.running.children.child import start_child
from orchestrator.text.wording import format_command
from search_spaces import Tracking

MAX_WAIT_SECONDS = 30.0  # for MLflow at the end of a sweep


@dataclass(frozen=True)
class Publication:
    """The result of an attempt to publish: address and links of the results, or the problem as text.

    `is_refused`: the problem, such as a wrong password, persists until the user acts; an outage does not. `is_last`:
    the attempt was made after the end of the sweep.
    """

    uri: str = ""
    links: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    is_refused: bool = False
    is_last: bool = False


class Publisher:
    """A handle on the child process, which imports MLflow: starts it, sends it requests, kills it."""

    def __init__(self) -> None:
        self._connection, child_end = Pipe()
        with child_end:
            self._process = start_child("orchestrator.tracking.publisher_process", child_end.fileno())

    def start(self, folder: Path, tracking: Tracking) -> None:
        """Ask the child to publish the running sweep in `folder` after new scores."""
        self._folder = folder
        self._send(folder=str(folder), uri=tracking.uri or "", experiment=tracking.experiment or "")

    def read_refusals(self) -> list[str]:
        """Return the reasons for which MLflow rejected the user since the last call, each once."""
        refusals = list[str]()
        with suppress(EOFError, OSError):
            while self._connection.poll(0):
                refusals.append(str(self._receive().problem))
        return refusals

    def announce(self, event: Literal["end", "files"]) -> None:
        """Tell the child that the sweep has ended, then that the files of its report are written.

        After "end" the child publishes a last time, and sends the files after "files".
        """
        self._send(event=event)

    def wait(self, seconds: float = MAX_WAIT_SECONDS) -> Publication:
        """Return the last attempt; if it takes more than `seconds`, an attempt with a problem."""
        # Refusals from before the end of the sweep may still be in the pipe.
        deadline = time.monotonic() + seconds
        problem = f"publishing to MLflow did not end in {seconds:.0f} s"
        try:
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                if (attempt := self._receive()).is_last:
                    return attempt
        except (EOFError, OSError):
            problem = "the process that publishes to MLflow has died"

        # Nothing is lost: the ledger has all results, and the command publishes them later.
        return Publication(problem=f"{problem}; complete it with: {format_command('publish', self._folder)}")

    def kill(self) -> None:
        """Kill the child; do nothing if it was killed before."""
        # After a first kill another process may have the process id.
        if self._connection.closed:
            return

        # The group includes processes that MLflow started; macOS refuses to signal a group of zombies.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _send(self, **request: str) -> None:
        """Send a request to the child."""
        with suppress(OSError):  # if the child has died, `wait` reports it
            self._connection.send_bytes(json.dumps(request).encode())

    def _receive(self) -> Publication:
        """Return the next attempt that the child reports. Raises EOFError if the child has died."""
        return Publication(**json.loads(self._connection.recv_bytes()))
