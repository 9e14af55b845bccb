"""The page of a sweep in a real browser on a phone and on paper: nothing is cut, and hints fit the device."""

from itertools import pairwise

import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import ROWS, curve

pytestmark = needs_browser


def test_a_table_beyond_the_edge_says_so_on_a_phone(page):
    wide = "[...document.querySelectorAll('[data-wide]')].map(e => e.closest('[id]').id)"
    assert page.read(wide) == []
    page.resize(390, 800, phone=True)
    page.reload()
    assert page.read(wide) == ["effects"]
    tops = page.read("[...document.querySelectorAll('#points svg')].map(e => e.getBoundingClientRect().top)")
    assert len(tops) == len(set(tops)) == 2, "a picture in each row"


def test_a_phone_shows_status_answer_and_curves_before_anything_else(open_page):
    page = open_page(390, 844, phone=True)
    box = "(e => { const b = e.getBoundingClientRect(); return [b.top + scrollY, b.bottom + scrollY] })"
    first, curves, controls, rest = (
        page.read(f"{box}(document.querySelector('{selector}'))")
        for selector in (".answers.first", "#curves svg", "#picture .controls", ".answers.rest")
    )
    assert first[1] <= curves[0] < curves[1] <= 700 and curves[1] <= controls[0] < controls[1] <= rest[0]
    assert page.read(ROWS)[0] in page.read("document.querySelector('.short').innerText")
    page.resize(1200, 900)
    assert page.read("getComputedStyle(document.querySelector('.short')).display") == "none"


def test_a_phone_shows_the_outcomes_and_the_interval_without_scrolling(page):
    fits = (
        "(table => [...table.querySelectorAll('th')].filter(e => e.getBoundingClientRect().right <="
        "table.parentElement.getBoundingClientRect().right + 1).map(e => e.textContent))"
    )
    compared = page.read(f"{fits}(document.querySelector('#comparison table'))")
    assert page.read("getComputedStyle(document.querySelector('#table small')).display") != "none"
    for width in (360, 390):
        page.resize(width, 844, phone=True)
        page.reload()
        missing = {"pairs of seeds", "each seed", "p", "A better"}  # the first three are below the row
        names = page.read(f"{fits}(document.querySelector('#comparison table'))")
        assert names == [name for name in compared if name not in missing]
    assert {"trained", "selection", "test"} <= set(page.read(f"{fits}(document.querySelector('#table'))"))


@pytest.mark.parametrize("failed_seeds", [2, 3])
def test_a_phone_explains_infinite_values_that_its_table_shows(failed_seeds, tab, tmp_path, synthetic_sweep):
    """If 2 of 6 seeds failed, only a quartile is infinite; of 3 the median, too, which a phone replaces by a count."""
    failed = {(1, seed): 60 for seed in range(failed_seeds)}
    values = [{"training.learning_rate": 10.0 ** -(3 + n), "model.dropout": 0.1 * n} for n in range(2)]
    spec = {"objective.metric": "margin", "objective.direction": "maximize", "objective.lengths": [6, 8, 10]}
    path, _ = write_report(synthetic_sweep(tmp_path / "infinite", values, 6, curve, failed, spec=spec).folder)
    tab.open(path.as_uri())
    table, note = (
        "document.querySelector('#table').innerText",
        "document.querySelector('#table').closest('section').innerText",
    )
    for width, phone in ((1200, False), (390, True)):
        tab.resize(width, 844, phone=phone)
        tab.reload()
        assert ("-inf" in tab.read(table)) == ("-inf: failed seeds" in tab.read(note)) == (not phone)
        has_others = failed_seeds == 3
        assert ("others" in tab.read(table)) == ("others: the median" in tab.read(note)) == has_others
    assert (f"failed {failed_seeds}/6" in tab.read(table)) == has_others
    head = "[...document.querySelectorAll('#table th')].find(e => e.textContent === 'test')"
    assert tab.read(f"{head}.getBoundingClientRect().right") <= 390

    # The names of neighbouring axes do not overlap.
    names = "[...document.querySelectorAll('.axis-name')].map(e => e.getBoundingClientRect())"
    edges = tab.read(f"{names}.map(box => [box.left, box.right])")
    assert len(edges) == 4 and all(right <= left for (_, right), (left, _) in pairwise(edges))


