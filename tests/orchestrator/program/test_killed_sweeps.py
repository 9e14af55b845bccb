"""Sweeps whose driver, workers, keepers and programs are killed at random moments: the curves of one that was not."""

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

KILLS = int(os.environ.get("KILLS", "12"))
CHILD = "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'], start_new_session=True)"


def targets(folder: Path, driver: int) -> dict[str, list[int]]:
    """Return the processes of a running sweep: its driver, the workers with a program, the keepers, the programs."""
    found: dict[str, list[int]] = {"driver": [driver], "worker": [], "keeper": [], "program": []}
    for number in processes_of(folder):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(number)
            if any(word.endswith("keeper.py") for word in process.cmdline()):
                found["keeper"].append(process.pid)
                found["worker"].append(process.ppid())
                found["program"] += [child.pid for child in process.children()]
    return found


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
        wait_until(lambda driver=driver: targets(folder, driver.pid)["program"])
        time.sleep(moments.uniform(0, 1))
        for role in moments.sample(["driver", "worker", "keeper", "program"], moments.randint(1, 3)):
            for process in targets(folder, driver.pid)[role][:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed[role] = killed.get(role, 0) + 1
        time.sleep(moments.uniform(0, 0.5))
        with contextlib.suppress(ProcessLookupError):
            os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_until(lambda: processes_of(folder) == [], 5)
    state = study.resume(SweepState.load(folder))
    assert state.ended == "complete", study.said
    assert processes_of(folder) == []
    study.write(**changes)
    assert_equal_curves(state, study.run(name="unbroken"))
    starts = [log.read_text().split("\n")[0] for log in folder.glob("members/*/*.log")]
    print(f"killed: {killed}; starts: {len(starts)}, from a checkpoint: {sum(len(one) > 11 for one in starts)}")
    assert len(starts) > 4 and any(one not in ("", "begins at 0") for one in starts)
