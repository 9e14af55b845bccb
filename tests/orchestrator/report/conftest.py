"""What a page shows of a sweep: as a file that is parsed, and in a browser."""

import math
from html.parser import HTMLParser

import numpy as np
import pytest

from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from tests.browser import Browser

ROWS = "[...document.querySelectorAll('#table tbody tr')].map(e => e.cells[2].textContent)"  # the labels of the table
HOT = "[...new Set([...document.querySelectorAll('.hot')].map(e => e.dataset.c))]"  # what is pointed at


class Page(HTMLParser):
    """Collects what a page refers to and the text it shows."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.references, self.text, self.inside = [], [], [], ""
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag
        self.references += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        self.text += [data] if self.inside not in ("script", "style") else []


@pytest.fixture
def page_of():
    """The page in a file, parsed."""
    return lambda path: Page(path.read_text())


def curve(number, seed, average, metric, lengths, step):
    """Seeds differ, by another amount in each configuration; averages, metrics and steps differ, too."""
    noise = 0.004 * np.sin(3.0 * seed + number) + 0.001 * seed
    scale = {"ema": 1.0, "raw": 1.2}[average] * {"total_variation": 1.0, "invalid_mass": 0.5}.get(metric, 2.0)
    return scale * (0.02 * (1 + number) + 0.03 * np.maximum(lengths - 5, 0) + 2.0 / step + noise)


@pytest.fixture(scope="session")
def built(tmp_path_factory, synthetic_sweep):
    """Sixteen configurations of eight seeds; three seeds of numbers 3 and 5 failed."""
    values = [
        {"training.learning_rate": 10.0 ** -(4 - n / 8), "model.dropout": round(0.05 * (n * 7 % 9), 2)}
        for n in range(16)
    ]
    folder = tmp_path_factory.mktemp("built") / "sixteen"
    return synthetic_sweep(folder, values, 8, curve, {(3, 2): 60, (5, 1): 60, (5, 4): 60})


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for all tests."""
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def tab(browser):
    """A tab of the size that most readers have, whatever the test before made of it."""
    browser.resize(1200, 900)
    browser.has_same_page = False
    return browser


@pytest.fixture(scope="session")
def written(built):
    """The path of the page of the sixteen configurations."""
    path, _ = write_report(built.folder)
    return path


@pytest.fixture
def open_page(written, tab):
    """open_page(390, 844, phone=True) opens the page in a window of this size; it must log no problem."""

    def open_at_size(width=1200, height=900, *, phone=False):
        tab.resize(width, height, phone=phone)
        tab.open(written.as_uri())
        return tab

    tab.problems.clear()
    yield open_at_size
    assert tab.problems == []


@pytest.fixture
def page(open_page):
    """A tab with the page as it is when somebody opens it; it must log no problem."""
    return open_page()


@pytest.fixture
def same_page(request, browser):
    """`page` for tests that only read it: it is opened once for all such tests that follow each other."""
    if not getattr(browser, "has_same_page", False):
        request.getfixturevalue("page")
        browser.has_same_page = True
    yield browser
    assert browser.problems == []


def noisy(number, seed, average, metric, lengths, step):
    """Worse with the number, but not in order."""
    return 0.02 * (1 + number) + 0.05 * math.sin(3.0 * number) + 0.03 * np.maximum(lengths - 5, 0) + 0.001 * seed


def draws(count):
    return [
        {"training.learning_rate": 10.0 ** -(4 - n / 5), "model.dropout": round(0.1 * (n * 7 % 5), 2)}
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def twelve(tmp_path_factory, synthetic_sweep):
    """Twelve configurations of three seeds; one seed of one of them diverged."""
    return summarize(synthetic_sweep(tmp_path_factory.mktemp("built") / "twelve", draws(12), 3, noisy, {(4, 1): 60}))
