"""A server that dies says why, and what was published through it is completed later."""

import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.errors import UserError
from orchestrator.tracking import ui
from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.errors import TrackingError
from orchestrator.tracking.ui import UiServerError, run_server, serve
from tests.mlflow_points import artifact, assert_complete, rows_of
from tests.ports import free_ports


@pytest.mark.slow
def test_a_server_killed_while_publishing_ends_with_every_point_once(sweep, tmp_path, monkeypatch, publish, capfd):
    storage, (port,) = tmp_path / "central", free_ports(1)
    storage.mkdir()
    database = Path(shutil.copy(sweep.folder.parent / "mlflow.db", storage))
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
    before = rows_of(make_default_uri(storage))
    assert 0 < sum(before.values())
    with run_server(database, port=port) as (url, server):
        capfd.readouterr()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url.replace("//", "//ada:s3cret@"))
        done = publish(sweep.folder)
        assert "s3cret" not in "".join(capfd.readouterr())  # MLflow itself would print it in the address of each run
        assert b"s3cret" not in database.read_bytes()
        client = MlflowClient(url)
        assert_complete(client, done.parent_run_id, sweep)
        again = publish(sweep.folder)
        assert again.points == 0 and again.links == done.links and again.uri == url
        assert before <= rows_of(make_default_uri(storage))
        for _, link in done.links:
            assert link.startswith(url) and "workflowType=machine_learning" in link
        assert artifact(url, done.parent_run_id, "report.html") == (sweep.folder / "report.html").read_bytes()


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
