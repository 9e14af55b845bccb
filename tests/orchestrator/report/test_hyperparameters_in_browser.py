"""The pictures of hyperparameters and outcomes on the page, in a real browser: points, parallel lines."""

import itertools
import math
import re

import numpy as np
import pytest

from orchestrator.report.write_report import write_report
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import ROWS, curve

pytestmark = needs_browser


def test_the_lines_of_a_and_b_are_named_at_their_right_end(page):
    names, labels = "[...document.querySelectorAll('#parallel .ray-name')]", page.read(ROWS)
    page.click('#table tr[data-c="3"]')  # it takes the place of B
    page.point("h1")
    assert set(page.read(f"{names}.map(e => e.textContent)")) == {f"A {labels[0]}", f"B {labels[3]}"}
    page.drag('#parallel .brush[data-axis="dropout"] .overlay', (0.5, 0.02), (0.5, 0.3))
    assert page.read(f"{names}.length") == 2 and not {labels[0], labels[3]} <= {*page.read(ROWS)}  # also outside of it


def test_names_of_parallel_lines_that_end_together_stand_apart(tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 10.0 ** -(3 + n), "model.dropout": 0.1 * n} for n in range(3)]
    state = synthetic_sweep(tmp_path / "equal", values, 2, lambda n, s, a, m, lengths, step: 0.5 + 0.0 * lengths)
    tab.open(write_report(state.folder)[0].as_uri())
    tab.point('#table tr[data-c="2"]')
    boxes = tab.read(
        "[...document.querySelectorAll('#parallel .ray-name')].map(e => e.getBoundingClientRect().toJSON())"
    )
    boxes.sort(key=lambda box: box["top"])
    assert len(boxes) == 3 and all(below["top"] - box["top"] >= 14 for box, below in itertools.pairwise(boxes))
    edges = tab.read("document.querySelector('#parallel svg').getBoundingClientRect().toJSON()")
    assert all(box["right"] <= edges["right"] and box["bottom"] <= edges["bottom"] for box in boxes)


def test_points_are_spread_sideways_only_where_several_share_a_value(tab, tmp_path, synthetic_sweep):
    values = [
        {"training.batch_size": size, "model.norm": norm} for size, norm in ((8, "pre"), (16, "pre"), (32, "none"))
    ]
    path, _ = write_report(synthetic_sweep(tmp_path / "few", values, 2, curve).folder)
    tab.open(path.as_uri())
    position = "e => [e.__data__, e.transform.baseVal[0].matrix.e]"
    for svg in range(2):
        picture = f"document.querySelectorAll('#points svg')[{svg}]"
        name = tab.read(f"[...{picture}.querySelectorAll('.title')][0].textContent")
        ticks = dict(tab.read(f"[...{picture}.querySelector('g').querySelectorAll('.tick')].map({position})"))
        off = {
            c: abs(x - ticks[values[c][{"batch": "training.batch_size", "norm": "model.norm"}[name]]])
            for c, x in tab.read(f"[...{picture}.querySelectorAll('.dot')].map({position})")
        }
        assert {c for c, pixels in off.items() if pixels > 1} == ({0, 1} if name == "norm" else set()), (name, off)
    assert "spread sideways" in tab.read("document.querySelector('#outcome-note').textContent")


