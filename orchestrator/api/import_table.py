"""Import existing results as a sweep."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rich.console import Console

from orchestrator.api.sweep import Sweep
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage, find_storage
from orchestrator.text.consoles import make_console
from trainers.errors import suggest_nearest

if TYPE_CHECKING:
    import pandas as pd

    from orchestrator.importing.members import Missing

P = ParamSpec("P")
R = TypeVar("R")


def _refuse_unknown_options(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, made to raise UserError with the nearest name for an option that it does not have."""
    options = inspect.signature(function).parameters

    @wraps(function)
    def call(*arguments: P.args, **given: P.kwargs) -> R:
        for option in (option for option in given if option not in options):
            raise UserError(f"{function.__name__}: {option}: no such option{suggest_nearest(option, options)}")
        return function(*arguments, **given)

    return call


@_refuse_unknown_options
def import_table(
    table: str | Path | pd.DataFrame,
    *,
    name: str,
    metrics: Mapping[str, str],
    lengths: Sequence[int] | None = None,
    trained: Sequence[int] = (),
    average: str | None = None,
    axis: str | None = None,
    drawn: bool = False,
    columns: Sequence[str] | None = None,
    seed_column: str = "seed",
    step: int | None = None,
    missing: Missing | None = None,
    study: str | None = None,
    storage: str | Path | None = None,
    console: Console | None = None,
    pattern: str | None = None,
    experiment: str | None = None,
    step_column: str | None = None,
) -> Sweep:
    """Write a table of results as a sweep to a new folder of `storage`, and return it; see `lengthwise import`.

    `table` is a CSV or Parquet file or a data frame, with one value per row. It may also be "mlflow:URI", "wandb:PATH"
    or "tune:FOLDER"; then the options `pattern`, `experiment` and `step_column` are for it. `metrics` are better
    directions by metric: {"accuracy": "maximize"}; the first metric is judged. `axis` is the unit of lengths, such as
    digits. The other options are as in `lengthwise import`.

    Raises UserError for invalid results and unknown options, SweepFileError for an invalid name, SweepExists if the
    folder already holds a sweep.
    """
    from orchestrator.importing.import_table_rows import ImportOptions, import_table_rows, read_rows  # imports pandas
    from orchestrator.importing.table import ImportedRows, reset_index

    if not metrics:
        raise UserError("import_table: metrics: empty; needs at least one, such as {'accuracy': 'maximize'}")
    options = ImportOptions(
        directions=metrics,
        lengths=None if lengths is None else tuple(lengths),
        trained=tuple(trained),
        average=average,
        axis=axis,
        drawn=drawn,
        study=study,
        columns=columns,
        seed_column=seed_column,
        step=step,
        missing=missing,
        pattern=pattern,
        experiment=experiment,
        step_column=step_column,
    )

    # A data frame has no file to digest, so its text as CSV is digested.
    if isinstance(table, str | Path):
        rows = read_rows(str(table), options)
    elif refused := options.list_source_options():
        raise UserError(f"import_table: {refused[0]}: not allowed with a data frame")
    else:
        frame = reset_index(table)
        digest = hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()
        rows = ImportedRows(frame=frame, source="a data frame", sha256=digest, locate=lambda row: f"row {row + 1}")

    # Without `storage` the sweep is written to the default folder, as by `lengthwise import`.
    folder = find_storage(storage) if storage is not None else find_default_storage()
    return Sweep(import_table_rows(rows, folder, name, console or make_console(), options).folder)
