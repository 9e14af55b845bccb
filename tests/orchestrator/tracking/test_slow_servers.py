"""MLflow that is busy, hangs, is locked or refuses: the end of a sweep does not wait, and one sentence says so."""

import http.server
import socket
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.text.wording import format_command
from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.publish import delete_runs
from orchestrator.tracking.tracking_errors import TIMEOUTS, TrackingError, TrackingRefused
from tests.ports import free_ports


class Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses every request, with the status and the text of the server; with 429 for an hour."""

    def do_GET(self) -> None:
        self.server.asked += 1  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", str(len(self.server.text)))  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(self.server.text)  # type: ignore[attr-defined]

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def busy() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.asked, server.status, server.text = 0, 429, b""  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def hanging() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in TIMEOUTS.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")


def test_a_busy_server_is_not_waited_for_as_long_as_it_asks(sweep, publish, busy, quick) -> None:
    with pytest.raises(TrackingError, match=r"429[\s\S]*lengthwise publish"):
        publish(sweep.folder, f"http://127.0.0.1:{busy.server_address[1]}")
    assert busy.asked == 2


def test_an_address_without_a_server_is_named_with_the_command_that_repeats(sweep, publish, quick) -> None:
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    again = {
        publish: format_command("publish", sweep.folder),
        delete_runs: f"{format_command('delete', sweep.folder)} --mlflow",
    }
    for call, repeated in again.items():
        with pytest.raises(TrackingError) as error:
            call(sweep.folder, address)
        first, second = str(error.value).splitlines()
        assert first.startswith(f"MLflow at {address}: ") and "lengthwise ui" in first and "urllib3" not in first
        assert second.endswith(f"{repeated} --tracking-uri {address}")


@pytest.mark.parametrize(
    ("status", "text", "user", "named"),
    [
        (401, b"You are not authenticated.", None, "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (403, b"Permission denied", "ada", "MANAGE"),
        (403, b"Invalid Host header - possible DNS", "ada", "--allowed-hosts"),
    ],
)
def test_a_refused_user_is_told_what_to_do(sweep, publish, busy, quick, monkeypatch, status, text, user, named) -> None:
    busy.status, busy.text = status, text
    monkeypatch.setattr("mlflow.utils.credentials._get_credentials_path", lambda: "nowhere")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    if user:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "open sesame")
    address = f"http://127.0.0.1:{busy.server_address[1]}"
    with pytest.raises(TrackingRefused) as caught:
        publish(sweep.folder, address)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"MLflow at {address}: ") and named in first
    assert caught.value.exit_code == 2 and busy.asked == 1
    again = f"{format_command('publish', sweep.folder)} --tracking-uri {address}"
    assert second.endswith(again) and "sesame" not in first


def test_a_locked_database_is_named(sweep, publish, quick, capfd, monkeypatch) -> None:
    uri = make_default_uri(sweep.folder.parent)
    monkeypatch.setenv("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "1")
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    original = sqlite3.connect
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *a, **k: original(*a, **{**k, "timeout": 0.05}))
    connection.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(TrackingError) as caught:
            publish(sweep.folder, uri)
    finally:
        connection.close()
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"MLflow at {uri}: ") and "locked" in first
    assert second.endswith(f"{format_command('publish', sweep.folder)} --tracking-uri {uri}")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_publishing_tells_how_far_it_is(sweep, publish) -> None:
    progress: list[tuple[int, int]] = []
    publish(sweep.folder, sweep_files=False, on_progress=lambda done, total: progress.append((done, total)))
    assert progress == [(1, 3), (2, 3), (3, 3)]
