"""A child process of the driver that publishes a sweep to MLflow, while it runs and at its end.

1. It imports MLflow while the driver checks the sweep.
2. A fork creates MLflow's store and publishes the running sweep (`tracking.follow`), until the driver's second request.
3. It publishes the sweep that has ended, and waits for MLflow no longer than LONGEST_SECONDS.

Requests and answers are JSON: `notice` is why MLflow rejects the user, `attempt` the last answer. If anything else
fails it exits, and the driver publishes the end itself.
"""

import json
import logging
import os
import select
import signal
import threading
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.redaction import mask_log_records
from orchestrator.report import artifacts
from orchestrator.running.children.child import load
from orchestrator.tracking.attempt import LONGEST_SECONDS, Attempt, BackgroundAttempt
from orchestrator.tracking.follow import follow

_log = logging.getLogger(__name__)


def serve(descriptor: int) -> None:
    """Serve the driver over this connection to the end of the sweep, or until the driver is gone."""
    mask_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        if not connection.poll(0):
            load("orchestrator.tracking.ahead")
        sweep = json.loads(connection.recv_bytes())
        follower = None
        if not connection.poll(0):  # otherwise the sweep has ended: nothing is left to follow
            load("orchestrator.tracking.ahead")
            follower = _fork_follower(connection, **sweep)
        connection.recv_bytes()
        if follower is not None:
            os.kill(follower, signal.SIGTERM)  # it finishes its pass; the final publishing waits for the publish lock
        _publish_end(connection, **sweep)
    except Exception:  # the driver is gone, or will meet the same error and explain it
        _log.debug("the driver publishes by itself", exc_info=True)
        os._exit(1)


def _fork_follower(connection: "Connection[bytes, bytes]", folder: str, uri: str, experiment: str) -> int:
    """Fork a process that publishes the running sweep, no longer than the driver lives, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        _exit_with_driver(connection)
        _follow(connection, folder, uri, experiment)
    except Exception:
        _log.debug("the running sweep is no longer published", exc_info=True)
    finally:
        os._exit(0)


def _follow(connection: "Connection[bytes, bytes]", folder: str, uri: str, experiment: str) -> None:
    """Publish the running sweep until SIGTERM, which it obeys between two passes."""
    ending = False

    def end(number: int, frame: Any) -> None:
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    from orchestrator.tracking.publish import check_access, publish
    from orchestrator.tracking.store.sqlite_store import default_uri, initialise

    told = set[str]()

    def report(result: Attempt) -> None:
        if result.is_refused and result.problem and result.problem not in told and not ending:
            told.add(result.problem)
            _send(connection, notice=result.problem)

    initialise(uri or default_uri(Path(folder).resolve().parent))
    one_pass = partial(publish, Path(folder), uri, experiment=experiment, artifacts=artifacts, sweep_files=False)
    check = partial(check_access, Path(folder), uri)
    follow(Path(folder), one_pass, is_running=lambda: not ending, check=check, report=report)


def _publish_end(connection: "Connection[bytes, bytes]", folder: str, uri: str, experiment: str) -> None:
    """Publish the sweep in `folder`, which has ended."""
    _exit_with_driver(connection)
    from orchestrator.tracking.publish import publish

    publish_sweep = partial(publish, Path(folder), uri, experiment=experiment, artifacts=artifacts)
    _send(connection, attempt=asdict(BackgroundAttempt(Path(folder), publish_sweep).wait(LONGEST_SECONDS)))


def _send(connection: "Connection[bytes, bytes]", **answer: Any) -> None:
    connection.send_bytes(json.dumps(answer).encode())


def _exit_with_driver(connection: "Connection[bytes, bytes]") -> None:
    """Exit when the driver closes its end of the connection. Starts a thread: this process must not fork after it."""
    hangup = select.poll()
    hangup.register(connection.fileno(), 0)  # not readability: the child may have a request to read

    def watch() -> None:
        hangup.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
