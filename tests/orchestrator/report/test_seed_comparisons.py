"""What a report says of configurations against each other, and of the order at the test lengths."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator.cli import main as cli
from orchestrator.record.state.state import SweepState
from orchestrator.report.comparisons import _lay_out_comparisons
from orchestrator.report.judging_notes import describe_order
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.seed_comparison_table import (
    describe_verdict,
    list_difference_notes,
    make_comparison_columns,
)
from orchestrator.report.write_report import write_report
from orchestrator.results.analysis import compare_orders
from orchestrator.results.comparing.seed_comparisons import Side, compare_seeds, compare_sides, make_question
from orchestrator.results.make_summary import summarize
from orchestrator.text.wording import format_number
from tests.command_line import run_command_line

NORMS = [{"model.norm": norm} for norm in ("none", "pre", "post")]
GRID = {"space": {"model.norm": {"grid": ["none", "pre", "post"]}}}


def reversing(number, seed, average, metric, lengths, step):
    """In order at the selection lengths; at the test lengths the first is the worst."""
    level = 0.1 + 0.01 * number + 0.001 * seed * (1 + number) + 0.02 * np.maximum(lengths - 5, 0)
    return level + np.where(lengths > 7, 0.1 * (2 - number), 0.0)


@pytest.fixture
def reversed_order(tmp_path, synthetic_sweep):
    return summarize(synthetic_sweep(tmp_path / "reversed", NORMS, 5, reversing, spec=GRID))


def test_the_table_has_every_number(reversed_order):
    write_report(reversed_order.folder)
    with (reversed_order.folder / "seed_comparisons.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(compare_seeds(reversed_order)) == 9
    verdicts = {comparison.verdict for comparison in compare_seeds(reversed_order)}
    assert verdicts == {"inconclusive"}, "no interval with five pairs"
    for line, comparison in zip(lines, compare_seeds(reversed_order), strict=True):
        assert (line["first"], line["second"]) == (comparison.first, comparison.second)
        assert line["group"] == comparison.question.group
        assert float(line["difference"]) == comparison.outcome.difference and float(line["holm_p"]) == comparison.holm_p
        assert (line["low"], line["paired"], line["n"], line["n_second"]) == ("", "True", "5", "5")
        assert list(line)[-2:] == ["first_values", "second_values"]
        values = [json.loads(line[f"{side}_values"]) for side in ("first", "second")]
        norms = {row.config_id: row.values["model.norm"] for row in reversed_order.rows}
        assert values == [{"model.norm": norms[comparison.first]}, {"model.norm": norms[comparison.second]}]
        assert float(line["smallest_p"]) == 0.0625 and line["missing"].startswith("5 pairs of seeds are too few")


@pytest.mark.parametrize("count", [2, 3])
def test_each_gain_at_the_test_lengths_is_named_once(count, tmp_path, synthetic_sweep):
    summary = summarize(synthetic_sweep(tmp_path / "reversed", NORMS[:count], 5, reversing))
    better = compare_orders(summary).better
    (complete,), (short,) = describe_order(summary, complete=True), describe_order(summary)
    assert len(better) == count - 1
    assert [complete.count(f"by {format_number(gain)}") for _, gain in better] == [1] * len(better)
    assert short.count(format_number(better[0][1])) == 1


@pytest.mark.parametrize("width", [50, 160])
def test_a_table_that_would_be_split_has_only_the_corrected_p(width, reversed_order):
    tables = _lay_out_comparisons(compare_seeds(reversed_order), [], reversed_order, Console(width=width))
    headings = [str(column.header).replace("\n", " ") for table in tables for column in table.columns]
    assert "p (Holm)" in headings and ("p" in headings) == (width == 160)


def test_a_difference_that_is_infinite_because_seeds_failed_is_no_verdict(tmp_path, synthetic_sweep):
    summary = summarize(synthetic_sweep(tmp_path / "lost", NORMS, 2, reversing, {(2, 0): 60}, spec=GRID))
    first, second = (Side(summary, row) for row in summary.rows if row.number in (0, 2))
    comparison = compare_sides(first, second, make_question(first, second, "test"), "")
    assert math.isinf(comparison.outcome.difference)
    text = describe_verdict(comparison, "#0", "#2")
    assert text.startswith("No verdict") and "0 of #0 and 1 of #2" in text and "inf" not in text
    without = replace(comparison.outcome, one_failed=0)
    unreached = replace(
        comparison, first_failed=0, second_failed=0, outcome=without
    )  # infinite, as of a step that was never reached
    assert "failed" not in describe_verdict(unreached, "#0", "#2")


def compare_halves(folder, synthetic_sweep, seeds, failed, curve=lambda *_: 0.5):
    """Return the comparison of two configurations at the test lengths; `failed` lists (number, seed)."""
    lost = dict.fromkeys(failed, 60)
    summary = summarize(synthetic_sweep(folder, NORMS[:2], seeds, curve, lost))
    first, second = (Side(summary, row) for row in sorted(summary.rows, key=lambda row: row.number))
    return compare_sides(first, second, make_question(first, second, "test"), "")


@pytest.mark.parametrize("seeds", [4, 10])
def test_pairs_that_failed_on_both_sides_are_not_called_equal(seeds, tmp_path, synthetic_sweep):
    both = [(number, seed) for number in (0, 1) for seed in (2, 3)]
    comparison = compare_halves(tmp_path / "both", synthetic_sweep, seeds, both)
    outcome, text = comparison.outcome, describe_verdict(comparison, "#0", "#1")
    assert (outcome.n, outcome.ties, outcome.both_failed, outcome.one_failed) == (seeds, seeds, 2, 0)
    judged = "No difference" if seeds - 2 >= 6 else "No verdict"
    assert text.startswith(judged) and f"{seeds - 2} pairs" in text and "2 pairs failed on both" in text
    assert "all" not in text.split() and "2 failed in both" in make_cells(
        [comparison], make_comparison_columns([comparison])
    )["seeds"][0]  # fmt: skip

    # All seeds of both: nothing is compared.
    every = [(number, seed) for number in (0, 1) for seed in range(seeds)]
    nothing = compare_halves(tmp_path / "every", synthetic_sweep, seeds, every)
    assert nothing.outcome.n == 0 and "no seed of either has a value" in describe_verdict(nothing, "#0", "#1")


def test_pairs_that_failed_on_both_sides_decide_nothing(tmp_path, synthetic_sweep):
    def opposite(number, seed, average, metric, lengths, step):
        return 0.5 + number * 0.1 * (-1) ** seed + 0 * lengths

    both = [(number, seed) for number in (0, 1) for seed in range(2, 10)]
    comparison = compare_halves(tmp_path / "two", synthetic_sweep, 10, both, opposite)
    assert comparison.outcome.low == comparison.outcome.high == 0 and comparison.verdict == "inconclusive"
    text = describe_verdict(comparison, "#0", "#1")
    assert text.startswith("Inconclusive") and "10 pairs" in text and "8 of them failed on both" in text


@pytest.mark.parametrize("equal", [0, 6])
def test_the_notes_say_that_the_sign_test_counts_equal_pairs(equal, tmp_path, synthetic_sweep):
    """Of ten pairs, those of the first seeds are equal; in the others #0 is lower."""

    def partly_equal(number, seed, average, metric, lengths, step):
        return 0.5 + 0.1 * number * (seed >= equal) + 0 * lengths

    comparison = compare_halves(tmp_path / "ties", synthetic_sweep, 10, [], partly_equal)
    assert (comparison.outcome.ties, comparison.outcome.p) == (equal, 1.0 if equal else 2 * 0.5**10)
    (note,) = (note for note in list_difference_notes([comparison]) if "sign test" in note)
    assert ("ties" in note) == bool(equal)