def test_dragging_along_an_axis_keeps_its_configurations_alone(page):
    compared = page.read(ROWS)[:2]
    page.drag('#parallel .brush[data-axis="dropout"] .overlay', (0.5, 0.5), (0.5, 0.98))
    kept = page.read(ROWS)
    dropped = page.read("document.querySelectorAll('#curves .curve.out').length")
    assert 0 < len(kept) < 16 and dropped == 16 - len({*kept, *compared})
    assert page.read("document.querySelectorAll('#points svg:first-child .out').length") == dropped
    for selector in ("#table caption", "#kept"):
        text = page.read(f"document.querySelector('{selector}').textContent")
        count, low, high = re.search(r"(\d+) of 16 configurations, dropout (\S+) to ([\d.]+\d)", text).groups()
        assert int(count) == len(kept) and float(low) < float(high) < 0.3
    texts = "[...document.querySelectorAll('#legend > :not(.sample)')].map(e => e.textContent).join()"
    named = f"[...{texts}.matchAll(/[AB](?= #)/g)].map(match => match[0])"
    marked = page.read("[...document.querySelectorAll('#table .mark')].map(e => e.textContent).filter(Boolean)")
    assert sorted(page.read(named) + marked) == ["A", "B"] and page.read(named)  # those outside the range
    page.click("#clear")
    assert page.read("document.querySelectorAll('.out').length") == 0 and page.read(named) == []
    assert page.read("document.querySelector('#kept').hidden")
    assert "of 16" not in page.read("document.querySelector('#table caption').textContent")

    # A click clears the range, in it as beside it.
    for selector in (".selection", ".overlay"):
        page.drag('#parallel .brush[data-axis="dropout"] .overlay', (0.5, 0.5), (0.5, 0.9))
        assert page.read("document.querySelectorAll('.out').length") > 0
        inside = (0.5, 0.5) if selector == ".selection" else (0.5, 0.2)
        page.drag(f'#parallel .brush[data-axis="dropout"] {selector}', inside, inside)
        assert page.read("document.querySelectorAll('.out').length") == 0, selector


@pytest.mark.parametrize(("axis", "top", "kept", "later"), [("lr", 0.5, "345", "345"), ("norm", 0.7, "03", "038")])
def test_a_range_and_a_step_mean_the_same_on_a_page_that_is_written_anew(
    axis, top, kept, later, tab, tmp_path, synthetic_sweep
):
    """Three more configurations have smaller learning rates, and rank first with the norms in another order."""
    norms = ("none", "pre", "post", "none", "pre", "post", "post", "pre", "none")
    values = [{"training.learning_rate": 10.0 ** -(3 + n / 2), "model.norm": norm} for n, norm in enumerate(norms)]

    def later_first(number, seed, average, metric, lengths, step):
        return 1.0 + 0.1 * (number if number < 6 else number - 9) + 0.001 * lengths

    pages = [
        write_report(synthetic_sweep(tmp_path / f"{count}", values[:count], 2, later_first, spec=spec).folder)[0]
        for count, spec in ((6, {}), (9, {"evaluation.every": 25}))
    ]
    tab.open("about:blank")
    tab.open(pages[0].as_uri())
    tab.set("#evaluation", 0, "input")
    tab.drag(f'#parallel .brush[data-axis="{axis}"] .overlay', (0.5, top), (0.5, 0.98))
    step = "document.querySelector('#step').textContent"
    labels = f"{ROWS}.map(label => label.slice(1)).sort().join('')"
    ranges = "document.querySelector('#kept').textContent.split('configurations, ')[1]"
    seen = tab.read(ranges)
    assert tab.read(step) == "step 50" and tab.read(labels) == kept

    pages[0].write_bytes(pages[1].read_bytes())
    tab.reload()
    assert tab.read("document.querySelectorAll('#parallel .ray').length") == 9
    assert tab.read(step) == "step 50" and tab.read(labels) == later and tab.read(ranges) == seen
    assert tab.read("document.querySelectorAll('#parallel .selection[height]').length") == 1


def test_keys_move_a_range_by_one_category(tab, tmp_path, synthetic_sweep, simple_curve):
    values = [{"model.norm": norm, "model.dropout": 0.1 * n} for n, norm in enumerate(("none", "pre", "post"))]
    path, _ = write_report(synthetic_sweep(tmp_path / "norms", values, 2, simple_curve).folder)
    tab.open(path.as_uri())
    slider = "document.querySelector('[data-slider=norm]')"
    tab.read(f"{slider}.focus()")
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Home", "End"):
        tab.press(key)
        seen.append(tab.read(f"{slider}.getAttribute('aria-valuetext')"))
    assert seen == ["none, pre", "none", "none", "none, pre", "none", "all"]


