"""Real processes on a real Ray, killed: what is left, and that a resumed sweep ends like one that was left alone."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pytest

from orchestrator.record.ledger import LEDGER_FILE, read_records
from orchestrator.record.state import SweepState

# long enough to be killed in, short enough to wait for: 4 packs of 2 members, 3 evaluations each
LONG = ("--set", "training.steps=1200", "--set", "evaluation.every=400", "--set", "resources.pack=2")
WHERE = ("--set", "resources.checkpoint_steps=150")


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("sweeps") / "tiny.yaml"
    path.write_text(request.getfixturevalue("tiny_text"))
    return path


@pytest.fixture(scope="module")
def uninterrupted(lengthwise, sweep_file: Path) -> Path:
    """The same sweep, left alone."""
    done = lengthwise("run", sweep_file, "--storage", sweep_file.parent, "--name", "uninterrupted", *LONG, *WHERE)
    assert done.returncode == 0, done.stderr
    return sweep_file.parent / "uninterrupted"


def workers_of(driver: int) -> list[psutil.Process]:
    """The Ray actors below a driver that have a pack in hand."""
    below = psutil.Process(driver).children(recursive=True)
    return [
        process
        for process in below
        if "ray::ImplicitFunc" in " ".join(process.cmdline()) or "run_pack" in process.name()
    ]


def assert_as_if_left_alone(folder: Path, uninterrupted: Path, curves) -> None:
    found, wanted = curves(folder), curves(uninterrupted)
    assert found.equals(wanted)
    kinds = Counter(record.kind for record in read_records(folder))
    assert (kinds["configuration"], kinds["score"], kinds["pack_end"]) == (4, 4, 4)
    steps = Counter((r.fields["pack_id"], r.fields["step"]) for r in read_records(folder) if r.kind == "evaluation")
    assert set(steps.values()) == {1} and len(steps) == 12
    assert not SweepState.load(folder).conflicts


@pytest.mark.timeout(240)
def test_the_driver_is_killed_at_random_moments(lengthwise, sweep_file, uninterrupted, wait_for, records, curves):
    """kill -9 after a random number of evaluations and a random pause, three times; then one damaged checkpoint too."""
    chance = random.Random(20261)
    folder = sweep_file.parent / "killed"
    verb = ["run", sweep_file, "--storage", sweep_file.parent, "--name", "killed", *LONG, *WHERE]
    finished: set[str] = set()
    interruptions = 0
    for _ in range(3):
        before = len(records(folder, "evaluation"))
        driver = lengthwise.start(*verb)
        enough = partial(has_evaluations, records, folder, before + chance.randint(1, 2), driver)
        wait_for(enough)
        time.sleep(chance.uniform(0.0, 0.6))
        assert driver.poll() is None, driver.communicate()
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        interruptions += not records(folder, "end")
        finished |= {record.fields["pack_id"] for record in records(folder, "pack_end")}
        verb = ["resume", folder]
    newest = damage_a_checkpoint(folder)
    evaluations = len(records(folder, "evaluation"))
    done = lengthwise("resume", folder)
    assert done.returncode == 0, done.stderr
    assert newest is None or (str(newest) in done.stdout and "previous" in done.stdout)
    assert_as_if_left_alone(folder, uninterrupted, curves)
    later = records(folder, "evaluation")[evaluations:]
    assert not {record.fields["pack_id"] for record in later} & finished  # nothing finished was done again
    resumes = records(folder, "resume")
    assert len(resumes) == interruptions >= 2
    assert all(record.fields["provenance"]["versions"]["torch"] for record in resumes)


def has_evaluations(records, folder: Path, count: int, driver: subprocess.Popen) -> bool:
    return len(records(folder, "evaluation")) >= count or driver.poll() is not None


def damage_a_checkpoint(folder: Path) -> Path | None:
    """Cut a byte off the newest checkpoint of an unfinished pack that has two."""
    state = SweepState.load(folder)
    for pack in state.packs.values():
        paths = sorted((folder / "checkpoints" / pack.pack_id).glob("step-*.ckpt"))
        if pack.status in ("planned", "running") and len(paths) == 2:
            paths[-1].write_bytes(paths[-1].read_bytes()[:-1])
            return paths[-1]
    return None


@pytest.mark.timeout(180)
def test_sigterm_leaves_a_resumable_sweep_in_three_seconds(
    lengthwise, sweep_file, uninterrupted, wait_for, records, curves
):
    folder = sweep_file.parent / "terminated"
    driver = lengthwise.start("run", sweep_file, "--storage", sweep_file.parent, "--name", "terminated", *LONG, *WHERE)
    wait_for(lambda: records(folder, "sweep") or driver.poll() is not None)
    second = lengthwise("resume", folder)  # while the first is still starting its workers
    assert second.returncode == 2 and "Traceback" not in second.stderr
    assert "is being run by" in second.stderr and f"pid {driver.pid}" in second.stderr
    again = lengthwise("run", sweep_file, "--storage", sweep_file.parent, "--name", "terminated", *LONG, *WHERE)
    assert again.returncode == 2 and "Traceback" not in again.stderr and "lengthwise resume" in again.stderr
    wait_for(lambda: records(folder, "evaluation") or driver.poll() is not None)
    signalled = time.time()
    os.kill(driver.pid, signal.SIGTERM)
    out, err = driver.communicate(timeout=30)
    assert driver.returncode == 130, err
    assert f"lengthwise resume {folder}" in out and "Traceback" not in out + err
    (end,) = records(folder, "end")
    assert end.fields["status"] == "interrupted" and end.time - signalled < 3.0
    redone = [(r.fields["pack_id"], r.fields["step"]) for r in records(folder, "evaluation")]
    done = lengthwise("resume", folder)
    assert done.returncode == 0, done.stderr
    assert_as_if_left_alone(folder, uninterrupted, curves)
    assert redone == [(r.fields["pack_id"], r.fields["step"]) for r in records(folder, "evaluation")][: len(redone)]
    again = lengthwise("resume", folder)  # nothing is left to do: no Ray is started, and the report is drawn again
    assert again.returncode == 0 and "Ray" not in again.stdout
    assert_as_if_left_alone(folder, uninterrupted, curves)


@pytest.mark.timeout(180)
def test_a_killed_worker_costs_no_more_than_a_checkpoint_interval(
    lengthwise, sweep_file, uninterrupted, wait_for, records, curves
):
    folder = sweep_file.parent / "worker"
    driver = lengthwise.start("run", sweep_file, "--storage", sweep_file.parent, "--name", "worker", *LONG, *WHERE)
    wait_for(lambda: records(folder, "evaluation") or driver.poll() is not None)
    victim = wait_for(lambda: workers_of(driver.pid))[0]
    victim.kill()
    out, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    (attempt,) = records(folder, "attempt")
    assert "died" in attempt.fields["error"] and attempt.fields["pack_id"] in out
    assert_as_if_left_alone(folder, uninterrupted, curves)


@pytest.mark.timeout(120)
def test_a_pack_that_hangs_is_ended_by_the_watchdog_and_given_up(lengthwise, sweep_file, records):
    """No pack can be heard of within a millisecond: each is ended, tried once more, and given up."""
    quick = ("--set", "resources.watchdog_seconds=0.001", "--set", "resources.retries=1", "--set", "seeds=1")
    one = ("--set", "search.configurations=1", "--name", "hanging")
    done = lengthwise("run", sweep_file, "--storage", sweep_file.parent, *LONG, *quick, *one)
    assert done.returncode == 1, done.stderr
    folder = sweep_file.parent / "hanging"
    assert len(records(folder, "attempt")) == 2 and "watchdog" in records(folder, "attempt")[0].fields["error"]
    state = SweepState.load(folder)
    assert [pack.status for pack in state.packs.values()] == ["failed"] and state.ended == "failed"
    assert "Thread" in next(folder.glob("checkpoints/*.stuck.txt")).read_text()


def test_a_changed_spec_is_refused_with_the_difference(lengthwise, sweep_file, uninterrupted):
    before = (uninterrupted / LEDGER_FILE).read_bytes()
    run = ("run", sweep_file, "--storage", sweep_file.parent, "--name", "uninterrupted", *LONG, *WHERE)
    same = lengthwise(*run)
    assert same.returncode == 2 and f"lengthwise resume {uninterrupted}" in same.stderr
    for changed in (
        lengthwise(*run, "--set", "training.batch_size=32", "--set", "space.training.batch_size=null"),
        lengthwise("resume", uninterrupted, "--set", "seeds=3"),
    ):
        assert changed.returncode == 2 and "Traceback" not in changed.stderr
        assert "was 8, now 32" in changed.stderr or "was [0, 1], now [0, 1, 2]" in changed.stderr
    text = (uninterrupted / "sweep.yaml").read_text()
    (uninterrupted / "sweep.yaml").write_text(text.replace("learning_rate: 0.003", "learning_rate: 0.004"))
    edited = lengthwise("resume", uninterrupted)
    (uninterrupted / "sweep.yaml").write_text(text)
    assert edited.returncode == 2 and "training.learning_rate: was 0.003, now 0.004" in edited.stderr
    assert (uninterrupted / LEDGER_FILE).read_bytes() == before


def test_a_damaged_ledger_is_refused_at_its_line(lengthwise, uninterrupted, tmp_path):
    copy = tmp_path / "damaged"
    copy.mkdir()
    lines = (uninterrupted / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0", b"1", 1)
    (copy / LEDGER_FILE).write_bytes(b"".join(lines))
    done = lengthwise("resume", copy)
    assert done.returncode == 1 and f"{copy / LEDGER_FILE}:5" in done.stderr and "Traceback" not in done.stderr
