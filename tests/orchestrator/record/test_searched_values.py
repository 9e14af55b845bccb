"""The searched values beside curves: those that the ledger has of the configuration of each row, of their own types."""

import pandas as pd
import pytest

from orchestrator.record.files.curve_tables import COLUMNS
from orchestrator.record.files.curves import read_curves, write_curves
from orchestrator.record.files.searched_values import list_searched_keys

VALUES = (
    {"training.learning_rate": 0.01, "training.batch_size": 16, "model.norm": "pre", "task.target": "soft"},
    {"training.learning_rate": 1, "training.batch_size": 32, "model.norm": "none"},
    {"training.learning_rate": 0.001, "training.batch_size": 16, "model.norm": "post"},
)


def test_every_row_has_the_values_of_its_configuration(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "mixed", VALUES, 2, simple_curve, died=[2])
    curves = read_curves(state)
    assert list(curves.columns) == ["config_id", "number", *sorted(VALUES[0]), *COLUMNS[1:]]
    assert curves["training.batch_size"].dtype == "int64" and curves["training.learning_rate"].dtype == "float64"
    for name, rows in curves.groupby("config_id", observed=True):
        configuration = state.configurations[str(name)]
        for key in list_searched_keys(state):
            (value,) = rows[key].unique().tolist()
            assert value == configuration.values[key] if key in configuration.values else pd.isna(value)
        assert rows["number"].unique().tolist() == [configuration.number]
    pd.testing.assert_frame_equal(pd.read_parquet(write_curves(state)), curves)


def test_a_key_that_a_list_leaves_out_has_its_fixed_value(tmp_path, synthetic_sweep, simple_curve):
    spec = {"search.sampler": "listed"}
    curves = read_curves(synthetic_sweep(tmp_path / "listed", VALUES, 1, simple_curve, spec=spec))
    assert curves.groupby("number")["task.target"].unique().map(list).tolist() == [["soft"], ["sampled"], ["sampled"]]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ((True, False), [True, False]),
        ((1, 2.5), [1.0, 2.5]),
        (([1], None), ["[1]", "null"]),
        ((1, "a"), ["1", "a"]),
        ((10**400, 1), [str(10**400), "1"]),
    ],
)
def test_values_that_are_no_numbers(tmp_path, small_sweep, values, read):
    for configuration, value in zip(small_sweep.configurations.values(), [*values, *[values[0]] * 4], strict=True):
        configuration.values = {"a.key": value}
    curves = read_curves(small_sweep)
    assert [curves.loc[curves["number"] == number, "a.key"].unique().tolist() for number in (0, 1)] == [
        [r] for r in read
    ]
    pd.testing.assert_series_equal(pd.read_parquet(write_curves(small_sweep))["a.key"], curves["a.key"])
