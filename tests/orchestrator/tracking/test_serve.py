"""`lengthwise ui` shows what is in a store, names what it lacks, and leaves nothing running."""

import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import webbrowser
from contextlib import closing, nullcontext, suppress

import psutil
import pytest

from orchestrator.errors import UserError
from orchestrator.tracking import ui
from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.tracking_errors import TrackingError
from orchestrator.tracking.ui import serve


@pytest.mark.parametrize(
    ("delay", "signals"),
    [
        (0.5, ["SIGINT", "SIGINT"]),
        pytest.param(0.0, ["SIGHUP", "SIGTERM"], marks=pytest.mark.slow),
    ],
)
def test_a_server_that_is_just_starting_is_ended_with_all_its_processes(tmp_path, delay, signals):
    """Ctrl-C as soon as there is a process of the server, and while it imports; again while it is being ended."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from pathlib import Path; from orchestrator.tracking.ui import run_server\n"
        "with run_server(Path(sys.argv[1]) / 'mlflow.db') as (_, server): server.wait()"
    )
    servers: list[psutil.Process] = []
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 300
            while not (servers := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(delay)
            begun = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
            for name in signals:
                process.send_signal(signal.Signals[name])
                time.sleep(0.1)
            error = process.communicate(timeout=60)[1]
            left = [pid for pid in begun if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
            assert servers and not left
            assert error.splitlines()[-1:] in ([], ["KeyboardInterrupt"])
        finally:
            process.kill()
            for server in servers:
                with suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)


def test_a_taken_port_and_a_foreign_store_are_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"^--host 127\.0\.0\.1 --port {port}: Address already in use"):
            serve(tmp_path, port=port)
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        UserError, match=r"http://lab3:5000: not a SQLite store; allowed: sqlite:///FILE; .* in a browser$"
    ):
        serve(tmp_path, uri="http://lab3:5000")
    with pytest.raises(UserError, match=r"postgresql://db/a: not .*instead run: (.*)$") as refused:
        serve(tmp_path / "a b", uri="postgresql://db/a")
    words = shlex.split(str(refused.value).partition("run: ")[2])
    assert words[:4] == ["mlflow", "server", "--backend-store-uri", "postgresql://db/a"]
    assert words[4:] == ["--default-artifact-root", str(tmp_path / "a b" / "mlartifacts")]


def test_a_file_that_is_no_store_is_named_and_left_as_it_is(tmp_path, fresh_store):
    database = tmp_path / "mlflow.db"
    database.write_text("some notes of mine\n")
    with pytest.raises(UserError, match=r"mlflow\.db names a file that is not a SQLite database; put a copy"):
        serve(tmp_path)
    missing = f"sqlite:///{tmp_path}/typo/sub/mlflow.db"
    with pytest.raises(UserError, match=r"sqlite:///.*typo/sub/mlflow\.db: there is no such file"):
        serve(tmp_path, uri=missing)
    assert database.read_text() == "some notes of mine\n" and list(tmp_path.iterdir()) == [database]
    shutil.copy(fresh_store, database)
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("UPDATE alembic_version SET version_num = 'of another version'")
    with pytest.raises(TrackingError) as refused:
        serve(tmp_path)
    assert make_default_uri(tmp_path) in str(refused.value) and "mlflow db upgrade" in str(refused.value)


def test_more_sweeps_than_are_shown_are_counted(
    tmp_path, synthetic_sweep, simple_curve, fresh_store, publish, monkeypatch
):
    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    for name in ("a", "b", "c", "d"):
        publish(synthetic_sweep(tmp_path / name, [{}], 1, simple_curve).folder, sweep_files=False)
    monkeypatch.setattr(ui, "MAX_SHOWN_SWEEPS", 1)  # of the older ones
    ended = subprocess.Popen(["true"])
    monkeypatch.setattr(ui, "run_server", lambda *_: nullcontext(("http://127.0.0.1:5000", ended)))
    opened, messages = [], []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address))
    with pytest.raises(ui.UiServerError):
        serve(tmp_path, show=True, say=messages.append)
    lines = "\n".join(messages).splitlines()
    headings = [line.strip() for line in lines if " / " in line]
    assert headings == ["set_complement / d", "set_complement / c and 2 more"]
    pages = [line.strip().rpartition(": ") for line in lines[:-2] if "#/" in line]
    assert all(link.startswith("http") for *_, link in pages)
    assert [name for name, *_ in pages].index("report") == 0 and not pages[-1][0]  # of the study: a link alone
    (first, *_) = (link for *_, link in pages)
    assert opened == [first] and "/artifacts/report.html" in first
    assert "http://127.0.0.1:5000;" in lines[-2]
    assert first in lines[-1]  # no browser took it
