"""Bands of all curves at once, against the curves one after the other."""

import math

import numpy as np

from orchestrator.record.kept.curves import read_curves
from orchestrator.results.scoring.median_curves import make_bands
from orchestrator.results.scoring.objective import recorded_objective


def test_bands_have_the_curve_of_every_seed_in_whatever_order_the_rows_come(small_sweep):
    curves = read_curves(small_sweep, final_only=True)
    bands = make_bands(curves.sample(frac=1.0, random_state=0), recorded_objective(small_sweep.spec), {})
    groups = curves.astype({"config_id": str, "metric": str, "average": str}).groupby(
        ["config_id", "metric", "average"]
    )
    assert bands.keys() == set(groups.groups)
    for key, rows in groups:
        table = rows.pivot_table(index="seed", columns="length", values="value", dropna=False).sort_index(axis=1)
        band = bands[key]
        assert list(band.lengths) == list(table.columns) and band.seeds.keys() == set(table.index)
        for seed, values in table.iterrows():
            np.testing.assert_array_equal(band.seeds[seed], values)
        if not table.isna().any(axis=None):
            np.testing.assert_allclose(band.median, table.median(), rtol=1e-12)
    assert any(math.isnan(value) for band in bands.values() for values in band.seeds.values() for value in values)
