"""Write and read curves.

Each evaluation of a pack is a parquet file (a part), listed in the ledger with its checksum; curves.parquet joins all
parts. Sweeps with many packs have small curves in the ledger itself (`inline_curves`).

Columns of a part: config_id, seed, average, metric, length, step, value (float32); curves.parquet also has the number
and the searched values of each configuration. The name of a part has the start of its checksum, so a pack that reports
a step again never overwrites a recorded part.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.addresses import find_address
from orchestrator.errors import DamagedCurves, LedgerError, convert_write_errors
from orchestrator.interface.measurements import find_partial_metric_lengths
from orchestrator.record.files.curve_tables import COLUMNS, make_schema, make_table
from orchestrator.record.files.inline_curves import (
    SHAPE,
    MissingCurves,
    count_values,
    make_inline_fields,
    make_inline_table,
)
from orchestrator.record.files.searched_values import add_searched_values
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_command
from trainers.errors import get_first_line
from trainers.files.atomic_file import write_atomic

if TYPE_CHECKING:
    import pandas as pd  # slow to import, and a driver writes the curves of its packs without it

    from trainers.evaluation.results import Evaluation
    from trainers.evaluation.stored import StoredCurves

CURVES_FOLDER = "curves"
CURVES_FILE = "curves.parquet"
MAX_INLINE_VALUES = 500  # in an evaluation record, less than 8 kB
_ROWS_AT_ONCE = 500_000  # rows read before they are filtered; checked after each pack

RowFilter = Callable[["pd.DataFrame"], npt.NDArray[np.bool_]]
"""A function from a table of curves of whole packs to a mask of the rows to keep."""


def store_curves(state: SweepState, pack: PackState, evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields of an evaluation's curves for its record; write a part unless the record has the curves."""
    values = _convert_values(pack.pack_id, pack.members, evaluation)
    if state.inline_curves and values.size <= MAX_INLINE_VALUES:
        return {"curves": make_inline_fields(evaluation.averages, evaluation.metrics, evaluation.lengths, values)}
    table = make_evaluation_table(pack.pack_id, pack.members, evaluation)
    file, sha256 = write_part(state.folder, pack.pack_id, evaluation.step, table)
    return {"file": file, "sha256": sha256}


def make_evaluation_table(
    pack_id: str, members: Sequence[tuple[str, int]], evaluation: Evaluation | StoredCurves
) -> Any:
    """Return the curves of an evaluation as a table for `write_part`.

    `members` are (config_id, seed) in the order of the evaluation's first dimension. Raises ValueError when the shapes
    disagree.
    """
    values = _convert_values(pack_id, members, evaluation)
    steps = [evaluation.step] * len(members)
    return make_table(members, evaluation.averages, evaluation.metrics, evaluation.lengths, steps, values)


def write_part(folder: Path, pack_id: str, step: int, table: Any) -> tuple[str, str]:
    """Write the curves of a pack at a step below the sweep directory `folder`, as a parquet file.

    Returns the path relative to `folder` and the SHA-256 of the file; the same input gives the same bytes. Raises
    LedgerError when the file cannot be written.
    """
    content = _encode_parquet(table)
    sha256 = hashlib.sha256(content).hexdigest()
    relative = f"{CURVES_FOLDER}/{pack_id}-{step:08d}-{sha256[:12]}.parquet"
    _write_file(folder / relative, content)
    return relative, sha256


def _convert_values(
    pack_id: str, members: Sequence[tuple[str, int]], evaluation: Evaluation | StoredCurves
) -> npt.NDArray[np.float32]:
    """Return the values of an evaluation as float32. Raises ValueError if their shape is not (M, A, K, L)."""
    values = np.asarray(evaluation.values_MAKL, dtype=np.float32)
    shape = (len(members), len(evaluation.averages), len(evaluation.metrics), len(evaluation.lengths))
    if values.shape != shape:
        raise ValueError(f"pack {pack_id} reported curves of shape {values.shape}, expected {shape}")
    return values


