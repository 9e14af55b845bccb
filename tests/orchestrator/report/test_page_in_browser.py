"""The page of a sweep in a real browser: pointing, choosing, switching, dragging and typing change what they should."""

import json
import re
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from orchestrator.record.files.curves import read_curves
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import HOT, ROWS, curve
from tests.orchestrator.running.deaths import kill

pytestmark = needs_browser

CURVES = "[...document.querySelectorAll('#curves .curve')].map(e => e.getAttribute('d'))"
SEEDS = "[...document.querySelectorAll('#curves .seed')].map(e => e.dataset.of)"


def test_the_first_sentence_leads_to_what_failed_and_keeps_the_choices(page):
    page.set("#scale", "log")
    chosen = page.read("location.hash")
    link = ".first p:first-child a"
    assert page.read(f"document.querySelector('{link}').textContent") == "3 failed"
    page.click(link)
    assert len({page.read("scrollY") for _ in range(20)}) == 1  # whatever comes to lie under the pointer
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
    readout = page.read("document.querySelector('#readout').textContent")
    length, median, low, high = re.search(r"at length (\d+): (\S+) \[(\S+), (\S+)\];", readout).groups()
    band = result.bands[row.config_id, *result.objective_curve]
    at = band.lengths.index(int(length))
    assert [float(number) for number in (median, low, high)] == pytest.approx(
        [band.median[at], band.q25[at], band.q75[at]], rel=0.005
    )
    beside = page.read("document.querySelector('#curves .value').textContent")
    assert beside.startswith(f"#{row.number}") and beside.endswith(f"at {length}: {median}")

    # Along the curve the value follows the pointer.
    page.point("#curves .catch", (0.5 + 1 / len(band.lengths), 0.5))
    readout = page.read("document.querySelector('#readout').textContent")
    beside = page.read("document.querySelector('#curves .value').textContent")
    assert re.search(r"at length (\d+: \S+) \[", readout)[1] == beside.partition(" at ")[2]
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


def test_the_legend_of_the_table_names_brackets_only_where_they_are_shown(page):
    legend = "document.querySelector('#table').closest('section').innerText"
    assert "brackets: quartiles over seeds; reach" in page.read(legend)
    page.resize(390, 844, phone=True)
    assert "brackets" not in page.read(legend) and "test 8-11; reach" in page.read(legend)


def test_the_evaluation_is_named_in_words(page):
    step = "document.querySelector('#step').textContent"
    assert page.read(step) == "step 100, used for the ranking"
    slider = "(e => [e.min, e.max, e.value, e.closest('label').hidden])(document.querySelector('#evaluation'))"
    assert page.read(slider) == ["0", "1", "1", False]  # step 50 and this one

    # The table stays at the judged evaluation, and so does paper.
    page.set("#evaluation", 0, "input")
    assert page.read(step) in page.read("document.querySelector('#table caption').textContent")
    for event, text in (("beforeprint", "step 100, used for the ranking"), ("afterprint", page.read(step))):
        page.read(f"dispatchEvent(new Event('{event}'))")
        assert page.read(step) == text
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
    assert len({json.dumps(view) for view in seen}) == 5
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
    notes = "[...document.querySelectorAll('#legend span')].map(e => e.textContent).filter(e => e.includes('above 0'))"
    tab.set("#scale", "linear")
    assert tab.read(notes) == []
    tab.set("#scale", "log")
    (text,) = tab.read(notes)
    assert sorted(text.partition(": ")[2].split("; ")) == ["#1 from length 4", "#2 at length 2-3", "#3"]


def test_logarithmic_axes_of_less_than_two_decades_have_several_labels(tab, tmp_path, synthetic_sweep):
    """The axis of lr has one power of ten; that of the outcomes, from 0.02 to 2.56, has two, which are enough."""

    def growing(number, seed, average, metric, lengths, step):
        return 0.02 * 2.0**number + 0.0 * lengths

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
        assert texts == ["0.1", "1"], texts


@pytest.fixture(scope="module")
def sparse(tmp_path_factory, synthetic_sweep):
    """The page of three configurations, evaluated at the lengths 3, 5, 6, 7 and 11."""
    values = [{"model.dropout": 0.1 * n} for n in range(3)]
    state = synthetic_sweep(tmp_path_factory.mktemp("built") / "sparse", values, 6, curve)
    curves = read_curves(state)
    curves = curves[curves["length"].isin([3, 5, 6, 7, 11])]
    return write_report(state.folder, summarize(state), curves)[0]


