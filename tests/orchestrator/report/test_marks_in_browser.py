"""The marks of A and B in the page of a sweep in a real browser: each is seen, also where one lies on the other."""

import base64
import json
import re

import numpy as np
import pytest
from PIL import Image

from orchestrator.report.write_report import write_report
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import ROWS

pytestmark = needs_browser


@pytest.mark.parametrize("width", [390, 1200])
def test_squares_of_a_and_circles_of_b_stand_at_different_lengths_and_in_the_legend(open_page, width):
    page = open_page(width)
    look = "e => [e.dataset.of, e.transform.baseVal[0].matrix.e, e.getAttribute('d').toUpperCase().includes('A')]"
    markers = page.read(f"[...document.querySelectorAll('#curves .marker')].map({look})")
    places = {side: [x for of, x, _ in markers if of == side] for side in ("0", "1")}
    assert {(of, is_circle) for of, _, is_circle in markers} == {("0", False), ("1", True)}
    assert min(abs(x - other) for x in places["0"] for other in places["1"]) > 10
    labels = page.read(ROWS)
    samples = (
        "[...document.querySelectorAll('#legend .sample')].map(e => [e.textContent, e.querySelectorAll('path').length])"
    )
    assert page.read(samples) == [[f"A {labels[0]}", 2], [f"B {labels[1]}", 2]]


