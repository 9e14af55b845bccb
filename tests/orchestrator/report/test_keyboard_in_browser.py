"""The page of a sweep with a keyboard: keys do what the pointer does, and the focus stays where they chose."""

import re

import pytest

from orchestrator.results.make_summary import summarize
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import HOT, ROWS

pytestmark = needs_browser


def test_keys_do_what_the_pointer_does(page):
    page.read("document.querySelector('#table tbody tr').focus()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert page.read(HOT) == ["2"] and page.read("document.activeElement.dataset.c") == "2"
    page.read("document.querySelector('[data-slider=dropout]').focus()")
    for _ in range(6):
        page.press("ArrowDown")
    kept = len(page.read(ROWS))
    assert 0 < kept < 16
    page.press("Escape")
    assert page.read("document.querySelectorAll('.out').length") == 0


def test_the_focus_stays_where_a_key_chose(page):
    focused, heading = "document.activeElement.dataset.c", "document.querySelector('#comparison h2').textContent"
    label = page.read(ROWS)
    for key, c, compared in (("Enter", 2, 2), (" ", 3, 3)):  # each takes the place of B
        page.read(f"document.querySelector('#table tr[data-c=\"{c}\"]').focus()")
        page.press(key)
        assert page.read(focused) == str(c) and page.read(HOT) == [str(c)]
        assert re.findall(r"#\d+", page.read(heading)) == [label[0], label[compared]]
    page.press("ArrowDown")
    assert page.read(focused) == "4"

    # The curves keep it, and go on from the configuration that was pointed at.
    page.read("document.querySelector('#curves svg').focus()")
    page.press("ArrowDown")
    for key in ("Enter", " "):
        (pointed,) = page.read(HOT)
        page.press(key)
        assert page.read("document.activeElement === document.querySelector('#curves svg')")
        assert page.read(HOT) == [pointed]
    page.press("ArrowDown")
    assert int(page.read(HOT)[0]) == int(pointed) + 1
    page.click('#table tr[data-c="7"]')
    page.click("#comparison button")
    assert page.read("document.activeElement.textContent") == "Swap A and B"


def test_the_head_and_the_rows_of_the_table_are_one_tab_stop_each(page):
    focused = "(e => e.closest('th') ? `head ${e.textContent}` : e.dataset.c ? `row ${e.dataset.c}` : e.textContent)"
    focused = f"{focused}(document.activeElement)"
    page.read("document.querySelector('#curves svg').focus()")
    seen = []
    for keys in (["Tab"], ["ArrowRight", "ArrowRight", "ArrowLeft"], ["Tab"], ["ArrowDown"] * 2, ["Tab"], ["Tab"]):
        for key in keys:
            page.press(key)
        seen.append(page.read(focused))
    assert seen == ["head rank", "head label", "row 0", "row 2", "Show all 16 configurations", "Swap A and B"]

    # The row and the column that had the focus are the stops from now on, also in a table that is drawn anew.
    page.set("#metric", 1)
    page.read("document.querySelector('#curves svg').focus()")
    for stop in ("head label", "row 2"):
        page.press("Tab")
        assert page.read(focused) == stop

    # Without the row there is another.
    page.click('#table tr[data-c="3"]')
    page.drag('#parallel .brush[data-axis="dropout"] .overlay', (0.5, 0.5), (0.5, 0.98))
    stops = "[...document.querySelectorAll('#table [tabindex=\"0\"]')].map(e => e.tagName)"
    assert page.read(stops) == ["BUTTON", "TR"]


def test_left_and_right_step_the_length_that_the_curves_are_read_at(page, built):
    readout = "document.querySelector('#readout').textContent"
    result = summarize(built)
    lengths = result.bands[result.rows[0].config_id, *result.objective_curve].lengths
    page.read("document.querySelector('#curves svg').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.press(key)
        (c,), (length, median) = page.read(HOT), re.search(r"at length (\d+): (\S+) \[", page.read(readout)).groups()
        band = result.bands[result.rows[int(c)].config_id, *result.objective_curve]
        assert float(median) == pytest.approx(band.median[lengths.index(int(length))], rel=0.005)
        seen.append((int(c), int(length)))
    assert seen == [(0, lengths[0]), (0, lengths[1]), (1, lengths[1]), (1, lengths[0]), (1, lengths[0])]
    page.press("Enter")  # B is released, and still pointed at
    assert f"at length {lengths[0]}: " in page.read(readout)
    page.set("#metric", 1)  # nothing is pointed at any more
    assert "at length" not in page.read(readout)
    page.read("document.querySelector('#curves svg').focus()")
    page.press("ArrowLeft")
    assert page.read(HOT) == ["0"] and f"at length {lengths[-1]}: " in page.read(readout)


@pytest.mark.parametrize("width", [1000, 1280, 1600])
def test_the_line_below_the_curves_is_not_cut_and_moves_nothing(open_page, width):
    page = open_page(width)
    page.set("#evaluation", 0, "input")  # its readout has one sentence more
    page.click('#table tr[data-c="9"]')
    style, box = "getComputedStyle(document.querySelector('#readout'))", "document.querySelector('#readout')"
    tops = []
    for selector in ("h1", '#table tr[data-c="3"]', "#curves .catch"):
        page.point(selector)
        assert page.read(f"{style}.whiteSpace") == "normal" and page.read(f"{style}.overflow") == "visible"
        assert page.read(f"{box}.scrollHeight - {box}.clientHeight") <= 1
        tops.append(page.read("document.querySelector('#table').getBoundingClientRect().top + scrollY"))
    assert len({*tops}) == 1


def test_a_key_that_deselects_a_or_b_says_so(page):
    readout = "document.querySelector('#readout').textContent"
    for c, mark in ((0, "A"), (1, "B")):
        page.read(f"document.querySelector('#table tr[data-c=\"{c}\"]').focus()")
        is_said = f"{readout}.includes('no longer {mark}.')"
        seen = [page.read(is_said)]
        for key in ("Enter", "ArrowDown", "ArrowUp", "Enter"):  # deselects it, leaves it, returns, chooses it again
            page.press(key)
            seen.append(page.read(is_said))
        assert seen == [False, True, False, False, False]


def test_the_keys_of_the_curves_are_told_where_a_page_has_a_keyboard(page):
    sections = page.read("[...document.querySelectorAll('.keys')].map(e => e.closest('section').innerHTML)")
    assert ['id="table"' in sections[0], 'id="parallel"' in sections[1]] == [True, True], len(sections)
    shown = "[...document.querySelectorAll('.keys')].filter(e => e.checkVisibility()).length"
    assert page.read(shown) == 2  # a machine without a mouse has no hover either
    page.resize(390, 844, phone=True)
    assert page.read(shown) == 0


def test_a_slider_tells_values_and_moves_by_every_key_of_a_slider(page):
    name = "[data-slider=dropout]"
    value_text = f"document.querySelector('{name}').getAttribute('aria-valuetext')"
    assert page.read(value_text) == "all"
    page.read(f"document.querySelector('{name}').focus()")
    dropout = page.read("[...document.querySelectorAll('#table th')].map(e => e.textContent)").index("dropout")
    column = f"[...document.querySelectorAll('#table tbody tr')].map(e => +e.cells[{dropout}].textContent)"
    page.click("#every")
    low, high = min(page.read(column)), max(page.read(column))
    page.read(f"document.querySelector('{name}').focus()")
    ends = [high]
    for key, end in (("ArrowLeft", -1), ("ArrowLeft", -2), ("ArrowRight", -1), ("Home", -20), ("ArrowRight", -19)):
        page.press(key)
        assert page.read(f"document.activeElement === document.querySelector('{name}')")
        ends = [float(value) for value in page.read(value_text).split(" to ")]
        assert ends == pytest.approx([low, high + end * (high - low) / 20], rel=0.01, abs=1e-6)
        assert all(low <= value <= ends[1] + 1e-6 for value in page.read(column))
    page.press("End")
    assert page.read(value_text) == "all" and len(page.read(column)) == 16
