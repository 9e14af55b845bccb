"""Deaths on a real Ray: the driver's, a worker's, and a signal; a resumed sweep ends like one that was left alone."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from orchestrator.running.with_ray.processes import MARK
from tests.orchestrator.running.deaths import INLINE, holding, kill, kill_worker, with_words
from tests.orchestrator.running.ledgers import records, wait_for

pytestmark = pytest.mark.slow


ON_RAY = "resources.scheduler=ray"
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "GITHUB_TOKEN")


def worker_with(pack_id: str, driver: int) -> psutil.Process | None:
    """The Ray actor that has the pack in hand."""
    return holding(pack_id, with_words(driver, "ray::ImplicitFunc"))


def test_the_driver_is_killed_resumed_and_terminated(lengthwise, long_sweep, tmp_path):
    """`ray job stop` sends SIGKILL three seconds after SIGTERM: at SIGTERM Ray stands still until it is recorded."""
    # SIGKILL: nothing of Ray is left, and no secret of the driver is in the logs of Ray.
    folder = long_sweep.storage / "killed"
    temp = {"TMPDIR": str(tmp_path), "RAY_TMPDIR": "/tmp"}
    environment = {**temp, **dict.fromkeys(SECRETS, "s3cret/w0rd")}
    words = long_sweep.words("killed", ON_RAY, "resources.workers=1")  # a Ray worker takes seconds to start
    driver = long_sweep.start(lengthwise, *words, **environment)
    wait_for(lambda: records(folder, "evaluation"), driver)
    of_ray = [process for process in psutil.Process(driver.pid).children(recursive=True) if is_of_ray(process)]
    (session,) = [Path(process.environ()[MARK]) for process in of_ray if process.name() == "raylet"]
    named = with_words(driver.pid, "ray::")
    titles = " ".join(" ".join(process.cmdline()) for process in named)
    assert session.exists() and "ray::ImplicitFunc" in titles and "ray::DashboardAgent" in titles
    files = [path for path in session.rglob("*") if path.is_file()]
    assert any(path.name == "runtime_env_agent.log" for path in files)
    assert not [path for path in files if b"s3cret/w0rd" in path.read_bytes()]
    for process in named:
        process.suspend()  # it does not see that its Ray is dead
    kill(driver)
    wait_for(lambda: not any(is_of_ray(process) for process in of_ray) and not session.exists())
    assert not records(folder, "end")
    finished = {record.fields["pack_id"] for record in records(folder, "pack_end")}
    known = len(records(folder, "evaluation"))
    assert not list(tmp_path.glob("lengthwise-*"))

    # The driver that resumes the sweep loses a worker, and gets SIGTERM.
    more = ("--set", "resources.workers=null")
    driver = long_sweep.start(lengthwise, "resume", str(folder), *more, **temp)
    evaluation = wait_for(lambda: records(folder, "evaluation")[known:], driver)[0]
    kill_worker(evaluation.fields["pack_id"], worker_with, folder, driver)
    frozen = [process for process in psutil.Process(driver.pid).children(recursive=True) if is_of_ray(process)]
    assert {"raylet", "gcs_server"} <= {process.name() for process in frozen}
    try:
        for process in frozen:
            process.suspend()
        os.kill(driver.pid, signal.SIGTERM)
        (end,) = wait_for(lambda: records(folder, "end"), driver)
    finally:
        for process in frozen:
            process.resume()
    out, err = driver.communicate()
    assert end.fields["status"] == "interrupted" and driver.returncode == 130, err
    assert "a local Ray with " in out and f"lengthwise resume {folder}" in out and "Traceback" not in out + err
    assert not list(tmp_path.glob("lengthwise-*"))

    # The curves are those of a sweep that was left alone, and no finished pack was trained again.
    lengthwise.succeeds("resume", folder, *INLINE)
    assert not {record.fields["pack_id"] for record in records(folder, "evaluation")[known:]} & finished
    long_sweep.ended_as_if_left_alone(folder)


def is_of_ray(process: psutil.Process) -> bool:
    try:
        return process.name() in ("raylet", "gcs_server") or "ray::" in " ".join(process.cmdline())
    except psutil.Error:
        return False