def test_pairs_that_failed_on_one_side_are_counted(tmp_path, synthetic_sweep):
    comparison = compare_halves(tmp_path / "one", synthetic_sweep, 10, [(0, 3), (1, 3), (1, 4)])
    assert (comparison.outcome.both_failed, comparison.outcome.one_failed) == (1, 1)
    text = describe_verdict(comparison, "#0", "#1")
    assert "1 of them failed on both" in text and "1 of them failed on one" in text


TINY = """name: tiny
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, value_width: 8}
training: {steps: 20, batch_size: 8, learning_rate: 0.003, compile: false, averages: {raw: {}}}
space: {model.norm: {grid: [none, pre]}}
search: {sampler: grid}
seeds: 6
evaluation: {every: 20, samples: 10}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
"""


def test_a_real_sweep_from_file_to_comparison(tmp_path, run_inline, monkeypatch, capsys):
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    folder = run_inline(file)
    table = tmp_path / "found.csv"
    done = CliRunner().invoke(cli.app, ["compare", str(folder), "0", "1", "--csv", str(table)])
    assert done.exit_code == 0, done.output
    result = summarize(SweepState.load(folder))
    first, second = (row.config_id for row in sorted(result.rows, key=lambda row: row.number))
    for message in (f"First: #0 of tiny ({first}, ranked", f"Second: #1 of tiny ({second}",
                 "They differ in: model.norm none / pre", "test 5", "selection 4", "6 pairs", "95 %"):  # fmt: skip
        assert message in done.output
    with table.open(newline="") as written:
        lines = list(csv.DictReader(written))
    assert [line["group"] for line in lines] == ["test", "selection", "trained"]
    by_hand = {}
    for name, row in ((first, 0), (second, 1)):
        band = result.bands[name, "total_variation", "raw"]
        by_hand[row] = np.array([values[band.lengths.index(5)] for values in band.curves_by_seed.values()])
    assert float(lines[0]["difference"]) == pytest.approx(np.median(by_hand[0] - by_hand[1]))
    assert not math.isnan(float(lines[0]["low"]))
    for words, message in (
        ([], f"lengthwise compare {folder} 0 1"),
        (["nine", "1"], "no configuration nine"),
        (["0", f"{tmp_path / 'absent'}/1"], "absent"),
        (["0", "1", "--csv", str(table)], "exists already; choose another name, or --force"),
    ):
        monkeypatch.setattr("sys.argv", ["lengthwise", "compare", str(folder), *words])
        with pytest.raises(SystemExit) as ended:
            run_command_line()
        assert ended.value.code == 2 and message in capsys.readouterr().err
