"""`status` shows a sweep that another process runs, by its ledger: what to type next is a whole command."""

import io
import os
import signal
import threading
import time

import numpy as np
import pytest
from rich.console import Console

from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record
from orchestrator.record.state.state import SweepState
from orchestrator.report.tables.configuration_tables import make_result_columns
from orchestrator.results.make_summary import summarize
from orchestrator.running.watching import leading_curve, status
from orchestrator.running.watching.follow import LedgerMeter, follow_sweep
from orchestrator.running.watching.leading_curve import make_leading_curve_rows
from orchestrator.running.watching.meter import find_best_configuration, format_best_score, make_progress_rows
from orchestrator.running.watching.progress import make_plain_line
from orchestrator.running.watching.status import make_status_rows
from orchestrator.session.webhook import make_notice_fields
from orchestrator.text.consoles import align_rows
from orchestrator.text.wording import format_duration
from tests.orchestrator.running.ledgers import wait_for

VALUES = [{"model.norm": "none"}, {"model.norm": "pre"}]


@pytest.fixture
def unfinished(tmp_path, synthetic_sweep, simple_curve):
    """A sweep without ends of packs, as its driver has written it so far."""
    return synthetic_sweep(tmp_path / "unfinished", VALUES, 2, simple_curve, ended=False).folder


def test_it_ends_when_the_sweep_ends(unfinished):
    shown, states = io.StringIO(), []
    with Ledger.open(unfinished) as ledger:
        thread = threading.Thread(
            target=lambda: states.append(follow_sweep(unfinished, Console(file=shown, width=300), poll_seconds=0.02))
        )
        thread.start()
        wait_for(lambda: "seeds 0/4" in shown.getvalue())
        assert "seeds 0/4" in shown.getvalue() and len(shown.getvalue().splitlines()[0]) < 100
        before = sorted(path.name for path in unfinished.iterdir())
        for number, pack_id in enumerate(SweepState.load(unfinished).packs):
            ledger.append("pack_end", pack_id=pack_id, status="complete", error=None, seconds=1.0 + number)
        ledger.append("end", status="complete", message="")
        thread.join()
        assert [state.end_status for state in states] == ["complete"]
        assert sorted(path.name for path in unfinished.iterdir()) == before


def test_it_ends_without_a_driver_and_when_the_driver_dies(unfinished):
    shown, states = io.StringIO(), []
    console = Console(file=shown, width=300)
    assert follow_sweep(unfinished, console).end_status is None and not shown.getvalue()  # nobody runs it
    ledger = Ledger.open(unfinished)
    thread = threading.Thread(
        target=lambda: states.append(follow_sweep(unfinished, console, poll_seconds=0.02, timeout=0.1))
    )
    thread.start()
    wait_for(shown.getvalue)
    time.sleep(0.5)
    assert not states  # silent, and alive: the lock is held
    assert summarize(SweepState.load(unfinished)).status == "running"
    ledger.close()  # as when the process is killed: without an end
    thread.join()
    assert [state.end_status for state in states] == [None]


@pytest.mark.slow
def test_an_interrupt_ends_it_and_leaves_the_sweep_alone(lengthwise, unfinished):
    with Ledger.open(unfinished):
        before = (unfinished / LEDGER_FILE).read_bytes()
        follower = lengthwise.start("status", unfinished, "--follow")
        assert "seeds 0/4" in follower.stdout.readline()
        os.kill(follower.pid, signal.SIGINT)
        output, _ = follower.communicate()
        assert follower.returncode == 130 and "no longer followed; the sweep continues" in output
        assert (unfinished / LEDGER_FILE).read_bytes() == before


def test_speed_is_that_of_the_times_in_the_ledger(unfinished):
    state = SweepState.load(unfinished)
    began = state.sessions.spans[0][0]
    state.updated_at = began + 10.0
    rows = dict(LedgerMeter(state).make_rows(state, "ada"))
    assert (rows["steps"], rows["elapsed"], rows["phase"]) == ("100 %, 40 per second", "10 s", "run by ada")
    assert rows["time left"] == "the last evaluation"
    state.sessions.spans.append([began + 10.0, began + 10.0])  # resumed: what was done before does not count
    assert dict(LedgerMeter(state).make_rows(state, "ada"))["steps"] == "100 %, 0 per second"


