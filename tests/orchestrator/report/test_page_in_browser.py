"""The page of a sweep in a real browser: pointing, choosing, switching, dragging and typing change what they should."""

import itertools
import json
import math
import re
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import ROWS, curve
from tests.orchestrator.running.deaths import kill

pytestmark = needs_browser

HOT = "[...new Set([...document.querySelectorAll('.hot')].map(e => e.dataset.c))]"
CURVES = "[...document.querySelectorAll('#curves .curve')].map(e => e.getAttribute('d'))"
SEEDS = "[...document.querySelectorAll('#curves .seed')].map(e => e.dataset.of)"


def test_the_first_sentence_leads_to_what_failed_and_keeps_the_choices(page):
    page.set("#scale", "log")
    chosen = page.read("location.hash")
    link = ".first p:first-child a"
    assert page.read(f"document.querySelector('{link}').textContent") == "3 failed"
    page.click(link)
    top = page.read("document.getElementById('what-failed').getBoundingClientRect().top")
    at_the_end = page.read("Math.abs(scrollY + innerHeight - document.documentElement.scrollHeight) < 2")
    assert page.read("scrollY") > 300 and (abs(top) < 60 or at_the_end)
    assert page.read("location.hash") == chosen


def test_pointing_at_a_row_a_point_or_a_curve_shows_the_same_configuration_everywhere(page):
    for selector in ('#table tr[data-c="4"]', '#points .dot[data-c="4"]'):
        page.point("h1")
        assert page.read(HOT) == []
        page.point(selector)
        assert page.read(HOT) == ["4"]
        hot = page.read("[...document.querySelectorAll('.hot')].map(e => e.tagName)")
        assert {"tr", "path"} <= {name.lower() for name in hot}
        assert page.read("document.querySelectorAll('#points .dot.hot').length") == 2
        assert page.read(SEEDS).count("4") == 8  # its seeds appear
        assert page.read("document.querySelector('#readout b').textContent").endswith(page.read(ROWS)[4])
    page.point("#curves .catch", (0.5, 0.5))
    (pointed,) = page.read(HOT)
    assert page.read(SEEDS).count(pointed) == 8


def test_pointing_at_a_curve_tells_its_values_at_the_length(page, built):
    page.point("#curves .catch", (0.5, 0.5))
    (pointed,) = page.read(HOT)
    result = summarize(built)
    row = result.rows[int(pointed)]
    told = page.read("document.querySelector('#readout').textContent")
    length, median, low, high = re.search(r"at length (\d+): (\S+) \[(\S+), (\S+)\];", told).groups()
    band = result.bands[row.config_id, *result.objective_curve]
    at = band.lengths.index(int(length))
    assert [float(one) for one in (median, low, high)] == pytest.approx(
        [band.median[at], band.q25[at], band.q75[at]], rel=0.005
    )
    beside = page.read("document.querySelector('#curves .value').textContent")
    assert beside.startswith(f"#{row.number}") and beside.endswith(f"at {length}: {median}")

    # Along the curve the value follows the pointer.
    page.point("#curves .catch", (0.5 + 1 / len(band.lengths), 0.5))
    told = page.read("document.querySelector('#readout').textContent")
    beside = page.read("document.querySelector('#curves .value').textContent")
    assert re.search(r"at length (\d+: \S+) \[", told)[1] == beside.partition(" at ")[2]
    assert not beside.endswith(f"at {length}: {median}")
    page.point("h1")
    assert page.read("document.querySelector('#curves .value')") is None


def test_pointing_tells_the_outcome_beside_points_and_at_the_end_of_the_line(page, built):
    row = summarize(built).rows[4]
    column = page.read("[...document.querySelectorAll('#table th')].map(e => e.textContent)").index
    cells = page.read("[...document.querySelector('#table tr[data-c=\"4\"]').cells].map(e => e.textContent)")
    selection, test = (cells[column(name)].partition(" ")[0] for name in ("selection", "test"))
    beside = "[...document.querySelectorAll('{} .beside')].map(e => e.textContent)"
    for selector in ('#points .dot[data-c="4"]', '#table tr[data-c="4"]'):
        page.point(selector)
        assert page.read(beside.format("#points")) == [f"#{row.number}: {selection}"] * 2  # hyperparameters
        assert page.read(beside.format("#parallel")) == [f"#{row.number}: {test}"]
        page.point("h1")
        assert page.read(beside.format("body")) == []


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


