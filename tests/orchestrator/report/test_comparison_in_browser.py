"""Two configurations in the page of a sweep in a real browser: A and B are chosen, marked and compared."""

import json
import math
import re

import numpy as np
import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.report.tables.seed_comparison_table import describe_verdict
from orchestrator.report.write_report import write_report
from orchestrator.results.comparing.seed_comparisons import LENGTH_GROUPS, Side, compare_sides, make_question
from orchestrator.results.comparing.sweep_comparison import compute_band_level
from orchestrator.results.make_summary import summarize
from orchestrator.statistics.intervals import count_needed_values, estimate_median
from orchestrator.text.wording import format_ranges
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import ROWS

pytestmark = needs_browser


def read_accessible(page, role):
    """What a screen reader hears of the elements of this role: their names and whether they are selected."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["name"]["value"], {key["name"]: key["value"].get("value") for key in node["properties"]}.get("selected"))
        for node in nodes
        if not node["ignored"] and node["role"]["value"] == role
    ]


def test_a_screen_reader_hears_which_configurations_are_a_and_b(page):
    labels = page.read(ROWS)
    page.read("document.querySelector('#table tr[data-c=\"2\"]').focus()")
    page.press("Enter")  # it takes the place of B
    headers = [name for name, _ in read_accessible(page, "rowheader")]
    assert headers[: len(labels)] == [f"A {labels[0]}", labels[1], f"B {labels[2]}", *labels[3:]]
    rows = [selected for _, selected in read_accessible(page, "row") if selected is not None]
    assert rows == [True, False, True, *[False] * (len(labels) - 3)]
    (grid,) = page.read("[...document.querySelectorAll('[role=grid]')].map(e => [e.id, e.ariaMultiSelectable])")
    assert grid == ["table", "true"]

    # So do the pictures, which are one element each to it.
    sides = [f"A {labels[0]}", f"B {labels[2]}"]
    pictures = [
        *read_accessible(page, "application"),
        *((name, _) for name, _ in read_accessible(page, "image") if "outcome against" in name),
        *((name, _) for name, _ in read_accessible(page, "group") if "across" in name),
    ]
    assert len(pictures) == 4 and all(side in name for name, _ in pictures for side in sides)
    page.read("document.querySelector('#curves svg').focus()")
    page.press("ArrowDown")  # begins at the row that was chosen last
    page.press("Enter")
    ((name, _),) = read_accessible(page, "application")
    assert f"A {labels[0]}" in name and f"B {labels[3]}" in name


def test_the_readout_tells_how_to_choose_both_as_it_is(page):
    readout, heading = (
        f"document.querySelector('{selector}').textContent" for selector in ("#readout", "#comparison h2")
    )
    labels = page.read(ROWS)
    chosen = []
    for c in (3, 0):  # it takes the place of B; then A is released
        page.click(f'#table tr[data-c="{c}"]')
        page.point("h1")
        chosen.append((re.findall(r"#\d+", page.read(heading)), page.read(readout)))
    assert chosen[0][0] == [labels[0], labels[3]] and " as B, " in chosen[0][1] and "deselect" in chosen[0][1]
    assert chosen[1][0] == [] and f"as A with B {labels[3]}." in chosen[1][1]
    page.click('#table tr[data-c="5"]')
    assert re.findall(r"#\d+", page.read(heading)) == [labels[5], labels[3]]


@pytest.mark.parametrize(("count", "others"), [(1, []), (2, []), (3, ["ramp"])])
def test_nothing_is_offered_that_a_small_sweep_lacks(tab, tmp_path, synthetic_sweep, simple_curve, count, others):
    """A colour bar and a click need a line that is neither A nor B, a comparison needs two configurations."""
    values = [{"model.dropout": 0.1 * n} for n in range(count)]
    state = synthetic_sweep(tmp_path / "few", values, 6, simple_curve)
    tab.open(write_report(state.folder)[0].as_uri())
    readout = tab.read("document.querySelector('#readout').textContent")
    assert ("another line" in readout, "deselect" in readout) == (count > 2, count > 1)
    assert tab.read("[...document.querySelectorAll('#legend .ramp')].map(e => e.className)") == others
    assert tab.read("document.querySelector('#comparison').checkVisibility()") == (count > 1)


def test_the_first_by_rank_is_compared_with_the_next_on_the_first_screen(page):
    verdict = page.read("document.querySelector('.verdict').textContent")
    lead = "document.querySelector('.rest p:nth-child(2)#lead').textContent"
    sentence, best = page.read(lead), page.read(ROWS)[0]
    assert (
        sentence.partition("): ")[2] == verdict.partition("): ")[2] != ""
        and " is ahead of " in verdict
        and page.read("document.querySelector('#lead code')") is None
    )
    assert f" on the seeds that ranked {best} first (biased" in sentence
    page.click('#table tr[data-c="1"]')
    assert page.read(lead) == sentence  # whatever is chosen later


@pytest.mark.parametrize("has_ended", [False, True])
def test_the_comparison_of_the_search_leaves_the_answers_once_fresh_seeds_have_answered(
    written, tab, tmp_path, has_ended
):
    confirmed = tmp_path / "confirmed.html"
    text = written.read_text().replace('"confirmations":0', '"confirmations":1')
    text = text.replace('"confirmed":false', f'"confirmed":{json.dumps(has_ended)}')
    first, second, third = re.findall(r'"label":"(#\d+)"', text)[:3]
    pairs = [{"labels": [second, first], "sentence": "On fresh seeds."}] * has_ended
    confirmed.write_text(text.replace('"confirmed_pairs":[]', f'"confirmed_pairs":{json.dumps(pairs)}'))
    tab.open(confirmed.as_uri())
    verdicts = "[...document.querySelectorAll('.verdict')].map(e => e.textContent)"
    is_answered = "document.querySelector('#comparison').textContent.includes('answer of fresh seeds')"
    is_advised = "document.querySelector('#comparison').textContent.includes('lengthwise confirm')"
    verdict, *answers = tab.read(verdicts)
    best = tab.read(ROWS)[0]
    assert verdict.startswith(f"On the seeds that ranked {best} first (biased): {best} ") and "fresh" not in verdict
    assert answers == ["On fresh seeds."] * has_ended
    assert (tab.read(is_answered), tab.read(is_advised)) == (has_ended, not has_ended)
    if has_ended:
        assert tab.read("document.querySelector('#lead')") is None
        tab.click('#table tr[data-c="2"]')  # a pair that nothing has confirmed
        (verdict,) = tab.read(verdicts)
        assert "fresh" not in verdict and f" {third} " in verdict
        assert (tab.read(is_answered), tab.read(is_advised)) == (False, True)
        tab.set("#metric", 1)
        tab.click('#table tr[data-c="1"]')
        (verdict,) = tab.read(verdicts)
        assert "fresh" not in verdict and (tab.read(is_answered), tab.read(is_advised)) == (False, True)
    else:
        assert "in the search" in tab.read("document.querySelector('#lead b').textContent")


def test_the_verdict_names_a_metric_other_than_that_of_the_objective(page):
    verdict, lead = "document.querySelector('.verdict').textContent", "document.querySelector('#lead').textContent"
    sentence = page.read(lead)
    assert " in " not in page.read(verdict)
    page.set("#metric", 1)
    assert " in invalid_mass (ema) is " in page.read(verdict)
    page.set("#metric", 0)
    page.set("#average", page.read("[...document.querySelector('#average').options].map(e => e.label)").index("raw"))
    assert " in total_variation is " in page.read(verdict) and page.read(lead) == sentence


def test_a_phone_shows_each_seed_and_p_on_a_line_below_the_row(page):
    pictures = "[...document.querySelectorAll('#comparison td svg')]"
    p = page.read("document.querySelector('#comparison tbody td:last-child').textContent")
    assert page.read(f"{pictures}.every(e => e.closest('tr').dataset.group)")  # elsewhere in the row itself
    for width in (360, 390):
        page.resize(width, 844, phone=True)
        page.reload()
        rows = page.read(f"{pictures}.map(e => e.closest('tr').previousSibling.dataset.group)")
        assert rows == list(LENGTH_GROUPS)
        ends = page.read(
            f"{pictures}.map(e => {{ const range = document.createRange(); range.selectNodeContents(e.closest('td'));"
            "return range.getBoundingClientRect().right })"
        )
        assert max(ends) <= width - 12 and len(ends) == 3
        assert page.read("document.querySelector('#comparison .below').textContent").endswith(f"p: {p}")


@pytest.mark.parametrize("pair", [(0, 1), (2, 7), (9, 3)])
def test_clicking_two_configurations_compares_them_as_python_does(page, built, pair):
    page.click("#every")
    for c in (0, 1):
        page.click(f'#table tr[data-c="{c}"]')  # they are chosen at first
    assert page.read("document.querySelectorAll('#comparison tbody tr').length") == 0
    for c in pair:
        page.click(f'#table tr[data-c="{c}"]')
    shown = page.read("[...document.querySelectorAll('#comparison tbody tr')].map(e => ({...e.dataset}))")
    result = summarize(SweepState.load(built.folder))
    first, second = (Side(result, result.rows[c]) for c in pair)
    assert [comparison["group"] for comparison in shown] == list(LENGTH_GROUPS)
    tested = compare_sides(first, second, make_question(first, second, LENGTH_GROUPS[0]), "")
    verdict = page.read("document.querySelector('#comparison .verdict').textContent")
    names = {"first": f"#{first.row.number} ", "second": f"#{second.row.number} "}
    assert verdict.rpartition("(biased): ")[2].startswith(names.get(tested.verdict, "Inconclusive"))
    head = page.read("[...document.querySelectorAll('#comparison th')].map(e => e.textContent)")
    rows, column = "[...document.querySelectorAll('#comparison tbody tr')]", head.index("A better")
    cells = f"{rows}.map(e => e.cells[{column}].textContent)"
    strips = page.read(f"{rows}.map(e => [...e.querySelectorAll('.strip text')].map(text => text.textContent))")
    for row, (low, _, high) in zip(shown, strips, strict=True):
        values = [abs(float(row[name].replace("Infinity", "inf"))) for name in ("difference", "low", "high")]
        assert float(high) == -float(low) >= 0.99 * max(filter(math.isfinite, values), default=0.0)
    for row, group, better in zip(shown, LENGTH_GROUPS, page.read(cells), strict=True):
        comparison = compare_sides(first, second, make_question(first, second, group), "")
        outcome = comparison.outcome
        assert int(better) == comparison.first_better_count
        assert int(row["n"]) == outcome.n
        for name in ("difference", "low", "high", "level", "p"):
            value, wanted = float(row[name].replace("Infinity", "inf")), getattr(outcome, name)
            assert value == pytest.approx(wanted, rel=1e-12) or (math.isnan(value) and math.isnan(wanted)), name


def test_the_picture_says_why_a_pair_has_no_line(page):
    labels = page.read(ROWS)
    for c in (0, 1, labels.index("#0"), labels.index("#3")):
        page.click(f'#table tr[data-c="{c}"]')
    lines = "[...document.querySelectorAll('.differences .seed:not([d])')].map(e => [e.dataset.seed, e.dataset.why])"
    assert page.read(lines) == [["2", "failed"]]
    note = page.read("document.querySelector('.differences + .note').textContent")
    assert note.endswith("1 of 8 pairs has no line: a seed failed.")


@pytest.mark.parametrize("tied", [0, 2])
def test_a_first_that_is_behind_has_no_lead_and_ties_are_named(tied, tab, tmp_path, synthetic_sweep):
    def crossing(number, seed, average, metric, lengths, step):
        return 0.1 + 0.01 * seed + number * np.where(lengths < 8, 0.1, -0.05 * (seed >= tied))

    values = [{"model.dropout": 0.1 * number} for number in range(3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "s", values, 8, crossing).folder)
    tab.open(path.as_uri())
    rows = "[...document.querySelectorAll('#comparison tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    head, test, *_ = tab.read(rows)
    row = dict(zip(head, test, strict=True))
    assert (row["pairs of seeds"], row["A better"]) == ("8", "0") and row["median of A - B"].startswith("+")
    note = tab.read("document.querySelector('#comparison > .note:last-child').textContent")
    assert "#0 was ranked first" in note and "lead" not in note and ("ties" in note) == (tied > 0)


@pytest.mark.parametrize("metric", ["total_variation", "invalid_mass"])
def test_differences_against_length_are_those_of_pairs_of_seeds(metric, tab, tmp_path, synthetic_sweep):
    def crossing(number, seed, average, metric, lengths, step):
        scale = {"total_variation": 1.0, "invalid_mass": 0.5}.get(metric, 2.0)
        return scale * (0.1 + number * (0.05 - 0.01 * lengths + 0.004 * np.sin(3.0 * seed + lengths)) + 0.02 * lengths)

    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "crossing", values, 9, crossing).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    tab.set("#metric", tab.read("[...document.querySelector('#metric').options].map(e => e.label)").index(metric))
    first, second = re.findall(r"#(\d+)", tab.read("document.querySelector('#comparison h2').textContent"))
    picture = "document.querySelector('#comparison .differences')"
    points = "e.getAttribute('d').slice(1).split('L').map(point => point.split(',').map(Number))"
    seeds = tab.read(f"[...{picture}.querySelectorAll('.seed')].map(e => [+e.dataset.seed, {points}])")
    median = tab.read(f"(e => {points})({picture}.querySelector('.median'))")
    ticks = tab.read(
        f"[...{picture}.querySelectorAll('.values .tick')].map(e => [e.__data__, e.transform.baseVal[0].matrix.f])"
    )
    (value, pixel), (last_value, last_pixel) = ticks[0], ticks[-1]
    scale = (last_value - value) / (last_pixel - pixel)
    pixel -= 0.5  # a tick is drawn in the middle of a pixel
    lengths = np.arange(1, 12)
    shown = {seed: value + scale * (np.array(line)[:, 1] - pixel) for seed, line in seeds}
    wanted = {
        seed: crossing(int(first), seed, "ema", metric, lengths, 0)
        - crossing(int(second), seed, "ema", metric, lengths, 0)
        for seed in range(9)
    }
    assert shown.keys() == wanted.keys()
    tolerance = 2e-3 * abs(scale)  # of coordinates with three digits
    for seed, line in shown.items():
        assert line == pytest.approx(wanted[seed], abs=tolerance), seed
    middle = value + scale * (np.array(median)[:, 1] - pixel)
    assert middle == pytest.approx(np.median(list(wanted.values()), axis=0), abs=tolerance)

    # The band is that of all lengths at once, and the sentence above it names those at which it excludes 0.
    columns = np.array(list(wanted.values())).T
    band = [estimate_median(column, level=compute_band_level(len(lengths))) for column in columns]
    outline = tab.read(f"(e => {points.replace('slice(1)', 'slice(1, -1)')})({picture}.querySelector('.band'))")
    edges = value + scale * (np.array(outline)[:, 1] - pixel)
    ends = [end for estimate in band for end in (estimate.low, estimate.high)]
    assert sorted(edges) == pytest.approx(sorted(ends), abs=tolerance)
    lower = [length for length, estimate in zip(lengths, band, strict=True) if estimate.high < 0]
    higher = [length for length, estimate in zip(lengths, band, strict=True) if estimate.low > 0]
    sentence = tab.read("document.querySelector('.beyond-noise').textContent")
    named = re.findall(r"([AB]) is ahead at lengths? ([\d, -]*\d)", sentence)  # these seeds chose A
    assert named == [("A", format_ranges(lower)), ("B", format_ranges(higher))]
    ranges = tab.read(f"[...{picture}.querySelectorAll('.range')].map(e => e.getAttribute('class'))")
    assert ranges == ["range trained", "range selection", "range test"] and tab.problems == []


@pytest.mark.parametrize("lost", [0, 2])
def test_pairs_without_a_line_are_counted_below_the_picture(lost, tab, tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(2)]
    failed = {(0, seed): 50 for seed in range(lost)}
    path, _ = write_report(synthetic_sweep(tmp_path / "some", values, 8, simple_curve, failed).folder)
    tab.open(path.as_uri())
    note = tab.read("document.querySelector('#comparison .differences').nextElementSibling.textContent")
    assert ("2 of 8" in note) == bool(lost)
    assert not tab.read("document.querySelector('#comparison .band')")
    needed = count_needed_values(compute_band_level(11))
    assert f"(at least {needed})" in tab.read("document.querySelector('.beyond-noise').textContent")


@pytest.mark.parametrize("finished", [0, 2])
def test_pairs_that_failed_on_both_sides_are_counted_and_not_drawn(finished, tab, tmp_path, synthetic_sweep):
    failed = {(number, seed): 50 for number in (0, 1) for seed in range(finished, 4)}
    values = [{"training.learning_rate": 10.0 ** -(3 + n)} for n in range(2 if finished else 3)]
    path, _ = write_report(synthetic_sweep(tmp_path / "both", values, 4, lambda *_: 0.5, failed).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    if not finished:  # the first by rank is A, and failed ones have no rank
        for c in (0, 1, 2):
            tab.click(f'#table tr[data-c="{c}"]')
    verdict = tab.read("document.querySelector('.verdict').textContent")
    rows = tab.read("[...document.querySelectorAll('#comparison tbody tr')].map(e => ({...e.dataset}))")
    dots = tab.read(
        "[...document.querySelectorAll('#comparison td svg')].map(e => e.querySelectorAll('circle').length)"
    )
    assert dots == [finished] * 3 and tab.problems == []
    if finished:
        assert verdict.startswith("No verdict") and "2 pairs of seeds that finished; 2 pairs failed on both" in verdict
        assert "2 failed in both" in tab.read("document.querySelector('#comparison tbody').textContent")
        lines = tab.read("[...document.querySelectorAll('.differences .seed')].map(e => !!e.getAttribute('d'))")
        assert lines == [True, True, False, False]
    else:
        assert verdict.startswith("No verdict") and {row["difference"] for row in rows} == {"NaN"}
        assert {row["p"] for row in rows} == {"NaN"}


def test_configurations_without_pairs_of_seeds_have_no_picture_of_differences(written, tab, tmp_path):
    changed = tmp_path / "unpaired.html"
    text = written.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    pairing = json.dumps(data["pairing"], separators=(",", ":"))
    assert pairing in text
    classes = [index for index, _ in enumerate(data["pairing"]["classes"])]
    changed.write_text(text.replace(pairing, json.dumps({"classes": classes, "paired": []})))
    tab.problems.clear()
    tab.open(changed.as_uri())
    assert tab.read("document.querySelectorAll('#comparison tbody tr').length") == 3
    assert tab.read("document.querySelector('#comparison .differences')") is None and tab.problems == []


def test_the_box_of_a_released_pair_tells_the_key_that_chooses(page):
    page.read("document.querySelector('#table tbody tr').focus()")
    page.press("Enter")
    assert "Enter" in page.read("document.querySelector('#comparison .note .keys').textContent")


def test_a_finger_keeps_a_and_b_and_swaps_them_by_a_button(open_page):
    page = open_page(390, 800, phone=True)
    heading, swap = "document.querySelector('#comparison h2').textContent", "#comparison button"
    before = page.read(heading)
    for c in (0, 1, 0):  # A and B
        page.tap(*page.read(center_of(f'#table tr[data-c="{c}"]')))
        assert page.read(heading) == before
    page.tap(*page.read(center_of(swap)))
    readout = page.read("document.querySelector('#readout').textContent")
    assert " Tap " in readout and "swaps A and B" in readout and "deselect" not in readout
    a, b = re.findall(r"#\d+", before)
    assert re.findall(r"#\d+", page.read(heading)) == [b, a]
    page.tap(*page.read(center_of('#table tr[data-c="2"]')))
    assert re.findall(r"#\d+", page.read(heading))[0] == b


def center_of(selector):
    """Return the script that scrolls to an element and returns its middle in the window."""
    return (
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
        "const b = e.getBoundingClientRect(); return [b.left + 20, (b.top + b.bottom) / 2] })()"
    )


def test_the_verdict_has_the_sign_of_the_table(same_page):
    verdict = same_page.read("document.querySelector('.verdict').textContent")
    minuend = same_page.read("document.querySelector('#comparison tbody td:nth-child(4)').textContent")
    assert same_page.read("document.querySelector('#comparison th:nth-child(4)').textContent") == "median of A - B"
    assert "difference of the medians" in same_page.read("document.querySelector('#comparison').textContent")
    assert " is ahead of " in verdict and f" is {minuend} [" in verdict, (verdict, minuend)


def test_dots_of_seeds_stand_apart_from_the_interval(same_page):
    box = "(e => { const b = e.getBoundingClientRect(); return [b.top, b.bottom] })"
    circles, squares = (
        same_page.read(f"[...document.querySelectorAll('#comparison td svg {shape}')].map({box})")
        for shape in ("circle", "rect")
    )
    assert len(circles) == 3 * 8 and len(squares) == 3
    for n, (top, _) in enumerate(squares):
        assert max(bottom for _, bottom in circles[8 * n : 8 * n + 8]) <= top


def test_each_row_of_seeds_uses_the_width_of_its_picture(tab, tmp_path, synthetic_sweep):
    def noisier_at_long_lengths(number, seed, average, metric, lengths, step):
        return 0.3 + 0.01 * number + 0.001 * number * seed * np.where(lengths > 7, 10, 1)

    state = synthetic_sweep(tmp_path / "two", [{}, {"model.dropout": 0.1}], 8, noisier_at_long_lengths)
    tab.open(write_report(state.folder)[0].as_uri())
    farthest = tab.read(
        "[...document.querySelectorAll('#comparison td svg')].map(svg => { const box = svg.getBoundingClientRect(),"
        "middle = (box.left + box.right) / 2;"
        "const dots = [...svg.querySelectorAll('circle')].map(e => e.getBoundingClientRect());"
        "return Math.max(...dots.map(dot => Math.abs((dot.left + dot.right) / 2 - middle))) / box.width })"
    )
    assert len(farthest) == 3 and all(part > 0.4 for part in farthest)


def test_an_interval_of_zero_alone_is_no_difference(tab, tmp_path, synthetic_sweep):
    def equal_but_once(number, seed, average, metric, lengths, step):
        return 0.3 + 0.01 * seed + 0.1 * (number == 1 and (seed == 3 or lengths <= 7)) + 0.3 * (number == 2)

    values = [{"model.dropout": 0.1 * number} for number in range(3)]
    state = synthetic_sweep(tmp_path / "equal", values, 10, equal_but_once)
    result = summarize(state)
    first, second = (Side(result, row) for row in result.rows[:2])
    compared = compare_sides(first, second, make_question(first, second, "test"), "")
    assert (compared.outcome.low, compared.outcome.high, compared.outcome.ties) == (0, 0, 9)
    sentence = describe_verdict(compared, "a", "b")
    assert compared.verdict == "equal" and sentence.startswith("No difference")
    tab.open(write_report(state.folder)[0].as_uri())
    verdict = tab.read("document.querySelector('.verdict').textContent")
    assert verdict.startswith("No difference")
    assert all(" is 0.00 [0.00, 0.00] (" in text for text in (sentence, verdict))  # zero has no sign
    lead = tab.read("document.querySelector('#lead').textContent")
    assert lead.startswith("Against the next: no difference") and "biased" not in lead

    # Once fresh seeds have answered, the sentence follows a colon.
    confirmed = tmp_path / "confirmed.html"
    confirmed.write_text((state.folder / "report.html").read_text().replace('"confirmed":false', '"confirmed":true'))
    tab.open(confirmed.as_uri())
    verdict = tab.read("document.querySelector('.verdict').textContent")
    assert verdict.startswith("On the seeds that ranked #0 first: no difference ")


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "Inconclusive"), (0.6, "No difference")])
def test_equal_values_at_an_end_of_the_metric_are_no_evidence(value, verdict, tab, tmp_path, synthetic_sweep):
    """All seeds of the first two reach the same value; at 1 a difference could not show."""
    spec = {"objective.metric": "margin", "objective.direction": "maximize"}
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(3)]
    state = synthetic_sweep(tmp_path / "end", values, 8, lambda n, *_: np.float32(value - 0.1 * (n == 2)), spec=spec)
    tab.open(write_report(state.folder)[0].as_uri())
    shown = tab.read("document.querySelector('.verdict').textContent")
    summary = summarize(state)
    first, second = (Side(summary, row) for row in summary.rows[:2])
    comparison = compare_sides(first, second, make_question(first, second, "test"), "")
    for sentence in (shown, describe_verdict(comparison, "#0", "#1")):
        assert sentence.startswith(verdict) and ("both medians are 1," in sentence) == (value == 1)
    assert comparison.verdict == {"Inconclusive": "inconclusive", "No difference": "equal"}[verdict]
