"""Scores against a hyperparameter: axes by its domain, every configuration, the statistics in the title."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from orchestrator.figures.drawing import CROSS_HEIGHT
from orchestrator.figures.effects import draw_effect
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize


def drawn(result, key):
    """The axes with the effect of a key."""
    axes = Figure().subplots()
    draw_effect(result, key, axes)
    return axes


KEYS = ("training.learning_rate", "training.batch_size", "training.averages.ema.decay")


def test_score_axes_follow_the_domain(eleven):
    rate, batch, decay = (drawn(eleven, key) for key in KEYS)
    assert rate.get_xscale() == "log" and batch.get_xscale() == "linear"
    assert [label.get_text() for label in batch.get_xticklabels()] == ["16", "32"]
    left, right = decay.get_xlim()
    assert decay.get_xscale() == "log" and left > right  # distance to one falls, the decay grows to the right
    decays = [1 - x for line in decay.lines if line.get_marker() == "o" for x in line.get_xdata()]
    others = [row for row in eleven.rows if row.rank != 1 and not row.has_failed]
    assert sorted(decays) == pytest.approx(sorted(row.values["training.averages.ema.decay"] for row in others))
    assert decay.xaxis.get_major_formatter()(0.001, 0) == "0.999"


def test_score_title_has_the_rank_correlation_of_statistics(eleven):
    effect = next(effect for effect in compute_score_effects(eleven) if effect.key == "training.learning_rate")
    title = drawn(eleven, effect.key).get_title(loc="left")
    interval = f"95 % [{effect.low:.2f}, {effect.high:.2f}]"
    assert title == f"rank correlation {effect.correlation:+.2f}, {interval}, n = 11 configurations"
    rates = [row.values["training.learning_rate"] for row in eleven.rows]
    scores = [row.score for row in eleven.rows]  # infinite where every seed failed: the largest rank
    assert effect.correlation == pytest.approx(spearmanr(rates, scores).statistic)


def test_failed_configurations_stand_at_the_edge_and_the_best_is_a_star(eleven):
    axes = drawn(eleven, "training.learning_rate")
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x"]
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    failed = next(row for row in eleven.rows if row.has_failed)
    assert crosses.get_xdata() == [failed.values["training.learning_rate"]] and crosses.get_ydata() == [CROSS_HEIGHT]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in stars] == [
        (eleven.rows[0].values["training.learning_rate"], eleven.rows[0].score)
    ]


def test_a_listed_configuration_that_leaves_a_key_out_is_drawn_at_its_fixed_value(
    tmp_path, synthetic_sweep, simple_curve
):
    values = [{"model.dropout": 0.1}, {"model.dropout": 0.2, "model.norm": "pre"}, {"model.norm": "post"}]
    spec = {"search.sampler": "listed", "search.listed": values}
    result = summarize(synthetic_sweep(tmp_path / "listed", values, 6, simple_curve, spec=spec))
    axes = drawn(result, "model.norm")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "post", "pre"]


def test_zeros_of_a_list_are_drawn_among_values_and_scores_that_span_decades(tmp_path, synthetic_sweep):
    """The first by score has the value 0, the last one failed, and one score is 0."""

    def curve(number, seed, average, metric, lengths, step):
        return np.full(len(lengths), 0.0 if number == 0 else 10.0**-number)

    values = [{"training.weight_decay": decay} for decay in (0.0, 0.1, 0.01, 0.001, 0.0001, 0.3)]
    spec = {"search.sampler": "listed", "search.listed": values}
    failed = {(5, seed): 50 for seed in range(2)}
    result = summarize(synthetic_sweep(tmp_path / "zeros", values, 2, curve, failed, spec=spec))
    axes = drawn(result, "training.weight_decay")
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[0.0, 0.0]]
    points = np.concatenate([line.get_xydata() for line in axes.lines if line.get_marker() in "o*"])
    places = axes.transAxes.inverted().transform(axes.transData.transform(points))
    assert len(places) == 5 and np.all((places > 0) & (places < 1))
    assert np.all(np.diff(np.sort(places, axis=0), axis=0) > 0.1)  # not pressed together as on a linear axis
