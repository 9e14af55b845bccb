"""Signals at chosen moments of a real process: what is recorded, said and returned."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.session.session import open_session
from tests.orchestrator.running.ledgers import records, wait_for

PROGRAM = """
import atexit, os, sys
from importlib import import_module
from signal import SIG_IGN, raise_signal, signal

module, name, first, last, ignored, *words = sys.argv[1:]
if int(ignored):
    signal(int(ignored), SIG_IGN)  # as nohup does
module, call = import_module(module), getattr(import_module(module), name)

def signalled(*given, **named):
    raise_signal(int(first))
    return call(*given, **named)

setattr(module, name, signalled)
if int(last):
    atexit.register(raise_signal, int(last))
sys.argv[1:] = words
import_module("orchestrator.__main__").command()
"""
TWICE = """
import sys
from signal import SIGINT, raise_signal
from orchestrator.session import session
from orchestrator.sweep import run_and_resume

run_and_resume.write_spec = session._report_interruption = lambda *given, **named: raise_signal(SIGINT)
from orchestrator.__main__ import command
command()
"""
WHEN_CREATED, WHEN_CHECKED = (
    ("orchestrator.sweep.run_and_resume", "write_spec"),
    ("orchestrator.sweep.run_and_resume", "import_spec_modules"),
)
WHEN_TRAINED = ("orchestrator.report.write_report", "write_curves")
Run = Callable[..., tuple[Any, Path]]


@pytest.fixture
def signalled(lengthwise, tiny, tmp_path) -> Run:
    """signalled(moment, first, last, ...) runs a sweep that gets a signal at the moment, and `last` as it exits."""

    def run(moment: tuple[str, str], first: int, last: int = 0, ignored: int = 0) -> tuple[Any, Path]:
        words = ("run", tiny, "--storage", tmp_path, "--set", "search.configurations=1", "--set", "seeds=1")
        numbers = (int(first), int(last), int(ignored))
        return lengthwise.process(*moment, *numbers, *words, program=PROGRAM, anew=bool(last)), tmp_path / "tiny"

    return run


@pytest.mark.slow
def test_a_signal_right_after_the_ledger_is_begun_is_recorded_and_says_how_to_go_on(signalled, lengthwise):
    done, folder = signalled(WHEN_CREATED, signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout == f"interrupted; continue with: lengthwise resume {folder}\n"
    assert SweepState.load(folder).end_status == "interrupted"
    assert lengthwise("resume", folder).returncode == 0


@pytest.mark.slow
def test_a_second_interruption_says_how_to_go_on_too(lengthwise, tiny, tmp_path):
    """As where the first one still waits for the end of Ray, or of an upload."""
    done = lengthwise.process("run", tiny, "--storage", tmp_path, "--set", "seeds=1", program=TWICE)
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout == f"interrupted; continue with: lengthwise resume {tmp_path / 'tiny'}\n"
    assert SweepState.load(tmp_path / "tiny").end_status == "interrupted"


@pytest.mark.slow
def test_a_signal_before_anything_is_written_says_so_and_a_second_one_ends_without_a_traceback(signalled):
    done, folder = signalled(WHEN_CHECKED, signal.SIGTERM, signal.SIGINT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert not folder.exists()


@pytest.mark.slow
def test_a_signal_during_the_report_leaves_a_complete_sweep(signalled):
    done, folder = signalled(WHEN_TRAINED, signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "")
    message = f"interrupted; training is complete; draw the report with: lengthwise report {folder}"
    assert done.stdout.splitlines()[-1] == message
    assert SweepState.load(folder).end_status == "complete"


@pytest.mark.slow
def test_under_nohup_a_closed_terminal_is_ignored(signalled):
    done, folder = signalled(WHEN_CREATED, signal.SIGHUP, ignored=signal.SIGHUP)
    assert (done.returncode, done.stderr) == (0, "") and SweepState.load(folder).end_status == "complete"


@pytest.mark.slow
def test_a_terminal_that_is_closed_interrupts_its_sweep(lengthwise, tiny, tmp_path):
    """The kernel sends SIGHUP, and what is written to the terminal afterwards fails."""
    ours, theirs = os.openpty()
    (tmp_path / "hold").touch()
    command = [sys.executable, "-m", "orchestrator", "run", tiny, "--storage", tmp_path]
    driver = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        env=lengthwise.environment | {"TERM": "xterm", "HOLD": str(tmp_path / "hold")},
        cwd=Path(__file__).parents[3],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # these tests may run under nohup
    )
    os.close(theirs)
    folder = tmp_path / "tiny"
    try:
        wait_for(lambda: records(folder, "evaluation"), driver)
        os.close(ours)
        assert driver.wait() == 130
    finally:
        driver.kill()
    assert SweepState.load(folder).end_status == "interrupted"


def test_a_signal_waits_for_the_record_that_is_being_written():
    with Interrupts() as interrupts:
        done = []
        with pytest.raises(KeyboardInterrupt), interrupts.hold_signals(), interrupts.hold_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("written")
        assert done == ["written"]
        with interrupts.hold_signals():  # the end record, after the interruption
            done.append("end")
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_interrupted()


def test_a_signal_just_before_signals_are_held_opens_no_ledger(monkeypatch):
    hold_signals, opened = Interrupts.hold_signals, []

    def signalled(interrupts: Interrupts) -> Any:
        signal.raise_signal(signal.SIGINT)
        return hold_signals(interrupts)

    monkeypatch.setattr(Interrupts, "hold_signals", signalled)
    with pytest.raises(KeyboardInterrupt), open_session(lambda: opened.append("ledger"), Console()):
        opened.append("session")
    assert opened == []
