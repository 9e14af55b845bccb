"""Figures are files that are drawn when their data or any code behind them changed, and their axes can be read."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from orchestrator.errors import UserError
from orchestrator.figures import curves as figures
from orchestrator.figures import drawing
from orchestrator.figures.by_hyperparameter.hyperparameters import score_figures
from orchestrator.figures.curves import comparison_figure, draw_all
from orchestrator.figures.on_axes import plot_curves
from orchestrator.figures.panels import arrange_panels
from orchestrator.results.summarise import summary
from orchestrator.statistics.decades import spans_decades


@pytest.fixture
def saved(tmp_path):
    """Saves one small figure of given facts, and says whether it was drawn."""

    def save(*facts):
        drawings = []
        drawing.save(tmp_path / "one.png", lambda: drawings.append(1) or Figure(figsize=(1, 1)), *facts)
        return bool(drawings)

    return save


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package's sources that figures are said to be drawn by; each look reads them anew."""
    copy = tmp_path / "orchestrator"
    shutil.copytree(drawing.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(drawing, "PACKAGE", copy)
    monkeypatch.setattr(drawing, "digest_of_sources", drawing.digest_of_sources.__wrapped__)
    return copy


def test_keys_that_differ_have_figures_of_their_own():
    assert drawing.file_name("training.averages.ema_2.decay") == "training.averages.ema_2.decay"
    names = [drawing.file_name(f"training.averages.{label}.decay") for label in ("ä", "ö", "平均", "_", "a b", "a/b")]
    assert len(set(names)) == len(names) and all(name.isascii() and "/" not in name for name in names)
    assert names[0] == "training.averages._.decay-139e81"


def test_a_figure_is_drawn_again_when_any_source_behind_it_has_changed(saved, sources):
    assert saved("fact") and not saved("fact")
    counted = ("results/scoring/length_groups.py", "wording.py")
    modules = [*sources.glob("figures/**/*.py"), *(sources / path for path in counted)]
    assert {path.stem for path in modules} >= {"legend", "drawing", "curves", "hyperparameters", "wording"}
    for path in modules:
        content = bytearray(path.read_bytes())
        content[-2] ^= 1
        path.write_bytes(content)
        assert saved("fact"), f"{path.name} has changed, and the figure has not been drawn again"
        assert not saved("fact")
    (sources / "figures" / "curves.py").rename(sources / "figures" / "lines.py")
    assert saved("fact")
    (sources / "running" / "driving" / "driver.py").write_text("")
    assert not saved("fact")


def test_a_figure_is_drawn_again_when_the_module_that_asks_for_it_has_changed(sources, tmp_path):
    drawings, module = [], tmp_path / "elsewhere.py"
    for text, drawn in (("1", 1), ("1", 1), ("2", 2)):
        module.write_text(f"def draw():\n    drawings.append({text})\n    return Figure(figsize=(1, 1))\n")
        names = {"drawings": drawings, "Figure": Figure}
        exec(compile(module.read_text(), module, "exec"), names)
        drawing.save(tmp_path / "one.png", names["draw"], "fact")
        assert len(drawings) == drawn


def test_the_sources_are_read_once_in_a_process(saved, monkeypatch):
    assert saved("fact")
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    assert not saved("fact") and saved("other fact")


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


@pytest.mark.parametrize("change", [{"status": "running"}, {"planned": 12}])
def test_a_comparison_is_drawn_again_when_its_title_has_changed(small_sweep, tmp_path, change):
    result = replace(summary(small_sweep), finished=False, status="interrupted")
    path = comparison_figure(result, tmp_path / "comparison.png")
    before = path.read_bytes()
    assert comparison_figure(replace(result, **change), path).read_bytes() != before


def test_a_damaged_figure_is_drawn_again(small_sweep, tmp_path):
    result = summary(small_sweep)
    path = comparison_figure(result, tmp_path / "comparison.png")
    whole = path.read_bytes()
    path.write_bytes(b"no picture")
    assert comparison_figure(result, path).read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$x_1$ & \\alpha", "長さ sweep", "naïve – Ω", "50% {a}"])
def test_any_name_can_be_drawn(tmp_path, synthetic_sweep, simple_curve, name):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / name, values, 1, simple_curve))
    drawn = draw_all(result, result.folder / "figures")
    assert drawn.comparison is not None and drawn.comparison.stat().st_size > 10_000
    assert drawn.scores["model.norm"].exists()


def test_log_axis_when_values_span_decades():
    assert spans_decades(np.array([1e-4, 1e-2, math.nan, math.inf]))
    assert not spans_decades(np.array([0.1, 0.9]))
    assert not spans_decades(np.array([-1e-4, 1e-2]))
    assert not spans_decades(np.array([0.0, 0.0, 1e-4, 1e-2]))


def accuracy(number, seed, average, metric, lengths, step):
    return np.clip(1.2 - 0.15 * lengths - 0.1 * number, 0.0, 1.0) + 0.001 * (lengths == 9)


