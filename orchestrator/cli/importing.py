"""Define the command `import`, which makes a sweep of existing results."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.sweep_command import SweepTyper
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage
from orchestrator.text.consoles import make_console
from orchestrator.text.wording import describe_wrong_numbers, read_numbers

app = SweepTyper()
console = make_console()


class MissingOption(StrEnum):
    """The treatment of members without a value at the last step."""

    failed = "failed"
    absent = "absent"


@app.command(
    "import",
    rich_help_panel=options.BEGIN,
    short_help="Make a sweep of existing results.",
    examples=("results.csv --name last_year --metric accuracy:maximize --lengths 20 --trained 1-10",),
)
def import_table_command(
    name: Annotated[str, typer.Option(help="Name of the sweep, and its folder in the storage folder.")],
    metric: Annotated[
        list[str],
        typer.Option(metavar="NAME:maximize|minimize", help="A metric and its better direction; the first is judged."),
    ],
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A CSV or Parquet file with one value a row.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="mlflow:URI|wandb:PATH|tune:FOLDER", help="Results of another tool, instead of TABLE."
        ),
    ] = None,
    lengths: Annotated[str | None, typer.Option(help="Selection lengths, such as 20 or 5,8-10.")] = None,
    trained: Annotated[str | None, typer.Option(help="Trained lengths, such as 1-10.")] = None,
    axis: Annotated[
        str | None, typer.Option(help="The unit of lengths, such as depth or digits (evaluation.axis).")
    ] = None,
    average: Annotated[str | None, typer.Option(help="The judged weight average, if there are several.")] = None,
    drawn: Annotated[
        bool, typer.Option("--drawn", help="All settings that differ were drawn independently at random.")
    ] = False,
    columns: Annotated[str | None, typer.Option(help="Columns with settings: lr,width; by default all others.")] = None,
    seed_column: Annotated[str, typer.Option(help="The column, or parameter, with the seed.")] = "seed",
    step_column: Annotated[str | None, typer.Option(help="With wandb and tune: the column with the step.")] = None,
    step: Annotated[int | None, typer.Option(min=0, help="The training step of results without one.")] = None,
    missing: Annotated[
        MissingOption | None,
        typer.Option(help="failed: members without a last value count as failed; absent: they are left out."),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(help="With --from: a pattern for names of metrics: 'acc/len_(?P<length>\\d+)'.")
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="With mlflow: the experiment.")] = None,
    study: Annotated[str | None, typer.Option(help="The study of the sweep; by default its name.")] = None,
    storage: options.Storage = None,
) -> None:
    """Make a sweep of existing results: a tidy table, or runs of MLflow, W&B or Ray Tune.

    Trains nothing.

    The table has the columns seed, step, metric, length and value, perhaps average and loss; others are settings.
    """
    if (table is None) == (source is None):
        raise UserError("give exactly one of TABLE and --from")
    from orchestrator.importing.import_table_rows import ImportOptions, import_table_rows, read_directions, read_rows

    import_options = ImportOptions(
        directions=read_directions(metric),
        lengths=_read_lengths("--lengths", lengths),
        trained=_read_lengths("--trained", trained) or (),
        average=average,
        axis=axis,
        drawn=drawn,
        study=study,
        columns=[column.strip() for column in columns.split(",")] if columns is not None else None,
        seed_column=seed_column,
        step=step,
        missing=missing.value if missing is not None else None,
        pattern=pattern,
        experiment=experiment,
        step_column=step_column,
    )
    rows = read_rows(str(source if table is None else table), import_options)
    outcome = import_table_rows(rows, storage or find_default_storage(), name, console, import_options)
    raise typer.Exit(outcome.exit_code)


def _read_lengths(option: str, text: str | None) -> tuple[int, ...] | None:
    """Return the lengths of an option, sorted; None without it. Raises UserError for other texts."""
    if text is None:
        return None
    if not (numbers := read_numbers(text)) or min(numbers) < 1:
        problem = "a length is at least 1" if numbers else describe_wrong_numbers(text)
        raise UserError(f"{option} {text!r}: {problem}; allowed: distinct whole numbers, such as 20 or 5,8-10")
    return tuple(sorted(numbers))
