"""A running sweep is published after new scores, and no problem of MLflow reaches the sweep."""

import json
import os
import threading
import time
from dataclasses import asdict
from functools import partial

import psutil
import pytest
from mlflow.tracking import MlflowClient

from orchestrator.ending.publisher import Publisher
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.tracking.attempt import Attempt, BackgroundAttempt, Published, attempt
from orchestrator.tracking.follow import follow
from orchestrator.tracking.publish import publish
from orchestrator.tracking.store.outages import OUTAGE
from orchestrator.tracking.store.sqlite_store import default_uri
from orchestrator.tracking.ui.server import free_port
from orchestrator.wording import command
from search_spaces import Tracking
from tests.mlflow_points import assert_complete


@pytest.mark.slow
def test_a_dead_server_is_a_problem_in_words_within_seconds(sweep, artifacts, monkeypatch):
    for key in OUTAGE:
        monkeypatch.delenv(key, raising=False)
    address = f"http://127.0.0.1:{free_port()}"
    result = attempt(sweep.folder, partial(publish, sweep.folder, address, artifacts=artifacts))
    assert {key: os.environ.get(key) for key in OUTAGE} == OUTAGE  # by MLflow's own settings it would take minutes
    assert result.published is None and address in result.problem and command("publish", sweep.folder) in result.problem


def test_even_an_unexpected_error_is_a_problem_in_words(sweep):
    def broken():
        raise RuntimeError("no such luck")

    problem = BackgroundAttempt(sweep.folder, broken).wait(60).problem
    assert problem is not None and "RuntimeError: no such luck" in problem and "lengthwise publish" in problem


def test_an_attempt_survives_json():
    published = Published("uri", "id", (("name", "link"),), created=1, completed=2, points=3)
    for one in (Attempt(published=published), Attempt(problem="no", is_refused=True)):
        assert Attempt.from_json(json.loads(json.dumps(asdict(one)))) == one


@pytest.fixture
def wait_until():
    def wait(condition):
        deadline = time.monotonic() + 120
        while not (result := condition()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return result

    return wait


class Sweep:
    """Follows a ledger that grows between two looks at it."""

    def __init__(self, folder, steps):
        self.folder, self._steps = folder, iter(steps)

    def is_running(self):
        try:
            (self.folder / LEDGER_FILE).write_bytes(next(self._steps))
        except StopIteration:
            return False
        return True

    def follow(self, publish, **more):
        follow(self.folder, publish, is_running=self.is_running, pause=0.01, **more)


EVALUATION, SCORE = b'{"seq":1,"kind":"evaluation","data":{}}\n', b'{"seq":2,"kind":"score","data":{}}\n'


def test_a_pass_follows_new_scores_and_nothing_else(tmp_path):
    passes = []
    torn = EVALUATION + SCORE[:-1]
    steps = [EVALUATION, torn, EVALUATION + SCORE, EVALUATION + SCORE, EVALUATION + SCORE + EVALUATION, SCORE * 9]
    sweep = Sweep(tmp_path, steps)
    sweep.follow(lambda: passes.append((tmp_path / LEDGER_FILE).read_bytes()))
    assert passes == [steps[2], steps[5]]


def test_a_pass_that_failed_is_repeated_without_another_score(tmp_path):
    problems, passes = [], []

    def publish():
        passes.append(1)
        if len(passes) == 1:
            raise OSError("down")

    Sweep(tmp_path, [SCORE] * 4).follow(publish, report=lambda one: problems.append(one.problem))
    assert len(passes) == 2 and problems[0] is None and "OSError: down" in problems[1] and problems[2:] == [None]


def test_what_makes_every_pass_fail_is_reported_before_the_first_score(tmp_path):
    reported = []

    def check():
        raise UserError("no such user")

    Sweep(tmp_path, [EVALUATION]).follow(lambda: None, check=check, report=reported.append)
    assert reported == [Attempt(problem="no such user", is_refused=True)]


@pytest.mark.slow
def test_a_growing_sweep_is_completed_by_the_last_pass(sweep, artifacts):
    lines = (sweep.folder / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines, 1) if b'"kind":"score"' in line)
    growing = Sweep(sweep.folder, [b"".join(lines[:first]), b"".join(lines)])
    completed = []

    def live():
        completed.append(publish(sweep.folder, artifacts=artifacts, sweep_files=False).completed)

    growing.follow(live)
    assert len(completed) == 2 and completed[-1] == 3
    assert artifacts.asked == 0  # the sweep's own files: by the last pass alone
    last = publish(sweep.folder, artifacts=artifacts)
    assert artifacts.asked == 1
    assert_complete(MlflowClient(last.uri), last.parent_run_id, sweep)


def test_the_last_pass_waits_for_a_live_one(sweep, artifacts, monkeypatch):
    """Two at once could create a run twice."""
    entered, leave = threading.Event(), threading.Event()
    live = threading.Thread(
        target=publish,
        args=[sweep.folder],
        kwargs={"artifacts": artifacts, "on_progress": lambda *_: (entered.set(), leave.wait(60))},
    )
    live.start()
    assert entered.wait(60)
    last = BackgroundAttempt(sweep.folder, partial(publish, sweep.folder, artifacts=artifacts))
    assert last.wait(0.5).problem is not None
    leave.set()
    live.join()
    result = last.wait(60)
    assert result.published is not None and result.published.created == 0


@pytest.mark.slow
def test_a_publisher_publishes_the_running_sweep_and_ends_with_its_fork(sweep, wait_until):
    publisher = Publisher()
    publisher.follow(sweep.folder, Tracking())
    client = MlflowClient(default_uri(sweep.folder.parent))
    try:
        (fork,) = wait_until(publisher._process.children)
        database = sweep.folder.parent / "mlflow.db"
        wait_until(database.exists)
        named = "tags.`lengthwise.kind` = 'configuration'"
        wait_until(
            lambda: [one for e in client.search_experiments() for one in client.search_runs([e.experiment_id], named)]
        )
    finally:
        publisher.kill()
    assert not psutil.wait_procs([fork], timeout=600)[1]
