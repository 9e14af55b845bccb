"""What draws and publishes a sweep beside its driver: a process that answers one request (see `closing`).

A request and its answers are JSON. Answers of `close`: `said`, what is to be printed; `published`, the last pass to
MLflow, or its `problem`; `working`, a sign of it, while it computes and after every figure; `drawn` when every file of
the report is written. Anything else that goes wrong ends the process, and the driver then does by itself what has not
been answered.
"""

import io
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from orchestrator.consoles import WholeConsole
from orchestrator.figures.side_by_side import cores
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.state.state import SweepState
from orchestrator.redaction import redact_log_records
from orchestrator.report import artifacts, files
from orchestrator.results.summarise import summary
from orchestrator.tracking.publisher import attempted

WORKING_SECONDS = 2.0  # of computing, from one sign of work to the next

_log = logging.getLogger(__name__)


def serve(descriptor: int) -> None:
    """Answer the request that comes over this connection."""
    redact_log_records()
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        request = json.loads(connection.recv_bytes())
        answers: dict[str, Callable[..., None]] = {"prepare": _prepare, "publish": _publish, "close": _close}
        answers[request.pop("do")](connection, **request)
    except Exception:  # the driver is gone, or meets it itself and says it better
        _log.debug("the end of a sweep is left to its driver", exc_info=True)
        os._exit(1)


def _prepare(connection: "Connection[bytes, bytes]", folder: str, tracking: Mapping[str, Any]) -> None:
    """Create the store that will be published to, where it is a file of this machine: it takes two seconds."""
    from orchestrator.tracking.store.sqlite_store import default_uri, initialise

    _end_with(connection)
    initialise(tracking["uri"] or default_uri(Path(folder).resolve().parent))


def _publish(connection: "Connection[bytes, bytes]", folder: str, tracking: Mapping[str, Any]) -> None:
    """One pass while the sweep runs."""
    from orchestrator.tracking.publish import publish

    _end_with(connection)
    call = partial(publish, Path(folder), tracking["uri"], experiment=tracking["experiment"], artifacts=artifacts)
    _answer(connection, **_told(Path(folder), partial(call, sweep_files=False)))


def _close(
    connection: "Connection[bytes, bytes]",
    folder: str,
    tracking: Mapping[str, Any] | None,
    look: Mapping[str, Any],
    encoding: str,
    parameters: Mapping[str, str],
) -> None:
    """Everything that is made of a sweep at its end."""
    with _signs_of_work(connection):
        state = SweepState.load(Path(folder))
        curves = read_curves(state)
        result = summary(state, curves, parameters)
    drawn_one = partial(_answer, connection, working=True)
    report = files.Report(result, forks=cores() if tracking is not None else cores() - 1, drawn_one=drawn_one)
    _end_with(connection)
    said = io.BytesIO()
    console = WholeConsole(file=io.TextIOWrapper(said, encoding, errors="replace", write_through=True), **look)
    files.print_report(result, console)
    _answer(connection, said=said.getvalue().decode(encoding))
    with _signs_of_work(connection):
        write_curves(state, curves)
    if tracking is not None:
        from orchestrator.tracking.publish import publish

        call = partial(publish, state.folder, tracking["uri"], experiment=tracking["experiment"])
        call = partial(call, summarised=result, curves=curves, artifacts=artifacts.ReportArtifacts(report))
        _answer(connection, **_told(state.folder, call))
    report.write()
    _answer(connection, drawn=True)


def _told(folder: Path, publish: Any) -> dict[str, Any]:
    published, problem = attempted(folder, publish)
    return {"published": asdict(published) if published else None, "problem": problem}


@contextmanager
def _signs_of_work(connection: "Connection[bytes, bytes]") -> Iterator[None]:
    """Answer `working` for every so many seconds of processor time: a process that hangs takes none."""
    before = signal.signal(signal.SIGPROF, lambda number, frame: _answer(connection, working=True))
    signal.setitimer(signal.ITIMER_PROF, WORKING_SECONDS, WORKING_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _answer(connection: "Connection[bytes, bytes]", **answer: Any) -> None:
    connection.send_bytes(json.dumps(answer).encode())


def _end_with(connection: "Connection[bytes, bytes]") -> None:
    """End this process when the other end of its connection is closed. Begins a thread: no fork after this."""

    def watch() -> None:
        wait([connection])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
