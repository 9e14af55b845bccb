"""Readers of columns of files: npz, CSV, TSV, JSONL by numpy and the standard library, Parquet and Arrow by pyarrow.

A column is a list of cells (texts, integers or lists of integers), an array of integers (N,), or `Ragged` integers.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FORMATS = ".npz, .csv, .tsv, .jsonl, .parquet, or a folder of save_to_disk"
SHARDS = "data*.arrow"  # files of a folder written by `Dataset.save_to_disk` of Hugging Face, without its caches


class Ragged(NamedTuple):
    """N rows of integers: the values of all rows in order, int64 (K,), and the number in each row, int64 (N,)."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]


Cells = list[Any] | NDArray[Any] | Ragged
Columns = Mapping[str, Callable[[], Cells]]


def list_data_files(path: Path) -> list[Path]:
    """Return the files of a path: the file itself, or the Arrow files of a folder, sorted."""
    return sorted(path.glob(SHARDS)) if path.is_dir() else [path]


def open_columns(path: Path) -> Columns:
    """Return the columns of a file: name -> function that reads the column.

    Raises OSError, or ValueError for a file that is damaged, has another format, or needs a missing package.
    """
    if path.is_dir():
        return _open_folder(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        given = f"the unknown suffix {path.suffix}" if path.suffix else "no suffix"
        raise ValueError(f"has {given}; allowed: {FORMATS}")
    return reader(path)


def _open_npz(path: Path) -> Columns:
    """Return the arrays of an npz file."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return {name: partial(_convert_array, array, name) for name, array in arrays.items()}


def _convert_array(array: NDArray[Any], name: str) -> Cells:
    """Return rows of equal length as Ragged, one number or text per row as they are."""
    if array.ndim == 1 and array.dtype.kind in "iuU":
        return array.tolist() if array.dtype.kind == "U" else array.astype(np.int64)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        allowed = "integers (rows, tokens) or (rows,), or texts (rows,)"
        raise ValueError(f"column {name}: is an array of {array.dtype} {array.shape}; allowed: {allowed}")
    return Ragged(array.astype(np.int64).ravel(), np.full(len(array), array.shape[1]))


def _open_csv(path: Path) -> Columns:
    """Return the columns of a CSV or TSV file with a header."""
    csv.field_size_limit(2**31 - 1)  # a long row of ids exceeds the default limit of 128 KiB
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if line]
    header, rows = (lines[0], lines[1:]) if lines else ([], [])
    _refuse_repeated(header)
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"row {number}: has {len(row)} cells; the header has {len(header)}")
    return {name: partial(_select_cells, rows, index) for index, name in enumerate(header)}


def _open_jsonl(path: Path) -> Columns:
    """Return the columns of a file with a JSON object in each line."""
    rows = list[dict[str, Any]]()
    with path.open(encoding="utf-8") as file:
        for line in filter(str.strip, file):
            try:
                rows.append(json.loads(line, object_pairs_hook=_make_object))
            except json.JSONDecodeError as error:
                raise ValueError(f"row {len(rows) + 1}: is not JSON: {error}") from None
            if not isinstance(rows[-1], dict):
                raise ValueError(f"row {len(rows)}: is not an object with a value for each column")

    # The keys of the first row are the columns.
    for number, row in enumerate(rows, 1):
        if missing := rows[0].keys() - row.keys():
            raise ValueError(f"row {number}: has no {', '.join(sorted(missing))}, which the first row has")
    return {name: partial(_select_cells, rows, name) for name in (rows[0] if rows else ())}


def _make_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON pairs. Raises ValueError for a repeated key."""
    _refuse_repeated([key for key, _ in pairs])
    return dict(pairs)


def _refuse_repeated(names: Sequence[str]) -> None:
    """Raise ValueError for a repeated name of a column, because only the last of these columns would be read."""
    # Spreadsheets write several columns without a name, which nobody can ask for.
    if repeated := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise ValueError(f"column {repeated}: two columns have this name")


def _select_cells(rows: Sequence[Any], key: Any) -> list[Any]:
    """Return the cell of every row under a key."""
    return [row[key] for row in rows]


def _open_parquet(path: Path) -> Columns:
    """Return the columns of a Parquet file."""
    _import_pyarrow()
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path, memory_map=True)
    _refuse_repeated(file.schema_arrow.names)
    return {name: partial(_read_parquet, file, name) for name in file.schema_arrow.names}


def _read_parquet(file: Any, name: str) -> Cells:
    """Return a column of a Parquet file."""
    return _convert_arrow(file.read([name]).column(name), name)


def _open_folder(path: Path) -> Columns:
    """Return the columns of the Arrow files of a folder."""
    if (path / "dataset_dict.json").is_file():
        splits = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        raise ValueError(f"has several splits; allowed: the folder of a split: {', '.join(splits)}")
    if not (shards := list_data_files(path)):
        raise ValueError("is a folder without Arrow files; allowed: a folder that save_to_disk wrote")
    pyarrow = _import_pyarrow()
    tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(shard))).read_all() for shard in shards]
    table = pyarrow.concat_tables(tables)
    _refuse_repeated(table.column_names)
    return {name: partial(_convert_arrow, table.column(name), name) for name in table.column_names}


def _convert_arrow(column: Any, name: str) -> Cells:
    """Return an Arrow column: lists of integers as Ragged, integers as an array, other values as a list."""
    types = _import_pyarrow().types
    kind = column.type
    if column.null_count:
        raise ValueError(f"column {name}, row {column.is_null().to_numpy().argmax() + 1}: is null")
    if types.is_integer(kind):
        return np.asarray(column.to_numpy(), np.int64)
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not (is_list and types.is_integer(kind.value_type)):
        return list(column.to_pylist())

    # The lists of a column are stored as one array of values, which needs no Python object for each id.
    from pyarrow import compute

    values = compute.list_flatten(column)
    counts = compute.list_value_length(column).to_numpy()
    if values.null_count:
        position = values.is_null().to_numpy().argmax()
        raise ValueError(f"column {name}, row {(counts.cumsum() <= position).sum() + 1}: has a null among its ids")
    return Ragged(np.asarray(values.to_numpy(), np.int64), np.asarray(counts, np.int64))


def _import_pyarrow() -> Any:
    """Return the module pyarrow. Raises ValueError if it is missing."""
    try:
        import pyarrow.ipc
    except ImportError:
        raise ValueError("needs the package pyarrow: pip install pyarrow, or use npz, CSV or JSONL") from None
    return pyarrow


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".npz": _open_npz,
    ".csv": _open_csv,
    ".tsv": _open_csv,
    ".jsonl": _open_jsonl,
    ".parquet": _open_parquet,
}