def test_a_phone_has_rows_for_a_finger_and_effects_without_scrolling(page):
    heads = "[...document.querySelectorAll('#effects th')].map(e => e.textContent)"
    assert "at lengths" in page.read(heads)
    page.resize(390, 844, phone=True)
    page.reload()
    rows = page.read("[...document.querySelectorAll('#table tbody tr')].map(e => e.getBoundingClientRect().height)")
    assert min(rows) >= 40
    assert "at lengths" not in page.read(heads)
    assert "selection lengths 6-7" in page.read("document.querySelector('#effects h3').textContent")
    right = page.read(
        "[...document.querySelectorAll('#effects tbody td:nth-child(2)')].map(e => e.getBoundingClientRect().right)"
    )
    assert max(right) <= 390


@pytest.mark.parametrize("width", [360, 375, 390, 412])
def test_ranges_and_percentages_are_not_broken_into_lines(open_page, width):
    page = open_page(width, 844, phone=True)
    broken = page.read(
        "(() => { const broken = [], main = document.querySelector('main');"
        "const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);"
        "while (walk.nextNode()) for (const match of walk.currentNode.data.matchAll(/\\d+-\\d+|[\\d.]+ %/g)) {"
        "const range = document.createRange(); range.setStart(walk.currentNode, match.index);"
        "range.setEnd(walk.currentNode, match.index + match[0].length);"
        "if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(match[0]); }"
        "return broken })()"
    )
    assert broken == []


def test_the_head_of_every_table_is_bold_and_on_each_sheet_of_paper(same_page):
    weights = "[...new Set([...e.querySelectorAll('{}')].map(cell => getComputedStyle(cell).fontWeight))].join()"
    tables = same_page.read(
        "[...document.querySelectorAll('table')].map(e => ["
        f"e.closest('[id]')?.id, {weights.format('thead th')}, {weights.format('tbody tr > *')}])"
    )
    assert {"table", "comparison", "effects", "what-failed"} <= {name for name, _, _ in tables}
    assert {(head, body) for _, head, body in tables} == {("600", "400")}


def test_a_finger_near_a_curve_chooses_it_and_a_second_tap_keeps_it(open_page):
    page = open_page(390, 800, phone=True)
    end = page.read(
        "(() => { const e = document.querySelector('#curves .curve[data-c=\"15\"]');"
        "e.scrollIntoView({block: 'center'}); const at = e.getPointAtLength(e.getTotalLength()), b = e.ownerSVGElement"
        ".getBoundingClientRect(); return [b.left + at.x, b.top + at.y] })()"
    )
    heading = "document.querySelector('#comparison h2').textContent"
    chosen = [page.read(heading)]
    for right, up in ((23, 0), (23, 0), (0, 40)):  # the last is too far from any curve
        page.tap(end[0] + right, end[1] - up)
        if not up:
            assert page.read("document.querySelector('#readout').textContent").startswith("B #15 at length ")
        chosen.append(page.read(heading))
    first, *others = chosen
    assert first != others[0] and len({*others}) == 1 and "#15," in others[0]


def test_no_width_has_a_horizontal_scroll_and_columns_beyond_the_edge_are_named(page):
    edge = "document.querySelector('#table').parentElement.getBoundingClientRect().right + 1"
    shown = "document.querySelector('#beyond')"
    for width, phone in ((360, True), (390, True), (800, False), (1600, False)):
        page.resize(width, 800, phone=phone)
        page.read("new Promise(done => setTimeout(done, 250))")
        assert page.read("document.documentElement.scrollWidth") <= width
        if width in (360, 1600):
            beyond = page.read(
                f"[...document.querySelectorAll('#table th')].filter(e => e.getBoundingClientRect().right > {edge})"
                ".map(e => e.textContent)"
            )
            assert page.read(f"{shown}.hidden") == (not beyond) == (not phone)
        if width == 360:
            assert beyond[-2:] == ["dropout", "lr"] and ", ".join(beyond) in page.read(f"{shown}.textContent")


