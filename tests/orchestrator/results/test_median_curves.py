"""Bands of all curves at once, against the curves one after the other."""

import math

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.record.files.curves import read_curves
from orchestrator.results.scoring.configuration_scores import read_objective
from orchestrator.results.scoring.median_curves import make_bands
from orchestrator.statistics.failed_seeds import summarize_seeds
from search_spaces import Objective

measured = st.floats(-1000, 1000, width=32) | st.sampled_from([math.nan, math.nan, math.inf])
TV = Objective(metric="tv", average="ema", lengths=(1,), direction="minimize")


def curves_of(values):
    """Tidy curves from {(config_id, metric, length, seed): value}."""
    rows = [(name, seed, "ema", metric, length, value) for (name, metric, length, seed), value in values.items()]
    columns = ["config_id", "seed", "average", "metric", "length", "value"]
    return pd.DataFrame(rows, columns=columns).astype({"value": np.float32})


@settings(max_examples=12)
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["c1", "c0"]), st.sampled_from(["tv", "margin", "other"]), st.sampled_from([3, 1]),
            st.integers(0, 5),
        ),
        measured,
        max_size=40,
    ),
    st.sampled_from(["worst", "exclude", "fail"]),
    st.booleans(),
)  # fmt: skip
def test_bands_are_medians_over_seeds_one_after_the_other(values, policy, categorical):
    directions, curves = {"margin": "maximize", "other": "none"}, curves_of(values)
    if categorical:
        curves = curves.astype({"config_id": "category", "average": "category", "metric": "category"})
    bands = make_bands(curves, TV.model_copy(update={"failed_seeds": policy}), directions)
    expected = {}
    for group in sorted({key[:3] for key in values}):
        seeds = [value for key, value in values.items() if key[:3] == group]
        expected[group] = summarize_seeds(seeds, policy, {"tv": "minimize", **directions}[group[1]]).quartiles
    got = {
        (name, metric, length): at
        for (name, metric, _), band in bands.items()
        for length, *at in zip(band.lengths, band.q25, band.median, band.q75, strict=True)
    }
    assert list(got) == list(expected)
    np.testing.assert_array_equal(list(got.values()), list(expected.values()))


def test_bands_have_the_curve_of_every_seed_in_whatever_order_the_rows_come(small_sweep):
    curves = read_curves(small_sweep, final_only=True)
    bands = make_bands(curves.sample(frac=1.0, random_state=0), read_objective(small_sweep.spec), {})
    groups = curves.astype({"config_id": str, "metric": str, "average": str}).groupby(
        ["config_id", "metric", "average"]
    )
    assert bands.keys() == set(groups.groups)
    for key, rows in groups:
        table = rows.pivot_table(index="seed", columns="length", values="value", dropna=False).sort_index(axis=1)
        band = bands[key]
        assert list(band.lengths) == list(table.columns) and band.curves_by_seed.keys() == set(table.index)
        for seed, values in table.iterrows():
            np.testing.assert_array_equal(band.curves_by_seed[seed], values)
        if not table.isna().any(axis=None):
            np.testing.assert_allclose(band.median, table.median(), rtol=1e-12)
    assert any(
        math.isnan(value) for band in bands.values() for values in band.curves_by_seed.values() for value in values
    )
