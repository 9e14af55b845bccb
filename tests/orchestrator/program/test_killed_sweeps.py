"""Sweeps whose drivers, workers, supervisors and programs are killed at random have the curves of an unbroken one."""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.record.state.state import SweepState
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, assert_equal_curves, processes_of, script, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

KILLS = int(os.environ.get("KILLS", "3"))
CHILD = "[sys.executable, '-S', '-c', 'import time; time.sleep(600)'], start_new_session=True"
CHILD = f"__import__('subprocess').Popen({CHILD})"


# Those that are killed at one moment.
VICTIMS = [
    "driver",
    "worker",
    "supervisor",
    "program",
    "driver worker",
    "driver program",
    "worker program",
    "supervisor program",
    "supervisor worker",
    "supervisor worker driver",
]


def members(folder: Path, driver: int) -> list[dict[str, psutil.Process]]:
    """Return the driver, the worker, the supervisor and the program of every member that is training."""
    members = []
    for number in processes_of(folder):
        with contextlib.suppress(psutil.Error):
            # The supervisor is a child of the process that the worker has started.
            process = psutil.Process(number)
            started = psutil.Process(process.ppid())
            words = [*process.cmdline(), *started.cmdline()]
            if sum(word.endswith("supervisor.py") for word in words) == 2 and (programs := process.children()):
                roles = {"worker": psutil.Process(started.ppid()), "supervisor": process, "program": programs[0]}
                members.append({"driver": psutil.Process(driver), **roles})
    return members


@pytest.mark.slow
def test_curves_equal_those_of_an_unbroken_sweep(study: Study, lengthwise: CommandLine) -> None:
    changes = {"seeds": 2, "space": {"config.lr": {"grid": [0.1, 0.5]}}, "training": {"steps": 50 * KILLS}}
    study.write(script(step=f"time.sleep(0.01), step % 50 == 31 and {CHILD}"), **changes)
    folder, moments = study.folder / "runs/prog", random.Random(0)
    settings = ("resources.scheduler=local", "resources.workers=2", "resources.retries=1000")
    words = [word for setting in settings for word in ("--set", setting)]
    lengthwise.process("run", study.folder / "prog.yaml", "--storage", folder.parent, *words, "--max-time", "1s")
    killed: dict[str, int] = {}
    for _ in range(KILLS):
        driver = lengthwise.start("resume", folder)
        wait_until(lambda driver=driver: members(folder, driver.pid))
        time.sleep(moments.uniform(0, 1))
        with contextlib.suppress(psutil.Error, IndexError):
            member = moments.choice(members(folder, driver.pid))
            below = member["supervisor"].children(recursive=True)
            for role in moments.choice(VICTIMS).split():
                member[role].kill()
                killed[role] = killed.get(role, 0) + 1
            wait_until(lambda below=below: not any(process.is_running() for process in below))
        with contextlib.suppress(ProcessLookupError):
            os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_until(lambda: processes_of(folder) == [])
    state = study.resume(SweepState.load(folder))
    assert state.end_status == "complete", study.output
    assert processes_of(folder) == []
    study.write(**changes)
    assert_equal_curves(state, study.run(name="unbroken"))
    starts = [log.read_text().split("\n")[0] for log in folder.glob("members/*/*.log")]
    print(f"killed: {killed}; starts: {len(starts)}, from a checkpoint: {sum(len(start) > 11 for start in starts)}")
    assert len(starts) > 4 and any(start not in ("", "begins at 0") for start in starts)
