"""Define the commands that export results, maintain a sweep folder, or print data for jobs and editors."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli import options
from orchestrator.cli.sweep_command import SweepTyper
from orchestrator.errors import UserError
from orchestrator.text.consoles import make_console, say
from orchestrator.text.wording import format_count

app = SweepTyper()
console = make_console()


@app.command(
    rich_help_panel=options.EXPORT,
    examples=("quickstart --figures pdf --latex table.tex", "quickstart --best best.yaml --curves curves.csv"),
)
def export(
    folder: options.SweepFolder,
    best: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="The best configuration as a sweep file, ready to run.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The kept weights of every seed, as .safetensors."),
    ] = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE.tex", help="The table of configurations.")] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="pdf|svg|png", help="Median curves and effects, for papers.")
    ] = None,
    curves: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Every curve of every seed.")] = None,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The folder for figures; made if missing.")] = None,
    size: Annotated[str | None, typer.Option(help="Size of figures in inches; by default 3.3x2.4.")] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Your names of metrics, keys and configurations.")
    ] = None,
    force: options.Force = False,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Write weights, tables, figures and curves for papers and programs."""
    from orchestrator.export.write_exports import ExportRequest, export

    # Options without a value export nothing.
    files = {"best": best, "weights": weights, "latex": latex, "curves": curves}
    request = ExportRequest(**files, figures=figures, to=to, size=size, labels=labels)
    for line in export(folder, request, force=force):
        say(console, line)


@app.command(rich_help_panel=options.CONTINUE)
def replay(
    folder: options.SweepFolder,
    configuration: Annotated[str, typer.Argument(metavar="CONFIGURATION", help="Number, label or config_id.")],
    seed: Annotated[int, typer.Argument(metavar="SEED", help="One of its seeds.")],
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Train one member again in this process.

    Compares its curves bit for bit; exit code 1 if they differ.
    """
    from orchestrator.upkeep.replay import replay_member

    with make_console(stderr=True).status("training ..."):
        replayed = replay_member(folder, configuration, seed)
    for line in replayed.describe():
        say(console, line)
    raise typer.Exit(int(replayed.difference is not None))


@app.command(rich_help_panel=options.LOOK)
def evaluate(
    folder: options.SweepFolder,
    configurations: Annotated[
        list[str], typer.Argument(metavar="CONFIGURATION", help="Numbers, labels or config_ids.")
    ],
    lengths: Annotated[
        str | None, typer.Option(help="Lengths, such as 40,60-65; by default those of the sweep.")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Inputs per length; by default as in the sweep.")] = None,
    task: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Replace a setting of the task; may be repeated.")
    ] = None,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Evaluate kept weights at other lengths or task settings.

    Records the curves; trains nothing.
    """
    from orchestrator.report.write_report import present_report, show_later_evaluations
    from orchestrator.results.scoring.length_groups import parse_lengths
    from orchestrator.upkeep.later_evaluation import evaluate_later

    allowed = "distinct whole numbers, such as 40,60-65"
    requested_lengths = None if lengths is None else parse_lengths(lengths, None, allowed)
    with make_console(stderr=True).status("evaluating ..."):
        keys = evaluate_later(folder, configurations, lengths=requested_lengths, samples=samples, task=task or ())
        present_report(folder, console, quiet=True)
    show_later_evaluations(folder, keys, console)


@app.command(rich_help_panel=options.MAINTENANCE)
def delete(
    folder: options.SweepFolder,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Also delete its MLflow runs, wherever it is published.")
    ] = False,
    tracking_uri: Annotated[
        str | None,
        typer.Option(metavar="URI", parser=options.parse_store, help="With --mlflow: only the runs at this address."),
    ] = None,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Delete only its checkpoints.")] = False,
    storage: options.SweepStorage = None,
) -> None:
    """Delete a sweep.

    Asks first; refuses a folder without a sweep, and a running sweep.
    """
    from orchestrator.upkeep.deletion import delete_sweep, plan_deletion

    # Checkpoints have no MLflow runs.
    for option, is_given in {"--mlflow": mlflow, "--tracking-uri": tracking_uri is not None}.items():
        if checkpoints and is_given:
            raise UserError(f"--checkpoints: not allowed with {option}")
    if tracking_uri is not None and not mlflow:
        raise UserError("--tracking-uri: only allowed with --mlflow")

    # Nothing can be restored, so the user sees what will be deleted before saying yes.
    deletion = plan_deletion(folder, checkpoints_only=checkpoints)
    say(console, deletion.sentence)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError(f"{folder}: nothing deleted: no terminal to ask on; use --yes to delete without a question")
        if not typer.confirm("Delete them?" if checkpoints else "Delete it?"):
            raise UserError(f"{folder}: nothing deleted")

    # Delete MLflow runs before the ledger, which has their addresses.
    deleted_runs = dict[str, int]()

    def delete_mlflow_runs() -> None:
        # Copies of the sweep have the same runs, which then stay.
        if not mlflow or deletion.copies:
            return
        from orchestrator.tracking.publish import delete_runs

        deleted_runs.update(delete_runs(folder, tracking_uri))
        for uri, count in deleted_runs.items():
            say(console, f"{uri}: {format_count(count, 'run')} deleted")

    delete_sweep(deletion, delete_mlflow_runs)

    # Runs at other addresses stay, and so do the runs of a sweep that has copies.
    remaining_uris = [uri for uri in deletion.published_at if uri not in deleted_runs]
    files = "the checkpoints of " if checkpoints else ""
    say(
        console,
        f"deleted {files}{deletion.address or folder}"
        + (f"; its MLflow runs stay at {', '.join(remaining_uris)}" if remaining_uris else ""),
    )


@app.command(rich_help_panel=options.MAINTENANCE)
def schema(
    kind: Annotated[Literal["sweep", "claims"], typer.Argument(help="The kind of files: sweep or claims.")] = "sweep",
) -> None:
    """Print the JSON Schema of sweep files or claims files, for editors."""
    from search_spaces import format_schema, make_claims_schema

    typer.echo(format_schema(make_claims_schema() if kind == "claims" else None), nl=False)


@app.command("job-env", rich_help_panel=options.MAINTENANCE)
def job_env() -> None:
    """Print the commit and changes of this folder for a Ray job.

    For `ray job submit --runtime-env-json`: a job has no .git.
    """
    from orchestrator.code.repository import make_job_environment

    typer.echo(make_job_environment(Path.cwd(), warn=partial(say, make_console(stderr=True))))
