"""Read and check tables of results with one value per row.

Columns: `seed`, `step`, `metric`, `length`, `value`, optionally `average` and `loss`; all others, or the named ones,
are settings of a configuration. Without `length` every metric is a curve of one point, at length 1.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from orchestrator.errors import UserError
from search_spaces.grammar.values import LARGEST_SEED
from trainers.errors import get_first_line, suggest_nearest

REQUIRED_COLUMNS = ("seed", "step", "metric", "value")
VALUE_COLUMNS = (*REQUIRED_COLUMNS, "length", "average", "loss")
CURVES_COLUMNS = {"config_id", "number"}  # columns of curves.parquet that are not settings
RAW = "raw"  # the average of a table without averages
NO_LENGTH = 1  # the length of a metric without lengths
MAX_INTEGER = 2**53  # of steps and lengths, which pandas may hold as float64, exact only up to this

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ImportedRows:
    """Rows as they were read: a frame with an index from 0, its source and SHA-256.

    `locate` returns the location of a row as text. `blank_is_nan`: a missing value is a recorded NaN. `notes` describe
    omissions.
    """

    frame: pd.DataFrame
    source: str
    sha256: str
    locate: Callable[[int], str]
    blank_is_nan: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Results:
    """Checked rows with the columns configuration, seed, step, average, metric, length, value, loss.

    configuration, average and metric are indices in `configurations` (the settings that differ, by dotted key),
    `averages` and `metrics`. `fixed` has the settings that all configurations share.
    """

    rows: pd.DataFrame
    configurations: tuple[dict[str, Any], ...]
    fixed: dict[str, Any]
    averages: tuple[str, ...]
    metrics: tuple[str, ...]
    source: str
    sha256: str

    def describe_configuration(self, configuration: int) -> str:
        """Return the settings of a configuration as text, such as "lr=0.1, width=64"."""
        values = self.configurations[configuration].items()
        return ", ".join(f"{key}={value}" for key, value in values) or "the only configuration"


def read_table(path: Path) -> ImportedRows:
    """Return the rows of a CSV or Parquet file. Raises UserError for any other file."""
    # pandas and pyarrow raise ValueErrors of their own for damaged files.
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".csv":
            frame = _read_csv(path, content)
        elif path.suffix.lower() in (".parquet", ".pq"):
            frame = reset_index(pd.read_parquet(io.BytesIO(content)))
        else:
            raise UserError(f"{path}: not a table; allowed: a file that ends with .csv or .parquet")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as a table: {get_first_line(error)}") from None

    # CSV files write NaN as text, so an empty field is a missing value, not a diverged seed.
    is_csv = path.suffix.lower() == ".csv"
    return ImportedRows(
        frame=frame,
        source=str(path),
        sha256=hashlib.sha256(content).hexdigest(),
        locate=lambda row: f"{path}:{_find_line(content, row)}" if is_csv else f"{path}: row {row + 1}",
        blank_is_nan=not is_csv,
    )


def reset_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with an index from 0 and texts as names of columns; named index levels become columns."""
    frame = frame.reset_index(drop=frame.index.names == [None])
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _read_csv(path: Path, content: bytes) -> pd.DataFrame:
    """Return the rows of a CSV file; only empty fields are missing, "nan" and "None" stay texts."""
    # pandas would rename the second of two columns with one name.
    line, header = next(_read_csv_rows(content), (1, []))
    if repeated := next((name for name in header if header.count(name) > 1), None):
        raise UserError(f"{path}:{line}: {repeated}: two columns have this name")
    return pd.read_csv(
        io.BytesIO(content), keep_default_na=False, na_values=[""], low_memory=False, encoding="utf-8-sig"
    )


def _find_line(content: bytes, row: int) -> int:
    """Return the line at which a row of a CSV file begins, counted from 1; row 0 follows the header."""
    return next(itertools.islice(_read_csv_rows(content), row + 1, None))[0]