def test_rows_have_no_hash_as_their_title(page):
    assert page.read("document.querySelectorAll('#table tbody tr').length") > 2
    assert page.read("document.querySelectorAll('#table tr[title]').length") == 0


def test_a_table_beyond_the_edge_says_so_on_a_phone(page):
    wide = "[...document.querySelectorAll('[data-wide]')].map(e => e.closest('[id]').id)"
    assert page.read(wide) == []
    page.resize(390, 800, phone=True)
    page.reload()
    assert {"comparison", "effects"} <= set(page.read(wide))
    tops = page.read("[...document.querySelectorAll('#points svg')].map(e => e.getBoundingClientRect().top)")
    assert len(tops) == len(set(tops)) == 2, "a picture in each row"


def test_a_phone_shows_status_answer_and_curves_before_anything_else(page):
    page.resize(390, 844, phone=True)
    page.reload()
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
    assert compared.index("median A") < compared.index("median of A - B")
    assert page.read("getComputedStyle(document.querySelector('#table small')).display") != "none"
    page.resize(390, 844, phone=True)
    page.reload()
    assert {"trained", "selection", "test"} <= set(page.read(f"{fits}(document.querySelector('#table'))"))
    compared = page.read(f"{fits}(document.querySelector('#comparison table'))")
    assert compared[:3] == ["at lengths", "median of A - B", "95 % interval"]


def test_the_legend_of_the_table_names_brackets_only_where_they_are_shown(page):
    told = "document.querySelector('#table').closest('section').innerText"
    assert "brackets: quartiles over seeds; reach" in page.read(told)
    page.resize(390, 844, phone=True)
    assert "brackets" not in page.read(told) and "test 8-11; reach" in page.read(told)


@pytest.mark.parametrize("failed_seeds", [2, 3])
def test_a_phone_explains_infinite_values_that_its_table_shows(failed_seeds, tab, tmp_path, synthetic_sweep):
    """If 2 of 6 seeds failed, only a quartile is infinite; of 3 the median, too."""
    failed = {(1, seed): 60 for seed in range(failed_seeds)}
    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(2)]
    spec = {"objective.metric": "margin", "objective.direction": "maximize"}
    path, _ = write_report(synthetic_sweep(tmp_path / "infinite", values, 6, curve, failed, spec=spec).folder)
    tab.open(path.as_uri())
    table, note = (
        "document.querySelector('#table').innerText",
        "document.querySelector('#table').closest('section').innerText",
    )
    for width, phone in ((1200, False), (390, True)):
        tab.resize(width, 844, phone=phone)
        is_shown = not phone or failed_seeds == 3
        assert ("-inf" in tab.read(table)) == ("-inf: failed seeds" in tab.read(note)) == is_shown


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
def test_ranges_and_percentages_are_not_broken_into_lines(page, width):
    page.resize(width, 844, phone=True)
    page.reload()
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


def test_effects_are_those_on_the_chosen_outcome(page):
    cells = "[...document.querySelectorAll('#effects tbody tr')].map(e => e.cells[1].textContent.split(' ')[0])"
    at = f"[...new Set({cells})]"
    assert "selection" in page.read(at) and "test" not in page.read(at)
    page.set("#outcome", "test")
    assert "test" in page.read(at) and "selection" not in page.read(at)


def test_the_evaluation_is_named_in_words(page):
    assert page.read("document.querySelector('#step').textContent") == "step 100, used for the ranking"
    page.resize(390, 800, phone=True)
    tops = "['#evaluation', '#step'].map(id => document.querySelector(id).getBoundingClientRect())"
    slider, text = page.read(f"{tops}.map(box => [box.top, box.bottom])")
    assert slider[0] < sum(text) / 2 < slider[1], "on one line"


