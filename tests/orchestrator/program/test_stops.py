"""Programs that the sweep asks to stop: at a rung, by its budget, at a signal, or because they are silent or late."""

import os
import signal
import sys

import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import make_csv_tables
from orchestrator.report.sentences import describe_status
from orchestrator.results.make_summary import summarize
from orchestrator.running.watching.meter import make_progress_rows
from orchestrator.running.watching.status import make_status_rows
from orchestrator.tracking.run_contents import MlflowRunBuilder
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, assert_equal_curves, processes_of, script, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
CHILD = "[sys.executable, '-S', '-c', 'import time; time.sleep(600)'], start_new_session=True"
CHILD = f"__import__('subprocess').Popen({CHILD})"
HANG = f"({CHILD}, time.sleep(600))"


@pytest.mark.parametrize("header", ["", IGNORE], ids=["", "ignores SIGTERM"])
def test_used_up_time_stops_a_program_that_reports_nothing(header: str, study: Study) -> None:
    """It is resumed later: to be stopped by the sweep is no death."""
    study.write(header + script(step=f"step > 12 and os.path.exists('hang') and {HANG}"))
    (study.folder / "hang").touch()
    state = study.run(max_seconds=0.5)
    (pack,) = state.packs.values()
    assert (state.end_status, pack.has_ended, pack.attempts) == ("stopped by its budget", False, [])
    assert processes_of(state.folder) == []
    (study.folder / "hang").unlink()
    resumed = study.resume(state)
    assert resumed.end_status == "complete"
    study.write()
    assert_equal_curves(resumed, study.run(name="unbroken"))


def test_seeds_that_stopped_themselves_are_counted_everywhere(study: Study) -> None:
    """The evaluations before the stop do not name it."""
    study.write(script(step="step == 24 and run.seed < 2 and (run.stopped(step), sys.exit(0))"), seeds=3)
    state = study.run()
    result = summarize(state)
    assert result.stop_steps == (24, 24)
    status = dict(make_status_rows(state))
    live = dict(make_progress_rows(state, {}, speed=1.0, elapsed=1.0, phase="training"))
    assert (status["seeds stopped early"].split(",")[0], live["seeds stopped early"]) == ("2/3", "2")
    (line,) = make_csv_tables(result)["report.csv"]
    assert (line["seeds_stopped"], line["stopped_at_median"]) == (2, 24)
    assert "2 stopped early" in describe_status(result)
    run = MlflowRunBuilder(result, read_records(state.folder), read_curves(state)).make_sweep_run()
    assert {point.key: point.value for point in run.points}["seeds_stopped"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("scheduler", "number"), [("inline", signal.SIGINT), ("local", signal.SIGKILL)])
def test_signal_to_the_driver(scheduler: str, number: int, study: Study, lengthwise: CommandLine) -> None:
    study.write(script(step=f"step == 12 and os.path.exists('hang') and {HANG}"), seeds=2)
    (study.folder / "hang").touch()
    storage = study.folder / "runs"
    words = ("--storage", storage, "--set", f"resources.scheduler={scheduler}")
    driver = lengthwise.start("run", study.folder / "prog.yaml", *words, cwd=study.folder)
    at_once = 1 if scheduler == "inline" else 2
    wait_until(lambda: len(list(storage.glob("prog/checkpoints/*/last.json"))) == at_once)
    os.kill(driver.pid, number)
    assert driver.wait() == (130 if number == signal.SIGINT else -9)
    wait_until(lambda: processes_of(storage / "prog") == [])
    (study.folder / "hang").unlink()
    resumed = study.resume(SweepState.load(storage / "prog"))
    assert resumed.end_status == "complete"
    assert [pack.attempts for pack in resumed.packs.values()] == [[], []]
    assert sum("begins at 10" in log.read_text() for log in storage.glob("prog/members/*/*.log")) == at_once
    study.write(seeds=2)
    assert_equal_curves(resumed, study.run(name="unbroken"))


@pytest.mark.slow
def test_silent_program_that_ignores_sigterm(study: Study) -> None:
    code = f"step == 12 and {{}} and (print('hangs', flush=True), {HANG})"
    study.write(IGNORE + script(step=code.format("run.reported == 0")))
    state = study.run("resources.watchdog_seconds=1")
    (pack,) = state.packs.values()
    assert (pack.status, len(pack.attempts)) == ("complete", 1)
    assert "5 s" in pack.attempts[0]
    assert str(pack.traces[0]).endswith("hangs")
    assert processes_of(state.folder) == []

    study.write(IGNORE + script(step=code.format("True")))
    state = study.run("resources.watchdog_seconds=1", "resources.retries=1", name="always")
    (pack,) = state.packs.values()
    assert (pack.status, len(pack.attempts), list(pack.evaluations)) == ("failed", 2, [10])


@pytest.mark.slow
def test_member_hours(study: Study) -> None:
    """Once they are used up a second time without a new report, the member is given up."""
    for name, hang in {
        "after a report": f"step == 10 and run.reported == 0 and {HANG}",
        "before any": f"step == 5 and not kept.exists() and (kept.write_text('[5, 7]'), {HANG})",
    }.items():
        study.write(script(step=hang) if name == "before any" else script(reported=hang))
        state = study.run(f"resources.member_hours={4 / 3600}", name=name.replace(" ", "-"))
        (pack,) = state.packs.values()
        assert (pack.status, len(pack.attempts)) == ("complete", 1)
    study.write(script(step=f"step == 15 and {HANG}"))
    state = study.run(f"resources.member_hours={4 / 3600}", name="always")
    (pack,) = state.packs.values()
    assert (pack.status, len(pack.attempts), list(pack.evaluations)) == ("failed", 2, [10])
    assert "member_hours" in str(pack.error)
    assert processes_of(state.folder) == []


def test_long_end_after_the_last_report_is_left_alone(study: Study) -> None:
    study.write(script(end="time.sleep(1); print(1)"))
    (pack,) = study.run().packs.values()
    assert pack.status == "complete"
    assert (study.folder / "runs/prog").glob("members/*/attempt-1.log").__next__().read_text() == "begins at 0\n1\n"