def write_curves(state: SweepState, curves: pd.DataFrame | None = None) -> Path:
    """Write every curve of the sweep to curves.parquet, replacing the file; return its path.

    `curves` (all of `read_curves(state)`) saves reading them again. Two sweeps with the same curves give the same
    bytes, whatever order their packs ran in.
    """
    path = state.folder / CURVES_FILE
    curves = read_curves(state) if curves is None else curves

    # The columns of a part have fixed types; types of searched values follow from their dtypes.
    fixed_types = {field.name: field.type for field in make_schema()}
    types = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "O": pa.dictionary(pa.int32(), pa.string())}
    schema = pa.schema([(name, fixed_types.get(name, types[dtype.kind])) for name, dtype in curves.dtypes.items()])
    _write_file(path, _encode_parquet(pa.Table.from_pandas(curves, schema, preserve_index=False)))
    return path


def read_curves(
    state: SweepState, final_only: bool = False, *, packs: Container[str] | None = None, keep: RowFilter | None = None
) -> pd.DataFrame:
    """Return every curve of the sweep as a tidy table: config_id, number, searched values, then the columns of a part.

    A searched value has the column of its dotted key, such as `training.learning_rate` (see `make_searched_columns`).
    Rows of failed members are NaN. A failed pack has NaN rows at its last step, so that its members are not missing. A
    metric has rows only at its own lengths, and a pruned configuration only up to its rung. `final_only` selects the
    last step of each pack, `packs` the packs with these ids; `keep` selects rows, about _ROWS_AT_ONCE at a time. Rows
    are sorted by configuration number, seed and step, for any order of the packs; config_id, average and metric are
    categories. Raises DamagedCurves with the file that is missing or does not match the ledger.
    """
    # The order of packs in the ledger depends on the workers, so they are sorted by their first members.
    numbers = {config_id: configuration.number for config_id, configuration in state.configurations.items()}
    selected_packs = [pack for pack in state.packs.values() if packs is None or pack.pack_id in packs]
    selected_packs.sort(
        key=lambda pack: (min((numbers[config_id], seed) for config_id, seed in pack.members), pack.pack_id)
    )

    # One table for all inline curves of equal shape is much faster than thousands of small ones. Rows are filtered
    # whenever enough have been read, so that a large sweep need not fit into memory as a whole.
    missing = MissingCurves(state, partial(_read_shape, state))
    tables = list[Any]()
    rows = 0
    tables_by_file: dict[str, Any] = {}
    inline_evaluations: dict[Any, list[Any]] = {}  # by their shape and the digests of their measurements
    for pack in selected_packs:
        digests = frozenset(state.configurations[config_id].measurements_digest for config_id, _ in pack.members)
        parts = [fields for _, fields in sorted(pack.evaluations.items()) if fields["final"] or not final_only]
        for fields in [*parts, *missing.make_fields(pack)]:
            if (curves := fields.get("curves")) is None:
                table = _drop_pruned_rows(pack, read_part(state.folder, fields["file"], fields["sha256"]))
                tables_by_file[fields["file"]] = table = _drop_unmeasured_rows(state, digests, table)
                rows += table.num_rows
            else:
                shape = tuple(tuple(curves[name]) for name in SHAPE)
                inline_evaluations.setdefault((shape, digests), []).append((pack, fields))
                rows += count_values(curves)
        if rows >= _ROWS_AT_ONCE:
            tables += _filter_rows([*tables_by_file.values(), *_make_inline_tables(state, inline_evaluations)], keep)
            tables_by_file, inline_evaluations, rows = {}, {}, 0
    tables += _filter_rows([*tables_by_file.values(), *_make_inline_tables(state, inline_evaluations)], keep)
    if not tables:
        tables = [make_schema().empty_table()]

    # Order categories by configuration number, then sort rows by configuration, seed and step.
    frame: pd.DataFrame = pa.concat_tables(tables).unify_dictionaries().to_pandas()
    present_ids = set(frame["config_id"].cat.categories)
    frame["config_id"] = frame["config_id"].cat.set_categories(
        [config_id for config_id in numbers if config_id in present_ids]
    )
    sort_keys = (frame["step"].to_numpy(), frame["seed"].to_numpy(), frame["config_id"].cat.codes.to_numpy())
    return add_searched_values(frame.take(np.lexsort(sort_keys)).reset_index(drop=True), state)


