"""Every table in a terminal: nothing is cut or broken at any width, and what was not used is said."""

import io
import json
import math
from dataclasses import replace

import pytest

from orchestrator.consoles import WholeConsole
from orchestrator.export.latex import latex_table
from orchestrator.figures.curves import comparison_figure
from orchestrator.record.ledger.records import LEDGER_FILE, Record
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import configuration_lines
from orchestrator.report.files import read_summary, write_report
from orchestrator.report.tables.configurations import configuration_section
from orchestrator.report.tables.sentences import selection_sentence
from orchestrator.report.terminal import FullReport
from orchestrator.results.analysis import compare_weight_averages, effects_on_score
from orchestrator.results.summarise import summary


def test_terminal_says_what_was_selected_and_what_was_not_used(small_sweep, full_text):
    text = full_text(summary(small_sweep))
    assert "Sweep small (study set_complement): finished" in text
    assert "seeds ended: 18, failed: 1 (a failed seed counts as the worst value)" in text
    assert (
        "Selected by total_variation of the ema average, mean over lengths 6-7, median over seeds (minimize); "
        "lengths 8-11 were not used for selection; trained on 1-5"
    ) in text
    assert "greatest length at which the median of total_variation (ema)" in text and "is at most 0.1" in text
    for heading in ("trained 1-5", "selection 6-7", "test 8-11", "reach", "failed", "rank correlation [95 %]"):
        assert heading in text
    rows = [line.split() for line in text.splitlines()]
    first = next(row for row in rows if len(row) > 8 and row[0] == "1")
    best = read_summary(small_sweep.folder).rows[0]
    assert (
        first[1:6] == [f"#{best.number}", best.config_id, "none", "16", "0.0001"] and first[6] == f"{best.score:#.3g}"
    )


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_no_line_is_broken_out_of_its_width_and_nothing_is_cut(small_sweep, width, full_text):
    result = summary(small_sweep)
    text = full_text(result, width)
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for row in result.rows:
        assert row.config_id in text
        for at in (row.trained, row.selection, row.test):
            quartiles = [f"{value:#.3g}" if math.isfinite(value) else "inf" for value in (at.q25, at.q75)]
            assert f"[{', '.join(quartiles)}]" in text


@pytest.mark.usefixtures("figures_left_blank")
def test_terminal_names_figures_that_exist(small_sweep, full_text):
    assert "Figures" not in full_text(summary(small_sweep))
    write_report(small_sweep.folder)
    text = full_text(summary(small_sweep))
    for name in ("comparison", "score-model.norm", "score-training.batch_size", "score-training.learning_rate"):
        assert str(small_sweep.folder / "figures" / f"{name}.png") in text


def test_terminal_shows_the_best_and_says_how_many_are_left_out(small_sweep, full_text):
    result = summary(small_sweep)
    text = full_text(result, rows=2)
    assert "... and 4 more in report.csv" in text
    assert result.rows[1].config_id in text and result.rows[2].config_id not in text


def test_conditional_keys_and_different_tasks_have_their_place(tmp_path, synthetic_sweep, simple_curve, full_text):
    values = [{"task.train_length": 3}, {"task.train_length": 4, "training.clip": 1.0}]
    state = synthetic_sweep(tmp_path / "c", values, 2, simple_curve)
    result = summary(state)
    text = full_text(result)
    assert "the lengths beyond (they differ between configurations)" in text
    assert {row.groups.trained for row in result.rows} == {(1, 2, 3), (1, 2, 3, 4)}
    write_report(state.folder)


def test_a_key_that_a_listed_configuration_leaves_out_has_its_fixed_value(
    tmp_path, synthetic_sweep, simple_curve, drawn
):
    values = [{"model.dropout": 0.25}, {"model.norm": "pre"}]
    spec = {"search.sampler": "listed", "search.listed": values}
    result = summary(synthetic_sweep(tmp_path / "listed", values, 2, simple_curve, spec=spec))
    assert [row.number for row in result.rows] == [0, 1]
    cells = configuration_section(result).cells
    assert (cells["dropout"], cells["norm"]) == (["0.25", "0"], ["none", "pre"])
    lines = configuration_lines(result)
    assert [(line["model.dropout"], line["model.norm"]) for line in lines] == [(0.25, "none"), (0.0, "pre")]
    comparison_figure(result, tmp_path / "comparison.png")
    header, *shown = [text.get_text().split() for text in drawn["comparison.png"].legends[0].get_texts()]
    assert header[-2:] == ["dropout", "norm"] and [one[-2:] for one in shown] == [["0.25", "none"], ["0", "pre"]]
    assert r"\#1 & 0 & pre &" in latex_table(result, {})


