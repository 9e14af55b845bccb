"""A child process publishes a sweep; if it dies, the driver publishes the end. A thread writes the running page."""

import os
import signal
import time
from multiprocessing import Pipe
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.ending import publisher_process
from orchestrator.ending.publisher import Publisher
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import write_report
from tests.orchestrator.running.deaths import finish, with_words
from tests.orchestrator.running.ledgers import records, wait_for

TRACKED = ("--set", "tracking.enabled=true", "--set", "resources.scheduler=local")


@pytest.mark.slow
def test_a_sweep_ends_with_its_report_and_is_published(lengthwise, tiny, tmp_path):
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
def test_the_driver_publishes_the_end_if_the_publisher_was_killed(lengthwise, long_sweep):
    folder = long_sweep.storage / "undone"
    words = long_sweep.words("undone", "resources.scheduler=local", "tracking.enabled=true")
    driver = long_sweep.start(lengthwise, *words)
    wait_for(lambda: records(folder, "evaluation"), driver)
    beside = with_words(driver.pid, "publisher_process")  # the publisher and its fork
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


def test_a_publisher_that_dies_has_published_nothing():
    publisher = Publisher()
    publisher._process.kill()
    publisher.begin_end()
    assert publisher.wait() is None
    publisher.kill()


def test_a_process_exits_with_its_driver_though_a_request_waits():
    mine, theirs = Pipe()
    child = os.fork()
    if child == 0:
        mine.close()
        publisher_process._exit_with_driver(theirs)
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
