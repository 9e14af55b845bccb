"""Functions of the page's script beside those of Python: the same texts, numbers and tests."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.report.page import render
from orchestrator.report.tables.columns import are_numbers
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN
from orchestrator.statistics.two_samples import summarize_differences
from tests.browser import needs_browser
from tests.orchestrator.number_cases import COLUMNS, FUNCTIONS, TEXTS, UNBROKEN_PARTS, draw_numbers

pytestmark = needs_browser

SCRIPT = Path(render.__file__).parent / "script"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_has_the_same_text_on_the_page_as_in_the_terminal(tab, name):
    script = (SCRIPT / "numbers.js").read_text()
    cases = {**TEXTS[name], **{number: FUNCTIONS[name](number) for number in draw_numbers(1000)}}
    listing = ", ".join(str(number).replace("inf", "Infinity") for number in cases)
    page = "const page = {judged: {infinite: 'inf'}};"
    texts = tab.read(f"(() => {{ {page}\n{script}\nreturn [{listing}].map(number => {name}(number)); }})()")
    differing = {number: text for number, text in zip(cases, texts, strict=True) if text != cases[number]}
    assert differing == {}


def test_the_script_knows_columns_of_numbers_and_unbroken_parts_as_python_does(tab):
    script = (SCRIPT / "elements.js").read_text()
    calls = f"""{json.dumps([*COLUMNS])}.map(areNumbers), {json.dumps([*UNBROKEN_PARTS])}.map(
        sentence => keepTogether(sentence).filter(part => part.className === "keep").map(part => part.textContent))"""
    columns, parts = tab.read(f"(() => {{ {script}\nreturn [{calls}]; }})()")
    assert dict(zip(COLUMNS, columns, strict=True)) == COLUMNS == {texts: are_numbers(texts) for texts in COLUMNS}
    assert dict(zip(UNBROKEN_PARTS, parts, strict=True)) == UNBROKEN_PARTS
    marked = {sentence: render._keep_together(sentence) for sentence in UNBROKEN_PARTS}
    assert {
        sentence: re.findall("<span class=keep>(.*?)</span>", text) for sentence, text in marked.items()
    } == UNBROKEN_PARTS


@pytest.mark.parametrize("n", [6, 25, 300, 1024, 1100])
def test_the_page_tests_any_number_of_pairs_as_python_does(n, tab):
    script = (SCRIPT / "seed_comparisons.js").read_text()
    differences = np.random.default_rng(n).normal(0.3 / math.sqrt(n), size=n).round(6)
    page = f"const page = {{min_pairs: {MIN_FOR_MEDIAN}}};"
    call = f"testDifferences({differences.tolist()})"
    shown = tab.read(f"(() => {{ {page}\n{script}\nreturn {call}; }})()")
    expected = summarize_differences(differences)
    assert (shown["n"], shown["low"], shown["high"]) == (n, expected.low, expected.high)
    assert [shown["level"], shown["p"]] == pytest.approx([expected.level, expected.p])


@pytest.mark.parametrize(
    ("selection", "texts"),
    [
        ([1, 2], ["selection 1-2 (trained)"]),
        ([1, 2, 3], ["selection 1-3 (trained 1-2)"]),
        ([2], ["trained 1-2", "selection 2"]),
        ([3, 4], ["trained 1-2", "selection 3-4"]),
    ],
)
def test_trained_lengths_that_are_all_hatched_have_no_shade_in_the_legend(selection, texts, tab):
    script = "".join((SCRIPT / f"{name}.js").read_text() for name in ("elements", "legend"))
    names = (SCRIPT / "words.js").read_text().partition("// Return a training step")[0]  # formatRanges
    groups = json.dumps({"trained_on": [1, 2], "trained_text": "1-2", "selection": selection})
    call = f"listShades({groups}).map(entry => entry.textContent)"
    assert tab.read(f"(() => {{ const ranked = [], ramp = () => ''; {names}\n{script}\nreturn {call}; }})()") == texts


@pytest.mark.parametrize(
    ("is_descending", "expected"),
    [
        (False, ["-inf", "0.7", "0.9 [0.8, 0.95]", "inf", "-", "not reached"]),
        (True, ["inf", "0.9 [0.8, 0.95]", "0.7", "-inf", "-", "not reached"]),
    ],
)
def test_cells_without_a_number_are_the_last_in_both_directions(is_descending, expected, tab):
    cells = ["-", "0.7", "inf", "not reached", "0.9 [0.8, 0.95]", "-inf"]
    library, script = SCRIPT.with_name("d3.min.js").read_text(), (SCRIPT / "table.js").read_text()
    page = f"""const page = {{table: {{test: {json.dumps(cells)}}}}}, C = {len(cells)}, isIn = () => true;
        const state = {{sort: "test", isDescending: {json.dumps(is_descending)}}};"""
    call = "sortedConfigurations().map(c => page.table.test[c])"
    assert tab.read(f"(() => {{ {library}\n{page}\n{script}\nreturn {call}; }})()") == expected
