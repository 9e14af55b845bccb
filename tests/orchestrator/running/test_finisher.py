"""The finisher prints, draws and publishes the end of a sweep; if it dies or hangs, the driver does."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import psutil
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from orchestrator.ending import finisher as finishing
from orchestrator.ending import finisher_process
from orchestrator.ending.finisher import Finisher
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import write_report
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.comparing.shared_streams import parameters_by_structure
from orchestrator.results.summarise import summary
from tests.orchestrator.running.deaths import finish, with_words
from tests.orchestrator.running.ledgers import records, wait_for

TRACKED = ("--set", "tracking.enabled=true", "--set", "resources.scheduler=local")


@pytest.mark.slow
def test_the_end_is_that_of_a_sweep_that_draws_by_itself(lengthwise, tiny, tmp_path):
    done = lengthwise.process("run", tiny, "--storage", tmp_path, *TRACKED)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "tiny"
    said = done.stdout
    assert said.index("Finished: ") < said.index("Page: ") < said.index("lengthwise ui") < len(said)
    (published,) = SweepState.load(folder).published_at
    assert published.endswith("mlflow.db")
    assert (folder / "curves.parquet").exists()
    page = (folder / "report.html").read_bytes()
    write_report(folder)
    assert (folder / "report.html").read_bytes() == page and b'"running":false' in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_the_driver_does_what_a_killed_finisher_has_not(lengthwise, long_sweep):
    folder = long_sweep.storage / "undone"
    words = long_sweep.words("undone", "resources.scheduler=local", "tracking.enabled=true")
    driver = long_sweep.start(lengthwise, *words)
    wait_for(lambda: records(folder, "evaluation"), driver)
    beside = with_words(driver.pid, "finisher_process")  # the finisher and its forks
    assert beside
    for one in beside:
        one.kill()
    long_sweep.release()
    out = finish(driver)
    assert "Page: " in out and (folder / "report.html").exists()
    (published,) = SweepState.load(folder).published_at
    assert published.endswith("mlflow.db")
    (parent,) = MlflowClient(published).search_runs(["1"], "tags.`lengthwise.kind` = 'sweep'")
    assert parent.info.status == "FINISHED"
    artifacts = Path(unquote(urlsplit(parent.info.artifact_uri).path))
    assert (artifacts / "report.html").exists()  # sent by the last pass alone


REPORTING = """
import json, sys
from pathlib import Path
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summarise import summary

