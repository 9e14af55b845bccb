"""What a terminal or a log shows of a sweep, as text."""

import io

import pytest
from rich.console import Console

from orchestrator.consoles import WIDTH_OF_FILES, WholeConsole
from orchestrator.report.full_report import FullReport
from orchestrator.report.terminal import render_terminal


def printed(rendered, console):
    console.print(rendered)
    return console.file.getvalue()


@pytest.fixture
def full_text():
    """Every table of a summary at a width; `rows` configurations of it."""

    def text(result, width=200, rows=20):
        return printed(FullReport(result, rows), Console(file=io.StringIO(), width=width, color_system=None))

    return text


@pytest.fixture
def short_text():
    """What a sweep prints at its end on a terminal of a width, or to a log where none is given."""

    def text(result, width=None):
        look = {"width": width or WIDTH_OF_FILES, "force_terminal": width is not None, "color_system": None}
        return printed(render_terminal(result), WholeConsole(file=io.StringIO(), **look))

    return text
