"""The child process of the driver that publishes a sweep to MLflow, after new scores and at its end."""

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.running.children.child import import_without_gc
from orchestrator.text.redaction import mask_log_records
from orchestrator.text.wording import format_command
from orchestrator.tracking.publisher import Publication

POLL_SECONDS = 5.0  # between reads of the ledger; at least four times as long as the last publishing took
_SCORE_FIELD = b'"kind":"score"'  # as `records.encode_record` writes it

_log = logging.getLogger(__name__)


def serve(descriptor: int) -> None:
    """Publish the sweep that the driver names over this connection, until the driver reports its end.

    Afterwards publish once more, with the files of the report when the driver has written them.
    """
    # A thread waits for requests, so that the driver's death ends this process even while MLflow blocks.
    mask_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    receiver = threading.Thread(target=receive_requests, args=[connection, requests], daemon=True)
    receiver.start()  # a process with threads must not fork
    import_without_gc("orchestrator.tracking.publish")  # imports MLflow while the driver checks the sweep
    from orchestrator.tracking.publish import publish

    # The first request names the sweep, the second means that it has ended, the third that its files are written.
    request = json.loads(requests.get())
    folder = Path(request["folder"])
    publish_sweep = partial(publish, folder, request["uri"], experiment=request["experiment"])

    def has_ended(seconds: float) -> bool:
        try:
            return requests.get(timeout=seconds) is not None
        except queue.Empty:
            return False

    def send(attempt: Publication) -> None:
        connection.send_bytes(json.dumps(asdict(attempt)).encode())

    # While the sweep runs its files do not exist; the last publication waits for them.
    publish_changes(folder, partial(publish_sweep, sweep_files=False), has_ended, send)
    send(replace(try_to_publish(folder, partial(publish_sweep, wait_for_files=requests.get)), is_last=True))


def receive_requests(connection: "Connection[bytes, bytes]", requests: "queue.SimpleQueue[bytes]") -> None:
    """Put requests of the driver into a queue; end this process when the driver dies."""
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def publish_changes(
    folder: Path, publish: Callable[[], Any], has_ended: Callable[[float], bool], send: Callable[[Publication], None]
) -> None:
    """Call `publish` now and after every new score, and `send` each refusal once.

    `has_ended(seconds)` waits up to this time and returns whether the sweep has ended, which ends this function.
    """
    published_scores = -1
    pause = 0.0
    refusals = set[str]()
    while not has_ended(pause):
        began = time.monotonic()
        pause = POLL_SECONDS

        # Published values change only with a new score, and counting is cheaper than reading the ledger.
        scores = (folder / LEDGER_FILE).read_bytes().count(_SCORE_FIELD)
        if scores == published_scores:
            continue

        # After a failure the number of scores stays old, so the attempt is repeated after the pause.
        attempt = try_to_publish(folder, publish)
        if attempt.problem is None:
            published_scores = scores
        elif attempt.is_refused and attempt.problem not in refusals:
            refusals.add(attempt.problem)
            send(attempt)
        pause = max(POLL_SECONDS, 4 * (time.monotonic() - began))


def try_to_publish(folder: Path, publish: Callable[[], Any]) -> Publication:
    """Call `publish` for the sweep in `folder` and return its result or its problem; never raises."""
    try:
        published = publish()
        return Publication(published.uri, published.links)
    except LengthwiseError as error:
        return Publication(problem=str(error), is_refused=error.exit_code == 2)
    except Exception as error:
        _log.debug("publishing %s failed", folder, exc_info=True)
        message = f"publishing to MLflow failed ({type(error).__name__}: {error})"
        return Publication(problem=f"{message}; complete it with: {format_command('publish', folder)}")
