"""Two drivers on one sweep where the file lock sees nobody: the first stops, and the ledger stays sound."""

import os
import signal

import pytest

from orchestrator.record.ledger.records import read_records
from orchestrator.record.repair import repair_ledger
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.deaths import finish
from tests.orchestrator.running.ledgers import records, wait_for

pytestmark = pytest.mark.slow

BLIND = """
from orchestrator.record.ledger import lock

class Blind:
    def __init__(self, *arguments, **options): pass
    def acquire(self): pass
    def release(self): pass

lock.FileLock = Blind
from orchestrator.__main__ import command
command()
"""


def test_the_first_of_two_drivers_stops_and_names_the_second(lengthwise, long_sweep, tmp_path) -> None:
    folder = long_sweep.storage / "two"
    holds = [tmp_path / "first", tmp_path / "second"]
    for hold in holds:
        hold.touch()
    first = lengthwise.start(*long_sweep.words("two"), program=BLIND, HOLD=str(holds[0]))
    wait_for(lambda: records(folder, "evaluation"), first)
    os.kill(first.pid, signal.SIGSTOP)
    second = lengthwise.start("resume", folder, program=BLIND, HOLD=str(holds[1]))
    wait_for(lambda: records(folder, "resume"), second)
    holds[0].unlink()
    os.kill(first.pid, signal.SIGCONT)
    out, err = first.communicate()
    assert first.returncode == 1, out
    assert f"pid {second.pid}" in err and "another driver wrote to it" in err and "Traceback" not in err
    holds[1].unlink()
    finish(second)
    assert read_records(folder)[-1].kind == "end" and SweepState.load(folder).end_status == "complete"
    assert "is sound" in repair_ledger(folder)[0]
    long_sweep.ended_as_if_left_alone(folder)
