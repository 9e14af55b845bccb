"""A real driver, killed: what is left, and that a resumed sweep ends like one that was left alone."""

import os
import random
import signal
from pathlib import Path

import pytest

from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.ledgers import records, wait_for

KILLED = """
import os, signal, sys
from orchestrator.__main__ import command
from orchestrator.record.ledger.ledger import Ledger
from trainers.files.checkpoint import Checkpoints

left, moment = int(sys.argv.pop(1)), sys.argv.pop(1)
append_all, save = Ledger.append_all, Checkpoints.save

def append_and_die(self, kind, entries):
    global left
    records = append_all(self, kind, entries)
    left -= len(records) * (kind == "evaluation")
    if moment == "append" and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return records

def save_and_die(self, *snapshot):
    path = save(self, *snapshot)
    if moment == "save" and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return path

Ledger.append_all, Checkpoints.save = append_and_die, save_and_die
command()
"""


@pytest.mark.slow
def test_the_driver_is_killed_at_random_moments(lengthwise, long_sweep):
    """kill -9 by itself after a random number of evaluations, or at the next checkpoint, three times; then one damaged
    checkpoint too."""
    chance = random.Random(20261)
    folder = long_sweep.storage / "killed"
    words = long_sweep.words("killed")
    finished: set[str] = set()
    for _ in range(3):
        known, evaluations = len(records(folder, "evaluation")), chance.randint(1, 2)
        moment = "save" if chance.random() < 0.5 else "append"
        killed = lengthwise.process(evaluations, moment, *words, program=KILLED)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert len(records(folder, "evaluation")) == known + evaluations and not records(folder, "end")
        finished |= {record.fields["pack_id"] for record in records(folder, "pack_end")}
        words = ["resume", str(folder)]
    newest = damage_a_checkpoint(folder)
    evaluations = len(records(folder, "evaluation"))
    done = lengthwise.succeeds("resume", folder)
    assert newest is None or (str(newest) in done.stdout and "previous" in done.stdout)
    long_sweep.ended_as_if_left_alone(folder)
    later = records(folder, "evaluation")[evaluations:]
    assert not {record.fields["pack_id"] for record in later} & finished  # nothing finished was done again
    resumes = records(folder, "resume")
    assert len(resumes) == 3
    assert all(record.fields["provenance"]["versions"]["torch"] for record in resumes)


def damage_a_checkpoint(folder: Path) -> Path | None:
    """Cut a byte off the newest checkpoint of an unfinished pack that has two."""
    state = SweepState.load(folder)
    for pack in state.packs.values():
        paths = sorted((folder / "checkpoints" / pack.pack_id).glob("step-*.ckpt"))
        if pack.status in ("planned", "running") and len(paths) == 2:
            paths[-1].write_bytes(paths[-1].read_bytes()[:-1])
            return paths[-1]
    return None


@pytest.mark.slow
def test_signals_leave_a_resumable_sweep(lengthwise, long_sweep):
    """SIGINT, resumed, SIGTERM, resumed; while it runs nobody else may resume it."""
    folder = long_sweep.storage / "signalled"
    words = long_sweep.words(folder.name)
    for number in (signal.SIGINT, signal.SIGTERM):
        before = [(r.fields["pack_id"], r.fields["step"]) for r in records(folder, "evaluation")]
        driver = long_sweep.start(lengthwise, *words)
        wait_for(lambda known=before: len(records(folder, "evaluation")) > len(known), driver)
        second = lengthwise("resume", folder)
        assert second.returncode == 2 and "Traceback" not in second.stderr
        assert "another driver is running" in second.stderr and f"pid {driver.pid}" in second.stderr
        again = lengthwise(*long_sweep.words(folder.name))
        assert again.returncode == 2 and "Traceback" not in again.stderr and "lengthwise resume" in again.stderr
        os.kill(driver.pid, number)
        out, err = driver.communicate()
        assert driver.returncode == 130, err
        assert f"lengthwise resume {folder}" in out and "Traceback" not in out + err
        assert records(folder, "end")[-1].fields["status"] == "interrupted"
        now = [(r.fields["pack_id"], r.fields["step"]) for r in records(folder, "evaluation")]
        assert len(before) < len(now) < 12 and now[: len(before)] == before
        words = ["resume", str(folder)]
    done = lengthwise.succeeds("resume", folder)
    long_sweep.ended_as_if_left_alone(folder)
    again = lengthwise("resume", folder)  # nothing is left to do: no scheduler is opened, the report is drawn again
    assert again.returncode == 0 and "this process:" in done.stdout and "this process:" not in again.stdout
    long_sweep.ended_as_if_left_alone(folder)


def test_a_changed_spec_is_refused_with_the_difference(lengthwise, long_sweep):
    folder = long_sweep.uninterrupted
    before = (folder / LEDGER_FILE).read_bytes()
    run = long_sweep.words("uninterrupted")
    lengthwise.refuses(*run, message=f"it is finished; show it with: lengthwise report {folder}")
    for changed in (
        lengthwise(*run, "--set", "training.batch_size=32", "--set", "space.training.batch_size=null"),
        lengthwise("resume", folder, "--set", "seeds=3"),
    ):
        assert changed.returncode == 2 and "Traceback" not in changed.stderr
        assert "was 8, now 32" in changed.stderr or "was [0, 1], now [0, 1, 2]" in changed.stderr
    text = (folder / "sweep.yaml").read_text()
    (folder / "sweep.yaml").write_text(text.replace("learning_rate: 0.003", "learning_rate: 0.004"))
    edited = lengthwise("resume", folder)
    (folder / "sweep.yaml").write_text(text)
    assert edited.returncode == 2 and "training.learning_rate: was 0.003, now 0.004" in edited.stderr
    assert (folder / LEDGER_FILE).read_bytes() == before


def test_a_damaged_ledger_is_refused_at_its_line(lengthwise, long_sweep, tmp_path):
    copy = tmp_path / "damaged"
    copy.mkdir()
    lines = (long_sweep.uninterrupted / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0", b"1", 1)
    (copy / LEDGER_FILE).write_bytes(b"".join(lines))
    done = lengthwise("resume", copy)
    assert done.returncode == 2 and f"{copy / LEDGER_FILE}:5" in done.stderr and "Traceback" not in done.stderr
