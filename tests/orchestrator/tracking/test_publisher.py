"""The publisher follows a sweep in the background and never raises into it."""

import os
import time

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.record.records import LEDGER_FILE
from orchestrator.tracking.publisher import Publisher
from orchestrator.tracking.server import free_port
from orchestrator.tracking.store import OUTAGE

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it


def test_a_dead_server_is_noticed_and_the_sweep_goes_on(sweep, artifacts, monkeypatch):
    for key in OUTAGE:
        monkeypatch.delenv(key, raising=False)
    address = f"http://127.0.0.1:{free_port()}"
    publisher = Publisher(sweep.folder, address, artifacts=artifacts, pause=0.1)
    publisher.notify()
    message = publisher.close(timeout=120)
    assert {key: os.environ.get(key) for key in OUTAGE} == OUTAGE  # by MLflow's own settings it would take minutes
    assert message is not None and address in message and f"lengthwise publish {sweep.folder}" in message


def test_the_publisher_follows_a_growing_ledger(sweep, artifacts, assert_complete):
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:6]))
    publisher = Publisher(sweep.folder, artifacts=artifacts, pause=0.01)
    publisher.notify()
    deadline = time.monotonic() + 120
    while publisher.latest is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert publisher.latest is not None and publisher.latest.completed == 1
    ledger.write_bytes(b"".join(lines))
    assert publisher.close(timeout=120) is None
    assert artifacts.asked.count(-1) == 1  # the sweep's own files: by the last pass alone
    assert publisher.latest.completed == 3
    assert_complete(MlflowClient(publisher.latest.uri), publisher.latest.parent_run_id, sweep)


def test_the_publisher_keeps_even_an_unexpected_error_to_itself(sweep, artifacts, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("orchestrator.tracking.publish.publish", broken)
    message = Publisher(sweep.folder, artifacts=artifacts).close(timeout=60)
    assert message is not None and "RuntimeError: no such luck" in message and "lengthwise publish" in message