@pytest.mark.parametrize(
    ("direction", "scale", "shown"), [("maximize", "auto", "linear"), ("maximize", "log", "symlog"),
                                      ("minimize", "auto", "log"), ("minimize", "linear", "linear")],
)  # fmt: skip
def test_what_is_maximized_is_linear_from_0_to_1_unless_asked(
    tmp_path, synthetic_sweep, drawn, direction, scale, shown
):
    """Medians from 1 to 0.001 and 0: as errors they span decades, as accuracies zeros would be walls."""
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    spec = {"objective.direction": direction}
    result = replace(summary(synthetic_sweep(tmp_path / "s", values, 2, accuracy, spec=spec)), scale=scale)
    if direction == "minimize":  # without the zeros, which are no errors that span decades
        bands = {key: replace(one, median=tuple(v + 0.001 for v in one.median)) for key, one in result.bands.items()}
        result = replace(result, bands=bands)
    comparison_figure(result, tmp_path / "comparison.png")
    axes = drawn["comparison.png"].axes[0]
    assert axes.get_yscale() == shown
    if (direction, scale) == ("maximize", "auto"):
        assert axes.get_ylim() == drawing.SHARES
    axes = Figure().subplots()
    assert plot_curves(result, axes).get_yscale() == shown


def test_a_logarithmic_axis_shows_zeros_at_its_foot():
    axes = Figure().subplots()
    values = np.array([0.0, 2e-4, 0.03, 0.2, 0.9, 2.0, math.nan])
    axes.plot(values, "o")
    drawing.scale_values(axes, "auto", "minimize", values)
    heights = [axes.transAxes.inverted().transform(axes.transData.transform((0, value)))[1] for value in values[:-1]]
    assert 0 < heights[0] < 0.1 and np.all(np.diff(heights) > 0.05)


def test_another_scale_draws_a_figure_again_and_an_unknown_one_is_refused(small_sweep, tmp_path):
    path = comparison_figure(summary(small_sweep), tmp_path / "comparison.png")
    before = path.read_bytes()
    comparison_figure(replace(summary(small_sweep), scale="log"), path)
    assert path.read_bytes() != before
    with pytest.raises(UserError, match="--scale lin: did you mean linear"):
        drawing.check_scale("lin")


def label_boxes(figure):
    """The boxes of the visible tick labels of every axis, minor ones too."""
    arrange_panels(figure)
    figure.draw_without_rendering()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [
                tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if low <= tick.get_loc() <= high
            ]
            labels = [tick.label1 for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]
            yield axis, [label.get_window_extent() for label in labels]


@pytest.mark.slow
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


@pytest.mark.parametrize("count", [2, 4, 8])
def test_names_of_whole_sections_never_overlap(tmp_path, synthetic_sweep, simple_curve, drawn, count):
    positions = ["nope", "alibi", "tra", "fox", {"name": "fox", "qk_norm": True}, {"name": "cope", "npos_max": 64}]
    positions += [{"name": "rope", "base": 500_000, "qk_norm": normalised} for normalised in (False, True)]
    model = {"name": "decoder", "layers": 1, "width": 8, "heads": 1}
    values = [{"model": {**model, "position": position}} for position in positions[:count]]
    spec = {"search.sampler": "listed", "search.listed": values}
    result = summary(synthetic_sweep(tmp_path / "sections", values, 1, simple_curve, spec=spec))
    (path,) = score_figures(result, tmp_path).values()
    figure = drawn[path.name]
    for axis, boxes in label_boxes(figure):
        assert len(boxes) == count or axis.axis_name == "y"
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    for axes in figure.axes:
        label = axes.yaxis.label.get_window_extent()
        assert figure.bbox.y0 <= label.y0 and label.y1 <= figure.bbox.y1


@pytest.mark.slow
def test_nothing_of_an_arranged_figure_is_cut_and_no_panel_covers_a_label(eleven, drawn, tmp_path):
    draw_all(eleven, tmp_path)
    figures.configuration_figure(eleven, eleven.rows[0], tmp_path / "configuration.png")
    assert len(drawn) >= 5
    for name, figure in drawn.items():
        figure.set_dpi(150)
        boxes = [box for _, found in label_boxes(figure) for box in found]
        panels = [axes for axes in figure.axes if axes.get_visible()]
        texts = [text for axes in panels for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts)]
        texts += [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
        boxes += [text.get_window_extent() for text in texts if text.get_visible() and text.get_text()]
        whole = figure.bbox.padded(1)
        for box in boxes:
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, name
            assert not any(box.overlaps(axes.bbox.padded(-1)) for axes in panels), name


def test_names_are_drawn_as_they_are_and_never_as_mathematics():
    assert drawing.printable("$長\n") == r"\$□" + "\n"


@pytest.mark.parametrize(("others", "limited"), [([0.2, 1.0, math.inf], True), ([0.2, 3.0], False), ([-0.1], False)])
def test_an_axis_of_shares_hides_no_quartile_and_no_seed(others, limited):
    axes = Figure().subplots()
    drawing.scale_values(axes, "auto", "maximize", np.array([0.4, 0.6, math.nan]), others)
    assert (axes.get_ylim() == drawing.SHARES) == limited
