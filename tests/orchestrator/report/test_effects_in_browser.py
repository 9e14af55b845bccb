"""The table of effects on the page, in a real browser."""

import math
import re

import numpy as np
import pytest

from orchestrator.report.write_report import write_report
from tests.browser import needs_browser
from tests.orchestrator.report.conftest import curve

pytestmark = needs_browser


def test_effects_are_those_on_the_chosen_outcome(page):
    cells = "[...document.querySelectorAll('#effects tbody tr')].map(e => e.cells[1].textContent.split(' ')[0])"
    at = f"[...new Set({cells})]"
    assert "selection" in page.read(at) and "test" not in page.read(at)
    page.set("#outcome", "test")
    assert "test" in page.read(at) and "selection" not in page.read(at)


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


def test_a_best_value_in_the_middle_has_a_row(tab, tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 10.0 ** (-4 + 2 * (number * 7 % 24) / 23)} for number in range(24)]

    def tent(number, seed, average, metric, lengths, step):
        return 0.2 + 0.3 * abs(math.log10(values[number]["training.learning_rate"]) + 3) + 0.01 * seed + 0.0 * lengths

    folders = {"tent": synthetic_sweep(tmp_path / "tent", values, 2, tent).folder}
    folders["trend"] = synthetic_sweep(tmp_path / "trend", values, 2, curve).folder
    rows = {}
    for name, folder in folders.items():
        tab.open(write_report(folder)[0].as_uri())
        rows[name] = tab.read("[...document.querySelectorAll('#effects tbody tr')].map(e => e.textContent)")
    assert ["middle" in row for row in rows["tent"]] == [False, True]
    assert not any("middle" in row for row in rows["trend"]) and len(rows["trend"]) == 1


@pytest.mark.parametrize("second", [0.3, 0.55])
def test_differences_come_before_a_rank_correlation_that_they_contradict(tab, tmp_path, synthetic_sweep, second):
    """Higher rates have higher scores, except the second if its score is 0.3."""
    rates = [0.001, 0.003, 0.01, 0.03, 0.1]
    values = [{"training.learning_rate": rate} for rate in rates]
    spec = {"search.sampler": "grid", "space": {"training.learning_rate": {"grid": rates}}}

    def by_rate(number, seed, average, metric, lengths, step):
        return (0.5, second, 0.6, 0.7, 0.9)[number] + 0.001 * seed + 0.0 * lengths

    tab.open(write_report(synthetic_sweep(tmp_path / "rates", values, 8, by_rate, spec=spec).folder)[0].as_uri())
    rows = tab.read("[...document.querySelectorAll('#effects tbody tr')].map(e => e.cells[2].textContent)")
    is_difference = [re.match(r"0\.\d+ - 0\.001: ", row) is not None for row in rows]
    position = 4 if second == 0.3 else 0  # of the correlation
    assert [row for row, is_one in enumerate(is_difference) if not is_one] == [position]
    marks = "[...document.querySelectorAll('#effects tbody rect')].map(e => e.getAttribute('fill'))"
    assert (tab.read(marks)[position] == "#fff") == (second == 0.3)


def test_intervals_that_exclude_0_by_chance_are_counted_alike_in_the_page_and_its_notes(tab, tmp_path, synthetic_sweep):
    rng = np.random.default_rng(0)
    draws = [{"training.learning_rate": 10.0 ** (n / 6 - 4), "model.dropout": rng.random()} for n in range(12)]
    tab.open(write_report(synthetic_sweep(tmp_path / "drawn", draws, 6, curve).folder)[0].as_uri())
    effects = tab.read("JSON.parse(document.querySelector('#data').textContent).effects")
    expected = []
    for group in ("selection", "test"):
        lines = [
            ends
            for effect in effects
            if effect["group"] == group
            for ends in (effect["correlation"], *(line["ends"] for line in effect["slopes"]))
        ]
        intervals = [(low, high) for _, low, high in lines if low is not None]
        conclusive = sum(low > 0 or high < 0 for low, high in intervals)
        assert 0 < conclusive < len(intervals)
        expected.append([conclusive, len(intervals), group])
    count = "matchAll(/(\\d+) of (\\d+) do(?:es)? at the (\\w+)/g)].map(m => [+m[1], +m[2], m[3]])"
    counts = tab.read(
        f"document.querySelectorAll('script').forEach(e => e.remove()), [...document.body.textContent.{count}"
    )
    assert counts == expected * 2


def test_one_interval_is_not_called_uncorrected_for_its_number(same_page):
    text = same_page.read("document.querySelector('#effects').textContent")
    assert "interval" in text and "of 20" not in text


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


def test_the_strongest_effect_on_the_chosen_outcome_comes_first(tab, tmp_path, synthetic_sweep):
    """Dropout decides the selection lengths, the learning rate decides the test lengths."""
    numbers = range(12)
    values = [
        {"training.learning_rate": 0.001 * (1 + 5 * n % 12), "model.dropout": 0.01 * (1 + 7 * n % 12)} for n in numbers
    ]

    def decided_apart(number, seed, average, metric, lengths, step):
        at_selection, at_test = 7 * number % 12, 5 * number % 12
        return 0.2 + 0.01 * np.where(lengths <= 7, at_selection, at_test) + 0.002 * (number % 2)

    state = synthetic_sweep(tmp_path / "apart", values, 3, decided_apart)
    assert max(state.spec["objective"]["lengths"]) == 7
    tab.open(write_report(state.folder)[0].as_uri())
    titles = "[...document.querySelectorAll('#points svg .title')].map(e => e.textContent)"
    effects = "[...document.querySelectorAll('#effects tbody tr')].map(e => e.cells[0].textContent)"
    for outcome, first in (("selection", "dropout"), ("test", "lr")):
        tab.set("#outcome", outcome)
        assert tab.read(titles)[0] == tab.read(effects)[0] == first, outcome
