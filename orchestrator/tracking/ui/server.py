"""The MLflow server behind `lengthwise ui`: one process group on a free port."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from errno import EACCES, EADDRNOTAVAIL
from pathlib import Path
from typing import Self

from orchestrator.errors import LengthwiseError, UserError

USUAL_PORTS = range(20_000, 30_000)  # below those that systems hand out


class UiServerError(LengthwiseError):
    """The MLflow server did not start, or it ended; the message has its last output."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free at this moment."""
    with socket.socket() as probe:
        _bind(probe, host, 0)
        return int(probe.getsockname()[1])


def usual_port(folder: Path, host: str = "127.0.0.1") -> int:
    """Return the port of a folder, the same every time if it is free.

    A browser remembers what was closed in MLflow, such as the pane of its assistant, by host and port.
    """
    digest = hashlib.sha256(str(folder.resolve()).encode()).digest()
    port = USUAL_PORTS.start + int.from_bytes(digest[:4]) % len(USUAL_PORTS)
    return port if _is_free(host, port) else free_port(host)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            _bind(probe, host, port)
        except OSError:
            return False
    return True


def _bind(probe: socket.socket, host: str, port: int) -> None:
    """Bind a socket.

    Raises UserError for a host that is not this machine and a port that this user may not use, OSError for one that is
    taken.
    """
    try:
        probe.bind((host, port))
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == EACCES:
            raise UserError(f"--port {port} needs the rights of an administrator; choose one above 1023") from error
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno != EADDRNOTAVAIL:
            raise
        allowed = "127.0.0.1 (this machine alone), 0.0.0.0 (others, too), or another name or address of it"
        raise UserError(f"--host {host} is not an address of this machine; allowed: {allowed}") from error


class UiServer:
    """`mlflow server` on one SQLite file and one artifact folder.

    MLflow's workers outlive a killed parent, so the server gets a process group of its own and `close` ends the group.
    Raises UserError for a host or port that cannot be used, and UiServerError from `start` if the server does not
    answer within `patience` seconds.
    """

    def __init__(
        self,
        *,
        database: Path,
        artifacts: Path,
        log: Path,
        host: str = "127.0.0.1",
        port: int | None = None,
        allowed_hosts: str | None = None,
    ) -> None:
        if port is not None and not _is_free(host, port):
            raise UserError(f"--port {port} on {host} is taken; choose another one, or leave it out to use a free one")
        self.host = host
        self.port = usual_port(database, host) if port is None else port
        self.log = log
        self.command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(self.port)),
            *("--backend-store-uri", f"sqlite:///{database.resolve()}"),
            *("--artifacts-destination", str(artifacts.resolve()), "--workers", "1"),
            *(("--allowed-hosts", allowed_hosts) if allowed_hosts else ()),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address to open in a browser on this machine."""
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"

    def start(self, patience: float = 60.0, stopped: Callable[[], bool] = lambda: False) -> Self:
        """Start the server and wait until it answers or `stopped` is true; `close` must follow."""
        environment = {
            **os.environ,
            "PYTHONSAFEPATH": "1",  # also for its own children: the current folder hides no module
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # it would start four more processes that are not needed
        }
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                self.command,
                start_new_session=True,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        deadline = time.monotonic() + patience
        while not stopped() and not self._answers():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.close()
                code, late = self.process.returncode, f"did not answer in {patience:.0f} s"
                what = f"ended with exit code {code}" if ended else late
                raise UiServerError(f"the MLflow server {what}{self._last_output()}; command: {' '.join(self.command)}")
            time.sleep(0.1)
        return self

    def close(self, grace: float = 5.0) -> None:
        """End the whole process group: SIGTERM, then SIGKILL after `grace` seconds."""
        if self.process is None:
            return
        group = self.process.pid
        _signal_group(group, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and _signal_group(group, 0):
            self.process.poll()  # reaps the leader; its workers are reaped by init
            time.sleep(0.05)
        _signal_group(group, signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine
            with opener.open(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _last_output(self) -> str:
        if not self.log.exists():
            return ""
        return "; its last output: " + " | ".join(self.log.read_text(errors="replace").splitlines()[-3:])


def serve_until_stopped(server: UiServer, ready: Callable[[UiServer], None]) -> None:
    """Start `server`, call `ready`, wait for a signal or the server's end, and leave no process behind.

    Signals (SIGINT, SIGTERM, and SIGHUP unless ignored) are only recorded, so that none interrupts the start or the end
    of a process. Raises KeyboardInterrupt for a signal before the server answered.
    """
    received: list[int] = []
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        numbers.remove(signal.SIGHUP)
    previous = {number: signal.signal(number, lambda number, frame: received.append(number)) for number in numbers}
    try:
        server.start(stopped=lambda: bool(received))
        if received:
            raise KeyboardInterrupt
        ready(server)
        assert server.process is not None
        while not received:
            if (code := server.process.poll()) is not None:
                raise UiServerError(f"the MLflow server ended by itself with exit code {code}{server._last_output()}")
            time.sleep(0.1)
    finally:
        server.close()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group, 0 for none; return whether there is such a group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
