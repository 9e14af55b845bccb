"""What a terminal, a log or a page shows of a sweep."""

import io
from html.parser import HTMLParser

import pytest
from rich.console import Console

from orchestrator.consoles import WIDTH_OF_FILES, WholeConsole
from orchestrator.report.full_report import FullReport
from orchestrator.report.terminal import render_terminal


@pytest.fixture(autouse=True)
def _not_rendered(figures_not_rendered):
    """Nothing here looks at a figure as it is rendered."""


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


class Page(HTMLParser):
    """Collects what a page refers to and the text it shows."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.references, self.text = [], [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page_of():
    """The page in a file, parsed."""
    return lambda path: Page(path.read_text())