def test_the_table_names_its_metric_and_that_the_curves_have_another(page):
    caption = "document.querySelector('#table caption').textContent"
    assert page.read(caption).startswith("total_variation (ema), ") and "invalid_mass" not in page.read(caption)
    page.set("#metric", 1)
    assert page.read(caption).startswith("total_variation (ema), ") and "invalid_mass (ema)" in page.read(caption)
    page.set("#metric", 0)
    page.set("#average", page.read("[...document.querySelector('#average').options].map(e => e.label)").index("raw"))
    assert page.read(caption).startswith("total_variation (ema), ") and "total_variation (raw)" in page.read(caption)


def test_switches_change_the_curves(page):
    seen = [page.read(CURVES)]
    for selector, value, event in (
        ("#metric", 1, "change"), ("#average", 1, "change"), ("#scale", "log", "change"), ("#evaluation", 0, "input"),
    ):  # fmt: skip
        page.set(selector, value, event)
        seen.append(page.read(CURVES))
    assert len({json.dumps(one) for one in seen}) == 5
    assert page.read("document.querySelector('#step').textContent") == "step 50"
    assert "median invalid_mass" in page.read("document.querySelector('#curves').textContent")
    kept = page.read("location.hash")
    page.reload()
    assert page.read(CURVES) == seen[-1] and page.read("location.hash") == kept  # as the page of a running sweep does


def test_a_scale_that_the_reader_chose_stays_with_another_metric(page):
    scale = "document.querySelector('#scale').value"
    page.set("#metric", 1)
    automatic = page.read(scale)
    page.set("#scale", other := {"log": "linear", "linear": "log"}[automatic])
    for metric in (0, 1):
        page.set("#metric", metric)
        assert page.read(scale) == other
    page.reload()
    page.set("#metric", 0)
    assert page.read(scale) == other


def test_labels_of_a_logarithmic_axis_are_powers_beside_the_title(tab, tmp_path, synthetic_sweep):
    def small(number, seed, average, metric, lengths, step):
        return 10.0 ** (-8 + 0.5 * (lengths - 1) + 0.1 * number)

    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "small", values, 2, small).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    tab.set("#scale", "log")
    texts = tab.read("[...document.querySelectorAll('#curves g .tick text')].map(e => e.textContent)")
    powers = [text for text in texts if "e" in text or "." in text]
    assert len(powers) > 3 and all(re.fullmatch(r"1e-\d", text) for text in powers), texts
    texts = tab.read("[...document.querySelectorAll('#points g:first-of-type .tick text')].map(e => e.textContent)")
    assert sorted(texts) == ["1e-3", "1e-4", "1e-5"]
    for picture in ("#curves svg", "#points svg"):
        overlaps = tab.read(
            f"(() => {{ const svg = document.querySelector('{picture}'), box = e => e.getBoundingClientRect();"
            "const title = box([...svg.querySelectorAll('.title')].at(-1));"
            "const labels = [...svg.querySelectorAll('.tick text')].filter(e => e.textContent);"
            "return labels.filter(e => box(e).left < title.right).length })()"
        )
        assert overlaps == 0, picture
    assert tab.problems == []


def test_lines_that_a_logarithmic_scale_cuts_are_named_with_their_lengths(tab, tmp_path, synthetic_sweep):
    """Number 1 is negative from length 4, number 2 is 0 at lengths 2 and 3, number 3 is never above 0."""

    def cut(number, seed, average, metric, lengths, step):
        hidden = [lengths < 0, lengths >= 4, (lengths == 2) | (lengths == 3), lengths > 0][number]
        return np.where(hidden, -0.01 if number == 1 else 0.0, 0.1 + 0.01 * lengths)

    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(4)]
    tab.open(write_report(synthetic_sweep(tmp_path / "cut", values, 2, cut).folder)[0].as_uri())
    told = "[...document.querySelectorAll('#legend span')].map(e => e.textContent).filter(e => e.includes('above 0'))"
    tab.set("#scale", "linear")
    assert tab.read(told) == []
    tab.set("#scale", "log")
    (text,) = tab.read(told)
    assert sorted(text.partition(": ")[2].split("; ")) == ["#1 from length 4", "#2 at length 2-3", "#3"]


