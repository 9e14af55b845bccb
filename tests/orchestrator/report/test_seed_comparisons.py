"""What a report says of configurations against each other, and of the order at the test lengths."""

import csv
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.cli import main as cli
from orchestrator.report import artifacts
from orchestrator.report.files import read_summary, write_report
from orchestrator.report.tables.seed_comparisons import (
    TITLE,
    comparison_notes,
    seed_comparison_section,
    short_sentences,
)
from orchestrator.report.tables.sentences import order_sentence
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summarise import summary

NORMS = [{"model.norm": norm} for norm in ("none", "pre", "post")]
GRID = {"space": {"model.norm": {"grid": ["none", "pre", "post"]}}}


def reversing(number, seed, average, metric, lengths, step):
    """In order at the selection lengths; at the test lengths the first is the worst."""
    level = 0.1 + 0.01 * number + 0.001 * seed * (1 + number) + 0.02 * np.maximum(lengths - 5, 0)
    return level + np.where(lengths > 7, 0.1 * (2 - number), 0.0)


def ordered(number, seed, average, metric, lengths, step):
    return 0.1 + 0.01 * number + 0.001 * seed * (1 + number) + 0.02 * np.maximum(lengths - 5, 0)


@pytest.fixture
def reversed_order(tmp_path, synthetic_sweep):
    return summary(synthetic_sweep(tmp_path / "reversed", NORMS, 5, reversing, spec=GRID))


@pytest.mark.usefixtures("figures_left_blank")
def test_a_reversal_is_said_beside_the_best_everywhere(reversed_order, full_text, short_text, page_of):
    page, _ = write_report(reversed_order.folder)
    said = "Order at the test lengths 8-11: rank correlation with the scores -1.00 (no interval, n = 3); "
    said += "2 of the 2 others are lower there, by up to 0.176"
    in_full = f"{said} (#2 by 0.176, #1 by 0.0880); no choice went by this"
    lines = short_text(reversed_order).splitlines()
    best = next(place for place, line in enumerate(lines) if line.startswith("Best on lengths 6-7"))
    assert lines[best + 1] == said
    assert in_full in full_text(reversed_order, 1000) and in_full in " ".join(page_of(page).text)
    assert artifacts.sentences(reversed_order)[1:] == [said]
    assert [row.number for row in reversed_order.rows] == [0, 1, 2]  # and nothing was chosen by it


def test_where_the_order_holds_it_says_so(tmp_path, synthetic_sweep):
    result = summary(synthetic_sweep(tmp_path / "o", NORMS, 5, ordered, spec=GRID))
    assert order_sentence(result)[0].endswith("none of the 2 others is lower there")
    two = summary(synthetic_sweep(tmp_path / "two", NORMS[:2], 5, ordered, spec=GRID))
    assert order_sentence(two) == ["Order at the test lengths 8-11: the other one is not lower there"]
    up = {**GRID, "objective.metric": "margin", "objective.direction": "maximize"}
    assert "higher there" in order_sentence(summary(synthetic_sweep(tmp_path / "up", NORMS, 5, ordered, spec=up)))[0]
    one = summary(synthetic_sweep(tmp_path / "one", NORMS[:1], 5, ordered, spec=GRID))
    assert order_sentence(one) == [] == short_sentences(one)


def test_without_test_lengths_it_says_that_there_are_none(tmp_path, synthetic_sweep, full_text, short_text):
    spec = {**GRID, "objective.lengths": [6, 7, 8], "task.vocabulary": 9}
    result = summary(synthetic_sweep(tmp_path / "t", NORMS, 5, ordered, spec=spec))
    said = "No lengths beyond training and selection were evaluated in all configurations: nothing tells"
    assert said in short_text(result) and said in full_text(result, 1000)
    assert "First - second at the selection lengths 6-8: -0.0" in short_text(result)


@pytest.mark.usefixtures("figures_left_blank")
def test_configurations_stand_against_each_other_in_every_report(reversed_order, full_text, page_of):
    page, _ = write_report(reversed_order.folder)
    shown, text = " ".join(page_of(page).text), full_text(reversed_order, 1000)
    notes = comparison_notes(reversed_order, compare_seeds(reversed_order))
    for said in (TITLE, *notes, "#0 norm none", "#1 norm pre", "5 pairs"):
        assert said in shown and said in text
    columns = seed_comparison_section(reversed_order).cells
    assert columns["at lengths"][0] == "test 8-11" and columns["p"][0] == "0.0625" and columns["p (Holm)"][0] == "0.188"
    assert "level" not in columns and "failed" not in columns


def test_five_seeds_are_called_too_few(reversed_order, short_text):
    notes = " ".join(comparison_notes(reversed_order, compare_seeds(reversed_order)))
    for said in (
        "Every pair of the configurations; differences are first minus second of total_variation (ema)",
        "Paired by seed: same training data, test inputs; initial weights differ (model.norm) (6 of 9 lines).",
        "Paired by seed: same training data, test inputs, initial weights (3 of 9 lines).",
        "with this many seeds no p can be below 0.0625, however large the difference",
        "p (Holm): after Holm's correction for the 3 comparisons at the same lengths.",
        "no p after the correction can be below 0.05: that takes 7 pairs of seeds",
        "there is none with fewer than 6 pairs",
        "differences there favour the first",
    ):
        assert said in notes
    text = short_text(reversed_order)
    assert "First - second there: +0.0880 (5 paired seeds, p = 0.0625, the smallest possible)" in text
    assert (
        "norm: none is first by the selection lengths 6-7; at the test lengths 8-11 5 seeds cannot give p < 0.05"
        in text
    )
    assert "that takes 7.\n" in text and "Of 3 pairs" not in text  # none can differ


