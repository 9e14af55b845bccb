"""Families of metrics as data: points by hand, failed seeds, kinds of input that are not there."""

import math

import numpy as np
import pytest

from orchestrator.results.views.families import family_points


def test_points_are_medians_over_seeds_by_configuration_length_and_index(tmp_path, additions):
    result = additions(tmp_path / "s")
    points = family_points(result, "cascade")
    best = result.rows[0].config_id
    keys = [(point.length, point.index) for point in points if point.config_id == best]
    assert keys == [(length, c) for length in range(1, 9) for c in (0, 1, 3) if c <= length]
    at = next(point for point in points if (point.config_id, point.length, point.index) == (best, 6, 3))
    assert at.median == pytest.approx(0.9 - 0.12 + 0.01 - 0.3, abs=1e-6)
    assert (at.q25, at.q75) == (pytest.approx(at.median - 0.005, abs=1e-6), pytest.approx(at.median + 0.005, abs=1e-6))
    assert at.counted == 3 and sorted(at.seeds) == [0, 1, 2] and at.seeds[2] == pytest.approx(at.median + 0.01)
    assert {point.index for point in family_points(result, "digit")} == {1, 2}
    assert family_points(result, "rounds") == []


def test_a_failed_seed_counts_as_the_worst_and_an_absent_kind_of_input_does_not(tmp_path, additions, accuracy):
    def patchy(number, seed, average, metric, lengths, step):
        value = accuracy(number, seed, average, metric, lengths, step)
        absent = metric.endswith("cascade_3") and number == 0 and seed < 2
        return np.full(len(lengths), math.nan) if absent else value

    result = additions(tmp_path / "f", curve=patchy, failed={(1, 0): 10, (1, 1): 10})
    points = {
        (result.rows[0].config_id == p.config_id, p.index): p for p in family_points(result, "cascade") if p.length == 5
    }
    alone = points[True, 3]
    assert alone.counted == 1 and alone.median == alone.seeds[2] == pytest.approx(0.9 - 0.1 + 0.02 - 0.3)
    most_failed = points[False, 0]
    assert most_failed.counted == 3 and most_failed.median == -math.inf and list(most_failed.seeds) == [2]
    excluded = additions(tmp_path / "e", curve=patchy, failed={(1, 0): 10}, **{"objective.failed_seeds": "exclude"})
    some = [p for p in family_points(excluded, "cascade") if p.config_id == excluded.rows[1].config_id]
    assert {p.counted for p in some} == {2} and all(math.isfinite(p.median) for p in some)
    nothing = additions(tmp_path / "n", failed={(n, s): 10 for n in range(2) for s in range(3)})
    assert family_points(nothing, "cascade") == []


def test_a_seed_whose_objective_is_absent_at_some_lengths_has_not_failed(tmp_path, additions):
    result = additions(tmp_path / "o", **{"objective.metric": "exact_match_cascade_3"})
    points = family_points(result, "cascade")
    assert points and {point.counted for point in points} == {3} and all(math.isfinite(p.median) for p in points)