def test_the_time_left_follows_from_the_speed(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "half", VALUES, 2, simple_curve, ended=False, stop_after_step=50)
    state.updated_at = state.sessions.spans[0][0] + 225.0
    rows = dict(LedgerMeter(state).make_rows(state, "ada"))
    assert (rows["steps"], rows["time left"]) == ("50 %, 1 per second", "about 3 min 45 s")


@pytest.mark.parametrize(
    ("driver_sessions", "seconds_since", "left"),
    [(1, 25.0, "3 min 20 s"), (1, 224.7, ""), (1, 250.0, ""), (2, 25.0, "")],
)
def test_status_has_the_times_of_a_running_sweep(
    tmp_path, synthetic_sweep, simple_curve, monkeypatch, driver_sessions, seconds_since, left
):
    """Half of the steps took 225 s; then nothing was recorded for a time. A later driver's speed is unknown."""
    state = synthetic_sweep(tmp_path / "half", VALUES, 2, simple_curve, ended=False, stop_after_step=50)
    began = 1000.0
    state.sessions.spans = [[began, began]] * (driver_sessions - 1) + [[began, began + 225.0]]
    monkeypatch.setattr(status.time, "time", lambda: began + 225.0 + seconds_since)
    assert not {"elapsed", "time left"} & dict(make_status_rows(state)).keys()  # nobody runs it
    with Ledger.open(state.folder):
        rows = dict(make_status_rows(state))
    assert rows["elapsed"] == format_duration(225.0 + seconds_since)
    assert rows.get("time left", "") == (f"about {left}" if left else "")


def test_the_curve_of_the_leading_configuration_is_its_median(small_sweep):
    ((name, text),) = make_leading_curve_rows(small_sweep)
    best = min(small_sweep.configurations.values(), key=lambda configuration: configuration.score)
    curves = read_curves(small_sweep, final_only=True).astype({"config_id": str})
    mine = curves[
        (curves.config_id == best.config_id) & (curves.metric == "total_variation") & (curves.average == "ema")
    ]
    medians = mine.groupby("length").value.median()
    assert name == f"median of #{best.number}"
    assert text == "total_variation (ema) by length: " + ", ".join(
        f"{at}: {median:#.3g}" for at, median in medians.items()
    )
    assert len(medians) == 11 and np.isfinite(medians).all()


@pytest.mark.parametrize(
    ("room", "shown"), [(11, range(11)), (10, (*range(0, 11, 2),)), (5, (0, 3, 6, 9, 10)), (2, (0, 10))]
)
def test_left_out_lengths_are_regular(room, shown, small_sweep, monkeypatch):
    monkeypatch.setattr(leading_curve, "MAX_LENGTHS", room)
    ((_, text),) = make_leading_curve_rows(small_sweep)
    head, _, values = text.partition(": ")
    assert len(shown) <= room and (" of 11 " in head) == (len(shown) < 11)
    lengths = sorted(read_curves(small_sweep, final_only=True).length.unique())
    assert [int(value.partition(":")[0]) for value in values.split(", ")] == [lengths[index] for index in shown]


def test_there_is_no_curve_before_a_score_and_damage_is_said(tmp_path, unfinished, synthetic_sweep, simple_curve):
    assert make_leading_curve_rows(SweepState.load(unfinished)) == []
    state = synthetic_sweep(tmp_path / "damaged", VALUES, 2, simple_curve)
    for part in state.folder.glob("curves/*.parquet"):
        part.write_bytes(b"no curves")
    ((_, text),) = make_leading_curve_rows(state)
    assert text.startswith("cannot be read: ") and ".parquet" in text