def test_logarithmic_axes_of_less_than_two_decades_have_several_labels(tab, tmp_path, synthetic_sweep):
    """The axis of lr has one power of ten, as that of the outcomes, from 0.02 to 0.9."""

    def growing(number, seed, average, metric, lengths, step):
        return 0.02 * 1.7**number + 0.0 * lengths

    rates = (0.000125, 0.000298, 0.000342, 0.000498, 0.000875, 0.000909, 0.00551, 0.00738)
    values = [{"training.learning_rate": rate, "model.dropout": 0.1 * n} for n, rate in enumerate(rates)]
    spec = {"space": {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}, "model.dropout": {"uniform": [0, 1]}}}
    tab.open(write_report(synthetic_sweep(tmp_path / "decades", values, 2, growing, spec=spec).folder)[0].as_uri())
    labels = "e => [...e.querySelectorAll('.tick text')].map(text => text.textContent).filter(Boolean)"
    points = "[...document.querySelectorAll('#points svg')].find(e => e.querySelector('.title').textContent === 'lr')"
    rate_labels, outcome_labels = tab.read(f"[...{points}.querySelectorAll(':scope > g')].slice(0, 2).map({labels})")
    lines = tab.read(f"[...document.querySelectorAll('#parallel .axis')].map({labels})")
    for texts in (rate_labels, lines[1]):
        assert len(texts) >= 3 and {*texts} <= {"0.0002", "0.0005", "0.001", "0.002", "0.005"}, texts
    for texts in (outcome_labels, lines[-1]):
        assert len(texts) >= 3 and {*texts} <= {"0.02", "0.05", "0.1", "0.2", "0.5"}, texts


def test_ranges_of_lengths_are_marked(page):
    marked = page.read("[...document.querySelectorAll('#curves .range')].map(e => e.getAttribute('class'))")
    assert marked == ["range trained", "range selection", "range test"]
    legend = page.read("document.querySelector('#legend').textContent")
    assert all(words in legend for words in ("trained 1-5", "selection 6-7", "test 8-11"))