def test_enough_seeds_have_intervals_and_a_line_on_the_screen(tmp_path, synthetic_sweep, short_text):
    failures = {(1, 3): 10, (1, 4): 10}
    result = summary(synthetic_sweep(tmp_path / "ten", NORMS, 10, reversing, failures, spec=GRID))
    text = short_text(result)
    assert re.search(r"First - second there: \S+ \[\S+, \S+\] \(97\.9 %\) \(10 paired seeds, p = 0\.\d+\)", text)
    said = "norm: none is first by the selection lengths 6-7; at the test lengths 8-11 it is worse than post, "
    said += "not clearly different from pre (p < 0.05 after Holm's correction for 3 pairs of values)"
    assert said in text and "Of 3 pairs" not in text  # that would be the same again
    rates = [{"training.learning_rate": rate} for rate in (0.001, 0.003, 0.01)]
    numbers = {"space": {"training.learning_rate": {"grid": [0.001, 0.003, 0.01]}}}
    text = short_text(summary(synthetic_sweep(tmp_path / "rates", rates, 10, reversing, failures, spec=numbers)))
    assert "Of 3 pairs 2 differ there with p < 0.05 after Holm's correction\n" in text
    columns = seed_comparison_section(result).cells
    assert set(columns["level"]) == {"97.9 %"} and "0, 2" in columns["failed"]
    notes = " ".join(comparison_notes(result, compare_seeds(result)))
    assert "Each interval is by itself, not corrected for the 3 comparisons at the same lengths" in notes
    alone = [one for one in compare_seeds(result) if one.question.group == "test"][:1]
    assert "not corrected" not in " ".join(comparison_notes(result, [replace(one, tests=1) for one in alone]))
    assert "A failed seed counts as the worst value" in " ".join(comparison_notes(result, compare_seeds(result)))


@pytest.mark.usefixtures("figures_left_blank")
def test_the_table_has_every_number(reversed_order):
    write_report(reversed_order.folder)
    with (reversed_order.folder / "seed_comparisons.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(compare_seeds(reversed_order)) == 9
    for line, one in zip(lines, compare_seeds(reversed_order), strict=True):
        assert (line["first"], line["second"], line["group"]) == (one.first, one.second, one.question.group)
        assert float(line["difference"]) == one.outcome.difference and float(line["holm_p"]) == one.holm_p
        assert (line["low"], line["paired"], line["n"], line["n_second"]) == ("", "True", "5", "5")
        assert list(line)[-2:] == ["first_values", "second_values"]
        values = [json.loads(line[f"{side}_values"]) for side in ("first", "second")]
        norms = {row.config_id: row.values["model.norm"] for row in reversed_order.rows}
        assert values == [{"model.norm": norms[one.first]}, {"model.norm": norms[one.second]}]
        assert float(line["smallest_p"]) == 0.0625 and line["missing"].startswith("n = 5 is too few for an interval")


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


@pytest.mark.usefixtures("figures_left_blank")
def test_a_real_sweep_from_file_to_comparison(tmp_path, run_inline, monkeypatch, capsys):
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    folder = run_inline(file)
    table = tmp_path / "found.csv"
    done = CliRunner().invoke(cli.app, ["compare", str(folder), "0", "1", "--csv", str(table)])
    assert done.exit_code == 0, done.output
    result = read_summary(folder)
    first, second = (row.config_id for row in sorted(result.rows, key=lambda row: row.number))
    for said in (f"First: #0 of tiny ({first}, ranked", f"Second: #1 of tiny ({second}",
                 "They differ in: model.norm none / pre", "test 5", "selection 4", "6 pairs", "96.9 %"):  # fmt: skip
        assert said in done.output
    with table.open(newline="") as written:
        lines = list(csv.DictReader(written))
    assert [line["group"] for line in lines] == ["test", "selection", "trained"]
    by_hand = {}
    for name, row in ((first, 0), (second, 1)):
        band = result.bands[name, "total_variation", "raw"]
        by_hand[row] = np.array([values[band.lengths.index(5)] for values in band.seeds.values()])
    assert float(lines[0]["difference"]) == pytest.approx(np.median(by_hand[0] - by_hand[1]))
    assert not math.isnan(float(lines[0]["low"]))
    for words, said in (
        (["nine", "1"], "there is no configuration nine"),
        (["0", f"{tmp_path / 'absent'}/1"], "absent"),
        (["0", "1", "--csv", str(table)], "exists already; choose another name, or --force"),
    ):
        monkeypatch.setattr("sys.argv", ["lengthwise", "compare", str(folder), *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2 and said in capsys.readouterr().err
