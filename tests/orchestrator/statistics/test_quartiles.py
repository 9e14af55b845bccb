"""Quartiles against numpy and against slow, obvious code."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.statistics.quartiles import Quartiles, compute_quartiles, compute_row_quartiles

finite = st.floats(-1e6, 1e6)
numbers = finite | st.sampled_from([math.inf, -math.inf])


def by_hand(values: list[float], fraction: float, worst: float) -> float:
    """The usual interpolation between two neighbours; the infinite one, or the worse of two, where it has no sense."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    if low == high:
        return low
    if math.isinf(low) and math.isinf(high):
        return worst
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(low) else high
    return low + (high - low) * (position - math.floor(position))


@given(st.lists(finite, min_size=1, max_size=12))
def test_quartiles_of_finite_values_are_numpys(values: list[float]) -> None:
    q25, median, q75 = compute_quartiles(np.array(values))
    assert median == np.median(values)
    assert (q25, q75) == (np.quantile(values, 0.25), np.quantile(values, 0.75))
    assert q25 <= median <= q75


@given(st.lists(finite | st.sampled_from([math.inf, -math.inf]), min_size=1, max_size=12), st.sampled_from([-1, 1]))
def test_quartiles_with_infinities_are_never_nan_and_in_order(values: list[float], sign: int) -> None:
    three = compute_quartiles(np.array(values), worst=sign * math.inf)
    assert not np.isnan(three).any()
    assert list(three) == sorted(three)
    low, high = np.quantile(values, [0.25, 0.75], method="lower"), np.quantile(values, [0.25, 0.75], method="higher")
    for value, below, above in zip((three[0], three[2]), low, high, strict=True):
        assert below <= value <= above or math.isclose(value, below) or math.isclose(value, above)
        assert math.isinf(value) == (math.isinf(below) or math.isinf(above)) or value == below


@given(st.lists(numbers, min_size=1, max_size=12), st.sampled_from([math.inf, -math.inf]))
@example([-math.inf, math.inf], -math.inf)
def test_quartiles_are_those_by_hand(values: list[float], worst: float) -> None:
    for got, fraction in zip(compute_quartiles(np.array(values), worst), (0.25, 0.5, 0.75), strict=True):
        expected = by_hand(values, fraction, worst)
        assert got == expected or math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)


@given(st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=5), st.sampled_from([1.0, -1.0]))
def test_many_rows_at_once_are_each_row_alone(rows: list[list[float]], sign: float) -> None:
    values = np.full((len(rows), max(map(len, rows))), math.nan)
    for line, row in zip(values, rows, strict=True):
        line[: len(row)] = sorted(row)
    worst = np.full(len(rows), sign * math.inf)
    together = compute_row_quartiles(values, np.array([len(row) for row in rows]), worst)
    assert list(zip(*together, strict=True)) == [
        tuple(compute_quartiles(np.array(row), sign * math.inf)) for row in rows
    ]


def test_the_order_is_that_of_size() -> None:
    assert Quartiles._fields == ("q25", "median", "q75")
    assert compute_quartiles(np.array([3.0, 1.0, 2.0])) == Quartiles(q25=1.5, median=2.0, q75=2.5)
