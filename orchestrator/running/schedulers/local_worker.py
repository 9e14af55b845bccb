"""A local worker: trains one pack after the other and sends the results over its connection.

A message is a kind (one byte) and its content: B the worker's environment, E an evaluation (bytes), P progress,
N a notice, D the pack is done, X a `Death` by an exception, F the disk is full (all but E are JSON or text in UTF-8).
The answer to E is one byte, sent when the driver has recorded it.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.errors import OutOfSpace
from orchestrator.record.kept.code import own_files
from orchestrator.running.pack.protocol import explain
from orchestrator.running.pack.train_pack import HEARTBEAT_SECONDS, decode_work, make_stuck_file, train_pack
from orchestrator.running.pack.watchdog import Watchdog
from orchestrator.shortages import raising_out_of_space
from trainers.evaluation.results import Evaluation, Progress


def serve(descriptor: int) -> None:
    """Train the packs that the driver sends until it closes the connection."""
    import torch

    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        while True:
            work = decode_work(connection.recv_bytes().decode())
            torch.set_num_threads(max(1, int(work["cpus"])))
            try:
                with (
                    raising_out_of_space(Path(work["folder"])),
                    Watchdog(work["watchdog_seconds"], make_stuck_file(work)) as watchdog,
                ):
                    train_pack(work, PipeReporter(connection, watchdog))
            except OutOfSpace as error:
                connection.send_bytes(b"F" + str(error).encode())
            except (KeyboardInterrupt, DriverGone):
                raise
            except BaseException as error:
                death = explain(error, own_files(work.get("code", ())))
                connection.send_bytes(b"X" + json.dumps(asdict(death)).encode())
            else:
                connection.send_bytes(b"D")
    except (DriverGone, EOFError, OSError):
        os._exit(0)  # the driver is gone


class DriverGone(BaseException):
    """The driver has closed the connection. Differs from EOFError, which a pack may raise by itself."""


class PipeReporter:
    """Sends what `trainers.training.loop` reports."""

    def __init__(self, connection: "Connection[bytes, bytes]", watchdog: Watchdog) -> None:
        self._connection, self._watchdog = connection, watchdog
        self._last = float("-inf")

    def began(self, environment: dict[str, Any]) -> None:
        """Send the environment of the worker."""
        with _other_end():
            self._connection.send_bytes(b"B" + json.dumps(environment).encode())

    def report(self, evaluation: Evaluation) -> None:
        """Send an evaluation; returns when the driver has recorded it."""
        with self._watchdog.asleep(), _other_end():
            self._connection.send_bytes(b"E" + evaluation.to_bytes())
            self._connection.recv_bytes()

    def progress(self, progress: Progress) -> None:
        """Reset the watchdog, and send the progress at most once a second."""
        self._watchdog.heard()
        if time.monotonic() - self._last >= HEARTBEAT_SECONDS:
            with _other_end():
                self._connection.send_bytes(b"P" + json.dumps(asdict(progress)).encode())
            self._last = time.monotonic()

    def notice(self, text: str) -> None:
        """Send a sentence for the user."""
        with _other_end():
            self._connection.send_bytes(b"N" + text.encode())


@contextmanager
def _other_end() -> Iterator[None]:
    """Raise DriverGone if the connection is closed."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise DriverGone from error
