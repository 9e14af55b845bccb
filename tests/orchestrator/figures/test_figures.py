"""Figures show the medians, bands and seeds of the ledger; the same input gives the same bytes."""

import math

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr

from orchestrator.figures import curves as figures
from orchestrator.figures import drawing
from orchestrator.figures import hyperparameters as hyperparameter_figures
from orchestrator.figures.curves import comparison_figure, configuration_figure, consecutive_runs, draw_all
from orchestrator.figures.hyperparameters import score_figures
from orchestrator.results.summary import summary
from orchestrator.wording import compact_value, printable, short_keys, three_digits

SPACE = {
    "training.learning_rate": {"log_uniform": [1e-4, 1e-2]},
    "training.batch_size": {"choice": [16, 32]},
    "training.averages.ema.decay": {"one_minus_log_uniform": [0.9, 0.9999]},
}


def draws(count):
    return [
        {
            "training.learning_rate": 10.0 ** -(4 - 2 * n / max(count - 1, 1)),
            "training.batch_size": 16 << n % 2,
            "training.averages.ema.decay": 1 - 10.0 ** -(1 + n / 8),
        }
        for n in range(count)
    ]


@pytest.fixture
def drawn(monkeypatch):
    """The figures as matplotlib objects, by file name, instead of as files."""
    found = {}

    def keep(path, draw, *facts):
        found[path.name] = draw()
        return path

    monkeypatch.setattr(drawing, "save", keep)
    return found


@pytest.fixture
def eleven(tmp_path, synthetic_sweep, simple_curve):
    """Eleven configurations of four seeds; number 0 lost one seed, number 3 all of them."""
    failed = {(0, 1): 50, **{(3, seed): 50 for seed in range(4)}}
    return summary(synthetic_sweep(tmp_path / "eleven", draws(11), 4, simple_curve, failed, spec={"space": SPACE}))


def test_comparison_draws_median_band_and_seeds(small_sweep, drawn, tmp_path):
    result = summary(small_sweep)
    comparison_figure(result, tmp_path / "comparison.png")
    (axes,) = drawn["comparison.png"].axes
    curves = small_sweep.curves(final_only=True)
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
    assert header == ["score", "norm", "batch", "lr"]
    assert lines[0] == ["1.", three_digits(result.rows[0].score), "none", "16", "0.0001"]
    assert len(lines) == 6


def test_many_configurations_leave_the_rest_grey(eleven, drawn, tmp_path):
    comparison_figure(eleven, tmp_path / "comparison.png")
    (axes,) = drawn["comparison.png"].axes
    grey = [line for line in axes.lines if line.get_color() == figures.GREY]
    assert len(grey) == 6  # eleven, less the five best; the one that failed has no line worth its name
    assert sum(np.isfinite(line.get_ydata()).any() for line in grey) == 5
    assert drawn["comparison.png"].legends[0].get_texts()[-1].get_text() == "the other 6 configurations (medians)"


def test_configuration_figure_has_a_panel_for_each_metric_and_average(small_sweep, drawn, tmp_path):
    result = summary(small_sweep)
    row = next(row for row in result.rows if row.seeds_failed)
    configuration_figure(result, row, tmp_path / "one.png")
    panels = drawn["one.png"].axes
    assert [axes.get_ylabel() for axes in panels if axes.get_ylabel()] == ["total_variation", "invalid_mass", "margin"]
    assert [axes.get_title() for axes in panels[:2]] == ["ema", "raw"]
    assert "3 seeds, 1 failed" in drawn["one.png"].get_suptitle()


def test_score_axes_follow_the_domain(eleven, drawn, tmp_path):
    paths = score_figures(eleven, tmp_path)
    assert set(paths) == set(SPACE)
    rate, batch, decay = (drawn[paths[key].name].axes[0] for key in SPACE)
    assert rate.get_xscale() == "log" and batch.get_xscale() == "linear"
    assert [label.get_text() for label in batch.get_xticklabels()] == ["16", "32"]
    left, right = decay.get_xlim()
    assert decay.get_xscale() == "log" and left > right  # distance to one falls, the decay grows to the right
    decays = [1 - line.get_xdata()[0] for line in decay.lines if line.get_marker() == "o"]
    others = [row for row in eleven.rows if row.rank != 1 and not row.failed]
    assert sorted(decays) == pytest.approx(sorted(row.values["training.averages.ema.decay"] for row in others))
    assert decay.xaxis.get_major_formatter()(0.001, 0) == "0.999"


def test_score_title_has_the_rank_correlation_of_statistics(eleven, drawn, tmp_path):
    paths = score_figures(eleven, tmp_path)
    effect = next(effect for effect in eleven.effects if effect.key == "training.learning_rate")
    title = drawn[paths[effect.key].name].axes[0].get_title(loc="left")
    assert title == f"rank correlation {effect.correlation:+.2f}, 95 % [{effect.low:.2f}, {effect.high:.2f}], n = 11"
    rates = [row.values["training.learning_rate"] for row in eleven.rows]
    scores = [row.score for row in eleven.rows]  # infinite where every seed failed: the largest rank
    assert effect.correlation == pytest.approx(spearmanr(rates, scores).statistic)


def test_failed_configurations_stand_at_the_edge_and_the_best_is_a_star(eleven, drawn, tmp_path):
    paths = score_figures(eleven, tmp_path)
    axes = drawn[paths["training.learning_rate"].name].axes[0]
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    failed = next(row for row in eleven.rows if row.failed)
    assert [line.get_xdata()[0] for line in crosses] == [failed.values["training.learning_rate"]]
    assert crosses[0].get_ydata() == [hyperparameter_figures.FAILED_EDGE]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in stars] == [
        (eleven.rows[0].values["training.learning_rate"], eleven.rows[0].score)
    ]


