"""The publisher follows a sweep in the background and never raises into it."""

import io
import os
import time
from functools import partial
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE, Record
from orchestrator.record.state.state import SweepState
from orchestrator.tracking.publish import publish
from orchestrator.tracking.publisher import Publisher, SweepPublishing
from orchestrator.tracking.store.outages import OUTAGE
from orchestrator.tracking.store.sqlite_store import default_uri
from orchestrator.tracking.ui.server import free_port
from orchestrator.wording import command
from search_spaces import parse_sweep

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it

ROOT = Path(__file__).parents[3]


def test_a_dead_server_is_noticed_and_the_sweep_goes_on(sweep, artifacts, monkeypatch):
    for key in OUTAGE:
        monkeypatch.delenv(key, raising=False)
    address = f"http://127.0.0.1:{free_port()}"
    publisher = Publisher(sweep.folder, partial(publish, sweep.folder, address, artifacts=artifacts), pause=0.1)
    publisher.notify()
    message = publisher.close(timeout=120)
    assert {key: os.environ.get(key) for key in OUTAGE} == OUTAGE  # by MLflow's own settings it would take minutes
    assert message is not None and address in message and command("publish", sweep.folder) in message


def test_the_publisher_follows_a_growing_ledger(sweep, artifacts, assert_complete):
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:6]))
    publisher = Publisher(sweep.folder, partial(publish, sweep.folder, artifacts=artifacts), pause=0.01)
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


def test_the_publisher_keeps_even_an_unexpected_error_to_itself(sweep):
    def broken(*args, **kwargs):
        raise RuntimeError("no such luck")

    message = Publisher(sweep.folder, broken).close(timeout=60)
    assert message is not None and "RuntimeError: no such luck" in message and "lengthwise publish" in message


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def publishing(sweep, artifacts):
    """Of tracking settings: the publishing of the sweep as its driver makes it."""

    def make(**tracking):
        text = (ROOT / "search_spaces" / "quickstart.yaml").read_text(encoding="utf-8")
        spec = parse_sweep(text, "quickstart.yaml")
        spec = spec.model_copy(update={"tracking": spec.tracking.model_copy(update=tracking)})

        def one_pass(**what):
            asked.append(what["sweep_files"])
            section = spec.tracking
            return publish(sweep.folder, section.uri, experiment=section.experiment, artifacts=artifacts, **what)

        return SweepPublishing(spec, sweep.folder, one_pass), asked

    asked = []
    return make


def record(kind):
    return Record(seq=1, time=0.0, kind=kind, fields={})


def test_a_sweep_publishes_from_its_first_score_on(sweep, publishing, artifacts, console, assert_complete):
    one, asked = publishing(enabled=True, experiment="mine")
    one.seen(record("evaluation"))
    assert not asked
    one.seen(record("score"))
    one.seen(record("score"))
    with Ledger.open(sweep.folder) as ledger:
        one.close(ledger, console)
    assert asked.count(True) == 1 and artifacts.asked.count(-1) == 1
    state = SweepState.load(sweep.folder)
    assert state.publishes[-1] == {"uri": default_uri(sweep.folder.parent), "ok": True, "message": ""}
    assert "lengthwise ui --tracking-uri" in console.file.getvalue()
    client = MlflowClient(default_uri(sweep.folder.parent))
    experiment = client.get_experiment_by_name("mine").experiment_id
    (parent,) = client.search_runs([experiment], "tags.`lengthwise.kind` = 'sweep'")
    assert_complete(client, parent.info.run_id, sweep)


def test_a_sweep_that_ends_soon_after_its_first_score_is_published_once(sweep, publishing, console):
    one, asked = publishing(enabled=True)
    one.seen(record("score"))
    with Ledger.open(sweep.folder) as ledger:
        one.close(ledger, console)
    assert asked == [True]


def test_the_last_pass_is_made_here_where_another_process_should_have_made_it(sweep, publishing, console):
    one, asked = publishing(enabled=True)
    one.seen(record("score"))
    one.stop()
    with Ledger.open(sweep.folder) as ledger:
        one.close(ledger, console)
    assert asked == [True] and SweepState.load(sweep.folder).publishes[-1]["uri"] == default_uri(sweep.folder.parent)


def test_what_could_not_be_published_is_said_and_recorded(sweep, publishing, console):
    one, _ = publishing(enabled=True, uri=f"http://127.0.0.1:{free_port()}")
    with Ledger.open(sweep.folder) as ledger:
        one.close(ledger, console)
    assert command("publish", sweep.folder) in console.file.getvalue()
    (published,) = SweepState.load(sweep.folder).publishes
    assert not published["ok"] and "complete it later" in published["message"]


def test_a_sweep_that_is_not_tracked_publishes_nothing(sweep, publishing, console):
    one, asked = publishing(enabled=False)
    before = (sweep.folder / LEDGER_FILE).read_bytes()
    one.seen(record("score"))
    with Ledger.open(sweep.folder) as ledger:
        one.close(ledger, console)
    assert not asked and (sweep.folder / LEDGER_FILE).read_bytes() == before and not console.file.getvalue()