def _read_csv_rows(content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of the header and of each row, without blank lines, as pandas reads them."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline=""))
    first_line = 1
    for cells in reader:
        if len(cells) > 1 or "".join(cells).strip():
            yield first_line, cells
        first_line = reader.line_num + 1


def check_rows(
    raw: ImportedRows, *, columns: Sequence[str] | None = None, seed_column: str = "seed", step: int | None = None
) -> Results:
    """Return the checked results of a table.

    `columns` are those with settings, by default all without another meaning. `step` is the step of every row, for a
    table without this column. Raises UserError, with the row, for a value that is missing, not a number, or repeated.
    """
    # Give seed and step their usual names, and find the columns with settings.
    frame = raw.frame.rename(columns={seed_column: "seed"}) if seed_column in raw.frame else raw.frame
    if step is not None:
        if "step" in frame:
            raise UserError(f"--step {step}: {raw.source} has a column step; leave the option out")
        frame = frame.assign(step=step)
    setting_columns = _choose_settings(raw, frame, columns, seed_column)
    if not len(frame):
        raise UserError(f"{raw.source}: no rows")

    # Names become indices, because comparing and sorting millions of texts is slow.
    seeds = _read_integers(raw, frame, "seed", LARGEST_SEED)
    steps = _read_integers(raw, frame, "step")
    metric, metrics = _read_names(raw, frame, "metric")
    average, averages = _read_names(raw, frame, "average") if "average" in frame else (np.zeros_like(metric), (RAW,))
    configuration, settings = _number_configurations(frame[setting_columns])
    for index, values in enumerate(settings):
        for name in (name for name, value in values.items() if isinstance(value, float) and math.isinf(value)):
            allowed = "a finite number or a text; --columns can leave this column out"
            _refuse_wrong_rows(raw, configuration == index, name, frame[name], allowed)
    rows = pd.DataFrame(
        {
            "seed": seeds,
            "step": steps,
            "configuration": configuration,
            "metric": metric,
            "average": average,
            "length": _read_lengths(raw, frame, metric),
            "value": _read_numbers(raw, frame, "value"),
            "loss": _read_numbers(raw, frame, "loss", allow_blank=True) if "loss" in frame else np.float32(np.nan),
        }
    )

    # Settings that all configurations share are fixed values of the sweep, others are searched.
    keys = dict(zip(setting_columns, _make_keys(raw.source, setting_columns), strict=True))
    first_settings = settings[0]
    shared_names = {
        name
        for name in setting_columns
        if all(name in values and _is_identical(values[name], first_settings.get(name)) for values in settings)
    }
    results = Results(
        rows=rows,
        configurations=tuple(
            {keys[name]: value for name, value in values.items() if name not in shared_names} for values in settings
        ),
        fixed={keys[name]: first_settings[name] for name in setting_columns if name in shared_names},
        averages=averages,
        metrics=metrics,
        source=raw.source,
        sha256=raw.sha256,
    )
    _refuse_repeated(raw, results)
    return results


def _choose_settings(
    raw: ImportedRows, frame: pd.DataFrame, columns: Sequence[str] | None, seed_column: str
) -> list[str]:
    """Return the columns with settings. Raises UserError for columns that are missing."""
    # Also if --seed-column names another column than `seed`, and the table has both.
    column_names = list(frame.columns)
    if repeated := next((name for name in column_names if column_names.count(name) > 1), None):
        both = f" (--seed-column {seed_column})" if repeated == "seed" != seed_column else ""
        raise UserError(f"{raw.source}: {repeated}{both}: two columns have this name; remove or rename one of them")

    # Suggest a similar name, or the option that replaces the missing column.
    for name in (*REQUIRED_COLUMNS, *(columns or ())):
        if name not in column_names:
            missing = seed_column if name == "seed" else name
            text = f"{raw.source}: no column {missing}; its columns: {', '.join(map(str, raw.frame.columns))}"
            text += suggest_nearest(name, column_names)
            option = {"seed": "--seed-column NAME", "step": "--step NUMBER for all rows"}.get(name)
            raise UserError(text + (f"; or give {option}" if option else ""))

    # A curves.parquet of lengthwise has columns that only identify its configurations.
    identifiers = CURVES_COLUMNS if set(column_names) >= CURVES_COLUMNS else set()
    setting_columns = (
        [name for name in column_names if name not in VALUE_COLUMNS and name not in identifiers]
        if columns is None
        else list(columns)
    )
    if values := [name for name in setting_columns if name in VALUE_COLUMNS]:
        raise UserError(
            f"--columns: {values[0]} is not a setting; allowed: columns other than {', '.join(VALUE_COLUMNS)}"
        )
    return setting_columns


def _make_keys(source: str, names: Sequence[str]) -> list[str]:
    """Return the dotted keys of settings: their names with invalid characters replaced by _."""
    # A key must not be a prefix of another, because settings are nested at the dots.
    keys = [re.sub(r"[^\w.-]|^\.+|\.+$|(?<=\.)\.", "_", name) for name in names]
    for name, key in zip(names, keys, strict=True):
        other = next((n for n, k in zip(names, keys, strict=True) if n != name and f"{key}.".startswith(f"{k}.")), None)
        if other is not None:
            raise UserError(f"{source}: columns {other} and {name} would have the same key; choose one by --columns")
    return keys


def _refuse_wrong_rows(
    raw: ImportedRows, is_wrong: npt.NDArray[np.bool_], column: str, values: Any, allowed: str
) -> None:
    """Raise UserError for the first row that is wrong, if any."""
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        value = values.iloc[row]
        value = value.item() if isinstance(value, np.generic) else value  # its repr has no type, "20.5"
        problem = "is empty" if _is_blank(value) else f"is {value!r}"
        raise UserError(f"{raw.locate(row)}: {column}: {problem}; allowed: {allowed}")


def _to_numbers(values: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Return values as numbers, NaN for anything else, also for booleans."""
    if values.dtype == bool:
        return np.full(len(values), np.nan)

    # Categories are converted by their values.
    values = values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _read_integers(
    raw: ImportedRows, frame: pd.DataFrame, column: str, maximum: int = MAX_INTEGER, minimum: int = 0
) -> Codes:
    """Return the whole numbers in a column. Raises UserError for the first other value."""
    numbers = _to_numbers(frame[column])
    is_wrong = ~((numbers >= minimum) & (numbers <= maximum) & (numbers == np.floor(numbers)))
    _refuse_wrong_rows(raw, is_wrong, column, frame[column], f"a whole number from {minimum} to {maximum}")
    return numbers.astype(np.int64)


def _read_lengths(raw: ImportedRows, frame: pd.DataFrame, metric: Codes) -> Codes:
    """Return the length of each row; a metric whose lengths are all empty is a curve of one point."""
    if "length" not in frame:
        return np.full(len(frame), NO_LENGTH, dtype=np.int64)

    has_length = np.zeros(metric.max() + 1, dtype=bool)
    has_length[metric[frame["length"].notna().to_numpy()]] = True
    filled = frame["length"].astype(object).where(has_length[metric], NO_LENGTH) if not has_length.all() else None
    return _read_integers(raw, frame if filled is None else frame.assign(length=filled), "length", minimum=1)


def _read_numbers(
    raw: ImportedRows, frame: pd.DataFrame, column: str, *, allow_blank: bool = False
) -> npt.NDArray[np.float32]:
    """Return the values of a column as float32, NaN for "nan" and, if `allow_blank`, for empty fields."""
    # A field without a number is allowed if it says nan, or if it is empty and blanks are allowed.
    values = frame[column]
    numbers = _to_numbers(values)
    is_missing = np.isnan(numbers)
    if is_missing.any():
        is_blank = values.isna().to_numpy()
        texts = values[is_missing & ~is_blank].astype(str).str.strip().str.lower()
        is_nan_text = np.zeros(len(values), dtype=bool)
        is_nan_text[np.flatnonzero(is_missing & ~is_blank)] = texts.isin(("nan", "-nan")).to_numpy()
        is_allowed = is_blank & (allow_blank or raw.blank_is_nan) | is_nan_text
        _refuse_wrong_rows(raw, is_missing & ~is_allowed, column, values, "a number, or nan for a seed that diverged")

    # Curves are stored as float32, so a finite number must stay finite.
    with np.errstate(over="ignore"):
        float32_numbers = numbers.astype(np.float32)
    _refuse_wrong_rows(
        raw, np.isinf(float32_numbers) & np.isfinite(numbers), column, values, "a number within the range of float32"
    )
    return float32_numbers


def _read_names(raw: ImportedRows, frame: pd.DataFrame, column: str) -> tuple[Codes, tuple[str, ...]]:
    """Return the index of each row's name in a column, and the distinct names. Raises UserError for an empty field."""
    codes, names = pd.factorize(frame[column])
    _refuse_wrong_rows(raw, codes < 0, column, frame[column], "a name")
    return codes.astype(np.int64), tuple(str(name) for name in names)


def _number_configurations(columns: pd.DataFrame) -> tuple[Codes, list[dict[str, Any]]]:
    """Return the configuration index of each row, in order of appearance, and the settings of each configuration."""
    # Rows with equal settings have the same code, compacted after each column so that it cannot overflow.
    code = np.zeros(len(columns), dtype=np.int64)
    distinct = dict[str, list[Any]]()
    column_codes = dict[str, Codes]()
    for name, values in columns.items():
        settings = values.map(make_plain_value) if values.dtype == object else values
        column_codes[str(name)], uniques = pd.factorize(settings)
        distinct[str(name)] = _make_plain_values(uniques, settings)
        code = pd.factorize(code * (len(uniques) + 1) + column_codes[str(name)] + 1)[0].astype(np.int64)

    first_rows = np.unique(code, return_index=True)[1]
    configurations = [
        {name: distinct[name][codes[row]] for name, codes in column_codes.items() if codes[row] >= 0}
        for row in first_rows.tolist()
    ]
    return code, configurations


def _make_plain_values(uniques: Any, values: pd.Series[Any]) -> list[Any]:
    """Return distinct values for JSON; integers that missing values made floats become integers again."""
    # A column of integers with missing values has floats in pandas.
    plain_values = [make_plain_value(value) for value in uniques.tolist()]
    numbers = [value for value in plain_values if isinstance(value, float)]
    if numbers and len(numbers) == len(plain_values) and values.isna().any() and all(map(float.is_integer, numbers)):
        return [int(value) for value in numbers]
    return plain_values


def make_plain_value(value: Any) -> Any:
    """Return a setting as number, boolean or text, None if it is missing; lists and mappings as JSON text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str)
    if _is_blank(value):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)


def _is_blank(value: Any) -> bool:
    """Return whether a field is missing."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _is_identical(value: Any, other: Any) -> bool:
    """Return whether two settings are equal and of one type: 1, 1.0 and True are different."""
    return type(value) is type(other) and bool(value == other)


def _refuse_repeated(raw: ImportedRows, results: Results) -> None:
    """Raise UserError if two rows have the same configuration, seed, step, average, metric and length."""
    # Rows with equal fields have the same code.
    columns = ["configuration", "seed", "step", "average", "metric", "length"]
    code = np.zeros(len(results.rows), dtype=np.int64)
    for name in columns:
        column_code, uniques = pd.factorize(results.rows[name])
        code, _ = pd.factorize(code * len(uniques) + column_code)

    # Name the first repeated row and the row that it repeats.
    first_rows = np.unique(code, return_index=True)[1]
    if len(first_rows) < len(code):
        is_first = np.zeros(len(code), dtype=bool)
        is_first[first_rows] = True
        row = int(np.argmax(~is_first))
        earlier_row = int(np.argmax(code == code[row]))
        index = {name: int(results.rows[name].iloc[row]) for name in columns}
        cell = f"{results.metrics[index['metric']]} of {results.averages[index['average']]} at length {index['length']}"
        member = f"{results.describe_configuration(index['configuration'])}, seed {index['seed']}, step {index['step']}"
        raise UserError(
            f"{raw.locate(row)}: repeats {raw.locate(earlier_row)}: {member}, {cell}; allowed: one row each"
        )
