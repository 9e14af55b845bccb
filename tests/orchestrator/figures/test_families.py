"""Families of metrics: points by hand, panels, gaps, failed seeds, files."""

import csv
import io
import math

import numpy as np
import pytest
from rich.console import Console

from orchestrator.figures.drawing import GREY, PALETTE
from orchestrator.figures.families import family_figures, family_points
from orchestrator.report.csv_tables import family_lines
from orchestrator.report.files import write_report
from orchestrator.report.terminal import render_terminal
from orchestrator.results.length_groups import LengthGroups, few_lengths
from orchestrator.results.summary import summary

TASK = {"name": "padded_addition", "width": 8, "train_digits": 2, "measured_cascades": [3, 0, 1], "measured_digits": 2}
SPEC = {
    "task": TASK,
    "objective.metric": "exact_match",
    "objective.average": "raw",
    "objective.lengths": [3, 4],
    "objective.direction": "maximize",
    "objective.threshold": 0.5,
}


def accuracy(number, seed, average, metric, lengths, step):
    """Falls with cascade, length and number; rises with the seed; no cascade is longer than the number."""
    stem, _, index = metric.rpartition("_")
    level = 0.9 - 0.02 * lengths - 0.05 * number + 0.01 * seed - (0.3 if average == "ema" else 0.0)
    if stem == "exact_match_cascade":
        return np.where(int(index) <= lengths, level - 0.1 * int(index), np.nan)
    return level


@pytest.fixture
def sweep(synthetic_sweep):
    def build(folder, values=({}, {"model.norm": "pre"}), seeds=3, curve=accuracy, failed=None, **spec):
        return summary(synthetic_sweep(folder, list(values), seeds, curve, failed, spec={**SPEC, **spec}))

    return build


def test_points_are_medians_over_seeds_by_configuration_length_and_index(tmp_path, sweep):
    result = sweep(tmp_path / "s")
    points = family_points(result, "cascade")
    best = result.rows[0].config_id
    keys = [(point.length, point.index) for point in points if point.config_id == best]
    assert keys == [(length, c) for length in range(1, 9) for c in (0, 1, 3) if c <= length]
    at = next(point for point in points if (point.config_id, point.length, point.index) == (best, 6, 3))
    assert at.median == pytest.approx(0.9 - 0.12 + 0.01 - 0.3, abs=1e-6)
    assert (at.q25, at.q75) == (pytest.approx(at.median - 0.005, abs=1e-6), pytest.approx(at.median + 0.005, abs=1e-6))
    assert at.counted == 3 and sorted(at.seeds) == [0, 1, 2] and at.seeds[2] == pytest.approx(at.median + 0.01)
    assert {point.index for point in family_points(result, "digit")} == {1, 2}
    assert family_points(result, "rounds") == []


def test_a_failed_seed_counts_as_the_worst_and_an_absent_kind_of_input_does_not(tmp_path, sweep):
    def patchy(number, seed, average, metric, lengths, step):
        value = accuracy(number, seed, average, metric, lengths, step)
        absent = metric.endswith("cascade_3") and number == 0 and seed < 2
        return np.full(len(lengths), math.nan) if absent else value

    result = sweep(tmp_path / "f", curve=patchy, failed={(1, 0): 10, (1, 1): 10})
    points = {
        (result.rows[0].config_id == p.config_id, p.index): p for p in family_points(result, "cascade") if p.length == 5
    }
    alone = points[True, 3]
    assert alone.counted == 1 and alone.median == alone.seeds[2] == pytest.approx(0.9 - 0.1 + 0.02 - 0.3)
    most_failed = points[False, 0]
    assert most_failed.counted == 3 and most_failed.median == -math.inf and list(most_failed.seeds) == [2]
    excluded = sweep(tmp_path / "e", curve=patchy, failed={(1, 0): 10}, **{"objective.failed_seeds": "exclude"})
    some = [p for p in family_points(excluded, "cascade") if p.config_id == excluded.rows[1].config_id]
    assert {p.counted for p in some} == {2} and all(math.isfinite(p.median) for p in some)
    nothing = sweep(tmp_path / "n", failed={(n, s): 10 for n in range(2) for s in range(3)})
    assert family_points(nothing, "cascade") == [] and family_figures(nothing, tmp_path) == ()


