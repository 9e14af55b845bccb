"""A server that dies says why, and what was published through it is completed later."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.errors import UserError
from orchestrator.tracking import ui
from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.tracking_errors import TrackingError
from orchestrator.tracking.ui import UiServerError, run_server, serve
from tests.browser import BROWSER, PATIENCE, Browser
from tests.mlflow_points import artifact, assert_complete, rows_of
from tests.ports import free_ports

SERVE = """
import sys
from pathlib import Path
from orchestrator.tracking.ui import serve
serve(Path(sys.argv[1]), port=int(sys.argv[2]))
"""


@pytest.mark.slow
def test_a_server_killed_while_publishing_ends_with_every_point_once(
    sweep, build, publish, lengthwise, tmp_path, monkeypatch, capfd
):
    """What it lacks is sent to the next server, `serve`, which opens what was sent to the file and leaves nothing."""
    storage, (port,) = sweep.folder.parent, free_ports(1)
    other = build(storage / "öther", 1, 1).folder
    sent = publish(other)
    database, uri = storage / "mlflow.db", make_default_uri(storage)
    original, calls = MlflowClient.log_batch, iter(range(1, 1000))
    with run_server(database, port=port) as (url, server):

        def log_batch(self, *args, **kwargs):
            if next(calls) == 2:  # a request has all points of a run: amid those of the second, its answer on the way
                threading.Timer(0.003, os.killpg, [server.pid, signal.SIGKILL]).start()
            return original(self, *args, **kwargs)

        monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
        with pytest.raises(TrackingError, match=f"127.0.0.1:{port}"):
            publish(sweep.folder, url)
        monkeypatch.undo()
    before = rows_of(uri)
    assert 0 < sum(before.values())

    process = lengthwise.start(storage, port, program=SERVE)
    with process.stdout:
        try:
            lines = [process.stdout.readline().strip() for _ in range(8)]
            assert f"{url};" in lines[7]
            assert [lines[0], lines[5]] == ["set_complement / öther", "set_complement / läng e"]  # the newest first
            assert lines[6].startswith(url) and "/experiments/" in lines[6] and len(lines[6]) < 100
            assert "/artifacts/report.html?" in dict(line.split(": ", 1) for line in lines[1:4])["report"]
            page = artifact(url, sent.parent_run_id, "report.html")
            assert page == (other / "report.html").read_bytes()

            capfd.readouterr()
            monkeypatch.setenv("MLFLOW_TRACKING_URI", url.replace("//", "//ada:s3cret@"))
            done = publish(sweep.folder)
            assert "s3cret" not in "".join(capfd.readouterr())  # MLflow itself would print it in the address of a run
            assert b"s3cret" not in database.read_bytes()
            assert_complete(MlflowClient(url), done.parent_run_id, sweep)
            again = publish(sweep.folder)
            assert again.points == 0 and again.links == done.links and again.uri == url
            assert before <= rows_of(uri)
            for _, link in done.links:
                assert link.startswith(url) and "workflowType=machine_learning" in link
            assert artifact(url, done.parent_run_id, "report.html") == (sweep.folder / "report.html").read_bytes()
            by_file = publish(sweep.folder, uri)  # the same store by its other door
            assert (by_file.created, by_file.points) == (0, 0)
            if BROWSER:
                assert_pages_show_the_sweep(done.links, tmp_path / "profile")

            group = int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(process.pid)], text=True).split()[0])
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait() == 0
            left = subprocess.run(
                ["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False
            ).stdout
            assert all(state.startswith("Z") for state in left.split())
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
    if not BROWSER:
        pytest.skip("all but what a browser shows, which needs one (Debian: chromium)")


def assert_pages_show_the_sweep(links: Sequence[tuple[str, str]], profile: Path) -> None:
    """No page logs a problem, but that AG Grid is old, a layout slow or nobody logged in; charts show runs."""
    with Browser(profile, 1400, 900) as tab:
        for what, link in links:
            # A chart must load anew also after another page of MLflow; the others change only the fragment then.
            if "#/metric?" not in link:
                tab.open("about:blank")
            tab.open(link)
            shown = "report.html" if what == "report" else "#0"
            deadline = time.monotonic() + PATIENCE
            while shown not in (text := tab.read("document.body.innerText")):
                assert time.monotonic() < deadline, (what, text, tab.problems)
                time.sleep(0.1)
            assert "page not found" not in text.lower(), what
        harmless = ("AG Grid:", "ResizeObserver loop", "/mlflow/users/current")
        assert not [problem for problem in tab.problems if not any(text in problem for text in harmless)]


@pytest.mark.slow
def test_a_server_that_ends_at_once_says_why(tmp_path):
    broken = tmp_path / "mlflow.db"
    broken.write_bytes(b"this is no database" * 100)
    with pytest.raises(UiServerError, match=r"mlflow-server\.log: .*\w"), run_server(broken):
        pass


@pytest.mark.parametrize("host", ["no.such.host.invalid", "8.8.8.8", "x" * 70])
def test_a_host_that_is_not_this_machine_is_named(tmp_path, host):
    for port in (None, 5999):
        with pytest.raises(UserError, match=rf"^--host {host} --port \d+: .*127\.0\.0\.1"):
            serve(tmp_path, host, port)
    assert not list(tmp_path.iterdir())


def test_the_port_is_the_first_that_is_free(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not the ports of a user, which other processes take and free meanwhile
        ports = range(taken.getsockname()[1], taken.getsockname()[1] + 50)
        monkeypatch.setattr(ui, "PORTS", ports)
        assert ui.choose_port("127.0.0.1", None) in ports[1:]
