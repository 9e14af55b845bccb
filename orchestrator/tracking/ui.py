"""Run MLflow's server on the store of a storage folder, with links to its sweeps (`lengthwise ui`)."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.text.wording import join_first_few
from orchestrator.tracking.address import (
    choose_artifact_folder,
    get_sqlite_path,
    is_database,
    make_default_uri,
    make_server_command,
)
from orchestrator.tracking.pages import make_study_link, make_sweep_links
from orchestrator.tracking.store import create_sqlite_store, search_runs_by_tag
from orchestrator.tracking.tracking_errors import convert_tracking_errors
from search_spaces.grammar.values import find_store_problem

MAX_SHOWN_SWEEPS = 10  # of a study
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
    """Run MLflow's server on the store of `storage` until SIGINT or SIGTERM, and print links to its newest sweep.

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

    # The start page of MLflow shows no sweep, so links are printed before its address; those of one sweep are enough.
    with suppress(KeyboardInterrupt), run_server(database, host, port, allowed_hosts) as (url, server):
        client = MlflowClient(uri)
        sweeps, address = list_sweep_runs(client), url
        for study, run in sweeps[:1]:
            links = make_sweep_links(client, url, run)[:3]
            say("\n".join([f"{study} / {get_sweep_name(run)}", *(f"  {name}: {link}" for name, link in links)]))
            address = links[0][1]
        for line in describe_older_sweeps(sweeps[1:], url):
            say(line)
        say(f"MLflow runs at {url}; Ctrl-C ends it")
        if show and not webbrowser.open(address):
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


def list_sweep_runs(client: MlflowClient) -> list[tuple[str, Run]]:
    """Return the runs of published sweeps with their studies, the newest first."""
    # An experiment of MLflow is a study.
    studies = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
    runs = search_runs_by_tag(client, "kind", "sweep", list(studies))
    return [(studies[run.info.experiment_id], run) for run in sorted(runs, key=lambda run: -run.info.start_time)]


def describe_older_sweeps(sweeps: Sequence[tuple[str, Run]], server_url: str) -> list[str]:
    """Return lines that name sweeps by study, with a link to the table in which they are; empty without any."""
    names_by_study: dict[tuple[str, str], list[str]] = {}
    for study, run in sweeps:
        names_by_study.setdefault((study, run.info.experiment_id), []).append(get_sweep_name(run))
    lines = []
    for (study, experiment_id), names in names_by_study.items():
        lines.append(f"  {study} / {join_first_few(names, MAX_SHOWN_SWEEPS)}")
        lines.append(f"    {make_study_link(server_url, experiment_id)}")
    return ["older sweeps, in the tables of their studies; their reports are artifacts:", *lines] if lines else []


def get_sweep_name(run: Run) -> str:
    """Return the name of the sweep of a run."""
    return str(run.data.tags["lengthwise.sweep"])
