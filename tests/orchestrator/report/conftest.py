"""What a terminal or a log shows of a sweep, as text."""

import io

import pytest
from rich.console import Console

from orchestrator.report.full_report import FullReport
from orchestrator.report.terminal import render_terminal


def printed(rendered, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(rendered)
    return console.file.getvalue()


@pytest.fixture
def full_text():
    """Every table of a summary at a width; `rows` configurations of it."""
    return lambda result, width=200, rows=20: printed(FullReport(result, rows), width)


@pytest.fixture
def short_text():
    """What a sweep prints at its end, at a width."""
    return lambda result, width=200: printed(render_terminal(result), width)
