"""The finisher: a child process of the driver that keeps the page of a sweep, prints its end and publishes it.

Its life, top to bottom:
1. It imports what writes the report, and with tracking MLflow, while packs train.
2. A fork writes the page of the running sweep anew (`report.files.refresh_page`); with tracking, another one creates
   MLflow's store and publishes the running sweep (`tracking.follow`).
3. When the driver asks it to begin, both end; it prints the report and writes it.
4. It publishes, and waits for MLflow no longer than LONGEST_SECONDS.

Requests and answers are JSON. The answers are `printed` (the text of the report), `written` (every file is) and
`attempt` (of publishing); before them `notice` is why MLflow rejects the user. If anything else fails it exits, and the
driver does the rest itself.
"""

import io
import json
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.consoles import WholeConsole
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.state.state import SweepState
from orchestrator.redaction import mask_log_records
from orchestrator.report import artifacts
from orchestrator.report.files import refresh_page, write_report
from orchestrator.report.terminal import Screen
from orchestrator.results.summarise import summary
from orchestrator.running.children.child import load
from orchestrator.tracking.attempt import LONGEST_SECONDS, Attempt, BackgroundAttempt
from orchestrator.tracking.follow import follow

_TRACKING = "orchestrator.tracking.ahead"

_log = logging.getLogger(__name__)


def serve(descriptor: int, tracking: str = "") -> None:
    """Serve the driver over this connection to the end of the sweep, or until the driver is gone."""
    mask_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        if tracking and not connection.poll(0):
            load(_TRACKING)
        address, page, follower = _receive(connection), None, None
        if not connection.poll(0):  # otherwise the sweep has ended: nothing is left to follow
            page = _fork(connection, partial(_keep_page, Path(address["folder"])))
            if tracking:
                load(_TRACKING)
                follower = _fork(connection, partial(_follow, connection, **address))
        request = _receive(connection)
        if page is not None:  # the last page is the one of the end
            os.kill(page, signal.SIGTERM)
            os.waitpid(page, 0)
        if follower is not None:
            os.kill(follower, signal.SIGTERM)  # it finishes its pass; the final publishing waits for the publish lock
        _finish(connection, address if tracking else None, **request)
    except Exception:  # the driver is gone, or will meet the same error and explain it
        _log.debug("the driver ends the sweep by itself", exc_info=True)
        os._exit(1)


def _fork(connection: "Connection[bytes, bytes]", work: Callable[[], None]) -> int:
    """Fork a process that works, no longer than the driver lives, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        _exit_with_driver(connection)
        work()
    except Exception:
        _log.debug("a child of the finisher has ended", exc_info=True)
    finally:
        os._exit(0)


def _keep_page(folder: Path) -> None:
    """Write the page of the running sweep anew until SIGTERM, which leaves no temporary file."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    refresh_page(folder)


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


def _finish(
    connection: "Connection[bytes, bytes]",
    address: Mapping[str, Any] | None,
    folder: str,
    look: Mapping[str, Any],
    encoding: str,
    parameters: Mapping[str, str],
) -> None:
    """Print, write and publish the sweep in `folder`; `address` is that of MLflow, None without tracking."""
    _exit_with_driver(connection)
    state = SweepState.load(Path(folder))
    curves = read_curves(state)
    result = summary(state, curves, parameters)
    text = io.BytesIO()
    console = WholeConsole(file=io.TextIOWrapper(text, encoding, errors="replace", write_through=True), **look)
    console.print(Screen(result))
    _send(connection, printed=text.getvalue().decode(encoding))
    write_curves(state, curves)
    write_report(state.folder, result, curves)
    _send(connection, written=True)
    if address is not None:
        from orchestrator.tracking.publish import publish

        last = partial(publish, state.folder, address["uri"], experiment=address["experiment"])
        last = partial(last, summarised=result, curves=curves, artifacts=artifacts)
        _send(connection, attempt=asdict(BackgroundAttempt(state.folder, last).wait(LONGEST_SECONDS)))


def _receive(connection: "Connection[bytes, bytes]") -> dict[str, Any]:
    request: dict[str, Any] = json.loads(connection.recv_bytes())
    return request


def _send(connection: "Connection[bytes, bytes]", **answer: Any) -> None:
    connection.send_bytes(json.dumps(answer).encode())


def _exit_with_driver(connection: "Connection[bytes, bytes]") -> None:
    """Exit when the driver closes its end of the connection. Starts a thread: this process must not fork after it."""
    hangup = select.poll()
    hangup.register(connection.fileno(), 0)  # not readability: the finisher may have a request to read

    def watch() -> None:
        hangup.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