def test_pictures_fill_the_paper_and_the_screen_is_as_before(page):
    page.resize(700, 900)
    rows, opened = "document.querySelectorAll('#table tbody tr').length", "document.querySelectorAll('[open]').length"
    before = page.read(rows)
    page.call("Emulation.setEmulatedMedia", media="print")
    page.resize(1000, 900)
    page.read("dispatchEvent(new Event('beforeprint'))")
    for picture in ("curves", "parallel"):
        svg, box = page.read(
            f"[document.querySelector('#{picture} svg'), document.querySelector('#{picture}')]"
            ".map(e => e.getBoundingClientRect().width)"
        )
        assert abs(svg - box) < 2 and box > 900, picture
    shown = "[...document.querySelectorAll('details')].filter(e => e.getBoundingClientRect().height)"
    folded = page.read(f"{shown}.map(e => e.querySelector('summary').textContent)")
    assert "Provenance" in folded and "Commands" not in folded and page.read(rows) > before
    style = "getComputedStyle(document.querySelector('{}'))"
    assert page.read(style.format("section") + ".breakInside") == "auto"  # else a quarter of a sheet stays empty
    assert page.read(style.format("#table tbody tr") + ".breakInside") == "avoid"
    assert page.read(style.format("details td") + ".fontSize") == "10.6667px"  # 8pt
    sizes = [float(page.read(style.format(part) + ".fontSize")[:-2]) for part in (".answers p", ".note", "details p")]
    assert sizes[0] > max(sizes[1:])  # notes are smaller than the answers
    for leading in ("h2", "#effects h3", "#effects .note", "#comparison .verdict + p", "#outcome-note", "summary"):
        assert page.read(style.format(leading) + ".breakAfter") == "avoid", leading
    page.call("Emulation.setEmulatedMedia", media="")
    page.read("dispatchEvent(new Event('afterprint'))")
    assert page.read(rows) == before and page.read(opened) == 0


def test_hints_fit_the_device_and_paper_has_none(open_page):
    page = open_page(390, 800, phone=True)
    section, words = "document.querySelector('#comparison').checkVisibility()", "document.body.innerText.toLowerCase()"
    for released in (None, 0, 1):  # both are chosen at first
        page.resize(390, 800, phone=True)
        if released is not None:
            page.read(f"document.querySelector('#table tr[data-c=\"{released}\"]').focus()")
            page.press("Enter")
        shown = page.read(words)
        assert "tap" in shown and "click" not in shown and "keyboard" not in shown and page.read(section)
        page.call("Emulation.setEmulatedMedia", media="print")
        page.resize(717, 1000)
        page.read("dispatchEvent(new Event('beforeprint'))")
        printed = page.read(words)
        assert not any(hint in printed for hint in ("click", "tap ", "keyboard", "press ", "drag"))
        assert page.read(section) == (released is None)
        page.call("Emulation.setEmulatedMedia", media="")
        page.read("dispatchEvent(new Event('afterprint'))")


def test_nothing_is_wider_than_the_paper(tmp_path, tab, synthetic_sweep):
    """Also a traceback, which on a screen has a scrollbar, and failures with long names."""
    values = [{"training.learning_rate": 10.0**-n, "model.dropout": 0.1 * n} for n in range(1, 4)]
    state = synthetic_sweep(tmp_path / "crashed", values, 8, curve, died=[1])
    pack, trace = state.packs["pack0001"], f"Traceback:\n  {'/a_folder' * 30}"
    pack.error, pack.attempts, pack.traces = "y" * 300, ["RuntimeError"], [trace]
    tab.open(write_report(state.folder, summarize(state), read_curves(state))[0].as_uri())
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.resize(717, 1000)  # A4 without margins
    tab.read("dispatchEvent(new Event('beforeprint'))")
    tab.read("new Promise(done => setTimeout(done, 250))")
    wider = tab.read(
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility()"
        " && !(e instanceof SVGElement && e.tagName !== 'svg') && (e.getBoundingClientRect().right > innerWidth"
        " || (getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth)))"
        ".map(e => [e.tagName, e.id, e.textContent.slice(0, 50)])"
    )
    traces = "document.querySelector('#what-failed pre')"
    shown = tab.read(f"[{traces}.textContent.includes('/a_folder'), {traces}.checkVisibility()]")
    tab.call("Emulation.setEmulatedMedia", media="")
    assert shown == [True, True] and wider == []
