"""Measured against predicted: which points, and that figures know pairs and no task."""

import math

import numpy as np
import pytest

from orchestrator.figures.by_hyperparameter import pairs as pair_figures
from orchestrator.figures.by_hyperparameter.pairs import PairPoint, pair_points
from orchestrator.results.summarise import summary


def margins(number, seed, average, metric, lengths, step):
    """The measured margin is twice the bound beyond length 5; the ema's are those that count."""
    if metric not in ("margin_min", "margin_bound"):
        return 0.1 + 0.01 * number
    bound = (2.0 + number + 0.1 * seed) / lengths
    value = bound * np.where(lengths > 5, 2.0, 1.0) if metric == "margin_min" else bound
    return value if average == "ema" else -value


def test_one_point_for_each_configuration_and_length(tmp_path, synthetic_sweep, drawn):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / "m", values, 3, margins))
    assert result.pairs == (("margin_min", "margin_bound"),)
    points = pair_points(result, "margin_min", "margin_bound")
    assert len(points) == 2 * 11
    first = result.rows[0]
    assert points[0] == PairPoint(first.config_id, 1, pytest.approx(2.1), pytest.approx(2.1), True)
    at_eight = next(point for point in points if point.length == 8 and point.config_id == first.config_id)
    assert (at_eight.predicted, at_eight.measured) == (pytest.approx(2.1 / 8), pytest.approx(4.2 / 8))
    assert not at_eight.trained
    (path,) = pair_figures.pair_figures(result, tmp_path)
    axes = drawn[path.name].axes[0]
    assert "12 of 12 points are on or above equality" in axes.get_title(loc="left")
    (line,) = axes.lines
    assert list(line.get_xdata()) == list(line.get_ydata())
    assert [len(dots.get_offsets()) for dots in axes.collections] == [10, 12]
    assert sorted(set(axes.collections[1].get_array().tolist())) == [6, 7, 8, 9, 10, 11]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("margin_bound (predicted)", "margin_min (measured)")


def test_points_without_a_number_are_left_out_and_without_points_there_is_no_figure(tmp_path, synthetic_sweep):
    def unknown(number, seed, average, metric, lengths, step):
        value = margins(number, seed, average, metric, lengths, step)
        return np.full(len(lengths), math.nan) if metric == "margin_bound" and number else value

    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / "n", values, 2, unknown))
    assert {point.config_id for point in pair_points(result, "margin_min", "margin_bound")} == {
        row.config_id for row in result.rows if row.number == 0
    }
    assert pair_points(result, "margin_min", "absent") == []
    assert len(pair_figures.pair_figures(result, tmp_path)) == 1
    lost = {(n, seed): 10 for n in range(2) for seed in range(2)}
    assert pair_figures.pair_figures(summary(synthetic_sweep(tmp_path / "l", values, 2, unknown, lost)), tmp_path) == ()