@pytest.mark.parametrize(
    ("width", "trained", "shaded"),
    [
        (390, [1, 2, 3, 4, 5], [(2.5, 5.5)]),
        (1280, [2, 3, 4, 5], [(2.5, 5.5)]),
        (1280, [3, 5], [(2.5, 3.5), (4.5, 5.5)]),
    ],
)
def test_each_of_few_lengths_has_a_point_on_every_line_and_a_narrow_shade(
    sparse, tab, tmp_path, width, trained, shaded
):
    """Length 4, which is not evaluated, is shaded only if it was trained."""
    text = sparse.read_text()
    data = json.loads(old := re.search(r'id="data">(.*?)</script>', text)[1])
    assert [group["trained_on"] for group in data["groups"]] == [[1, 2, 3, 4, 5]]
    data["groups"][0]["trained_on"] = trained
    changed = tmp_path / "sparse.html"
    changed.write_text(text.replace(old, json.dumps(data)))
    tab.resize(width, 900)
    tab.open(changed.as_uri())
    box = "e => (b => [(b.left + b.right) / 2, b.width])(e.getBoundingClientRect())"
    places = tab.read(f"[...document.querySelectorAll('#curves .curve')].map({box})")[0]
    left, unit = places[0] - places[1] / 2, places[1] / 8  # pixels of a length: lines lead from 3 to 11
    for c in range(3):
        points = f"[...document.querySelectorAll('#curves .measured[data-c=\"{c}\"]')].map({box})"
        middles = [3 + (middle - left) / unit for middle, _ in tab.read(points)]
        assert middles == pytest.approx([3, 5, 6, 7, 11], abs=0.15), c
    marks = "[...document.querySelectorAll('#curves .marker')].map(e => e.dataset.of)"
    assert sorted(tab.read(marks)) == [*5 * "0", *5 * "1"]
    assert tab.read("document.querySelectorAll('.differences circle').length") == 5

    # Shades touch where no length lies between, and else cover only what is near.
    shades = f"[...document.querySelectorAll('#curves .range')].map(e => [e.classList[1], ...({box})(e)])"
    ends = [(name, 3 + (x - w / 2 - left) / unit, 3 + (x + w / 2 - left) / unit) for name, x, w in tab.read(shades)]
    assert [name for name, _, _ in ends] == [*(["trained"] * len(shaded)), "selection", "test"]
    wanted = [*shaded, (5.5, 7.5), (10.5, 11.5)]
    assert [edges for _, *edges in ends] == [pytest.approx(edges, abs=0.15) for edges in wanted]
    assert tab.problems == []


def test_rows_have_no_hash_as_their_title(same_page):
    assert same_page.read("document.querySelectorAll('#table tbody tr').length") > 2
    assert same_page.read("document.querySelectorAll('#table tr[title]').length") == 0


def test_ranges_of_lengths_are_marked(same_page):
    marked = same_page.read("[...document.querySelectorAll('#curves .range')].map(e => e.getAttribute('class'))")
    assert marked == ["range trained", "range selection", "range test"]
    legend = same_page.read("document.querySelector('#legend').textContent")
    assert all(words in legend for words in ("trained 1-5", "selection 6-7", "test 8-11"))


def test_many_lengths_have_no_points_of_their_own(same_page):
    assert same_page.read("document.querySelectorAll('.measured').length") == 0


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


def test_the_page_works_in_a_frame_without_rights_as_in_mlflow(written, tab, tmp_path):
    frame = tmp_path / "frame.html"
    frame.write_text("<iframe id=f sandbox='allow-scripts' width=1000 height=800></iframe>")
    tab.open(frame.as_uri())
    tab.problems.clear()
    tab.read(f"document.querySelector('#f').srcdoc = {json.dumps(written.read_text())}")
    began, colors = time.monotonic(), set()
    while not {(0xE8, 0x70, 0x2A), (0x00, 0x4D, 0x47)} <= colors:  # of the curves A and B
        assert time.monotonic() - began < 60, "the frame shows no curves"
        tab.screenshot(tmp_path / "frame.png")
        with Image.open(tmp_path / "frame.png") as image:
            colors = set(image.convert("RGB").get_flattened_data())
    assert tab.problems == []


def test_a_page_without_any_evaluation_opens(tmp_path, tab, synthetic_sweep):
    path, _ = write_report(synthetic_sweep(tmp_path / "none", [{}], 2, curve, ended=False, stop_after_step=0).folder)
    tab.problems.clear()
    tab.open(path.as_uri())
    shown, folded = "document.body.innerText", "[...document.querySelectorAll('details')].map(e => e.innerText)"
    assert tab.problems == [] and "0 of 1 configuration" in tab.read(shown)
    empty = "#picture, #ranking, #comparison, #hyperparameters"
    assert tab.read(f"[...document.querySelectorAll('{empty}')].map(part => part.hidden)") == [True] * 4
    assert "keyboard" not in tab.read(shown)

    # Seeds that crashed after an evaluation have no values either.
    died = synthetic_sweep(tmp_path / "died", [{}, {"model.dropout": 0.1}], 2, curve, died=[0, 1])
    tab.open(write_report(died.folder)[0].as_uri())
    assert tab.problems == [] and f"resume {died.folder} --retry-failed" in tab.read(shown).replace("\n", " ")
    assert tab.read(f"[...document.querySelectorAll('{empty}')].map(part => part.hidden)") == [True] * 4
    assert not re.search("keyboard|counted as worst|trained 1-5|hyperparameter", tab.read(shown))
    assert tab.read(folded) == ["Provenance", "Commands"]


REFRESHING = """
import sys
import threading
from pathlib import Path
from orchestrator.report import write_report
write_report.MIN_PAGE_SECONDS = 0.2
for _ in write_report.refresh_page(Path(sys.argv[1]), threading.Event()):
    pass
"""


@pytest.mark.slow
def test_the_page_of_a_running_sweep_is_written_anew(built, lengthwise, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(built.folder, folder)
    (folder / "report.html").unlink(missing_ok=True)
    ledger = folder / "events.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:12]))
    writer = lengthwise.start(folder, program=REFRESHING)
    seen = []
    for new_lines in ([], lines[12:40]):
        with ledger.open("ab") as file:  # as a driver writes it
            file.write(b"".join(new_lines))
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