def test_an_extended_sweep_keeps_its_best_score_and_its_configurations(small_sweep):
    """The six configurations lack seeds 3 and 4; then one of them is scored again, as the worst."""
    state, best = small_sweep, find_best_configuration(small_sweep)
    before = format_best_score(state)
    spec = state.spec | {"seeds": [0, 1, 2, 3, 4]}
    state.apply(Record(999, 0.0, "extend", {"spec": spec, "spec_hash": "", "provenance": {}}))
    for rows in (dict(make_status_rows(state)), dict(make_progress_rows(state, {}, elapsed=1.0, speed=0.0, phase=""))):
        assert (rows["seeds"].partition(",")[0], rows["configurations"]) == ("18/30", "6/6")
        assert rows["best so far"].startswith(before)
    assert not make_leading_curve_rows(state)  # seeds that are still training would change the curve
    assert make_notice_fields(state, "interrupted", "")["best_score"] == best.scores[-1] and best.score is None

    score = {"number": best.number, "config_id": best.config_id, "score": 1e6, "seeds_failed": 0}
    state.apply(Record(1000, 0.0, "score", score))
    assert find_best_configuration(state).number != best.number


def test_configurations_with_the_best_score_are_counted(tmp_path, synthetic_sweep):
    def rounded(number, seed, average, metric, lengths, step):
        return 0.25 * (number % 3) + 0.0 * lengths

    state = synthetic_sweep(
        tmp_path / "tied", [{"training.learning_rate": 0.001 * (1 + n)} for n in range(7)], 2, rounded
    )
    best = format_best_score(state)
    assert best == "0.00 (#0 tied with 2 others)" and best in make_plain_line([("best so far", best)])
    assert dict(make_status_rows(state))["best score"].startswith("0.00 (#0 tied with 2 others): total_variation")


def test_a_killed_and_an_interrupted_sweep_say_how_to_go_on(tmp_path, synthetic_sweep, simple_curve):
    folder = tmp_path / "my sweep"
    killed = dict(make_status_rows(synthetic_sweep(folder, VALUES, 1, simple_curve, ended=False)))
    assert summarize(SweepState.load(folder)).status == "interrupted"
    assert (killed["state"], killed["continue with"]) == ("interrupted", f"lengthwise resume '{folder}'")
    with Ledger.open(folder) as ledger:
        ledger.append("end", status="interrupted", message="stopped by a signal")
        assert "continue with" not in dict(make_status_rows(SweepState.load(folder)))  # it has a driver
    stopped = dict(make_status_rows(SweepState.load(folder)))
    assert stopped["state"] == "interrupted: stopped by a signal"
    assert stopped["continue with"] == f"lengthwise resume '{folder}'"


def test_configurations_that_are_not_drawn_yet_count_as_missing(tmp_path, synthetic_sweep, simple_curve):
    """Two of six configurations are drawn and trained."""
    state = synthetic_sweep(tmp_path / "some", VALUES, 2, simple_curve, ended=False)
    with Ledger.open(state.folder) as ledger:
        for pack_id in state.packs:
            ledger.append("pack_end", pack_id=pack_id, status="complete", error=None, seconds=1.0)
    state = SweepState.load(state.folder)
    state.spec["search"]["configurations"] = 6
    rows = dict(make_status_rows(state))
    assert (rows["configurations"], rows["seeds"], rows["steps"]) == ("0/6", "4/12", "33 %")


def test_the_steps_of_early_stops_are_shown_in_full(tmp_path, synthetic_sweep, simple_curve):
    """Two of three seeds stop, one at 1234567 and one at 1234570."""
    long = {"training.steps": 3_000_000, "evaluation.every": 1_500_000}
    state = synthetic_sweep(tmp_path / "long", VALUES[:1], 3, simple_curve, spec=long, stop_after_step=1_500_000)
    (pack,) = state.packs.values()
    stopped = {"step": 3_000_000, "stopped_at": [1_234_567, -1, 1_234_570]}
    state.apply(Record(99, 0.0, "evaluation", pack.evaluations[1_500_000] | stopped))
    count, steps = dict(make_status_rows(state))["seeds stopped early"].split(", median at step ")
    assert (count, steps) == ("2/3", "1,234,568.5")
    summary = summarize(state)
    (column,) = (column for column in make_result_columns(summary) if column.heading == "stopped")
    assert column.text(summary.rows[0]) == "2 [1,234,568.5]"


def test_a_finished_sweep_has_nothing_to_go_on_with(small_sweep):
    rows = make_status_rows(small_sweep)
    assert "continue with" not in dict(rows)
    lines = align_rows(rows).splitlines()
    assert len(lines) == len(rows) and not [line for line in lines if line != line.rstrip()]