@pytest.mark.parametrize(("direction", "failed_seeds"), [("minimize", 2), ("maximize", 2), ("maximize", 1)])
def test_failed_configurations_stand_beyond_the_worse_end_of_the_outcome(
    direction, failed_seeds, tab, tmp_path, synthetic_sweep
):
    """A configuration fails with all its seeds; with one of two its median is that of a failed seed."""
    values = [{"training.learning_rate": 10.0 ** -(4 - n), "model.norm": ["none", "pre"][n % 2]} for n in range(4)]
    lost = {(3, seed): 60 for seed in range(failed_seeds)}
    spec = {} if direction == "minimize" else {"objective.metric": "margin", "objective.direction": "maximize"}
    path, _ = write_report(synthetic_sweep(tmp_path / direction, values, 2, curve, lost, spec=spec).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    assert tab.read("document.querySelector('#lead code').textContent") == f"lengthwise extend {path.parent} --seeds 10"
    index = tab.read(
        "[...document.querySelectorAll('#table tbody tr')].find(e => e.textContent.includes('#3')).dataset.c"
    )
    at = "(e => { const box = e.getBoundingClientRect(); return (box.top + box.bottom) / 2 })"
    sign = -1 if direction == "minimize" else 1  # of what is worse, down the page
    for picture in ("#points svg:first-child", "#points svg:last-child"):  # a hyperparameter each
        crosses = tab.read(f"[...document.querySelectorAll('{picture} .cross')].map(e => [e.dataset.c, {at}(e)])")
        dots = tab.read(f"[...document.querySelectorAll('{picture} .dot')].map(e => [e.dataset.c, {at}(e)])")
        assert [c for c, _ in crosses] == [index] and index not in [c for c, _ in dots] and len(dots) == 3
        assert all(sign * crosses[0][1] > sign * y for _, y in dots)
    assert tab.read("document.querySelectorAll('#parallel .cross').length") == 2  # at the selection and test lengths
    last = "e => [e.dataset.c, +e.getAttribute('d').split(',').pop()]"
    ends = tab.read(f"[...document.querySelectorAll('#parallel .ray')].map({last})")
    (failed,) = [end for c, end in ends if c == index]
    assert all(sign * failed > sign * end for c, end in ends if c != index)
    shown = "getComputedStyle(document.querySelector('#legend .sign')).visibility"
    assert tab.read(shown) == "hidden"  # no curve has a cross yet
    assert tab.read("document.querySelector('#legend .sign').nextSibling") is None  # its room indents no text
    tab.click(f'#table tr[data-c="{index}"]')
    assert tab.read(shown) == ("visible" if failed_seeds == 1 else "hidden")
    if failed_seeds == 1:  # its median curve is infinite, and still named, beside the seed that did not fail
        names = "[...document.querySelectorAll('#curves .name')]"
        assert "B #3 \u00d7, 1 failed" in tab.read(f"{names}.map(e => e.textContent)")
        name = tab.read(f"{names}.map(e => [e.textContent[0], {at}(e)]).find(([mark]) => mark === 'B')[1]")
        paths = f"[...document.querySelectorAll('#curves .seed[data-of=\"{index}\"]')]"
        ends = tab.read(
            f"{paths}.filter(e => e.getAttribute('d')).map(e => {{ const end = e.getPointAtLength(e.getTotalLength());"
            "return end.matrixTransform(e.getScreenCTM()).y })"
        )
        assert len(ends) == 1 and abs(name - ends[0]) < 14
        verdict = tab.read("document.querySelector('.verdict').textContent")
        assert verdict.startswith("No verdict") and "1 of #3" in verdict and "inf" not in verdict
        for _ in range(2):  # upwards, then downwards
            tab.click("#table th:nth-child(6) button")
        heads = tab.read("[...document.querySelectorAll('#table th')].map(e => e.textContent)")
        rows = tab.read(
            "[...document.querySelectorAll('#table tbody tr')].map(e => [...e.cells].map(c => c.textContent))"
        )
        assert heads[5] in ("selection", "test", "trained") and rows[-1][5].startswith("-inf")
    assert tab.problems == []


def test_configurations_that_never_reach_the_metric_are_crosses_without_failed_seeds(tab, tmp_path, synthetic_sweep):
    def unreached(number, seed, average, metric, lengths, step):
        return np.full(len(lengths), math.inf if number == 2 else 1.0 + number + seed)

    values = [{"training.learning_rate": 10.0 ** -(3 + n), "model.dropout": 0.1 * n} for n in range(3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "steps", values, 2, unreached).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    crosses = "[...document.querySelectorAll('{} .cross')].map(e => e.dataset.c)"
    for picture, count in (("#points", 2), ("#parallel", 2)):
        assert tab.read(crosses.replace("{}", picture)) == ["2"] * count
    legend = tab.read("document.querySelector('#legend').textContent")
    assert "not reached: #2" in legend and "failed" not in legend

    # An infinite median has the same words.
    for c in (0, 2):
        tab.click(f'#table tr[data-c="{c}"]')
    cells = tab.read("[...document.querySelectorAll('#comparison tbody td')].map(e => e.textContent)")
    assert "not reached" in cells and "inf" not in cells and tab.problems == []


def test_configurations_with_failed_seeds_have_hollow_points_in_every_picture(page):
    """Number 5 has failed seeds 1 and 4, number 3 failed seed 2; the median of neither is infinite."""
    labels = page.read(
        "[...document.querySelectorAll('#table tbody tr')].map(e => [e.dataset.c, e.cells[2].textContent])"
    )
    places = {c for c, label in labels if label in ("#3", "#5")}
    hollow = {
        picture: page.read(f"[...document.querySelectorAll('{picture}')].map(e => e.dataset.c)")
        for picture in ("#curves .end:not(.focus)", "#points svg:first-child .hollow", "#parallel .end")
    }
    assert all(set(points) == places for points in hollow.values()), hollow
    assert len(hollow["#parallel .end"]) == 4  # at the selection and the test lengths
    assert page.read("getComputedStyle(document.querySelector('#points .hollow')).fill") == "rgb(255, 255, 255)"
    legend = page.read("document.querySelector('#legend').textContent")
    assert "#3 (1 of 8)" in legend and "#5 (2 of 8)" in legend
    page.click(f'#table tr[data-c="{next(c for c, label in labels if label == "#5")}"]')
    assert "B #5, 2 failed" in page.read("[...document.querySelectorAll('#curves .name')].map(e => e.textContent)")
    assert page.read("document.querySelectorAll('#curves .end.focus').length") == 1


def test_a_single_hyperparameter_has_points_alone(page, tab, tmp_path, synthetic_sweep):
    together = "document.querySelector('#together').hidden"
    heads = "[...document.querySelectorAll('#effects th')].map(e => e.textContent)"
    assert not page.read(together)
    rng = np.random.default_rng(0)
    values = [{"training.learning_rate": 10.0 ** rng.uniform(-4, -2)} for _ in range(12)]
    path, _ = write_report(synthetic_sweep(tmp_path / "single", values, 8, curve).folder)
    tab.open(path.as_uri())
    assert tab.read(together) and tab.read("document.querySelectorAll('#points svg').length") == 1

    # No others can be held fixed, so the correlations at the two groups of lengths are all the intervals.
    assert not [head for head in tab.read(heads) if "slope" in head]
    text = tab.read("document.querySelector('main').textContent")
    assert re.findall(r"\d+ of (\d+) do(?:es)? at the (\w+)", text) == [("1", "selection"), ("1", "test")]
    assert "partial" in (path.parent / "effects.csv").read_text().splitlines()[0].split(",")


def test_lines_of_parallel_coordinates_stay_off_the_ends_of_the_axes(same_page):
    box = "(e => { const b = e.getBoundingClientRect(); return [b.top, b.bottom] })"
    axes = same_page.read(f"[...document.querySelectorAll('#parallel .axis > .domain')].map({box})")
    rays = same_page.read(f"[...document.querySelectorAll('#parallel .ray')].map({box})")
    assert min(top for top, _ in rays) > max(top for top, _ in axes) + 5
    assert max(bottom for _, bottom in rays) < min(bottom for _, bottom in axes) - 5


def test_the_axis_of_equal_outcomes_begins_at_zero(tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(3)]
    folder = synthetic_sweep(tmp_path / "zero", values, 2, lambda n, s, a, m, lengths, step: 0.0 * lengths).folder
    tab.open(write_report(folder)[0].as_uri())
    assert tab.read("document.querySelector('#lead')") is None  # no configuration is ahead of the next
    texts = "[...document.querySelectorAll('{} g .tick text')].map(e => e.textContent)"
    for picture in ("#points svg", "#curves svg"):
        shown = tab.read(texts.format(picture))
        assert "0.0" in shown or "0" in shown
        assert not [text for text in shown if text.startswith(("-", "\u2212"))]


DOMAINS = (  # the values at both ends of each vertical axis of outcomes
    "[document.querySelector('#curves svg'), ...document.querySelectorAll('#points svg')].map(svg => {"
    "const ticks = [...svg.querySelectorAll('g[text-anchor=end] .tick')].filter(e => e.textContent);"
    "const [[v, p], [w, q]] = [ticks[0], ticks.at(-1)].map(e => [e.__data__, e.transform.baseVal[0].matrix.f]);"
    "const box = svg.querySelector('g[text-anchor=end] .domain').getBBox();"
    "return [box.y + box.height, box.y].map(y => v + (y - p) / (q - p) * (w - v)) })"
)


@pytest.mark.parametrize("gap", [0.0, 0.0001])
def test_the_axis_of_a_share_ends_at_one_and_spans_five_percent(gap, tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 0.001 * (1 + n), "model.dropout": 0.1 * n} for n in range(3)]
    spec = {"objective.metric": "margin", "objective.direction": "maximize"}
    state = synthetic_sweep(tmp_path / "share", values, 2, lambda n, *_: np.float32(1 - gap * n), spec=spec)
    tab.open(write_report(state.folder)[0].as_uri())
    for low, high in tab.read(DOMAINS):
        assert high <= 1 + 1e-6 and low <= 0.95 + 1e-6


def test_an_axis_spans_a_twentieth_of_its_largest_value(tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(3)]
    state = synthetic_sweep(tmp_path / "loss", values, 2, lambda n, *_: 2.3 + 0.0001 * n)
    tab.open(write_report(state.folder)[0].as_uri())
    for low, high in tab.read(DOMAINS):
        assert high - low > 0.11 and low < 2.3 < high


def test_a_and_b_chosen_by_keyboard_are_both_bold_and_b_is_dashed(page):
    page.read("document.querySelector('#table tbody tr').focus()")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.press(key)
    look = "(s => [s.opacity, s.strokeDasharray !== 'none', parseFloat(s.strokeWidth) > 2])(getComputedStyle(e))"
    rays = page.read(
        f"Object.fromEntries([...document.querySelectorAll('#parallel .ray')].map(e => [e.dataset.c, {look}]))"
    )
    assert rays["0"] == ["1", False, True] and rays["2"] == ["1", True, True]
    assert rays["1"][2] is False and float(rays["1"][0]) < 1

    # Also the hollow ends of A, of which some seeds failed.
    c = page.read("document.querySelector('#parallel .end').dataset.c")
    page.click(f'#table tr[data-c="{c}"]')
    page.click("#comparison button")
    page.point('#table tr[data-c="1"]')
    ends = page.read(
        f"[...document.querySelectorAll('#parallel .end[data-c=\"{c}\"]')].map(e => getComputedStyle(e).opacity)"
    )
    assert ends and set(ends) == {"1"}


def test_a_and_b_outside_a_range_stay_bold_in_every_picture(page):
    page.drag("#parallel .brush .overlay", (0.5, 0.02), (0.5, 0.3))
    dropped = set(page.read("[...document.querySelectorAll('#curves .out')].map(e => e.dataset.c)"))
    marked = set(page.read("[...document.querySelectorAll('#parallel .chosen')].map(e => e.dataset.c)"))
    assert dropped and marked == {"0", "1"} and "outside" in page.read("document.querySelector('#legend').textContent")
    for picture in ("#curves", "#points", "#parallel"):
        faded = set(page.read(f"[...document.querySelectorAll('{picture} .out')].map(e => e.dataset.c)"))
        assert faded == dropped and not faded & marked, picture


def test_a_configuration_whose_metric_is_nan_is_not_called_failed(tab, tmp_path, synthetic_sweep):
    def undefined(number, seed, average, metric, lengths, step):
        return np.full(len(lengths), math.nan if number == 1 else 0.1 + 0.1 * number + 0.01 * seed)

    values = [{"training.learning_rate": 10.0 ** -(3 + n), "model.dropout": 0.1 * n} for n in range(3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "nan", values, 2, undefined).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    for picture in ("#points svg:first-child", "#parallel"):
        assert tab.read(f"document.querySelector('{picture} text.failed').textContent") == "no score"
    title = tab.read("document.querySelector('#points .cross title').textContent")
    assert "#1" in title and "no score" in title and tab.problems == []