def test_a_section_that_a_listed_configuration_leaves_out_is_not_written_out(tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.averages.ema": {"kind": "ema", "decay": 0.5}}, {"model.norm": "pre"}]
    spec = {"search.sampler": "listed", "search.listed": values}
    result = summary(synthetic_sweep(tmp_path / "listed", values, 2, simple_curve, spec=spec))
    assert configuration_section(result).cells["averages.ema"] == ["(kind ema, decay 0.5)", "-"]


def test_no_length_left_to_test_on_is_said(tmp_path, synthetic_sweep, simple_curve, full_text):
    spec = {"objective.lengths": [6, 7, 8], "task.vocabulary": 9}
    state = synthetic_sweep(tmp_path / "t", [{"model.norm": "none"}], 2, simple_curve, spec=spec)
    text = full_text(summary(state))
    assert "no test lengths were evaluated; trained on 1-5" in text and "none were not used" not in text


def test_trained_lengths_that_were_not_evaluated_are_not_denied(tmp_path, synthetic_sweep, simple_curve, full_text):
    spec = {"evaluation.lengths": [6, 7, 10]}
    text = full_text(summary(synthetic_sweep(tmp_path / "t", [{}], 2, simple_curve, spec=spec)))
    assert "trained on 1-5, of these none evaluated\n" in text


@pytest.mark.parametrize(
    ("recorded", "evaluated", "words"),
    [
        (True, [1, 3, 5, 6, 7], "trained on 1-5, of these 1, 3, 5 evaluated"),
        (False, [1, 3, 5, 6, 7], "trained on lengths up to 5, of these 1, 3, 5 evaluated"),
        (False, "all", "trained on 1-5"),
    ],
)
def test_all_trained_lengths_are_said_and_which_were_evaluated(
    tmp_path, synthetic_sweep, simple_curve, recorded, evaluated, words
):
    state = synthetic_sweep(tmp_path / "t", [{}], 2, simple_curve, spec={"evaluation.lengths": evaluated})
    for measured in state.measured.values():
        measured.pop("trained" if not recorded else "", None)  # ledgers of 1.0.0 have only the longest
    assert selection_sentence(summary(state)).endswith(f"; {words}")


def test_conflicting_curves_are_reported(small_sweep, full_text):
    state = SweepState.load(small_sweep.folder)
    record = json.loads((small_sweep.folder / LEDGER_FILE).read_text().splitlines()[3])["data"]
    state.apply(Record(99, 0.0, "evaluation", {**record, "sha256": "e" * 64}))
    assert "reported step 50 again with other curves" in full_text(summary(state))


@pytest.mark.usefixtures("figures_left_blank")
@pytest.mark.parametrize(("width", "terminal"), [(80, True), (160, False)])
def test_values_intervals_and_paths_are_never_broken(tmp_path, synthetic_sweep, simple_curve, width, terminal):
    folder = tmp_path / ("a sweep of a long name " * 4).strip()
    values = [
        {"training.learning_rate": 10.0 ** -(4 - n / 4), "training.batch_size": 16 << n % 2, "model.norm": norm}
        for n, norm in enumerate(["none", "pre", "post", "none"] * 2)
    ]
    synthetic_sweep(folder, values, 3, simple_curve)
    write_report(folder)
    result = summary(SweepState.load(folder))
    console = WholeConsole(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    console.print(FullReport(replace(result, status="interrupted", finished=False)))
    lines = console.file.getvalue().splitlines()
    text = "\n".join(lines)
    assert f"  {folder / 'figures' / 'score-training.learning_rate.png'}" in lines
    assert f"lengthwise resume '{folder}'" in text
    for found in effects_on_score(result):
        assert all(f"(n = {count})" in text for count in found.counts.values() if len(found.counts) < found.n)
    assert text.count("(n = ") == sum(2 * len(e.counts) for e in effects_on_score(result) if 0 < len(e.counts) < e.n)
    tables = lines[next(i for i, line in enumerate(lines) if line.startswith("Configurations by score")) :]
    assert all(line.count("[") == line.count("]") for line in tables)
    assert not terminal or all(len(line) <= width for line in lines if str(folder) not in line)


def test_direction_and_policy_are_said(tmp_path, synthetic_sweep, simple_curve, full_text):
    spec = {"objective.metric": "margin", "objective.direction": "maximize", "objective.threshold": 0.1}
    spec |= {"objective.failed_seeds": "exclude"}
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    text = full_text(summary(synthetic_sweep(tmp_path / "up", values, 2, simple_curve, {(0, 0): 10}, spec=spec)))
    assert "is at least 0.1" in text and "medians are over the seeds that did not fail" in text


def test_a_configuration_that_failed_says_so_and_half_a_failure_is_infinite(
    tmp_path, synthetic_sweep, simple_curve, full_text
):
    values = [{"training.learning_rate": rate} for rate in (0.1, 0.01, 0.001)]
    lost = {(0, seed): 10 for seed in range(4)} | {(1, seed): 10 for seed in range(3)}
    result = summary(synthetic_sweep(tmp_path / "f", values, 4, simple_curve, lost))
    lines = full_text(result).splitlines()
    half, whole = (next(line.split() for line in lines if row.config_id in line) for row in result.rows[1:])
    assert whole[0] == "failed" and whole[-1] == "4" and half[0] == "2" and half[-1] == "3" and "inf" in half


def test_the_comparison_of_averages_says_how_many_members_failed(small_sweep, full_text):
    result = summary(small_sweep)
    assert result.seeds_failed == 1 and compare_weight_averages(result)
    assert "Without 1 member that failed." in full_text(result, 1000)
