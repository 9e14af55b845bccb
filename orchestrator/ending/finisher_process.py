"""The finisher: a child process of the driver that prints, draws and publishes the end of a sweep.

Its life, top to bottom:
1. It imports what draws, and with tracking MLflow, while packs train.
2. With tracking, a fork creates MLflow's store and publishes the running sweep (`tracking.follow`).
3. When the driver asks it to begin, forks draw the figures; the report is printed; a thread publishes.
4. It writes the report, and waits for MLflow no longer than LONGEST_SECONDS.

Requests and answers are JSON. The answers are `printed` (the text of the report), `drawn` (every file is written) and
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
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator.consoles import WholeConsole
from orchestrator.machine.cpus import count_cores
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.state.state import SweepState
from orchestrator.redaction import redact_log_records
from orchestrator.report import artifacts
from orchestrator.report.files import Report, print_report
from orchestrator.results.summarise import summary
from orchestrator.running.children.child import load
from orchestrator.tracking.attempt import LONGEST_SECONDS, Attempt, BackgroundAttempt
from orchestrator.tracking.follow import follow

_TRACKING = "orchestrator.tracking.ahead"

_log = logging.getLogger(__name__)


def serve(descriptor: int, tracking: str = "") -> None:
    """Serve the driver over this connection to the end of the sweep, or until the driver is gone."""
    redact_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        address, follower = None, None
        if tracking:
            if not connection.poll(0):
                load(_TRACKING)
            address = _receive(connection)
            if not connection.poll(0):  # otherwise the sweep has ended: nothing is left to follow
                load(_TRACKING)
                follower = _fork_follower(connection, **address)
        request = _receive(connection)
        if follower is not None:
            os.kill(follower, signal.SIGTERM)  # it finishes its pass; the final publishing waits for the publish lock
        _finish(connection, address, **request)
    except Exception:  # the driver is gone, or will meet the same error and explain it
        _log.debug("the driver ends the sweep by itself", exc_info=True)
        os._exit(1)


def _fork_follower(connection: "Connection[bytes, bytes]", folder: str, uri: str, experiment: str) -> int:
    """Fork a process that publishes the running sweep until SIGTERM, between two passes, or the driver's end."""
    child = os.fork()
    if child:
        return child
    try:
        ending = False

        def end(number: int, frame: Any) -> None:
            nonlocal ending
            ending = True

        signal.signal(signal.SIGTERM, end)
        _exit_with_driver(connection)
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
    finally:
        os._exit(0)


def _finish(
    connection: "Connection[bytes, bytes]",
    address: Mapping[str, Any] | None,
    folder: str,
    look: Mapping[str, Any],
    encoding: str,
    parameters: Mapping[str, str],
) -> None:
    """Print, draw and publish the sweep in `folder`; `address` is that of MLflow, None without tracking."""
    state = SweepState.load(Path(folder))
    curves = read_curves(state)
    result = summary(state, curves, parameters)
    report = Report(result, forks=count_cores())
    _exit_with_driver(connection)
    text = io.BytesIO()
    console = WholeConsole(file=io.TextIOWrapper(text, encoding, errors="replace", write_through=True), **look)
    print_report(result, console)
    _send(connection, printed=text.getvalue().decode(encoding))
    write_curves(state, curves)
    publishing = None
    if address is not None:
        from orchestrator.tracking.publish import publish

        last = partial(publish, state.folder, address["uri"], experiment=address["experiment"])
        last = partial(last, summarised=result, curves=curves, artifacts=artifacts.ReportArtifacts(report))
        publishing = BackgroundAttempt(state.folder, last)
    report.write()
    _send(connection, drawn=True)
    if publishing is not None:
        _send(connection, attempt=asdict(publishing.wait(LONGEST_SECONDS)))


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
