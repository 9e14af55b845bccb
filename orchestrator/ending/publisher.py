"""The driver's side of the child process that publishes a sweep to MLflow while it runs (`publisher_process`).

If the child dies, the driver publishes the end of the sweep itself (`ending.finish`).
"""

import json
import os
import signal
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from orchestrator.running.children.child import start_child
from orchestrator.tracking.attempt import LONGEST_SECONDS, Attempt
from search_spaces import Tracking

PATIENCE = 2 * LONGEST_SECONDS  # seconds for an answer that the child gives after LONGEST_SECONDS at most


class Publisher:
    """A child process that has just been started; it imports MLflow at once."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = start_child("orchestrator.ending.publisher_process", theirs.fileno())

    def follow(self, folder: Path, tracking: Tracking) -> None:
        """Let it publish the sweep in `folder` while that runs."""
        self._send(folder=str(folder), uri=tracking.uri or "", experiment=tracking.experiment or "")

    def read_notices(self) -> list[str]:
        """Return the messages for the user since the last call, while the sweep runs."""
        notices = list[str]()
        with suppress(EOFError, OSError):
            while self._connection.poll(0):
                notices.append(json.loads(self._connection.recv_bytes())["notice"])
        return notices

    def begin_end(self) -> None:
        """Let it publish the sweep, which has ended."""
        self._send()

    def wait(self) -> Attempt | None:
        """Return the result of publishing the sweep that has ended; None if the child dies or hangs."""
        with suppress(EOFError, OSError):
            while self._connection.poll(PATIENCE):
                answer = json.loads(self._connection.recv_bytes())
                if "attempt" in answer:
                    return Attempt.from_json(answer["attempt"])
        return None

    def kill(self) -> None:
        """End the child and its forks at once; does nothing the second time."""
        if self._connection.closed:  # its number may be that of another process by now
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _send(self, **request: Any) -> None:
        with suppress(OSError):  # it has died: `wait` will find the connection closed
            self._connection.send_bytes(json.dumps(request).encode())
