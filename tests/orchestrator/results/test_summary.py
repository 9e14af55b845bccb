"""The summary of a sweep: numbers equal to those by hand, failed seeds and configurations in their place."""

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.results import make_summary
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.running.watching.leading_curve import make_undefined_rows


def test_summary_equals_the_numbers_by_hand(small_sweep):
    result = summarize(small_sweep)
    curves = read_curves(small_sweep, final_only=True)
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    assert [row.rank for row in result.rows] == [1, 2, 3, 4, 5, 6]
    assert [row.number for row in result.rows] == [0, 1, 2, 3, 4, 5]
    for row in result.rows:
        table = (
            mine[mine["config_id"] == row.config_id].pivot(index="seed", columns="length", values="value").astype(float)
        )
        counted = np.sort(np.nan_to_num(table.to_numpy(), nan=np.inf), axis=0)  # three seeds, the failed one the worst
        for at, lengths in (
            (row.trained_quartiles, range(1, 6)),
            (row.selection_quartiles, (6, 7)),
            (row.test_quartiles, range(8, 12)),
        ):
            means = np.sort(np.nan_to_num(table[list(lengths)].mean(axis=1, skipna=False).to_numpy(), nan=np.inf))
            assert at.median == pytest.approx(means[1]) and at.q25 == pytest.approx((means[0] + means[1]) / 2)
            assert at.q75 == pytest.approx((means[1] + means[2]) / 2)
        assert row.score == row.selection_quartiles.median
        band = result.bands[row.config_id, "total_variation", "ema"]
        assert band.median == pytest.approx(counted[1])
        reach = [length for length, value in zip(range(1, 12), counted[1], strict=True) if value <= 0.1]
        assert row.generalization_length == max(reach, default=0)
        assert row.area_beyond == pytest.approx(counted[1][7:].mean())  # neither trained on nor selected by
        assert row.groups == LengthGroups(
            evaluated=tuple(range(1, 12)), trained=(1, 2, 3, 4, 5), selection=(6, 7), test=(8, 9, 10, 11)
        )
    assert (result.seeds_run, result.seeds_failed) == (18, 1)
    assert result.has_ended and result.planned_configurations == 6


@pytest.mark.parametrize("spec", [{}, {"objective.evaluation": "best"}], ids=["last", "best"])
def test_rows_that_are_left_out_in_reading_change_nothing(tmp_path, synthetic_sweep, simple_curve, monkeypatch, spec):
    curves = [{"model.norm": "none"}, {"model.norm": "pre"}]
    state = synthetic_sweep(tmp_path / "few", curves, 3, simple_curve, {(1, 2): 60}, spec=spec)
    read = summarize(state)
    monkeypatch.setattr(make_summary, "_MAX_UNFILTERED_CURVES", 0)
    for name in ("rows", "bands", "notes", "warnings"):
        assert repr(getattr(read, name)) == repr(getattr(summarize(state), name))


def test_a_draw_that_repeats_a_configuration_is_not_planned_as_another_one(tmp_path, synthetic_sweep, simple_curve):
    """Three of eight draws are made, and two of them are alike; `status` counts like that, too."""
    state = synthetic_sweep(tmp_path / "open", [{}, {"model.norm": "pre"}], 1, simple_curve, ended=False)
    state.draws[2] = replace(state.draws[0], number=2, duplicate_of=state.draws[0].config_id)
    state.spec["search"]["configurations"] = 8
    assert summarize(state).planned_configurations == count_planned(state) == 7


def test_better_follows_the_direction_of_the_objective(tmp_path, synthetic_sweep, simple_curve):
    spec = {"objective.metric": "margin", "objective.direction": "maximize", "objective.threshold": 0.1}
    state = synthetic_sweep(
        tmp_path / "up", [{"model.norm": "none"}, {"model.norm": "pre"}], 2, simple_curve, spec=spec
    )
    result = summarize(state)
    assert [row.number for row in result.rows] == [1, 0]


def test_a_key_that_a_listed_configuration_leaves_out_has_its_fixed_value(tmp_path, synthetic_sweep, simple_curve):
    """So what changed along with another key is seen to have changed."""
    listed = [{"model.norm": "none"}, {"model.norm": "post"}, {"model.norm": "pre", "model.dropout": 0.3}]
    spec = {"search.sampler": "listed", "search.listed": listed, "space": {}}
    result = summarize(synthetic_sweep(tmp_path / "listed", listed, 6, simple_curve, spec=spec))
    dropout, norm = compute_score_effects(result)
    assert set(dropout.medians) == {"0.0", "0.3"} and dropout.reason != "constant"
    (pre,) = [difference for difference in norm.differences if difference.value == "pre"]
    assert not norm.matched or not pre.n


def test_a_metric_that_is_nan_without_a_failure_is_named_with_its_lengths_and_members(tmp_path, synthetic_sweep):
    def undefined(number, seed, average, metric, lengths, step):
        return np.where((lengths == 6) | (lengths == 9) & (seed == 1), np.nan, 0.1)

    rates = [{"training.learning_rate": 0.1 * (1 + n)} for n in range(2)]
    state = synthetic_sweep(tmp_path / "undefined", rates, 3, undefined, {(0, 0): 50})
    result = summarize(state)
    assert {row.score for row in result.rows} <= {None, math.inf} and result.seeds_failed == 1
    (note,) = (note for note in result.notes if "NaN" in note)
    (warning,) = result.warnings
    assert "total_variation (ema) has no value at length 9 in 2 of 5 members" in note
    assert warning.startswith("total_variation (ema) has no value at length 6: ")
    assert make_undefined_rows(state) == [("undefined", warning), ("undefined", note)]
    clean = synthetic_sweep(tmp_path / "clean", rates, 3, lambda *_: 0.1, {(0, 0): 50})
    assert not make_undefined_rows(clean) and not [note for note in summarize(clean).notes if "NaN" in note]


def test_an_unfinished_configuration_has_no_bands(tmp_path, synthetic_sweep, simple_curve):
    """Also where the curves that it has so far are given."""
    state = synthetic_sweep(tmp_path / "running", [{}], 2, simple_curve, ended=False, stop_after_step=50)
    for curves in (None, read_curves(state)):
        result = summarize(state, curves)
        assert result.bands == {} and [row.is_complete for row in result.rows] == [False]
