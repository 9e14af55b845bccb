"""Median curves against slow, obvious code."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.failed_seeds import over_seeds
from orchestrator.statistics.medians import MEDIAN_CURVE_COLUMNS, median_curves

inf, nan = math.inf, math.nan
measured = st.floats(-1000, 1000, width=32) | st.sampled_from([nan, nan, inf])


def curves_of(values: dict[tuple[str, str, int, int, int], float]) -> pd.DataFrame:
    """Tidy curves from {(config_id, metric, length, step, seed): value}."""
    rows = [(name, seed, "ema", metric, length, step, v) for (name, metric, length, step, seed), v in values.items()]
    columns = ["config_id", "seed", "average", "metric", "length", "step", "value"]
    return pd.DataFrame(rows, columns=columns).astype({"value": np.float32})


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["c1", "c0"]), st.sampled_from(["tv", "margin", "other"]), st.sampled_from([3, 1]),
            st.sampled_from([100, 50]), st.integers(0, 5),
        ),
        measured,
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(["worst", "exclude", "fail"]),
    st.booleans(),
)  # fmt: skip
def test_median_curves_by_brute_force(
    values: dict[tuple[str, str, int, int, int], float], policy: str, categorical: bool
) -> None:
    directions = {"tv": "minimize", "margin": "maximize", "other": "none"}
    curves = curves_of(values)
    if categorical:
        curves = curves.astype({"config_id": "category", "average": "category", "metric": "category"})
    medians = median_curves(curves, directions, policy)
    assert tuple(medians.columns) == MEDIAN_CURVE_COLUMNS
    expected = {}
    for group in {key[:4] for key in values}:
        seeds = [value for key, value in values.items() if key[:4] == group]
        one = over_seeds(seeds, policy, directions[group[1]])
        expected[group] = (*one.quartiles, one.seeds, one.failed)
    got = {
        (row.config_id, row.metric, row.length, row.step): (row.q25, row.median, row.q75, row.seeds, row.failed)
        for row in medians.itertuples()
    }
    assert got.keys() == expected.keys()
    for group in expected:
        np.testing.assert_array_equal(got[group], expected[group])
    order = ["config_id", "average", "metric", "step", "length"]
    assert medians[order].astype({"config_id": str, "metric": str}).apply(tuple, axis=1).is_monotonic_increasing


def test_median_curves_of_a_sweep(small_sweep: SweepState) -> None:
    curves = read_curves(small_sweep)
    medians = median_curves(curves)
    groups = curves.groupby(["config_id", "average", "metric", "length", "step"], observed=True)["value"]
    assert len(medians) == groups.ngroups
    assert list(medians["config_id"].cat.categories) == list(small_sweep.configurations)
    indexed = medians.set_index(["config_id", "average", "metric", "length", "step"])["median"]
    expected = groups.median().astype(np.float64)
    np.testing.assert_allclose(indexed.to_numpy(), expected.reindex(indexed.index).to_numpy(), rtol=1e-6)
    lost = medians[medians["failed"] > 0]
    assert set(lost["config_id"].astype(str)) == {list(small_sweep.configurations)[1]}
    assert set(medians["seeds"]) == {3}


def test_median_curves_of_nothing() -> None:
    medians = median_curves(curves_of({}))
    assert tuple(medians.columns) == MEDIAN_CURVE_COLUMNS
    assert len(medians) == 0
