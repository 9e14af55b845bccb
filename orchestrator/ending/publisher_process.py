"""A child process of the driver that publishes a sweep to MLflow: while it runs, after new scores, and at its end."""

import json
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.ending.publisher import Attempt
from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.redaction import mask_log_records
from orchestrator.report import artifacts
from orchestrator.running.children.child import load
from orchestrator.wording import command

PAUSE = 5.0  # seconds between two looks at the ledger; after a pass at least four times its duration
_SCORE = b'"kind":"score"'  # as `records.encode` writes it

_log = logging.getLogger(__name__)


def serve(descriptor: int) -> None:
    """Publish the sweep that the driver names over this connection, until the driver has asked for the last pass."""
    mask_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    _exit_with_driver(connection)
    load("orchestrator.tracking.publish")  # imports MLflow while the driver checks the sweep
    from orchestrator.tracking.publish import publish

    request = json.loads(connection.recv_bytes())
    folder = Path(request["folder"])
    publish_sweep = partial(publish, folder, request["uri"], experiment=request["experiment"], artifacts=artifacts)
    follow(connection, folder, partial(publish_sweep, sweep_files=False))
    _send(connection, attempt(folder, publish_sweep), is_last=True)


def follow(connection: "Connection[bytes, bytes]", folder: Path, publish: Callable[[], Any]) -> None:
    """Call `publish` at once and after new scores, until the driver sends anything; send it each refusal once."""
    published, pause, told = -1, 0.0, set[str | None]()
    while not connection.poll(pause):
        began, pause = time.monotonic(), PAUSE
        scores = (folder / LEDGER_FILE).read_bytes().count(_SCORE)
        if scores == published:
            continue
        result = attempt(folder, publish)
        if result.problem is None:
            published = scores
        elif result.is_refused and result.problem not in told:
            told.add(result.problem)
            _send(connection, result, is_last=False)
        pause = max(PAUSE, 4 * (time.monotonic() - began))
    connection.recv_bytes()


def attempt(folder: Path, publish: Callable[[], Any]) -> Attempt:
    """Call `publish` for the sweep in `folder` and return its result or its problem; never raises."""
    try:
        published = publish()
        return Attempt(published.uri, published.links)
    except LengthwiseError as error:
        return Attempt(problem=str(error), is_refused=error.exit_code == 2)
    except Exception as error:
        _log.debug("publishing %s failed", folder, exc_info=True)
        failed = f"publishing to MLflow failed ({type(error).__name__}: {error})"
        return Attempt(problem=f"{failed}; complete it with: {command('publish', folder)}")


def _send(connection: "Connection[bytes, bytes]", result: Attempt, *, is_last: bool) -> None:
    connection.send_bytes(json.dumps({**asdict(result), "is_last": is_last}).encode())


def _exit_with_driver(connection: "Connection[bytes, bytes]") -> None:
    """Exit when the driver closes its end of the connection. Starts a thread: this process must not fork after it."""
    hangup = select.poll()
    hangup.register(connection.fileno(), 0)  # not readability: the child may have a request to read

    def watch() -> None:
        hangup.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
