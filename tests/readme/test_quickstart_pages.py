"""The screen in orchestrator/README.md is that of a run of the quickstart by this version."""

import re

import pytest
from quickstart_pages import PAGE, SCREEN, run_quickstart, screen_of

from tests.command_line import STARTUP

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")
LABEL = re.compile(r"^ +\d+ +#\d+ .*$", re.MULTILINE)


@pytest.mark.slow
def test_the_screen_is_that_of_the_quickstart(tmp_path, monkeypatch) -> None:
    """Words are the same; numbers of configurations are within 5 %, because processors round differently."""
    monkeypatch.setenv("PYTHONPATH", str(STARTUP))  # figures are left blank
    shown = SCREEN.search(PAGE.read_text(encoding="utf-8"))
    fresh = screen_of(run_quickstart(tmp_path))
    assert shown
    before, after = (text.partition("\n... and")[0] for text in (shown[0], fresh))
    assert NUMBER.sub("N", before).split() == NUMBER.sub("N", after).split()
    rows = [[list(map(float, NUMBER.findall(row))) for row in LABEL.findall(text)] for text in (before, after)]
    assert len(rows[0]) == 6 and [pytest.approx(row, rel=0.05) for row in rows[0]] == rows[1]
