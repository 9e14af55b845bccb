"""Progress: a line every 15 seconds in a log, a table on a terminal."""

import io

import pytest
from rich.console import Console

from orchestrator.running.watching.progress import ProgressDisplay, make_plain_line
from orchestrator.text.consoles import say


@pytest.fixture
def show(monkeypatch):
    """show(display, second, rows) shows rows at this second."""
    clock = [0.0]
    monkeypatch.setattr("orchestrator.running.watching.progress.time.monotonic", lambda: clock[0])

    def show(display, second, rows):
        clock[0] = second
        display.show_if_due(lambda: rows)

    return show


def test_a_log_has_a_line_every_15_seconds_and_for_another_10_percent(capsys, show):
    """The first 20 s compile; then a second is one percent, but 7 percent are done at once."""
    progress = ProgressDisplay(Console(), "plain")
    with progress.show_live():
        for second in range(61):
            percent = max(second - 20, 0) + (7 if second > 40 else 0)
            show(progress, float(second), [("elapsed", f"{second} s"), ("steps", f"{percent} %, 12 per second")])
    lines = [line.split(" · ") for line in capsys.readouterr().out.splitlines()]
    seconds = (0, 15, 30, 40, 43, 53)
    assert lines == [
        [f"{second} s", f"steps {max(second - 20, 0) + (7 if second > 40 else 0)} %"] for second in seconds
    ]


def test_a_log_of_a_long_run_has_a_line_a_minute_after_ten_minutes(capsys, show):
    progress = ProgressDisplay(Console(), "plain")
    with progress.show_live():
        for second in range(0, 901, 5):
            show(progress, float(second), [("elapsed", f"{second} s"), ("steps", "7 %")])
    shown = [int(line.partition(" s")[0]) for line in capsys.readouterr().out.splitlines()]
    assert shown == [*range(0, 600, 15), 645, 705, 765, 825, 885]


def test_a_line_begins_with_time_and_seeds():
    rows = [("seeds", "48/120, 8 training"), ("configurations", "0/12"), ("steps", "40 %, 0 per second")]
    shown = ["9 s", "seeds 48/120", "steps 40 %", "configurations 0/12"]
    assert make_plain_line([*rows, ("elapsed", "9 s"), ("time left", "-")]).split(" · ") == shown


@pytest.mark.parametrize("large", [1, 10**6])
def test_a_line_of_a_log_is_short(large):
    counts = f"{large}/{12 * large}"
    rows = [
        *(("round of the race", "3"), ("configurations", counts), ("seeds", counts), ("seeds failed", "0")),
        *(("first evaluation", "begins in about 3 h 12 min"), ("best so far", "0.0262 (#1234567)")),
        *(("steps", f"43 %, {large:,} per second"), ("elapsed", "5 h 03 min")),
        *(("time left", "about 12 h 10 min"), ("phase", "compiling, training")),
    ]
    line = make_plain_line(rows)
    assert len(line) < 100 and "43 %" in line and "time left: about 12 h 10 min" in line


def test_a_message_above_the_live_table_shows_no_markup(show):
    """A message is printed without markup, and redraws the table below it."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    progress = ProgressDisplay(console, "name[1]")
    with progress.show_live():
        show(progress, 1.0, [("seeds", "1/6")])
        say(console, "seed 1 crashed")
        show(progress, 2.0, [("phase", "[training]"), ("steps", "50 %, 1,070 per second")])
    shown = console.file.getvalue()
    assert "[bold]" not in shown and "[dim]" not in shown and shown.count("seeds") == 2
    assert "name[1]" in shown and "[training]" in shown
    assert "━" * 12 in shown and "━" * 13 not in shown  # half of the bar
