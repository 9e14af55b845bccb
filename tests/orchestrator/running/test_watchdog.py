"""The watchdog of a worker ends its process, and says where it hung; that of this process is tested in test_inline."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.running.pack import watchdog
from orchestrator.running.pack.watchdog import LocalWatchdog, Watchdog, get_stack_file, take_watchdog_report

REPOSITORY = Path(__file__).resolve().parents[3]
HANGS = """
import sys, threading
from pathlib import Path
from orchestrator.running.pack.watchdog import Watchdog

def hang():
    threading.Event().wait()

with Watchdog(0.2, Path(sys.argv[1])):
    try:
        hang()
    finally:
        print("nothing is cleaned up")
"""


def test_a_process_that_hangs_is_ended_and_its_threads_are_written_down(tmp_path: Path) -> None:
    path = tmp_path / "stuck.txt"
    done = subprocess.run([sys.executable, "-c", HANGS, path], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    assert "Timeout" in path.read_text() and "in hang" in path.read_text()


def test_it_starts_anew_when_it_hears_something_and_sleeps_while_the_worker_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PretendedFaulthandler:
        now, deadline = 0.0, None

        def dump_traceback_later(self, seconds, exit, file):
            assert exit
            self.deadline = self.now + seconds

        def cancel_dump_traceback_later(self):
            self.deadline = None

    pretended, path = PretendedFaulthandler(), tmp_path / "stuck.txt"
    monkeypatch.setattr(watchdog, "faulthandler", pretended)
    with Watchdog(9.0, path) as watcher:
        assert pretended.deadline == 9.0 and path.exists()
        pretended.now = 5.0
        watcher.beat()
        assert pretended.deadline == 14.0
        with watcher.paused():
            assert pretended.deadline is None
            pretended.now = 50.0
        assert pretended.deadline == 59.0
        with pytest.raises(OSError, match="gone"), watcher.paused():
            raise OSError("gone")
        assert pretended.deadline == 59.0
    assert pretended.deadline is None and not path.exists()


def test_the_report_of_an_attempt_is_not_that_of_the_next_which_died_before_its_watchdog(tmp_path: Path) -> None:
    stacks = get_stack_file(tmp_path, "pack1")
    stacks.parent.mkdir()
    stacks.write_text("in hang")
    error, trace = take_watchdog_report(tmp_path, "pack1", 1, 30.0) or ("", "")
    assert trace == "in hang" and Path(error.split()[-1]).read_text() == "in hang"
    assert take_watchdog_report(tmp_path, "pack1", 2, 30.0) is None


def test_an_error_while_the_local_watchdog_is_paused_does_not_leave_it_off(tmp_path: Path) -> None:
    with LocalWatchdog(60.0, tmp_path / "stuck.txt") as watcher:
        with pytest.raises(OSError, match="gone"), watcher.paused():
            raise OSError("gone")
        assert watcher._deadline < float("inf")
