"""Make tidy Arrow tables of curves without pandas, which a driver does not import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COLUMNS = ("config_id", "seed", "average", "metric", "length", "step", "value")


def make_table(
    members: Sequence[tuple[str, int]],
    averages: Sequence[str],
    metrics: Sequence[str],
    lengths: Sequence[int],
    steps_M: Sequence[int],
    values_MAKL: npt.NDArray[np.float32],
) -> Any:
    """Return a row per value, in the order of the axes (members, averages, metrics, lengths); `steps_M` by member."""
    index_M, index_A, index_K, index_L = (index.reshape(-1) for index in np.indices(values_MAKL.shape, dtype=np.int32))
    rows = (index_M, index_A, index_K, np.array(lengths, dtype=np.int64)[index_L], values_MAKL.reshape(-1))
    return make_row_table((members, averages, metrics), steps_M, rows)


def make_row_table(
    axes: tuple[Sequence[tuple[str, int]], Sequence[str], Sequence[str]],
    steps_M: Sequence[int],
    rows: tuple[npt.NDArray[Any], ...],
) -> Any:
    """Return a table of `rows`: indices into the members, averages and metrics of `axes`, then lengths and values."""
    (members, averages, metrics), (member_R, average_R, metric_R, length_R, value_R) = axes, rows

    # Columns of configurations and seeds, from the (config_id, seed) of each member.
    configurations = list(dict.fromkeys(config_id for config_id, _ in members))
    index_by_id = {config_id: index for index, config_id in enumerate(configurations)}
    config_M = np.array([index_by_id[config_id] for config_id, _ in members], dtype=np.int32)
    seed_M = np.array([seed for _, seed in members], dtype=np.int64)
    columns = [
        _make_name_array(config_M[member_R], configurations),
        _make_array(pa.int64(), seed_M[member_R]),
        _make_name_array(average_R.astype(np.int32), averages),
        _make_name_array(metric_R.astype(np.int32), metrics),
        _make_array(pa.int64(), length_R),
        _make_array(pa.int64(), np.array(steps_M, dtype=np.int64)[member_R]),
        _make_array(pa.float32(), value_R),
    ]
    return pa.Table.from_arrays(columns, schema=make_schema())


def _make_array(arrow_type: Any, values: npt.NDArray[Any]) -> Any:
    """Return the values as an Arrow array with nulls for NaN. Avoids pa.array, which imports pandas."""
    is_present, bits = ~np.isnan(values), None
    if not is_present.all():
        bits = pa.py_buffer(np.packbits(is_present, bitorder="little"))
    return pa.Array.from_buffers(arrow_type, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def _make_name_array(codes: npt.NDArray[np.int32], names: Sequence[str]) -> Any:
    """Return a dictionary array of `names`, indexed by `codes`."""
    texts = [name.encode() for name in names]
    ends = pa.py_buffer(np.cumsum([0, *map(len, texts)], dtype=np.int32))
    dictionary = pa.Array.from_buffers(pa.string(), len(texts), [None, ends, pa.py_buffer(b"".join(texts))])
    return pa.DictionaryArray.from_arrays(_make_array(pa.int32(), codes), dictionary)


def make_schema() -> Any:
    """Return the Arrow schema of a table of curves."""
    name_type = pa.dictionary(pa.int32(), pa.string())
    types = {"config_id": name_type, "average": name_type, "metric": name_type, "value": pa.float32()}
    return pa.schema([(column, types.get(column, pa.int64())) for column in COLUMNS])
