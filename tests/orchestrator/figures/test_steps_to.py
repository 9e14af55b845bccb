"""Steps until a threshold was reached against a searched number: the scale of their axis."""

import math
from dataclasses import replace

import pytest

from orchestrator.figures.steps_to import steps_figure
from orchestrator.results.summarise import summary
from orchestrator.results.views.steps_to import Reached, StepsTo
from orchestrator.statistics.quartiles import Quartiles


@pytest.fixture
def reached():
    """Steps at two learning rates; one of three seeds never reached the threshold at the second."""
    points = [
        Reached((), 0.001, Quartiles(250.0, 300.0, 350.0), (200.0, 300.0, 400.0), 0),
        Reached((), 0.002, Quartiles(150.0, 200.0, math.inf), (100.0, 200.0, math.inf), 0),
    ]
    return StepsTo("steps_to_accuracy", "training.learning_rate", (), tuple(points))


@pytest.mark.parametrize(("scale", "shown"), [("auto", "log"), ("log", "log"), ("linear", "linear")])
def test_steps_are_on_a_logarithmic_axis_unless_it_shall_be_linear(small_sweep, drawn, reached, tmp_path, scale, shown):
    steps_figure(replace(summary(small_sweep), scale=scale), reached, tmp_path / "steps.png")
    axes = drawn["steps.png"].axes[0]
    low, high = axes.get_ylim()
    assert axes.get_yscale() == shown and low < 100 and high > 400 and (low == 0) == (scale == "linear")


def test_another_scale_draws_them_again(small_sweep, reached, tmp_path):
    result = summary(small_sweep)
    path = steps_figure(result, reached, tmp_path / "steps.png")
    before = path.read_bytes()
    assert steps_figure(replace(result, scale="linear"), reached, path).read_bytes() != before
