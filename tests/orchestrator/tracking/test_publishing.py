"""A running sweep is published by a child process, and no problem of MLflow reaches the sweep."""

import json
import os
import threading
import time
from dataclasses import asdict
from functools import partial
from multiprocessing import Pipe
from types import SimpleNamespace

import psutil
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.report.write_report import present_report
from orchestrator.sweep import train_missing
from orchestrator.text.wording import format_command
from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.publish import publish
from orchestrator.tracking.publisher import MAX_WAIT_SECONDS, Publication, Publisher
from orchestrator.tracking.publisher_process import publish_changes, try_to_publish
from orchestrator.tracking.tracking_errors import TIMEOUTS
from search_spaces import Tracking
from tests.mlflow_points import assert_complete
from tests.ports import free_ports

EVALUATION, SCORE = b'{"seq":1,"kind":"evaluation","data":{}}\n', b'{"seq":2,"kind":"score","data":{}}\n'
SENT = SimpleNamespace(uri="uri", links=())


@pytest.mark.slow
def test_a_dead_server_is_a_problem_in_words_within_seconds(sweep, monkeypatch):
    for key in TIMEOUTS:
        monkeypatch.delenv(key, raising=False)
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    result = try_to_publish(sweep.folder, partial(publish, sweep.folder, address))
    assert {key: os.environ.get(key) for key in TIMEOUTS} == TIMEOUTS  # by MLflow's own settings it would take minutes
    assert address in result.problem and format_command("publish", sweep.folder) in result.problem


class Growing:
    """A ledger that grows as `follow` waits, and what is published and sent of it."""

    def __init__(self, folder, contents, problems=()):
        self.file, self.contents, self.problems = folder / LEDGER_FILE, iter(contents), iter(problems)
        self.published, self.sent = [], []
        publish_changes(folder, self.publish, self.has_ended, lambda attempt: self.sent.append(attempt.problem))

    def has_ended(self, seconds):
        content = next(self.contents, None)
        self.file.write_bytes(content or b"")
        return content is None

    def publish(self):
        self.published.append(self.file.read_bytes())
        if problem := next(self.problems, None):
            raise problem
        return SENT


def test_it_is_published_at_once_and_after_new_scores(tmp_path):
    grown = Growing(tmp_path, [EVALUATION, EVALUATION * 2, EVALUATION + SCORE, EVALUATION + SCORE, SCORE * 9])
    assert grown.published == [EVALUATION, EVALUATION + SCORE, SCORE * 9]


def test_what_failed_is_repeated_and_a_refusal_is_sent_once(tmp_path):
    grown = Growing(tmp_path, [SCORE] * 5, [OSError("down"), UserError("no such user")] * 2)
    assert len(grown.published) == 5 and grown.sent == ["no such user"]


def test_even_an_unexpected_error_is_a_problem_in_words(tmp_path):
    def broken():
        raise RuntimeError("no such luck")

    problem = try_to_publish(tmp_path, broken).problem
    assert problem is not None and "RuntimeError: no such luck" in problem and "lengthwise publish" in problem


@pytest.fixture
def publisher(tmp_path):
    """A publisher whose child is this test, at the other end of `theirs`."""
    made = object.__new__(Publisher)
    made._folder, (made._connection, made.theirs) = tmp_path, Pipe()
    return made


def send(publisher, attempt):
    publisher.theirs.send_bytes(json.dumps(asdict(attempt)).encode())


def test_a_refusal_is_reported_once(publisher):
    messages = []
    send(publisher, Publication(problem="no such user", is_refused=True))
    train_missing._report_refusals(SimpleNamespace(say=messages.append), publisher)
    train_missing._report_refusals(SimpleNamespace(say=messages.append), publisher)
    (text,) = messages
    assert text.startswith("not published: no such user")


def test_the_end_waits_for_the_last_pass_so_long_and_no_longer(publisher, tmp_path):
    send(publisher, Publication(problem="refused", is_refused=True))
    began = time.monotonic()
    late = publisher.wait(0.5)
    assert 0.5 <= time.monotonic() - began < 5 and format_command("publish", tmp_path) in late.problem
    send(publisher, Publication("uri", (("name", "link"),), is_last=True))
    assert publisher.wait(60) == Publication("uri", [["name", "link"]], is_last=True)
    publisher.theirs.close()
    assert format_command("publish", tmp_path) in publisher.wait(60).problem
    assert MAX_WAIT_SECONDS == 30


def test_refusals_are_read_while_the_sweep_runs(publisher):
    assert publisher.read_refusals() == []
    send(publisher, Publication(problem="no such user", is_refused=True))
    assert publisher.read_refusals() == ["no such user"] and publisher.read_refusals() == []


def test_publishing_waits_for_another_process(sweep, reports):
    """Two at once could create a run twice."""
    entered, leave, results = threading.Event(), threading.Event(), []
    first = {"on_progress": lambda *_: (entered.set(), leave.wait(60))}
    live = threading.Thread(target=publish, args=[sweep.folder], kwargs=first)
    live.start()
    assert entered.wait(60)
    last = threading.Thread(target=lambda: results.append(publish(sweep.folder)))
    last.start()
    last.join(0.5)
    assert last.is_alive()
    leave.set()
    for thread in (live, last):
        thread.join(60)
    assert results[0].created == 0


@pytest.mark.slow
def test_a_publisher_publishes_the_running_sweep_and_completes_it(sweep):
    """The ledger is cut after its first score, and grows to its end while the publisher follows it."""
    ledger, database = sweep.folder / LEDGER_FILE, sweep.folder.parent / "mlflow.db"
    lines = ledger.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines, 1) if b'"kind":"score"' in line)
    ledger.write_bytes(b"".join(lines[:first]))
    database.unlink()
    publisher = Publisher()
    client = MlflowClient(make_default_uri(sweep.folder.parent))

    def runs(kind):
        named = f"tags.`lengthwise.kind` = '{kind}'"
        return client.search_runs([experiment.experiment_id for experiment in client.search_experiments()], named)

    try:
        publisher.start(sweep.folder, Tracking())
        deadline = time.monotonic() + 300
        while not (database.exists() and runs("configuration")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        ledger.write_bytes(b"".join(lines))
        publisher.announce("end")
        present_report(sweep.folder, Console(), quiet=True)  # as the driver does
        written = (sweep.folder / "report.html").stat().st_mtime_ns
        publisher.announce("files")
        result = publisher.wait(300)
        assert result.problem is None and result.uri == make_default_uri(sweep.folder.parent)
        (parent,) = runs("sweep")
        assert_complete(client, parent.info.run_id, sweep)
        assert (sweep.folder / "report.html").stat().st_mtime_ns == written  # the publisher writes no second one
    finally:
        publisher.kill()
    assert not psutil.pid_exists(publisher._process.pid)