def test_dragging_along_an_axis_keeps_its_configurations_alone(page):
    compared = page.read(ROWS)[:2]
    page.drag('#parallel .brush[data-axis="dropout"] .overlay', (0.5, 0.5), (0.5, 0.98))
    kept = page.read(ROWS)
    dropped = page.read("document.querySelectorAll('#curves .curve.out').length")
    assert 0 < len(kept) < 16 and dropped == 16 - len({*kept, *compared})
    assert page.read("document.querySelectorAll('#points svg:first-child .out').length") == dropped
    for told in ("#table caption", "#kept"):
        text = page.read(f"document.querySelector('{told}').textContent")
        count, low, high = re.search(r"(\d+) of 16 configurations, dropout (\S+) to ([\d.]+\d)", text).groups()
        assert int(count) == len(kept) and float(low) < float(high) < 0.3
    named = "[...document.querySelector('#legend').textContent.matchAll(/[AB](?= #)/g)].map(match => match[0])"
    marked = page.read("[...document.querySelectorAll('#table .mark')].map(e => e.textContent).filter(Boolean)")
    assert sorted(page.read(named) + marked) == ["A", "B"] and page.read(named)  # those outside the range
    page.click("#clear")
    assert page.read("document.querySelectorAll('.out').length") == 0 and page.read(named) == []
    assert page.read("document.querySelector('#kept').hidden")
    assert "of 16" not in page.read("document.querySelector('#table caption').textContent")


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
    told = "document.querySelector('#readout').textContent"
    result = summarize(built)
    lengths = result.bands[result.rows[0].config_id, *result.objective_curve].lengths
    page.read("document.querySelector('#curves svg').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.press(key)
        (c,), (length, median) = page.read(HOT), re.search(r"at length (\d+): (\S+) \[", page.read(told)).groups()
        band = result.bands[result.rows[int(c)].config_id, *result.objective_curve]
        assert float(median) == pytest.approx(band.median[lengths.index(int(length))], rel=0.005)
        seen.append((int(c), int(length)))
    assert seen == [(0, lengths[0]), (0, lengths[1]), (1, lengths[1]), (1, lengths[0]), (1, lengths[0])]
    page.press("Enter")  # B is released, and still pointed at
    assert f"at length {lengths[0]}: " in page.read(told)
    page.set("#metric", 1)  # nothing is pointed at any more
    assert "at length" not in page.read(told)
    page.read("document.querySelector('#curves svg').focus()")
    page.press("ArrowLeft")
    assert page.read(HOT) == ["0"] and f"at length {lengths[-1]}: " in page.read(told)


def test_the_keys_of_the_curves_are_told_where_a_page_has_a_keyboard(page):
    sections = page.read("[...document.querySelectorAll('.keys')].map(e => e.closest('section').innerHTML)")
    assert ['id="table"' in sections[0], 'id="parallel"' in sections[1]] == [True, True], len(sections)
    shown = "[...document.querySelectorAll('.keys')].filter(e => e.checkVisibility()).length"
    assert page.read(shown) == 2  # a machine without a mouse has no hover either
    page.resize(390, 844, phone=True)
    assert page.read(shown) == 0


def test_a_slider_tells_values_and_moves_by_every_key_of_a_slider(page):
    name = "[data-slider=dropout]"
    told = f"document.querySelector('{name}').getAttribute('aria-valuetext')"
    assert page.read(told) == "all"
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
        ends = [float(value) for value in page.read(told).split(" to ")]
        assert ends == pytest.approx([low, high + end * (high - low) / 20], rel=0.01, abs=1e-6)
        assert all(low <= value <= ends[1] + 1e-6 for value in page.read(column))
    page.press("End")
    assert page.read(told) == "all" and len(page.read(column)) == 16


def test_the_table_is_sorted_by_a_column(page):
    page.click("#every")
    names = page.read("[...document.querySelectorAll('#table th')].map(e => e.textContent)")
    head = f"#table th:nth-child({names.index('dropout') + 1})"
    page.click(head, (0.95, 0.5))  # beside the letters
    column = (
        f"[...document.querySelectorAll('#table tbody tr')].map(e => +e.cells[{names.index('dropout')}].textContent)"
    )
    assert page.read(column) == sorted(page.read(column)) and len(page.read(column)) == 16
    page.read(f"document.querySelector('{head} button').focus()")
    for turned in (True, False):  # the focus stays where it was
        page.press("Enter")
        assert page.read(column) == sorted(page.read(column), reverse=turned)


def test_numbers_are_aligned_at_the_right_and_texts_at_the_left(page, tab, tmp_path, synthetic_sweep):
    sides = (
        "Object.fromEntries([...document.querySelector('{}').rows].map(row => [...row.cells]).reduce((heads, row) =>"
        "heads.map((head, n) => [...head, row[n]]), [...document.querySelector('{}').rows[0].cells].map(() => []))"
        ".map(cells => [cells[0].textContent, [...new Set(cells.map(e => getComputedStyle(e).textAlign"
        ".replace('start', 'left')))].join()]))"
    )
    shown = page.read(sides.replace("{}", "#table"))
    assert shown["label"] == "left"
    assert {shown[name] for name in ("rank", "dropout", "lr", "trained", "selection", "test", "failed")} == {"right"}
    shown = page.read(sides.replace("{}", "#comparison table"))
    assert {shown[name] for name in ("at lengths", "each seed")} == {"left"}
    assert {shown[name] for name in ("median A", "median of A - B", "95 % interval", "p")} == {"right"}
    shown = page.read(sides.replace("{}", "#what-failed table"))
    assert shown == {"seeds": "right", "which": "left", "why, for example": "left"}

    # A hyperparameter may have texts.
    values = [{"model.norm": norm} for norm in ("none", "pre", "post")]
    tab.open(write_report(synthetic_sweep(tmp_path / "norms", values, 2, curve).folder)[0].as_uri())
    assert tab.read(sides.replace("{}", "#table"))["norm"] == "left"


def test_a_finger_near_a_curve_chooses_it_and_a_second_tap_keeps_it(page):
    page.resize(390, 800, phone=True)
    page.reload()
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


@pytest.mark.parametrize(("width", "phone"), [(360, True), (390, True), (800, False), (1600, False)])
def test_no_width_has_a_horizontal_scroll(page, width, phone):
    page.resize(width, 800, phone=phone)
    page.read("new Promise(done => setTimeout(done, 250))")
    assert page.read("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "phone"), [(360, True), (1600, False)])
def test_columns_beyond_the_edge_are_named(page, width, phone):
    page.resize(width, 800, phone=phone)
    page.read("new Promise(done => setTimeout(done, 250))")
    edge = "document.querySelector('#table').parentElement.getBoundingClientRect().right + 1"
    beyond = page.read(
        f"[...document.querySelectorAll('#table th')].filter(e => e.getBoundingClientRect().right > {edge})"
        ".map(e => e.textContent)"
    )
    shown = "document.querySelector('#beyond')"
    assert page.read(f"{shown}.hidden") == (not beyond) == (not phone)
    if phone:
        assert beyond[-2:] == ["dropout", "lr"] and ", ".join(beyond) in page.read(f"{shown}.textContent")


def test_the_page_works_in_a_frame_without_rights_as_in_mlflow(written, tab, tmp_path):
    frame = tmp_path / "frame.html"
    frame.write_text("<iframe id=f sandbox='allow-scripts' width=1000 height=800></iframe>")
    tab.open(frame.as_uri())
    tab.problems.clear()
    tab.read(f"document.querySelector('#f').srcdoc = {json.dumps(written.read_text())}")
    began, colors = time.monotonic(), set()
    while not {(0xC2, 0x41, 0x0C), (0x00, 0x51, 0x4B)} <= colors:  # of the curves A and B
        assert time.monotonic() - began < 60, "the frame shows no curves"
        tab.screenshot(tmp_path / "frame.png")
        with Image.open(tmp_path / "frame.png") as image:
            colors = set(image.convert("RGB").get_flattened_data())
    assert tab.problems == []


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
    place = tab.read(
        "[...document.querySelectorAll('#table tbody tr')].find(e => e.textContent.includes('#3')).dataset.c"
    )
    at = "(e => { const box = e.getBoundingClientRect(); return (box.top + box.bottom) / 2 })"
    sign = -1 if direction == "minimize" else 1  # of what is worse, down the page
    for picture in ("#points svg:first-child", "#points svg:last-child"):  # a hyperparameter each
        crosses = tab.read(f"[...document.querySelectorAll('{picture} .cross')].map(e => [e.dataset.c, {at}(e)])")
        dots = tab.read(f"[...document.querySelectorAll('{picture} .dot')].map(e => [e.dataset.c, {at}(e)])")
        assert [c for c, _ in crosses] == [place] and place not in [c for c, _ in dots] and len(dots) == 3
        assert all(sign * crosses[0][1] > sign * y for _, y in dots)
    assert tab.read("document.querySelectorAll('#parallel .cross').length") == 2  # at the selection and test lengths
    last = "e => [e.dataset.c, +e.getAttribute('d').split(',').pop()]"
    ends = tab.read(f"[...document.querySelectorAll('#parallel .ray')].map({last})")
    (failed,) = [end for c, end in ends if c == place]
    assert all(sign * failed > sign * end for c, end in ends if c != place)
    shown = "getComputedStyle(document.querySelector('#legend .sign')).visibility"
    assert tab.read(shown) == "hidden"  # no curve has a cross yet
    tab.click(f'#table tr[data-c="{place}"]')
    assert tab.read(shown) == ("visible" if failed_seeds == 1 else "hidden")
    if failed_seeds == 1:  # its median curve is infinite, and still named, beside the seed that did not fail
        names = "[...document.querySelectorAll('#curves .name')]"
        assert "B #3 \u00d7, 1 failed" in tab.read(f"{names}.map(e => e.textContent)")
        name = tab.read(f"{names}.map(e => [e.textContent[0], {at}(e)]).find(([mark]) => mark === 'B')[1]")
        paths = f"[...document.querySelectorAll('#curves .seed[data-of=\"{place}\"]')]"
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
    assert "not reached: #2" in legend and "failed" not in legend and tab.problems == []


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
    assert all(set(found) == places for found in hollow.values()), hollow
    assert len(hollow["#parallel .end"]) == 4  # at the selection and the test lengths
    assert page.read("getComputedStyle(document.querySelector('#points .hollow')).fill") == "rgb(255, 255, 255)"
    legend = page.read("document.querySelector('#legend').textContent")
    assert "#3 1 of 8" in legend and "#5 2 of 8" in legend
    page.click(f'#table tr[data-c="{next(c for c, label in labels if label == "#5")}"]')
    assert "B #5, 2 failed" in page.read("[...document.querySelectorAll('#curves .name')].map(e => e.textContent)")
    assert page.read("document.querySelectorAll('#curves .end.focus').length") == 1


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
    for leading in ("#effects h3", "#effects .note", "#comparison .verdict + p", "summary"):  # each to a table or text
        assert page.read(style.format(leading) + ".breakAfter") == "avoid", leading
    page.call("Emulation.setEmulatedMedia", media="")
    page.read("dispatchEvent(new Event('afterprint'))")
    assert page.read(rows) == before and page.read(opened) == 0


def test_effects_without_an_interval_have_their_test_or_a_reason_in_place_of_a_table(tab, tmp_path, synthetic_sweep):
    values = [{"model.norm": ["none", "pre"][n % 2], "training.batch_size": 16 + n} for n in range(4)]
    tests = {}
    for sampler in ("random", "tpe"):
        spec = {"search.sampler": sampler, "space": {"model.norm": {"choice": ["none", "pre"]}}}
        path, _ = write_report(synthetic_sweep(tmp_path / sampler, values, 2, curve, spec=spec).folder)
        tab.open(path.as_uri())
        tests[sampler] = tab.read(
            "[...document.querySelectorAll('#effects tbody tr')].map(e => e.cells[2].textContent)"
        )
    assert "p = 0." in tests["random"][0] and tests["tpe"] == []
    assert "tpe" in tab.read("document.querySelector('#effects').textContent")


def test_a_page_without_any_evaluation_opens(tmp_path, tab, synthetic_sweep):
    path, _ = write_report(synthetic_sweep(tmp_path / "none", [{}], 2, curve, ended=False, stop_after_step=0).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    assert tab.problems == [] and "0 of 1 configuration" in tab.read("document.body.innerText")
    empty = "#picture, #table, #comparison, #hyperparameters"
    assert tab.read(f"[...document.querySelectorAll('{empty}')].map(part => part.hidden)") == [True] * 4


REFRESHING = """
import sys
import threading
from pathlib import Path
from orchestrator.report.write_report import refresh_page
refresh_page(Path(sys.argv[1]), threading.Event(), pause=0.2)
"""


def test_the_page_of_a_running_sweep_is_written_anew(built, lengthwise, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(built.folder, folder)
    (folder / "report.html").unlink(missing_ok=True)
    ledger = folder / "events.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:12]))
    writer = lengthwise.start(folder, program=REFRESHING)
    seen = []
    for count in (12, 40):
        ledger.write_bytes(b"".join(lines[:count]))
        wait_for_page(folder, seen)
        seen.append((folder / "report.html").read_text())
    kill(writer)
    assert seen[0] != seen[1]


def wait_for_page(folder, seen):
    """Wait until report.html is another one than those seen."""
    began, path = time.monotonic(), folder / "report.html"
    while not path.exists() or path.read_text() in seen:
        assert time.monotonic() - began < 60, "the page was not written anew"
        time.sleep(0.05)


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
    assert re.findall(r"(\d+) intervals", tab.read("document.querySelector('main').textContent")) == ["2"]
    assert "partial" in (path.parent / "effects.csv").read_text().splitlines()[0].split(",")


def test_one_interval_is_not_called_uncorrected_for_its_number(page):
    text = page.read("document.querySelector('#effects').textContent")
    assert "interval" in text and "of 20" not in text


def test_intervals_that_exclude_0_by_chance_are_counted_alike_in_the_page_and_its_notes(tab, tmp_path, synthetic_sweep):
    rng = np.random.default_rng(0)
    draws = [{"training.learning_rate": 10.0 ** rng.uniform(-4, -2), "model.dropout": rng.random()} for _ in range(12)]
    tab.open(write_report(synthetic_sweep(tmp_path / "drawn", draws, 6, curve).folder)[0].as_uri())
    count = "[...document.body.textContent.matchAll(/(\\d+) intervals[^.]*to exclude 0 by chance/g)].map(m => +m[1])"
    counts = tab.read(f"document.querySelectorAll('script').forEach(e => e.remove()), {count}")
    assert len(counts) == 2 and len(set(counts)) == 1 and counts[0] > 2, counts


def test_lines_of_parallel_coordinates_stay_off_the_ends_of_the_axes(page):
    box = "(e => { const b = e.getBoundingClientRect(); return [b.top, b.bottom] })"
    axes = page.read(f"[...document.querySelectorAll('#parallel .axis > .domain')].map({box})")
    rays = page.read(f"[...document.querySelectorAll('#parallel .ray')].map({box})")
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


@pytest.mark.parametrize(("direction", "side"), [("minimize", "above"), ("maximize", "below")])
def test_infinite_ends_of_effects_are_arrows_towards_the_worse_values(direction, side, tab, tmp_path, synthetic_sweep):
    """Of the seeds of a value one failed, of those of another half: an infinite end, and an infinite difference."""
    values = [{"training.batch_size": size} for size in (8, 16, 32)]
    failed = {(1, 0): 60} | {(2, seed): 60 for seed in range(5)}
    spec = {"search.sampler": "grid", "space": {"training.batch_size": {"grid": [8, 16, 32]}}}
    if direction == "maximize":
        spec |= {"objective.metric": "margin", "objective.direction": "maximize"}
    path, _ = write_report(synthetic_sweep(tmp_path / direction, values, 8, curve, failed, spec=spec).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    infinity = {"above": "+inf", "below": "-inf"}[side]
    effects = "[...document.querySelectorAll('#effects .effect')].filter(e => e.textContent.includes(': '))"
    texts = tab.read(f"{effects}.map(e => e.textContent)")
    assert [text.partition(":")[0] for text in texts] == ["16 - 8", "32 - 8"]
    assert infinity in re.split(r"[\[\], ]+", texts[0].partition("[")[2]), texts
    assert texts[1].partition(": ")[2].startswith(f"{infinity} ["), texts
    arrows = "[...e.querySelectorAll('.beyond')].map(a => a.classList[1])"
    assert tab.read(f"{effects}.map(e => {arrows})") == [[side], [side, side]]  # of the interval, and of the difference

    # No picture leaves its cell, neither here nor where seeds are compared.
    outside = tab.read(
        "[...document.querySelectorAll('#effects svg *, #comparison svg *')].filter(e => {"
        "const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();"
        "return a.left < b.left - 1 || a.right > b.right + 1 }).length"
    )
    assert outside == 0 and tab.problems == []


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
