"""A server that dies says why, and what was published through it is completed later."""

import errno
import os
import shutil
import signal
import socket
import threading
import urllib.parse
import urllib.request

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.errors import UserError
from orchestrator.tracking.contents import pages
from orchestrator.tracking.store.outages import TrackingError
from orchestrator.tracking.store.sqlite_store import default_uri
from orchestrator.tracking.ui.server import USUAL_PORTS, UiServer, UiServerError, free_port, usual_port
from tests.mlflow_points import artifact, assert_complete, rows_of


@pytest.mark.slow
def test_a_server_killed_while_publishing_ends_with_every_point_once(sweep, tmp_path, monkeypatch, publish, capfd):
    storage = tmp_path / "central"
    storage.mkdir()
    shutil.copy(sweep.folder.parent / "mlflow.db", storage)
    port = free_port()

    def server() -> UiServer:
        return UiServer(
            database=storage / "mlflow.db", artifacts=storage / "mlartifacts", port=port, log=tmp_path / "log"
        )

    running = server().start()
    try:
        original, calls = MlflowClient.log_batch, iter(range(1, 1000))

        def log_batch(self, *args, **kwargs):
            if next(calls) == 2:  # a request has all points of a run: amid those of the second, its answer on the way
                threading.Timer(0.003, os.killpg, [running.process.pid, signal.SIGKILL]).start()
            return original(self, *args, **kwargs)

        monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
        with pytest.raises(TrackingError, match=f"127.0.0.1:{port}"):
            publish(sweep.folder, running.url)
        monkeypatch.undo()
        running.close()
        before = rows_of(default_uri(storage))
        assert 0 < sum(before.values())

        running = server().start()
        capfd.readouterr()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.url.replace("//", "//ada:s3cret@"))
        done = publish(sweep.folder, running.url)
        assert "s3cret" not in "".join(capfd.readouterr())  # MLflow itself would print it in the address of each run
        assert b"s3cret" not in (storage / "mlflow.db").read_bytes()
        client = MlflowClient(running.url)
        assert_complete(client, done.parent_run_id, sweep)
        again = publish(sweep.folder, running.url)
        assert again.points == 0 and again.links == done.links and again.uri == running.url
        assert before <= rows_of(default_uri(storage))
        for _, link in done.links:
            assert link.startswith(running.url) and "workflowType=machine_learning" in link
        key = urllib.parse.parse_qs(dict(done.links)["curves of the configurations ranked first"].split("?")[1])[
            "viewStateShareKey"
        ]
        experiment = client.get_experiment(client.get_run(done.parent_run_id).info.experiment_id)
        assert pages.VIEW_TAG + key[0] in experiment.tags
        assert artifact(running.url, done.parent_run_id, "report.html") == (sweep.folder / "report.html").read_bytes()
    finally:
        running.close()


@pytest.mark.slow
def test_a_server_that_ends_at_once_says_why(tmp_path):
    broken = tmp_path / "mlflow.db"
    broken.write_bytes(b"this is no database" * 100)
    server = UiServer(database=broken, artifacts=tmp_path, log=tmp_path / "log")
    with pytest.raises(UiServerError, match=r"ended with exit code .*its last output: .*"):
        server.start()


def test_a_storage_folder_has_a_port_of_its_own_while_it_is_free(tmp_path):
    port = usual_port(tmp_path)
    assert port == usual_port(tmp_path) and port in USUAL_PORTS
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert usual_port(tmp_path) != port


@pytest.mark.parametrize("host", ["no.such.host.invalid", "8.8.8.8", "x" * 70])
def test_a_host_that_is_not_this_machine_is_named(tmp_path, host):
    for port in (None, 5999):
        with pytest.raises(UserError, match=f"^--host {host} is not an address of this machine; allowed: 127.0.0.1"):
            UiServer(database=tmp_path / "a.db", artifacts=tmp_path, log=tmp_path / "log", host=host, port=port).start()


def test_a_port_of_the_administrator_is_not_called_taken(tmp_path, monkeypatch):
    def bind(probe, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(UserError, match=r"^--port 80 needs the rights of an administrator; choose one above 1023$"):
        UiServer(database=tmp_path / "a.db", artifacts=tmp_path, log=tmp_path / "log", port=80)


def test_a_proxy_is_not_asked_whether_the_server_answers(tmp_path, monkeypatch):
    for name, value in {"http_proxy": "http://127.0.0.1:9", "no_proxy": "", "NO_PROXY": ""}.items():
        monkeypatch.setenv(name, value)
    started = UiServer(database=tmp_path / "a.db", artifacts=tmp_path, log=tmp_path / "log")

    def answer(listening):
        with listening.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", started.port)) as listening:
        threading.Thread(target=answer, args=[listening], daemon=True).start()
        assert started._answers()