def test_panels_are_lengths_and_lines_configurations(tmp_path, sweep, drawn):
    result = sweep(tmp_path / "p")
    paths = family_figures(result, tmp_path)
    assert [path.name for path in paths] == ["family-digit.png", "family-cascade.png"]
    panels = drawn["family-cascade.png"].axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["length 2 (trained)", "length 3 (selection)", "length 5 (test)", "length 8 (test)"]
    assert [axes.get_xlabel() for axes in panels] == ["cascade length"] * 4
    assert panels[0].get_ylabel() == "exact_match_cascade (raw), median over seeds"
    wide = {line.get_linewidth(): line for line in panels[-1].lines}
    assert sorted(line.get_linewidth() for line in panels[-1].lines) == [0.5, 0.5, 0.5, 1.6, 2.4]
    assert (wide[2.4].get_color(), wide[1.6].get_color()) == PALETTE[:2]
    best = [p for p in family_points(result, "cascade") if p.config_id == result.rows[0].config_id and p.length == 8]
    assert list(wide[2.4].get_xdata()) == [0, 1, 3] and list(wide[2.4].get_ydata()) == [p.median for p in best]
    assert list(panels[0].lines[-1].get_xdata()) == [0, 1]  # no sum of two digits has a cascade of 3
    assert len(panels[0].collections) == 1 and panels[0].get_yscale() == "linear"
    (legend,) = drawn["family-cascade.png"].legends
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["score", "1.", "2."]


def test_of_many_configurations_the_first_have_the_colours_of_the_comparison(tmp_path, sweep, drawn):
    values = [{"training.learning_rate": 1e-3 + n * 1e-4} for n in range(11)]
    result = sweep(tmp_path / "m", values, 1)
    family_figures(result, tmp_path)
    colours = [line.get_color() for line in drawn["family-cascade.png"].axes[0].lines if line.get_linewidth() != 0.5]
    assert colours.count(GREY) == 6 and colours[-1] == PALETTE[0] and set(colours) == {GREY, *PALETTE[:5]}


def test_configurations_may_measure_different_members_of_a_family(tmp_path, sweep, drawn):
    values = [{"task.measured_cascades": [0, 1]}, {"task.measured_cascades": [1, 2]}, {"task.measured_cascades": []}]
    result = sweep(tmp_path / "d", values, 1)
    family_figures(result, tmp_path)
    lines = [
        line
        for line in drawn["family-cascade.png"].axes[-1].lines
        if line.get_linewidth() > 1 and len(line.get_xdata())
    ]
    assert sorted(tuple(line.get_xdata()) for line in lines) == [(0, 1), (1, 2)]
    assert {line["index"] for line in family_lines(result) if line["family"] == "cascade"} == {0, 1, 2}


@pytest.mark.parametrize(
    ("trained", "selection", "test", "present", "chosen"),
    [
        (range(1, 6), [8, 10], range(11, 21), range(1, 21), (5, 8, 15, 20)),
        (range(1, 6), [20], range(6, 20), range(1, 21), (5, 6, 13, 19)),  # the longest test length, though not the last
        (range(1, 6), [8], [40], [1, 2, 8, 40], (2, 8, 40)),
        (range(1, 6), [8], [40, 50], [3, 40], (3, 40)),  # no number at 50
        (range(1, 6), [8], [40], [1, 2], (2,)),
        (range(1, 6), [5], range(6, 12), range(1, 12), (4, 5, 8, 11)),
        ([], [8], [9, 10, 11, 12], range(8, 13), (8, 9, 11, 12)),
    ],
)
def test_lengths_of_the_panels(trained, selection, test, present, chosen):
    every = tuple(sorted({*trained, *selection, *test}))
    groups = LengthGroups(every=every, trained=tuple(trained), selection=tuple(selection), test=tuple(test))
    assert few_lengths(groups, present) == chosen


def test_the_report_has_the_figures_and_the_table(tmp_path, sweep):
    result = sweep(tmp_path / "r")
    page, _ = write_report(result.folder)
    assert "Families of metrics" in page.read_text() and 'alt="family-cascade"' in page.read_text()
    with (result.folder / "families.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["config_id", "family", "index", "length", "median", "q25", "q75", "seeds"]
    assert len(lines) == 2 * (2 * 8 + 8 + 8 + 6) and {line["family"] for line in lines} == {"digit", "cascade"}
    assert lines == [{key: str(value) for key, value in line.items()} for line in family_lines(result)]
    out = Console(file=io.StringIO(), width=200, color_system=None)
    out.print(render_terminal(result, full=True))
    assert str(result.folder / "figures" / "family-cascade.png") in out.file.getvalue()


def test_a_task_without_families_has_neither(tmp_path, small_sweep):
    result = summary(small_sweep)
    write_report(result.folder, result)
    assert family_figures(result, tmp_path) == () and not (result.folder / "families.csv").exists()
    assert not list((result.folder / "figures").glob("family-*"))


def test_a_seed_whose_objective_is_absent_at_some_lengths_has_not_failed(tmp_path, sweep):
    result = sweep(tmp_path / "o", **{"objective.metric": "exact_match_cascade_3"})
    points = family_points(result, "cascade")
    assert points and {point.counted for point in points} == {3} and all(math.isfinite(p.median) for p in points)
