"""How configurations came about, from ledgers of this and of earlier versions."""

import re
from pathlib import Path

import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.report.tables.effect_table import list_effect_notes
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.search_design import read_design

RELEASED = Path(__file__).parents[2] / "sweeps" / "1.0.0"
GRID = {"model.norm": {"grid": ["none", "pre"]}, "training.batch_size": {"grid": [8, 16]}}
RATE = {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}}


@pytest.mark.parametrize(
    ("name", "kind", "unit"),
    [
        ("finished", "random", "configurations"),
        ("grid", "fixed", "seeds"),
        ("kept_weights", "random", "configurations"),
        ("tpe", "adaptive", "configurations"),
        ("finished-confirm", "fixed", "seeds"),
    ],
)
def test_sweeps_of_earlier_versions(name: str, kind: str, unit: str) -> None:
    design = read_design(SweepState.load(RELEASED / name))
    assert (design.kind, design.unit) == (kind, unit)


def values_of(number: int) -> dict:
    norm, batch = [(norm, batch) for norm in ("none", "pre") for batch in (8, 16)][number % 4]
    return {"model.norm": norm, "training.batch_size": batch, "training.learning_rate": 0.001 * (1 + number // 4)}


def curve(number, seed, average, metric, lengths, step):
    """Every draw has its own level, the norm pre is worse by 0.1, and each seed is a little different."""
    return 0.1 + 0.05 * (number // 4 * 3 % 7) + 0.1 * (number % 4 > 1) + 0.001 * lengths + 0.002 * seed


def test_grid_points_of_a_draw_are_compared_in_the_report(tmp_path, synthetic_sweep):
    spec = {"space": {**GRID, **RATE}}
    state = synthetic_sweep(tmp_path / "crossed", [values_of(n) for n in range(32)], 2, curve, spec=spec)
    design = read_design(state)
    assert (design.kind, design.grid) == ("grid_by_random", frozenset(GRID))
    numbers = {name: configuration.number for name, configuration in state.configurations.items()}
    assert {name: number // 4 for name, number in numbers.items()} == design.draws
    result = summarize(state)
    assert {(effect.n, effect.unit) for effect in compute_score_effects(result)} == {(8, "draws")}
    (norm,) = (effect for effect in compute_score_effects(result) if effect.key == "model.norm")
    (difference,) = norm.differences
    ends = (difference.median, difference.low, difference.high)
    assert difference.value == "pre" and ends == pytest.approx((0.1, 0.1, 0.1)) and norm.test == "sign test"
    notes = " ".join(list_effect_notes(result))
    assert "Draws are counted" in notes and "by chance" in notes and "Kruskal" not in notes
    counts = re.findall(r"(\d+) of (\d+) do(?:es)? at the (\w+) lengths", notes)  # apart, as the page shows them
    assert [(group, shown) for _, shown, group in counts] == [("selection", "3"), ("test", "3")]


def test_one_draw_or_a_list_is_compared_over_seeds(tmp_path, synthetic_sweep):
    values = [{key: value for key, value in values_of(n).items() if key in GRID} for n in range(4)]
    for name, spec in (
        ("grid", {"space": GRID, "search.sampler": "grid"}),
        ("listed", {"search.sampler": "listed"}),
    ):
        result = summarize(synthetic_sweep(tmp_path / name, values, 7, curve, spec=spec))
        (norm,) = (effect for effect in compute_score_effects(result) if effect.key == "model.norm")
        (difference,) = norm.differences
        assert (result.design.kind, norm.n, norm.unit) == ("fixed", 7, "seeds")
        assert (difference.low, difference.high) == (pytest.approx(0.1), pytest.approx(0.1))
        assert "Seeds are counted" in " ".join(list_effect_notes(result))


def test_failed_seeds_count_as_the_policy_says(tmp_path, synthetic_sweep):
    values = [{key: value for key, value in values_of(n).items() if key in GRID} for n in range(4)]
    none = pytest.approx(float("nan"), nan_ok=True)
    for policy, expected in (("worst", [(6, float("inf"))]), ("exclude", [(5, none)]), ("fail", [])):
        spec = {"space": GRID, "search.sampler": "grid", "objective.failed_seeds": policy}
        failed = {(2, 0): 50, (3, 0): 50}
        result = summarize(synthetic_sweep(tmp_path / policy, values, 6, curve, failed, spec=spec))
        (norm,) = (effect for effect in compute_score_effects(result) if effect.key == "model.norm")
        assert [(difference.n, difference.high) for difference in norm.differences] == expected


def test_a_search_that_follows_scores_has_no_interval(tmp_path, synthetic_sweep):
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(12)]
    spec = {"space": RATE, "search.sampler": "tpe"}
    result = summarize(synthetic_sweep(tmp_path / "tpe", values, 2, curve, spec=spec))
    assert result.design.kind == "adaptive"
    for effect in compute_score_effects(result):
        assert effect.low != effect.low and "tpe chose later configurations" in (effect.reason or "")
    assert "tpe chose later configurations" in " ".join(list_effect_notes(result))
