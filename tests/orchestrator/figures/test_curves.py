"""Curves of configurations: the medians, bands and seeds of the ledger, groups of lengths, the table of values."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from orchestrator.figures import curves as figures
from orchestrator.figures.bands import consecutive_runs, shade_groups
from orchestrator.figures.curves import comparison_figure, configuration_figure, draw_all
from orchestrator.record.kept.curves import read_curves
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.summarise import summary
from orchestrator.wording import three_digits


def test_comparison_draws_median_band_and_seeds(small_sweep, drawn, tmp_path):
    result = summary(small_sweep)
    comparison_figure(result, tmp_path / "comparison.png")
    (axes,) = drawn["comparison.png"].axes
    curves = read_curves(small_sweep, final_only=True)
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    by_width = {width: [line for line in axes.lines if line.get_linewidth() == width] for width in (2.4, 1.6, 0.5)}
    assert [len(by_width[width]) for width in (2.4, 1.6, 0.5)] == [1, 5, 18]
    best = mine[mine["config_id"] == result.rows[0].config_id].pivot(index="seed", columns="length", values="value")
    (line,) = by_width[2.4]
    assert np.allclose(line.get_ydata(), np.median(best.to_numpy(float), axis=0))
    assert line.get_color() == figures.PALETTE[0] and list(line.get_xdata()) == list(range(1, 12))
    band = next(c for c in axes.collections if tuple(np.round(c.get_facecolor()[0][:3], 4)) == (0, 0.4471, 0.698))
    assert band.get_datalim(axes.transData).y1 == pytest.approx(np.quantile(best.to_numpy(float), 0.75, axis=0).max())
    assert axes.get_xlabel() == "length" and "total_variation (ema)" in axes.get_ylabel()


def test_comparison_shades_trained_and_marks_selection(small_sweep, drawn, tmp_path):
    comparison_figure(summary(small_sweep), tmp_path / "comparison.png")
    (axes,) = drawn["comparison.png"].axes
    spans = [(patch.get_x(), patch.get_x() + patch.get_width(), patch.get_hatch()) for patch in axes.patches]
    assert spans == [(0.5, 5.5, None), (5.5, 7.5, "////")]
    assert {text.get_text(): text.get_position()[0] for text in axes.texts} == {
        "trained": 3,
        "selection": 6.5,
        "test": 9.5,
    }


def test_legend_is_a_table_of_searched_values(small_sweep, drawn, tmp_path):
    result = summary(small_sweep)
    comparison_figure(result, tmp_path / "comparison.png")
    (legend,) = drawn["comparison.png"].legends
    header, *lines = [text.get_text().split() for text in legend.get_texts()]
    assert header == ["rank", "score", "norm", "batch", "lr"]
    assert lines[0] == ["1.", f"#{result.rows[0].number}", three_digits(result.rows[0].score), "none", "16", "0.0001"]
    assert len(lines) == 6


def test_many_configurations_leave_the_rest_grey(eleven, drawn, tmp_path):
    comparison_figure(eleven, tmp_path / "comparison.png")
    (axes,) = drawn["comparison.png"].axes
    (grey,) = [
        one for one in axes.collections if isinstance(one, LineCollection) and list(one.get_linewidth()) == [0.7]
    ]
    lines = grey.get_segments()
    assert len(lines) == 6  # eleven, less the five best; the one that failed has no line worth its name
    assert sum(len(line) > 0 for line in lines) == 5
    assert drawn["comparison.png"].legends[0].get_texts()[-1].get_text() == "the other 6 configurations (medians)"


def test_configuration_figure_has_a_panel_for_each_metric_and_average(small_sweep, drawn, tmp_path):
    result = summary(small_sweep)
    row = next(row for row in result.rows if row.seeds_failed)
    configuration_figure(result, row, tmp_path / "one.png")
    panels = drawn["one.png"].axes
    assert [axes.get_ylabel() for axes in panels if axes.get_ylabel()] == ["total_variation", "invalid_mass", "margin"]
    assert [axes.get_title() for axes in panels[:2]] == ["ema", "raw"]
    assert "3 seeds, 1 failed" in drawn["one.png"].get_suptitle()


def test_nothing_finished_means_nothing_drawn(tmp_path, synthetic_sweep, simple_curve, draws):
    result = summary(synthetic_sweep(tmp_path / "begun", draws(2), 2, simple_curve, ended=False))
    assert draw_all(result, tmp_path / "figures") == figures.Drawn(comparison=None, scores={})


@pytest.mark.slow
def test_a_sweep_whose_every_seed_failed_is_drawn(tmp_path, synthetic_sweep, simple_curve, draws):
    failed = {(n, seed): 10 for n in range(2) for seed in range(2)}
    result = summary(synthetic_sweep(tmp_path / "lost", draws(2), 2, simple_curve, failed))
    drawn = draw_all(result, tmp_path / "figures")
    configuration_figure(result, result.rows[0], tmp_path / "figures" / "one.png")
    assert drawn.comparison is not None and set(drawn.scores) == set(draws(1)[0])


def test_a_configuration_without_curves_has_empty_panels(small_sweep, drawn, tmp_path):
    """Its pack died; what is published of it has a figure all the same."""
    result = summary(small_sweep)
    configuration_figure(replace(result, bands={}), result.rows[0], tmp_path / "one.png")
    assert drawn["one.png"].axes and not any(axes.get_visible() for axes in drawn["one.png"].axes)


def test_runs_of_lengths():
    assert consecutive_runs((1, 2, 4), (1, 2, 3, 4)) == [(1, 2), (4, 4)]
    assert consecutive_runs((10, 20), (5, 10, 20, 40)) == [(10, 20)]
    assert consecutive_runs((), (1, 2)) == []


def test_groups_in_the_same_place_share_a_label():
    axes = Figure().subplots()
    shade_groups(axes, LengthGroups(trained=(6,), selection=(6,), test=(8, 12, 16), every=(6, 8, 12, 16)), labels=True)
    assert {text.get_text(): text.get_position()[0] for text in axes.texts} == {"trained, selection": 6, "test": 12}
