"""Progress: a line a minute in a log, a table on a terminal."""

import io

import pytest
from rich.console import Console

from orchestrator.running.watching.progress import ProgressDisplay, make_plain_line
from orchestrator.text.consoles import say


def test_progress_in_a_log_is_a_line_that_says_something_new(capsys):
    progress = ProgressDisplay(Console(), "plain")
    with progress.show_live():
        for failed in ("3", "3", "4"):
            progress._show([("configurations", "1/6"), ("seeds failed", failed)])
    assert capsys.readouterr().out.splitlines() == [f"configurations 1/6 · failed {failed}" for failed in "34"]


def test_a_line_counts_seeds_until_a_configuration_is_complete():
    """An extended sweep begins with none, though all its members so far are trained: that would read as a loss."""
    rows = [("configurations", "0/12"), ("seeds", "48/120"), ("steps", "40 %, 0 per second")]
    assert make_plain_line(rows).split(" · ") == ["seeds 48/120", "40 %"]
    rows[0] = ("configurations", "1/12")
    assert make_plain_line(rows).split(" · ")[0] == "configurations 1/12"


@pytest.mark.parametrize("large", [1, 10**6])
def test_progress_in_a_log_is_one_short_line_a_minute(capsys, monkeypatch, large):
    now = 1000.0
    monkeypatch.setattr("orchestrator.running.watching.progress.time.monotonic", lambda: now)
    progress, shown = ProgressDisplay(Console(), "plain"), []
    for second in range(180):
        now += 1.0
        counts = f"{second + large}/{12 * large}"
        rows = [
            *(("round of the race", "3"), ("configurations", counts), ("seeds", counts), ("seeds failed", "0")),
            *(("packs", counts), ("first evaluation", "begins in about 3 h 12 min")),
            *(("best so far", "0.0262 (#1234567)"), ("steps", f"43 %, {large:,} per second")),
            *(("elapsed", "5 h 03 min"), ("time left", "about 12 h 10 min"), ("phase", "compiling, training")),
        ]
        progress.show_if_due(lambda second=second, rows=rows: shown.append(second) or rows)
    lines = capsys.readouterr().out.splitlines()
    assert shown == [0, 60, 120] and len(lines) == 3
    assert all(len(line) < 100 for line in lines)
    assert all("43 %" in line and "time left about 12 h 10 min" in line for line in lines)


def test_a_message_above_the_live_table_shows_no_markup():
    """A message is printed without markup, and redraws the table below it."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    progress = ProgressDisplay(console, "name[1]")
    with progress.show_live():
        progress._show([("seeds", "1/6")])
        say(console, "seed 1 crashed")
        progress._show([("phase", "[training]")])
    shown = console.file.getvalue()
    assert "[bold]" not in shown and "[dim]" not in shown and shown.count("seeds") == 2
    assert "name[1]" in shown and "[training]" in shown
