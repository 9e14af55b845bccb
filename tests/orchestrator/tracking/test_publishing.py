"""A running sweep is published by a child process, and no problem of MLflow reaches the sweep."""

import json
import os
import threading
import time
from functools import partial
from multiprocessing import Pipe
from types import SimpleNamespace

import psutil
import pytest
from mlflow.tracking import MlflowClient

from orchestrator.ending import publisher_process
from orchestrator.ending.publisher import LONGEST_SECONDS, Attempt, Publisher
from orchestrator.ending.publisher_process import attempt, follow
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.tracking.errors import OUTAGE
from orchestrator.tracking.publish import publish
from orchestrator.tracking.sqlite_store import default_uri
from orchestrator.wording import command
from search_spaces import Tracking
from tests.mlflow_points import assert_complete
from tests.ports import free_ports

EVALUATION, SCORE = b'{"seq":1,"kind":"evaluation","data":{}}\n', b'{"seq":2,"kind":"score","data":{}}\n'
SENT = SimpleNamespace(uri="uri", links=())


@pytest.mark.slow
def test_a_dead_server_is_a_problem_in_words_within_seconds(sweep, artifacts, monkeypatch):
    for key in OUTAGE:
        monkeypatch.delenv(key, raising=False)
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    result = attempt(sweep.folder, partial(publish, sweep.folder, address, artifacts=artifacts))
    assert {key: os.environ.get(key) for key in OUTAGE} == OUTAGE  # by MLflow's own settings it would take minutes
    assert address in result.problem and command("publish", sweep.folder) in result.problem


class Ledger:
    """A ledger that grows, seen by `follow`: each pass and each wait without one takes the next content."""

    def __init__(self, folder, contents):
        self.file, self.contents, self.passes, self.sent = folder / LEDGER_FILE, iter(contents), [], []

    def poll(self, seconds):
        try:
            self.file.write_bytes(next(self.contents))
        except StopIteration:
            return True
        return False

    def recv_bytes(self): ...

    def send_bytes(self, answer):
        self.sent.append(json.loads(answer)["problem"])

    def publish(self):
        self.passes.append(self.file.read_bytes())
        return SENT


def test_a_pass_comes_at_once_and_after_new_scores(tmp_path):
    ledger = Ledger(tmp_path, [EVALUATION, EVALUATION * 2, EVALUATION + SCORE, EVALUATION + SCORE, SCORE * 9])
    follow(ledger, tmp_path, ledger.publish)
    assert ledger.passes == [EVALUATION, EVALUATION + SCORE, SCORE * 9]


def test_a_pass_that_failed_is_repeated_and_a_refusal_is_sent_once(tmp_path):
    ledger, problems = Ledger(tmp_path, [SCORE] * 5), iter([OSError("down"), UserError("no such user")] * 2)

    def fail():
        ledger.publish()
        if problem := next(problems, None):
            raise problem
        return SENT

    follow(ledger, tmp_path, fail)
    assert len(ledger.passes) == 5 and ledger.sent == ["no such user"]


def test_even_an_unexpected_error_is_a_problem_in_words(tmp_path):
    def broken():
        raise RuntimeError("no such luck")

    problem = attempt(tmp_path, broken).problem
    assert problem is not None and "RuntimeError: no such luck" in problem and "lengthwise publish" in problem


@pytest.fixture
def publisher(tmp_path):
    """A publisher whose child is this test, at the other end of `theirs`."""
    made = object.__new__(Publisher)
    made._folder, (made._connection, made.theirs) = tmp_path, Pipe()
    return made


def test_the_end_waits_for_the_last_pass_so_long_and_no_longer(publisher, tmp_path):
    publisher_process._send(publisher.theirs, Attempt(problem="refused", is_refused=True), is_last=False)
    began = time.monotonic()
    late = publisher.wait(0.5)
    assert 0.5 <= time.monotonic() - began < 5 and command("publish", tmp_path) in late.problem
    publisher_process._send(publisher.theirs, Attempt("uri", (("name", "link"),)), is_last=True)
    assert publisher.wait(60) == Attempt("uri", [["name", "link"]])
    publisher.theirs.close()
    assert command("publish", tmp_path) in publisher.wait(60).problem
    assert LONGEST_SECONDS == 30


def test_refusals_are_read_while_the_sweep_runs(publisher):
    assert publisher.read_notices() == []
    publisher_process._send(publisher.theirs, Attempt(problem="no such user", is_refused=True), is_last=False)
    assert publisher.read_notices() == ["no such user"] and publisher.read_notices() == []


def test_a_pass_waits_for_another_one(sweep, artifacts):
    """Two at once could create a run twice."""
    entered, leave, results = threading.Event(), threading.Event(), []
    first = {"artifacts": artifacts, "on_progress": lambda *_: (entered.set(), leave.wait(60))}
    live = threading.Thread(target=publish, args=[sweep.folder], kwargs=first)
    live.start()
    assert entered.wait(60)
    last = threading.Thread(target=lambda: results.append(publish(sweep.folder, artifacts=artifacts)))
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
    client = MlflowClient(default_uri(sweep.folder.parent))

    def runs(kind):
        named = f"tags.`lengthwise.kind` = '{kind}'"
        return client.search_runs([one.experiment_id for one in client.search_experiments()], named)

    try:
        publisher.follow(sweep.folder, Tracking())
        deadline = time.monotonic() + 300
        while not (database.exists() and runs("configuration")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        ledger.write_bytes(b"".join(lines))
        publisher.begin_end()
        result = publisher.wait(300)
        assert result.problem is None and result.uri == default_uri(sweep.folder.parent)
        (parent,) = runs("sweep")
        assert_complete(client, parent.info.run_id, sweep)
        assert (sweep.folder / "report.html").exists()
    finally:
        publisher.kill()
    assert not psutil.pid_exists(publisher._process.pid)
