"""A child process publishes a sweep; if it dies, the driver publishes the end. A thread writes the running page."""

import os
import queue
import shutil
import time
from multiprocessing import Pipe
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.record.state.state import SweepState
from orchestrator.tracking import publisher_process
from tests.orchestrator.running.deaths import finish, with_words
from tests.orchestrator.running.ledgers import records, wait_for


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_publish_sends_the_end_that_a_killed_publisher_has_not(lengthwise, long_sweep, fresh_store):
    shutil.copy(fresh_store, long_sweep.storage / "mlflow.db")
    folder = long_sweep.storage / "undone"
    words = long_sweep.words("undone", "resources.scheduler=local", "tracking.enabled=true")
    driver = long_sweep.start(lengthwise, *words)
    wait_for(lambda: records(folder, "evaluation"), driver)
    (publisher,) = with_words(driver.pid, "publisher_process")
    publisher.kill()
    long_sweep.release()
    out = finish(driver)
    assert "Page: " in out and (folder / "report.html").exists()
    assert "not published: " in out and f"lengthwise publish {folder}" in out
    assert SweepState.load(folder).published_at == []
    lengthwise.succeeds("publish", folder)
    (published,) = SweepState.load(folder).published_at
    assert published.endswith("mlflow.db")
    client = MlflowClient(published)
    (experiment,) = [experiment for experiment in client.search_experiments() if experiment.name != "Default"]
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`lengthwise.kind` = 'sweep'")
    assert parent.info.status == "FINISHED"
    artifacts = Path(unquote(urlsplit(parent.info.artifact_uri).path))
    for name in ("report.html", "curves.png"):  # sent by the last pass alone
        assert (artifacts / name).exists(), name


def test_a_process_exits_with_its_driver_though_a_request_waits():
    mine, theirs = Pipe()
    child = os.fork()
    if child == 0:
        mine.close()
        publisher_process.receive_requests(theirs, queue.SimpleQueue())
    theirs.close()
    mine.send_bytes(b"a request")
    time.sleep(0.3)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    mine.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)  # if it is never said, the packs wait for ever
def test_a_refused_login_is_said_at_once_and_training_continues(lengthwise, long_sweep, server):
    """Every pack waits at its first evaluation until that is said; the server is asked before any score."""
    server.answer, address = 401, f"http://{server.address}"
    words = long_sweep.words("refused", "resources.scheduler=local", "tracking.enabled=true", f"tracking.uri={address}")
    long_sweep.hold.touch()
    driver = lengthwise.start(*words, HOLD=str(long_sweep.hold))
    message = next(line for line in driver.stdout if "not published" in line)
    remedy = next(driver.stdout)
    assert not any(
        configuration.is_scored
        for configuration in SweepState.load(long_sweep.storage / "refused").configurations.values()
    )
    long_sweep.release()
    out, err = driver.communicate()
    assert message.startswith(f"not published: MLflow at {address}: ") and "MLFLOW_TRACKING_PASSWORD" in message
    assert "; training continues" in message and "lengthwise publish " in remedy
    assert driver.returncode == 0, err
    assert out.count(f"MLflow at {address}") == 1  # at the end, once more
    long_sweep.ended_as_if_left_alone(long_sweep.storage / "refused")