def luminance(color):
    """The relative luminance of a CSS color, plus 0.05: quotients of it are contrasts as WCAG defines them."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722])) + 0.05


def test_the_thin_dashes_of_b_lie_on_the_wide_line_of_a(same_page):
    medians = "[...document.querySelectorAll('#curves .median')]"
    assert same_page.read(f"{medians}.map(e => e.dataset.of)") == ["0", "1"]
    first, second = same_page.read(f"{medians}.map(e => parseFloat(getComputedStyle(e).strokeWidth))")
    assert first >= second + 3  # A is seen on both sides of B
    dashes = same_page.read(f"{medians}.map(e => e.getAttribute('stroke-dasharray'))")
    assert dashes[0] is None and min(map(float, dashes[1].split())) > second

    # White below both keeps them apart from other lines, and hides neither bands nor seeds.
    lines = same_page.read(
        "[...document.querySelectorAll('#curves :is(.halo, .band, .seed, .median)')].map(e => e.classList[0])"
    )
    assert lines[:2] == ["halo"] * 2 and lines[-2:] == ["median"] * 2
    halos = same_page.read(
        "[...document.querySelectorAll('#curves .halo')].map(e => parseFloat(getComputedStyle(e).strokeWidth))"
    )
    assert halos[0] > first and halos[1] > second
    rays = same_page.read(
        "['0', '1'].map(c => parseFloat(getComputedStyle(document.querySelector(`.ray[data-c='${c}']`)).strokeWidth))"
    )
    assert rays[0] > rays[1] + 2


def test_a_and_b_contrast_with_each_other_and_with_white(same_page):
    def read_colors(selectors, key):
        return [
            luminance(same_page.read(f"getComputedStyle(document.querySelector('{name}')).{key}")) for name in selectors
        ]

    lines = read_colors([f'#curves .median[data-of="{c}"]' for c in (0, 1)], "stroke")
    points = read_colors([f'#points .dot[data-c="{c}"]' for c in (0, 1)], "fill")
    assert lines == points and 1.05 / max(lines) > 3 and max(lines) / min(lines) > 3  # what WCAG asks of graphics
    marks = read_colors(["#table .mark.first", "#table .mark.second"], "backgroundColor")
    names = read_colors(["#curves .name:first-of-type", "#curves .name:last-of-type"], "fill")
    assert sorted(marks) == sorted(names) and 1.05 / max(marks) > 4.5  # of text


def test_the_hatch_is_weaker_than_the_lines_that_cross_it(same_page):
    ground, stripe = same_page.read("[...document.querySelectorAll('#hatch rect')].map(e => getComputedStyle(e).fill)")
    assert luminance(ground) / luminance(stripe) < 1.25


@pytest.mark.parametrize("media", ["screen", "print"])
def test_a_and_b_are_seen_in_greyscale_where_one_lies_on_the_other(media, tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(4)]
    state = synthetic_sweep(tmp_path / "near", values, 4, lambda n, *_: 0.5 + (1e-4 * n if n < 2 else 0.1 * n))
    tab.resize(1200, 4000)  # in a lower window a screenshot of the page changes its width, so it would be drawn anew
    tab.open(write_report(state.folder)[0].as_uri())
    tab.call("Emulation.setEmulatedMedia", media=media)
    if media == "print":
        tab.read("dispatchEvent(new Event('beforeprint'))")
    assert tab.read("document.body.getBoundingClientRect().bottom") < 4000
    box = "(b => [b.left, b.top, b.width, b.height])"
    median = "document.querySelector('#curves .median').getBoundingClientRect()"
    left, top, width, height = map(round, tab.read(f"{box}({median})"))
    tab.screenshot(tmp_path / "page.png")
    tab.call("Emulation.setEmulatedMedia", media="")
    with Image.open(tmp_path / "page.png") as image:
        grey = np.asarray(image.convert("L").crop((left + 10, top - 6, left + width - 10, top + height + 6)), dtype=int)

    # In each column of pixels is the line of A; where B has a dash, A is an edge above and below it.
    dark, medium = grey < 100, (grey > 115) & (grey < 190)
    is_dash = dark.any(axis=0)
    assert 0.2 < is_dash.mean() < 0.8 and (medium[:, ~is_dash].sum(axis=0) >= 2).mean() > 0.8
    edges = [
        medium[: rows[0], column].any() and medium[rows[-1] :, column].any()
        for column in np.flatnonzero(is_dash)
        for rows in [np.flatnonzero(dark[:, column])]
    ]
    assert np.mean(edges) > 0.6  # in other columns there is a circle of B


def test_medians_at_a_single_length_are_a_square_and_a_dot(written, tab, tmp_path):
    text = written.read_text()
    data = json.loads(old := re.search(r'id="data">(.*?)</script>', text)[1])
    data["metrics"] = [{**data["metrics"][0], "lengths": [7]}]
    data["numbers"] = base64.b64encode(np.full(10000, 0.5, dtype="float32").tobytes()).decode()
    changed = tmp_path / "single.html"
    changed.write_text(text.replace(old, json.dumps(data)))
    tab.open(changed.as_uri())
    look = (
        "e => [getComputedStyle(e).strokeLinecap, e.getAttribute('stroke-dasharray'), e.getAttribute('d').length > 1]"
    )
    shown = tab.read(f"[...document.querySelectorAll('#curves .single .median')].map({look})")
    assert shown == [["square", None, True], ["round", None, True]]  # with dashes there is no dot


def test_a_is_a_square_on_top_of_the_larger_circle_b_and_both_on_top_of_the_other_points(page):
    dots = "[...document.querySelectorAll('#points svg:first-child .dot')]"
    last = f"{dots}.slice(-2).map(e => [e.dataset.c, e.getAttribute('d')])"
    swap = "#comparison button"
    for first, second in (("0", "1"), ("1", "0")):
        (d, circle), (c, square) = page.read(last)
        assert (c, d) == (first, second) and "A" not in square.upper() and "A" in circle.upper()  # an arc
        page.click(swap)

    # With equal values, both are seen.
    side, diameter = page.read(f"{dots}.slice(-2).map(e => e.getBBox().width).toReversed()")
    assert side < 0.8 * diameter

    # Also where some seeds failed, as in number 5.
    c = page.read("document.querySelector('#parallel .end').dataset.c")
    page.click(f'#table tr[data-c="{c}"]')
    page.click(swap)
    ends = [f"#curves .end[data-c='{c}']", "#curves .end.focus", f"#parallel .end[data-c='{c}']"]
    for end in ends:
        assert "A" not in page.read(f"document.querySelector(\"{end}\").getAttribute('d').toUpperCase()"), end