folder, told = sys.argv[1:]
found = compare_seeds(summary(SweepState.load(Path(folder)), None, json.loads(told)))
assert "torch" not in sys.modules
print(json.dumps([one.shared.sentence for one in found]))
"""


@pytest.mark.slow
def test_what_the_driver_tells_of_parameters_spares_its_report_torch(lengthwise, tiny, tmp_path):
    """Batches differ, so there are two programs, and the rate of dropout, which changes no parameter."""
    space = "space={model.dropout: {grid: [0.1, 0.2]}, training.batch_size: {grid: [8, 16]}}"
    small = ("--set", "search={sampler: grid}", "--set", "training.steps=20")
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, "--set", space, *small)
    state = SweepState.load(tmp_path / "tiny")
    told = parameters_by_structure(state)
    assert len(told) == 2 and len(set(told.values())) == 1
    command = [sys.executable, "-c", REPORTING, tmp_path / "tiny", json.dumps(told)]
    sentences = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert sentences == [one.shared.sentence for one in compare_seeds(summary(state))]
    assert any("same" in one and "initial weights" in one for one in sentences)


@pytest.fixture
def played(tmp_path):
    """Make a finisher whose process runs a function with its end of the connection."""
    children = []

    def make(play, *, tracking=True):
        one = object.__new__(Finisher)
        one._tracking = tracking
        one._connection, theirs = Pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            one._connection.close()
            play(lambda **answer: finisher_process._send(theirs, **answer))
            os._exit(0)
        theirs.close()
        one._process = psutil.Process(child)
        children.append(one)
        return one

    yield make
    for one in children:
        one.kill()


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def test_a_dead_finisher_has_done_nothing(played, console):
    one = played(lambda send: os._exit(1))
    one.begin(Path("nowhere"), console, {})
    finished = one.wait(console)
    assert not (finished.printed or finished.written or finished.attempt) and not console.file.getvalue()


def test_what_a_finisher_has_done_before_it_dies_is_not_done_again(played, console):
    def play(send):
        send(printed="the report")
        send(written=True)

    finished = played(play).wait(console)
    assert finished.printed and finished.written and finished.attempt is None
    assert console.file.getvalue() == "the report"


def test_a_finisher_that_hangs_is_not_waited_for(played, console, monkeypatch):
    def play(send):
        send(printed="the report")
        signal.pause()

    monkeypatch.setattr(finishing, "PATIENCE", 0.0)
    one = played(play)
    assert one._connection.poll(None)
    finished = one.wait(console)
    assert finished.printed and not finished.written
    one.kill()
    assert not one._process.is_running()


def test_patience_is_with_the_work_of_forks_that_have_ended_too(played, monkeypatch):
    def play(send):
        if os.fork() == 0:  # as the forks that write
            began = time.process_time()
            while time.process_time() < began + 0.3:
                sum(range(1000))
            os._exit(0)
        os.wait()
        send(printed="the report")
        signal.pause()

    now = [0.0]
    monkeypatch.setattr(finishing, "WORK", 0.2)
    monkeypatch.setattr(finishing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    one = played(play)
    patience = finishing._Patience(one._process)
    assert one._connection.poll(None)  # it has worked
    for now[0], exhausted in ((61.0, False), (121.0, False), (122.0, True)):
        assert patience.is_exhausted() is exhausted


def test_a_finisher_that_cannot_read_the_sweep_exits_without_a_word(tmp_path, capfd):
    mine, theirs = Pipe()
    mine.send_bytes(json.dumps({"folder": str(tmp_path), "uri": "", "experiment": ""}).encode())
    mine.send_bytes(json.dumps({"folder": str(tmp_path), "look": {}, "encoding": "utf-8", "parameters": {}}).encode())
    child = os.fork()
    if child == 0:
        mine.close()
        finisher_process.serve(os.dup(theirs.fileno()))
        os._exit(0)
    theirs.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_exits_with_its_driver_though_a_request_waits():
    mine, theirs = Pipe()
    child = os.fork()
    if child == 0:
        mine.close()
        finisher_process._exit_with_driver(theirs)
        signal.pause()
    theirs.close()
    mine.send_bytes(b"a request")
    time.sleep(0.3)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    mine.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.slow
def test_publish_follow_ends_with_the_sweep_and_has_published_all_of_it(lengthwise, long_sweep):
    folder = long_sweep.storage / "followed"
    driver = long_sweep.start(lengthwise, *long_sweep.words("followed", "resources.scheduler=local"))
    wait_for(lambda: records(folder, "evaluation"), driver)
    follower = lengthwise.start("publish", folder, "--follow")
    said = follower.stdout.readline()
    long_sweep.release()
    assert driver.wait() == 0
    out = finish(follower)
    assert "while it runs" in said and "4 configurations are published" in out
    assert records(folder, "end")


@pytest.mark.slow
@pytest.mark.timeout(300)  # if it is never said, the packs wait for ever
def test_a_refused_login_is_said_at_once_and_training_continues(lengthwise, long_sweep, server):
    """Every pack waits at its first evaluation until that is said; the server is asked before any score."""
    server.answer, address = 401, f"http://{server.address}"
    words = long_sweep.words("refused", "resources.scheduler=local", "tracking.enabled=true", f"tracking.uri={address}")
    long_sweep.hold.touch()
    driver = lengthwise.start(*words, anew=True, HOLD=str(long_sweep.hold))
    said = next(line for line in driver.stdout if "not published" in line)
    assert not any(one.finished for one in SweepState.load(long_sweep.storage / "refused").configurations.values())
    long_sweep.release()
    out, err = driver.communicate()
    assert said.startswith(f"not published: MLflow at {address}: this server asks for a password; set MLFLOW_TRACKING_")
    assert "; training continues; complete it later with: lengthwise publish " in said
    assert driver.returncode == 0, err
    assert out.count(f"MLflow at {address}") == 1  # at the end, once more
    long_sweep.ended_as_if_left_alone(long_sweep.storage / "refused")
