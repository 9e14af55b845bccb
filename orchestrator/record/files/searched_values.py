"""Make table columns of the searched values of configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.state import SweepState
from search_spaces import ABSENT
from search_spaces.grammar.sections import read_key

if TYPE_CHECKING:
    import pandas as pd


def list_searched_keys(state: SweepState) -> list[str]:
    """Return the dotted keys that are searched and affect results, in alphabetical order."""
    searched_keys = {key for configuration in state.configurations.values() for key in configuration.values}
    measurements = state.measurements_by_digest.values()
    return sorted(searched_keys.difference(*(measured.get("technical", ()) for measured in measurements)))


def make_searched_columns(state: SweepState) -> dict[str, pd.Series[Any]]:
    """Return a column by searched key, with a row per configuration in the order of numbers.

    The dtype is int64 for integers, float64 for other numbers or with missing values, bool for booleans, else a
    category of text, with lists and null as JSON. NaN if a condition of the space leaves a key out.
    """
    configurations = list(state.configurations.values())
    return {
        key: _make_column([find_searched_value(state, configuration, key) for configuration in configurations])
        for key in list_searched_keys(state)
    }


def add_searched_values(curves: pd.DataFrame, state: SweepState) -> pd.DataFrame:
    """Return `curves` with the number and the searched values of the configuration of each row, after config_id."""
    import pandas as pd

    config_ids = list(curves["config_id"].cat.categories)
    index_by_id = {config_id: index for index, config_id in enumerate(state.configurations)}
    indices = np.array([index_by_id[config_id] for config_id in config_ids], dtype=np.int64)
    index_by_row = indices[curves["config_id"].cat.codes.to_numpy()]

    # Repeat the values of a configuration in all of its rows.
    numbers = pd.Series([configuration.number for configuration in state.configurations.values()], dtype="int64")
    added = {"number": numbers, **make_searched_columns(state)}
    columns = {key: column.take(index_by_row).set_axis(curves.index) for key, column in added.items()}
    return pd.DataFrame({"config_id": curves["config_id"], **columns, **curves.drop(columns="config_id")})


def find_searched_value(state: SweepState, configuration: ConfigurationState, key: str) -> Any:
    """Return the value of a key, or ABSENT; a key missing in a listed configuration has its fixed value."""
    is_listed = state.spec.get("search", {}).get("sampler") == "listed"
    if key in configuration.values:
        return configuration.values[key]
    return read_key(configuration.resolved, key) if is_listed else ABSENT


def _make_column(values: list[Any]) -> pd.Series[Any]:
    """Return values, ABSENT where missing, as a column of the narrowest dtype (`make_searched_columns`)."""
    import pandas as pd

    # Booleans and numbers.
    present = [value for value in values if value is not ABSENT]
    if all(isinstance(value, bool) for value in values):
        return pd.Series(values, dtype="bool")
    if all(is_number(value) for value in present):
        is_whole = len(present) == len(values) and all(isinstance(value, int) for value in present)
        numbers = [np.nan if value is ABSENT else value for value in values]
        return pd.Series(numbers, dtype="int64" if is_whole else "float64")

    # Everything else becomes text.
    texts = [None if value is ABSENT else value if isinstance(value, str) else json.dumps(value) for value in values]
    names = list(dict.fromkeys(text for text in texts if text is not None))
    codes = [-1 if text is None else names.index(text) for text in texts]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(names, dtype="str")))


def is_number(value: Any) -> bool:
    """Return whether a numeric column can hold the value; a ledger may have integers of any size."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
