"""Curves of configurations: the medians, bands and seeds of the ledger, groups of lengths, the legend."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from orchestrator.errors import UserError
from orchestrator.figures.bands import find_consecutive_runs, shade_groups
from orchestrator.figures.drawing import PALETTE
from orchestrator.figures.on_axes import plot_curves
from orchestrator.record.files.curves import read_curves
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.length_groups import LengthGroups


def test_curves_have_median_band_and_seeds(small_sweep):
    result = summarize(small_sweep)
    axes = plot_curves(result, Figure().subplots())
    curves = read_curves(small_sweep, final_only=True)
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    by_width = {width: [line for line in axes.lines if line.get_linewidth() == width] for width in (2.4, 1.6, 0.5)}
    assert [len(by_width[width]) for width in (2.4, 1.6, 0.5)] == [1, 5, 18]
    best = mine[mine["config_id"] == result.rows[0].config_id].pivot(index="seed", columns="length", values="value")
    (line,) = by_width[2.4]
    assert np.allclose(line.get_ydata(), np.median(best.to_numpy(float), axis=0))
    assert line.get_color() == PALETTE[0] and list(line.get_xdata()) == list(range(1, 12))
    band = next(c for c in axes.collections if np.allclose(c.get_facecolor()[0][:3], to_rgb(PALETTE[0])))
    assert band.get_datalim(axes.transData).y1 == pytest.approx(np.quantile(best.to_numpy(float), 0.75, axis=0).max())
    assert axes.get_xlabel() == "length" and "total_variation (ema)" in axes.get_ylabel()


def test_the_first_of_dashed_lines_is_wide_and_below_the_others(small_sweep):
    axes = plot_curves(summarize(small_sweep), Figure().subplots(), distinct_in_grey=True)
    medians = [line for line in axes.lines if line.get_linewidth() > 1]
    first = next(line for line in medians if line.get_color() == PALETTE[0])
    others = [line for line in medians if line is not first]
    assert len(others) == 5 and all(line.get_linestyle() != "-" for line in others) and first.get_linestyle() == "-"
    assert all(first.get_linewidth() > 2 * line.get_linewidth() for line in others)
    assert all(first.get_zorder() < line.get_zorder() for line in others)


def test_trained_lengths_are_shaded_and_those_of_selection_marked(small_sweep):
    axes = plot_curves(summarize(small_sweep), Figure().subplots())
    spans = [(patch.get_x(), patch.get_x() + patch.get_width(), patch.get_hatch()) for patch in axes.patches]
    assert spans == [(0.5, 5.5, None), (5.5, 7.5, "////")]
    places = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert places == {"trained": 3, "selection": 6.5, "test": 9.5}


@pytest.mark.parametrize("inches", [6.4, 3.3])
def test_names_of_lengths_do_not_run_together(inches):
    lengths = tuple(range(1, 20))  # those of the quickstart
    figure = Figure(figsize=(inches, 2.4), layout="constrained")
    axes = figure.subplots()
    groups = LengthGroups(evaluated=lengths, trained=lengths[:5], selection=lengths[5:7], test=lengths[7:])
    shade_groups(axes, groups, labels=True)
    axes.set(xlim=(0.5, 19.5), ylabel="total variation (ema),\nmedian over seeds")
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent().x0, text.get_window_extent().x1) for text in axes.texts)
    assert [text.get_text() for text in axes.texts] == ["trained", "selection", "test"]
    centres = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_ha() == "center"}
    assert centres == {"trained": 3, "selection": 6.5, "test": 13.5}, "each above its lengths"
    assert all(end + 5 < begin for (_, end), (begin, _) in itertools.pairwise(boxes)), boxes


def test_nothing_finished_means_nothing_to_draw(tmp_path, synthetic_sweep, simple_curve, draws):
    result = summarize(synthetic_sweep(tmp_path / "begun", draws(2), 2, simple_curve, ended=False))
    with pytest.raises(UserError, match="no configuration has all its seeds yet"):
        plot_curves(result, Figure().subplots())


def test_runs_of_lengths():
    assert find_consecutive_runs((1, 2, 4), (1, 2, 3, 4)) == [(1, 2), (4, 4)]
    assert find_consecutive_runs((10, 20), (5, 10, 20, 40)) == [(10, 20)]
    assert find_consecutive_runs((), (1, 2)) == []
