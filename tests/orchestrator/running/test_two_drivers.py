"""Two drivers on one sweep where the file lock sees nobody: the first stops, and the ledger stays sound."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.record.ledger.records import LEDGER_FILE, read_records
from orchestrator.record.repair import repair
from orchestrator.record.state.state import SweepState

BLIND = """
from orchestrator.record.ledger import lock

class Blind:
    def __init__(self, *arguments, **options): pass
    def acquire(self): pass
    def release(self): pass

lock.FileLock = Blind
from orchestrator.cli import main
main()
"""


@pytest.mark.long
def test_the_first_of_two_drivers_stops_and_names_the_second(lengthwise, long_sweep, wait_for) -> None:
    folder = long_sweep.storage / "two"
    ledger = folder / LEDGER_FILE

    def driver(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", BLIND, *words], cwd=Path(__file__).parents[3], env=lengthwise.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = driver(*long_sweep.words("two"))
    second = None
    try:
        wait_for(lambda: ledger.exists() and b'"kind":"evaluation"' in ledger.read_bytes(), first)
        os.kill(first.pid, signal.SIGSTOP)
        size = ledger.stat().st_size
        second = driver("resume", str(folder))
        wait_for(lambda: ledger.stat().st_size > size, second)
        os.kill(first.pid, signal.SIGCONT)
        out, err = first.communicate(timeout=300)
        assert first.returncode == 1, out
        assert f"pid {second.pid}" in err and "one driver is enough" in err and "Traceback" not in err
        out, err = second.communicate(timeout=300)
        assert second.returncode == 0, err
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.communicate()
    assert read_records(folder)[-1].kind == "end" and SweepState.load(folder).ended == "complete"
    assert repair(folder).kept is None
    long_sweep.ended_as_if_left_alone(folder)
