"""Attempts that are killed at random moments: the reports of all are those of one that was left alone."""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from orchestrator.program import process
from orchestrator.program.reports import DeclaredReports
from tests.orchestrator.program.attempts import merge_attempts

STEPS = 60
DECLARED = DeclaredReports(steps=STEPS, evaluation_interval=2, averages=("raw",), metrics={"loss": (1,)}, lengths=(1,))
PROGRAM = """
import os, subprocess, sys, time
import lengthwise
if len(sys.argv) > 1:
    time.sleep(600)
subprocess.Popen([sys.executable, "-S", __file__, "child"], start_new_session=True)
run = lengthwise.member()
kept = run.checkpoints / "last"
step, value = kept.read_text().split() if kept.exists() else (0, 1)
step, value = int(step), int(value)
while step < run.steps:
    step, value = step + 1, value * 48271 % 2147483647
    time.sleep(0.01)
    if run.due(step):
        run.report(step, {"loss": value / 2**31})
        (run.checkpoints / "new").write_text(f"{step} {value}")
        os.replace(run.checkpoints / "new", kept)
"""


def attempt(folder: Path, number: int) -> None:
    """Be the worker of an attempt."""
    while (lock := process.try_lock(folder / "lock")) is None:
        time.sleep(0.02)
    values = {"REPORTS": folder / f"{number}.jsonl", "CHECKPOINTS": folder, "STEPS": STEPS, "EVERY": 2}
    env = os.environ | {f"LENGTHWISE_{name}": str(value) for name, value in values.items()}
    env["PYTHONPATH"] = str(Path(__file__).parents[3])
    words = [sys.executable, "-S", str(folder / "program.py")]
    program = process.start_program(words, env=env, cwd=folder, log=folder / "log", lock=lock, grace=60)
    (folder / f"{number}.supervisor").write_text(str(program.supervisor.pid))
    os._exit(program.wait())


def fork_attempt(folder: Path, number: int) -> int:
    worker = os.fork()
    if worker == 0:
        try:
            attempt(folder, number)
        finally:
            os._exit(99)
    return worker


def whole_run(folder: Path) -> list[float]:
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.jsonl"), key=lambda path: int(path.stem))}
    steps, reports = merge_attempts(texts, DECLARED)
    assert reports.repeated == 0
    return [float(step.values_AKL[0, 0, 0]) for step in steps]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_reports_equal_those_of_an_unbroken_run(tmp_path: Path) -> None:
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    for folder in (unbroken, killed):
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM)
    assert os.waitpid(fork_attempt(unbroken, 0), 0)[1] == 0
    expected = whole_run(unbroken)
    assert len(expected) == STEPS // 2

    moments = random.Random(0)
    for number in range(8):
        worker = fork_attempt(killed, number)
        time.sleep(moments.uniform(0, 0.3))
        for target in moments.sample(["worker", "supervisor", "program"], moments.randint(1, 3)):
            with contextlib.suppress(OSError, ValueError):
                pids = {"supervisor": killed / f"{number}.supervisor", "program": killed / "lock"}
                os.kill(worker if target == "worker" else int(pids[target].read_text()), signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
    assert os.waitpid(fork_attempt(killed, 8), 0)[1] == 0
    assert whole_run(killed) == expected
    assert process._find_processes(killed / "lock") == []