def test_files_are_deterministic_and_drawn_only_when_something_changed(small_sweep, tmp_path, monkeypatch):
    result = summary(small_sweep)
    first = comparison_figure(result, tmp_path / "a" / "comparison.png")
    second = comparison_figure(result, tmp_path / "b" / "comparison.png")
    assert first.read_bytes() == second.read_bytes()
    with Image.open(first) as image:
        assert image.size[0] == 1200
    drawings = []
    original = figures.Figure
    monkeypatch.setattr(figures, "Figure", lambda *args, **kwargs: drawings.append(1) or original(*args, **kwargs))
    comparison_figure(result, first)
    assert not drawings
    figures.comparison_figure(figures.replace(result, rows=result.rows[:5]), first)
    assert drawings and first.read_bytes() != second.read_bytes()
    assert [path.name for path in first.parent.iterdir()] == ["comparison.png"]


def test_a_damaged_figure_is_drawn_again(small_sweep, tmp_path):
    result = summary(small_sweep)
    path = comparison_figure(result, tmp_path / "comparison.png")
    whole = path.read_bytes()
    path.write_bytes(b"no picture")
    assert comparison_figure(result, path).read_bytes() == whole


@pytest.mark.parametrize("name", ["$x_1$ & \\alpha", "長さ sweep", "naïve – Ω", "50% {a}"])
def test_any_name_can_be_drawn(tmp_path, synthetic_sweep, simple_curve, name):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / name, values, 1, simple_curve))
    drawn = draw_all(result, result.folder / "figures")
    assert drawn.comparison is not None and drawn.comparison.stat().st_size > 10_000
    assert drawn.scores["model.norm"].exists()


def test_nothing_finished_means_nothing_drawn(tmp_path, synthetic_sweep, simple_curve):
    result = summary(synthetic_sweep(tmp_path / "begun", draws(2), 2, simple_curve, ended=False))
    assert draw_all(result, tmp_path / "figures") == figures.Drawn(comparison=None, scores={})


def test_a_sweep_whose_every_seed_failed_is_drawn(tmp_path, synthetic_sweep, simple_curve):
    failed = {(n, seed): 10 for n in range(2) for seed in range(2)}
    result = summary(synthetic_sweep(tmp_path / "lost", draws(2), 2, simple_curve, failed))
    drawn = draw_all(result, tmp_path / "figures")
    configuration_figure(result, result.rows[0], tmp_path / "figures" / "one.png")
    assert drawn.comparison is not None and set(drawn.scores) == set(SPACE)


def test_log_axis_when_values_span_decades():
    assert drawing.spans_decades(np.array([1e-4, 1e-2, math.nan, math.inf]))
    assert not drawing.spans_decades(np.array([0.1, 0.9]))
    assert not drawing.spans_decades(np.array([-1e-4, 1e-2]))
    assert not drawing.spans_decades(np.array([0.0, 0.0, 1e-4, 1e-2]))


def label_boxes(figure):
    """The boxes of the visible tick labels of every axis, minor ones too."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [
                tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if low <= tick.get_loc() <= high
            ]
            labels = [tick.label1 for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]
            yield axis, [label.get_window_extent() for label in labels]


@pytest.mark.parametrize(("low", "high"), [(1e-4, 1e-2), (2e-4, 9e-4), (3.1e-4, 3.9e-4), (1e-12, 1e3), (1e-5, 4e-4)])
def test_labels_of_log_axes_never_overlap(tmp_path, synthetic_sweep, drawn, low, high):
    def curve(number, seed, average, metric, lengths, step):
        return np.full(len(lengths), 10.0 ** -(number % 4))

    rates = np.geomspace(low, high, 8).tolist()
    values = [{"training.learning_rate": x, "training.averages.ema.decay": 1 - min(x, 0.5)} for x in rates]
    if high > 1:
        values = [{"training.learning_rate": x} for x in rates]
    space = {"training.learning_rate": {"log_uniform": [low, high]}}
    space["training.averages.ema.decay"] = {"one_minus_log_uniform": [0.9, 0.9999]}
    result = summary(synthetic_sweep(tmp_path / "log", values, 1, curve, spec={"space": space}))
    for path in score_figures(result, tmp_path).values():
        for axis, boxes in label_boxes(drawn[path.name]):
            assert boxes, f"{axis.axis_name} axis without labels"
            assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_runs_of_lengths():
    assert consecutive_runs((1, 2, 4), (1, 2, 3, 4)) == [(1, 2), (4, 4)]
    assert consecutive_runs((10, 20), (5, 10, 20, 40)) == [(10, 20)]
    assert consecutive_runs((), (1, 2)) == []


def test_words():
    keys = ["training.learning_rate", "training.averages.ema.decay", "training.averages.bema.decay", "model.dropout"]
    assert list(short_keys(keys).values()) == ["lr", "ema.decay", "bema.decay", "dropout"]
    assert list(short_keys(["task.width", "model.width"]).values()) == ["task.width", "model.width"]
    assert [compact_value(v) for v in (0.00316227, 0.99951, 0.99, True, None, 64, 1e-5, [1, 2])] == [
        "0.00316", "0.9995", "0.99", "true", "null", "64", "1e-5", "[1, 2]"
    ]  # fmt: skip
    numbers = {0.019: "0.0190", 1.0: "1.00", 123.4: "123", None: "-", math.nan: "-", math.inf: "inf"}
    assert [three_digits(number) for number in numbers] == list(numbers.values())
    assert printable("$長") == r"\$□"
