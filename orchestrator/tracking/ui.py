"""Run MLflow's server on the store of a storage folder, with links to its sweeps (`lengthwise ui`)."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlflow.tracking import MlflowClient

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.text.wording import format_count
from orchestrator.tracking.address import (
    choose_artifact_folder,
    get_sqlite_path,
    is_database,
    make_default_uri,
    make_server_command,
)
from orchestrator.tracking.pages import make_sweep_links
from orchestrator.tracking.store import create_sqlite_store, search_runs_by_tag
from orchestrator.tracking.tracking_errors import convert_tracking_errors
from search_spaces.grammar.values import find_store_problem

MAX_SHOWN_SWEEPS = 10
PORTS = range(5000, 5100)  # tried in order; MLflow's default is 5000
START_SECONDS = 180.0  # on a busy machine; a server that exits is detected earlier


class UiServerError(LengthwiseError):
    """The MLflow server did not start or has exited; the message has its last output or its log file."""


def serve(
    storage: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allowed_hosts: str | None = None,
    uri: str | None = None,
    show: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Run MLflow's server on the store of `storage` until SIGINT or SIGTERM, and print links to its newest sweeps.

    `show` opens the page of the newest sweep in a browser. `uri` names another `sqlite:///` store. `allowed_hosts` are
    the Host headers that the server accepts, for host names other than localhost. Raises UiServerError if the server
    cannot start, and TrackingError for a store that MLflow refuses. Raises UserError for other kinds of URI, for a file
    that is missing or not a store, and for a host or port that cannot be used.
    """
    # Report all problems before the server starts, because its own errors would only be in its log.
    is_default = not uri
    uri = uri or make_default_uri(storage)
    database = get_sqlite_path(uri)
    if database is None:
        remedy = f"run: {make_server_command(uri, storage)}" if is_database(uri) else "open this address in a browser"
        raise UserError(f"{uri}: not a SQLite store; allowed: sqlite:///FILE; instead {remedy}")
    if not is_default and not database.exists():
        raise UserError(f"{uri}: there is no such file; to create it, publish a sweep there")
    if problem := find_store_problem(uri):
        raise UserError(f"{uri} {problem}; put a copy of the database there, or remove the file and publish again")
    port = choose_port(host, port)
    with convert_tracking_errors(uri):
        create_sqlite_store(uri)

    # MLflow opens an experiment on an empty page, so links to the newest sweeps are printed.
    with suppress(KeyboardInterrupt), run_server(database, host, port, allowed_hosts) as (url, server):
        sweeps = list_sweep_links(uri, url)
        hint = "; open a page below, not this address; the newest sweep comes first:" if sweeps else ""
        say(f"MLflow runs at {url} (Ctrl-C ends it){hint}")

        # The address of the objective's chart names every run, so only the newest sweep has this long link.
        for index, (title, links) in enumerate(sweeps[:MAX_SHOWN_SWEEPS]):
            report, objective, charts = links[:3]
            shown = (report, charts) if index else (report, objective, charts)
            say("\n".join([title, *(f"  {name}: {link}" for name, link in shown)]))
        if older := len(sweeps[MAX_SHOWN_SWEEPS:]):
            say(f"{format_count(older, 'older sweep')}, among the experiments of MLflow")
        if show:
            address = sweeps[0][1][0][1] if sweeps else url
            if not webbrowser.open(address):
                say(f"no browser found; open {address}")
        code = server.wait()
        raise UiServerError(f"the MLflow server exited with code {code}; see {_get_log_path(database)}")


@contextmanager
def run_server(
    database: Path, host: str = "127.0.0.1", port: int | None = None, allowed_hosts: str | None = None
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Yield the address and the process of an MLflow server on a SQLite file; kill it when the block ends.

    A signal raises KeyboardInterrupt in the block. Raises UiServerError if the server does not answer in START_SECONDS.
    """
    # Every worker of the server imports MLflow, and one is enough for a user.
    port = choose_port(host, port)
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    log = _get_log_path(database)
    arguments = [
        *(sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{database.resolve()}"),
        *("--artifacts-destination", str(choose_artifact_folder(database.parent))),
        *(("--allowed-hosts", allowed_hosts) if allowed_hosts else ()),
    ]

    # Child processes of the server inherit these settings.
    environment = {
        **os.environ,
        "PYTHONSAFEPATH": "1",  # modules of the current folder must not hide others
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # it would start four more processes that are not needed
    }

    # A signal during the start is held back until the process is known, so that it can be killed.
    with Interrupts() as interrupts, log.open("ab") as sink:
        server = None
        try:
            # In a process group of its own, because MLflow's workers outlive their parent.
            with interrupts.hold_signals():
                server = subprocess.Popen(
                    arguments,
                    start_new_session=True,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                )
            _wait_for_answer(url, server, log)
            yield url, server
        finally:
            if server is not None:
                with interrupts.hold_signals():
                    _end_group(server)


def choose_port(host: str, port: int | None) -> int:
    """Return `port`, or the first free one of PORTS if it is None. Raises UserError if it cannot be used."""
    # Only binding shows whether a port can be used; the error of the last one is reported.
    for candidate in PORTS if port is None else [port]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            try:
                probe.bind((host, candidate))
                return candidate
            except (OSError, UnicodeError) as error:
                problem = getattr(error, "strerror", None) or error
                if isinstance(error, socket.gaierror | UnicodeError):
                    break  # an unknown host fails at every port; asking may take seconds
    raise UserError(
        f"--host {host} --port {candidate}: {problem}; allowed: a free port above 1023, and 127.0.0.1 "
        "(this machine only), 0.0.0.0 (all networks)"
    )


def _wait_for_answer(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers; raise UiServerError if it exits or takes more than START_SECONDS."""
    # A proxy from the environment could not reach this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(OSError), opener.open(f"{url}/health", timeout=2):
            return

        # The last lines of the log usually name the reason.
        if server.poll() is not None or time.monotonic() > deadline:
            last_lines = " | ".join(log.read_text(errors="replace").splitlines()[-3:])
            raise UiServerError(f"the MLflow server did not start; last lines of {log}: {last_lines}")
        time.sleep(0.1)


def _end_group(server: "subprocess.Popen[bytes]") -> None:
    """Kill the process group of a server: SIGTERM, then SIGKILL after at most five seconds."""
    # MLflow's workers may outlive their parent, so signal the whole group.
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(5)


def _get_log_path(database: Path) -> Path:
    """Return the log file of the server on a SQLite file."""
    return database.with_name("mlflow-server.log")


def list_sweep_links(uri: str, server_url: str) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return the sweeps published at `uri`, newest first, as (study / sweep, links to their pages on `server_url`)."""
    # An experiment of MLflow is a study.
    client = MlflowClient(uri)
    studies = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
    runs = search_runs_by_tag(client, "kind", "sweep", list(studies))
    return [
        (
            f"{studies[run.info.experiment_id]} / {run.data.tags['lengthwise.sweep']}",
            make_sweep_links(client, server_url, run),
        )
        for run in sorted(runs, key=lambda run: -run.info.start_time)
    ]