def _filter_rows(tables: list[Any], keep: RowFilter | None) -> list[Any]:
    """Return the tables with rows; with `keep`, one table of the selected rows."""
    tables = [table for table in tables if table.num_rows]
    if keep is None or not tables:
        return tables
    table = pa.concat_tables(tables).unify_dictionaries()
    return [table.filter(pa.array(keep(table.to_pandas())))]


def _drop_pruned_rows(pack: PackState, table: Any) -> Any:
    """Return the rows up to the steps at which members were pruned; later rows repeat the last values."""
    if not pack.pruned_at:
        return table
    config_ids = table.column("config_id").combine_chunks()
    last_steps = np.array(
        [pack.pruned_at.get(config_id, pack.steps) for config_id in config_ids.dictionary.to_pylist()]
    )
    return table.filter(pa.array(table.column("step").to_numpy() <= last_steps[config_ids.indices.to_numpy()]))


def _make_inline_tables(state: SweepState, evaluations: Mapping[Any, list[Any]]) -> list[Any]:
    """Return a table for all inline curves of each shape and digests of measurements."""
    return [
        _drop_unmeasured_rows(state, digests, make_inline_table(parts)) for (_, digests), parts in evaluations.items()
    ]


def _drop_unmeasured_rows(state: SweepState, digests: Collection[str], table: Any) -> Any:
    """Return the rows at lengths of their metric; at others a pack reports NaN, which is not a failure."""
    lengths_by_metric = find_partial_metric_lengths(state.measurements_by_digest[digest] for digest in digests)
    if not lengths_by_metric:
        return table
    metric = table.column("metric").combine_chunks()
    length = table.column("length").to_numpy()
    metric_indices = metric.indices.to_numpy()
    is_measured = np.ones(table.num_rows, dtype=bool)
    for index, name in enumerate(metric.dictionary.to_pylist()):
        if name in lengths_by_metric:
            is_measured &= (metric_indices != index) | np.isin(length, list(lengths_by_metric[name]))
    return table.filter(pa.array(is_measured))


def _read_shape(state: SweepState, fields: Mapping[str, Any]) -> tuple[list[Any], ...]:
    """Return the averages, metrics and lengths of an evaluation whose curves are in a file."""
    table = read_part(state.folder, fields["file"], fields["sha256"])
    return tuple(table.column(name).unique().to_pylist() for name in ("average", "metric", "length"))


def _encode_parquet(table: Any) -> bytes:
    """Return a table as the bytes of a parquet file; equal tables give equal bytes."""
    table = table.replace_schema_metadata(None)
    sink = io.BytesIO()
    dictionary_columns = [column for column in table.column_names if column != "value"]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary_columns, store_schema=True)
    return sink.getvalue()


def read_part(folder: Path, relative: str, sha256: str) -> Any:
    """Return a part as an Arrow table. Raises DamagedCurves with the file if it is missing or damaged."""
    path = folder / relative
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise OSError(errno.EINVAL, "not a regular file")
        content = path.read_bytes()
    except OSError as error:
        raise make_damage_error(path, f"cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise make_damage_error(path, "does not match its checksum in the ledger")
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)  # four times as fast as read_table
    except (pa.ArrowException, OSError) as error:
        raise make_damage_error(path, f"is not a file of curves: {get_first_line(error)}") from error
    if not table.schema.equals(make_schema()):
        raise make_damage_error(path, f"is not a file of curves: its columns must be {', '.join(COLUMNS)}")
    return table


def make_damage_error(path: Path, problem: str) -> DamagedCurves:
    """Return the error for a damaged part, with instructions to restore it."""
    folder = path.parent.parent
    advice = f"retrain its members: {format_command('repair', folder)}, then {format_command('resume', folder)}"
    if address := find_address(folder):
        advice = f"remove it, so that the next command fetches it from {address}"
    return DamagedCurves(f"{path}: {problem}\nput a copy of the file back, or {advice}")


def _write_file(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises LedgerError if it cannot be written."""
    with convert_write_errors(path, LedgerError):
        path.parent.mkdir(exist_ok=True)  # without parents: never recreate a deleted sweep folder
        write_atomic(path, [content])
