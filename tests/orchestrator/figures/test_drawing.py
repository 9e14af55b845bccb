"""Figures are files that are drawn when their data or any code behind them changed, and their axes can be read."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from orchestrator.figures import drawing
from orchestrator.figures.on_axes import plot_curves
from orchestrator.results.make_summary import summarize
from orchestrator.statistics.decades import are_curves_logarithmic, is_geometric, spans_decades


@pytest.fixture
def saved(tmp_path):
    """Saves one small figure of given facts, and says whether it was drawn."""

    def save(*facts):
        drawings = []
        drawing.save_figure(tmp_path / "one.png", lambda: drawings.append(1) or Figure(figsize=(1, 1)), *facts)
        return bool(drawings)

    return save


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package's sources that figures are said to be drawn by; each look reads them anew."""
    copy = tmp_path / "orchestrator"
    shutil.copytree(drawing.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(drawing, "PACKAGE", copy)
    monkeypatch.setattr(drawing, "compute_source_digest", drawing.compute_source_digest.__wrapped__)
    return copy


def test_keys_that_differ_have_figures_of_their_own():
    assert drawing.file_name("training.averages.ema_2.decay") == "training.averages.ema_2.decay"
    names = [drawing.file_name(f"training.averages.{label}.decay") for label in ("ä", "ö", "平均", "_", "a b", "a/b")]
    assert len(set(names)) == len(names) and all(name.isascii() and "/" not in name for name in names)
    assert names[0] == "training.averages._.decay-139e81"


def test_a_figure_is_drawn_again_when_any_source_behind_it_has_changed(saved, sources):
    assert saved("fact") and not saved("fact")
    counted = ("results/scoring/length_groups.py", "text/wording.py")
    modules = [*sources.glob("figures/**/*.py"), *(sources / path for path in counted)]
    assert {path.stem for path in modules} >= {"drawing", "on_axes", "effects", "wording"}
    for path in modules:
        content = bytearray(path.read_bytes())
        content[-2] ^= 1
        path.write_bytes(content)
        assert saved("fact"), f"{path.name} has changed, and the figure has not been drawn again"
        assert not saved("fact")
    (sources / "figures" / "effects.py").rename(sources / "figures" / "lines.py")
    assert saved("fact")
    (sources / "running" / "driving" / "driver.py").write_text("")
    assert not saved("fact")


def test_a_figure_is_drawn_again_when_the_module_that_asks_for_it_has_changed(sources, tmp_path):
    drawings, module = [], tmp_path / "elsewhere.py"
    for text, drawn in (("1", 1), ("1", 1), ("2", 2)):
        module.write_text(f"def draw():\n    drawings.append({text})\n    return Figure(figsize=(1, 1))\n")
        names = {"drawings": drawings, "Figure": Figure}
        exec(compile(module.read_text(), module, "exec"), names)
        drawing.save_figure(tmp_path / "one.png", names["draw"], "fact")
        assert len(drawings) == drawn


def test_log_axis_of_values_in_equal_ratios():
    for values in ([0.001, 0.003, 0.01, 0.03], [1, 2, 4, 8], [16, 64, 256]):
        assert is_geometric(np.array(values, dtype=float))
    for values in ([0.0, 0.1, 1.0], [1, 2, 3, 4], [0.1, 0.9], [0.5, 0.5, 0.5], [-1.0, 1.0, 10.0]):
        assert not is_geometric(np.array(values, dtype=float))


def test_log_axis_when_values_span_decades():
    assert spans_decades(np.array([1e-4, 1e-2, math.nan, math.inf]))
    assert not spans_decades(np.array([0.1, 0.9]))
    assert not spans_decades(np.array([-1e-4, 1e-2]))
    assert not spans_decades(np.array([0.0, 0.0, 1e-4, 1e-2]))


@pytest.mark.parametrize(
    ("values", "is_log"), [([1e-4, 0.02, 0.09], True), ([1e-4, 0.02, 0.5], False), ([1e-4, 0.02, 1.5], True)]
)
def test_curves_of_rates_have_a_linear_axis_once_some_are_large(values, is_log):
    assert are_curves_logarithmic("auto", "minimize", np.array([*values, math.nan, math.inf])) == is_log
    assert are_curves_logarithmic("log", "minimize", np.array(values))


def accuracy(number, seed, average, metric, lengths, step):
    return np.clip(1.2 - 0.15 * lengths - 0.1 * number, 0.0, 1.0) + 0.001 * (lengths == 9)


@pytest.mark.parametrize(("direction", "shown"), [("maximize", "linear"), ("minimize", "log")])
def test_what_is_maximized_is_linear_from_0_to_1(tmp_path, synthetic_sweep, direction, shown):
    """Medians from 1 to 0.001 and 0: as errors they span decades, as accuracies zeros would be walls."""
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summarize(synthetic_sweep(tmp_path / "s", values, 2, accuracy, spec={"objective.direction": direction}))
    if direction == "minimize":  # without the zeros, which are no errors that span decades
        bands = {key: replace(band, median=tuple(v + 0.001 for v in band.median)) for key, band in result.bands.items()}
        result = replace(result, bands=bands)
    axes = plot_curves(result, Figure().subplots())
    assert axes.get_yscale() == shown and (axes.get_ylim() == drawing.SHARE_LIMITS) == (direction == "maximize")


def test_a_logarithmic_axis_shows_zeros_at_its_foot():
    axes = Figure().subplots()
    values = np.array([0.0, 2e-4, 0.03, 0.2, 0.9, 2.0, math.nan])
    axes.plot(values, "o")
    drawing.scale_values(axes, "auto", "minimize", values)
    heights = [axes.transAxes.inverted().transform(axes.transData.transform((0, value)))[1] for value in values[:-1]]
    assert 0 < heights[0] < 0.1 and np.all(np.diff(heights) > 0.05)
