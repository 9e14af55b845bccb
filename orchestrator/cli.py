"""The command line: verbs that take a sweep file or a sweep directory. Imports little, so that `--help` is quick.

Here are the verbs of sweep files and those that train; `cli_results` has those of sweeps that are there.
Exit codes: 0 done, 1 ran and failed, 2 bad input, 130 interrupted.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import cli_results, options
from orchestrator.consoles import LenientOutput, aligned, make_console, make_streams_lenient, say
from orchestrator.errors import LengthwiseError, UserError
from orchestrator.record.ledger.folders import default_storage
from orchestrator.redaction import masked_traceback, redact, redact_log_records
from orchestrator.running.hosts import host
from orchestrator.running.with_ray import start as ray_start
from orchestrator.shortages import out_of_memory
from search_spaces import Reading, SweepFileError, read_sweep

DEBUG_VARIABLE = "LENGTHWISE_DEBUG"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Length-generalization studies of small transformers: many seeds, many configurations, median curves.",
)
console = make_console()
errors = make_console(stderr=True)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="task, model, position, average or schedule; by default all.")
    ] = None,
    imports: options.Imports = None,
) -> None:
    """Show the names a sweep file can use, with their fields."""
    from orchestrator.preview.names import lines

    for line in lines(kind, imports or ()):
        _say(line)


@app.command()
def schema(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; printed by default.")] = None,
    claims: Annotated[bool, typer.Option("--claims", help="That of claims files.")] = False,
) -> None:
    """Print or write the JSON Schema of sweep files, for editors."""
    from search_spaces import claims_schema, schema_text

    text = schema_text(claims_schema() if claims else None)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror}") from error
    _say(f"wrote {output}")


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Sweep files (YAML).")],
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    smoke: options.Smoke = False,
) -> None:
    """Check sweep files: every line, and every configuration they can draw. Writes nothing."""
    from orchestrator.preview.smoke import found_good

    codes = {0}
    for file in files:
        try:
            *warnings, good = found_good(_load(file, overrides, imports=imports), smoked=smoke)
        except (SweepFileError, LengthwiseError) as error:
            if os.environ.get(DEBUG_VARIABLE) and not isinstance(error, SweepFileError):
                raise
            _complain(error.in_full if isinstance(error, SweepFileError) else f"{file}: {error}")
            codes.add(2 if isinstance(error, SweepFileError) else error.exit_code)
            continue
        for warning in warnings:
            _say(warning)
        _say(f"{file}: {good}")
    raise typer.Exit(max(codes))


@app.command()
def plan(
    file: options.SweepFile,
    storage: options.Storage = None,
    name: options.Name = None,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Packs at once; by default what fits here.")] = None,
    working_dir: Annotated[Path, typer.Option(help="What `ray job submit --working-dir` would upload.")] = Path(),
) -> None:
    """Say what a sweep would run and what it would cost. Writes nothing."""
    from orchestrator.preview.forecast import forecast

    spec = _load(file, overrides, name, imports)
    found = forecast(spec, workers, working_dir)
    _say(f"{spec.name} would be kept in {(storage or default_storage()) / spec.name}")
    _say(aligned(found.rows()))
    for warning in found.warnings:
        _say(f"warning: {warning}")


@app.command()
def data(
    file: options.SweepFile,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    examples: Annotated[int, typer.Option(min=0, help="How many training inputs to show.")] = 5,
    samples: Annotated[int, typer.Option(min=1, help="Inputs of each histogram.")] = 20_000,
    lengths: options.Lengths = None,
    figure: Annotated[Path | None, typer.Option(metavar="PATH.png", help="Also draw the histograms.")] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="First prepare the texts that are missing here.")] = False,
    source: options.Source = None,
) -> None:
    """Show what a sweep trains and evaluates on: examples, and how hard inputs are. Runs nothing."""
    spec = _load(file, overrides, imports=imports)
    from orchestrator.preview.data_view import data_view

    if fetch or source is not None:
        from orchestrator.preview.corpora import fetch_corpora

        for line in fetch_corpora(spec, source):
            _say(line)
    for part in data_view(spec, count=examples, samples=samples, lengths=lengths, figure=figure):
        _say(part) if isinstance(part, str) else console.print(part, crop=False)


@app.command("job-env")
def job_env() -> None:
    """Print for `ray job submit --runtime-env-json` which commit and changes this folder has: a job has no .git."""
    from orchestrator.code.repository import job_environment

    typer.echo(job_environment(Path.cwd(), warn=_complain))


@app.command()
def run(
    file: options.SweepFile,
    storage: options.Storage = None,
    tracking_uri: options.TrackingUri = None,
    name: options.Name = None,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
) -> None:
    """Run a sweep from its beginning to its report."""
    reading = read_sweep(file, options.with_uri(overrides, tracking_uri), name, imports or ())
    storage = storage or default_storage()
    early = None if reading.findings.problems else reading.spec
    if early is not None and not (storage / early.name).exists():  # otherwise it is refused
        host.begin_for(early)  # imports while this process does, and ends with it if it is refused later
    spec = _checked(reading)
    if early is not None:
        ray_start.begin_for(spec.resources)
    from orchestrator.sweep.sweep import run_sweep

    raise typer.Exit(run_sweep(spec, storage, console).exit_code)


@app.command()
def resume(
    folder: options.SweepFolder,
    tracking_uri: options.TrackingUri = None,
    overrides: options.Overrides = None,
    retry_failed: options.RetryFailed = False,
    accept_code_change: options.AcceptCodeChange = False,
) -> None:
    """Go on with a sweep that was interrupted or killed. Only resources and tracking may be changed by --set."""
    from orchestrator.sweep.sweep import resume_sweep

    outcome = resume_sweep(
        folder,
        console,
        options.with_uri(overrides, tracking_uri),
        retry_failed=retry_failed,
        accept_code_change=accept_code_change,
    )
    raise typer.Exit(outcome.exit_code)


@app.command()
def confirm(
    folder: options.SweepFolder,
    top: Annotated[int, typer.Option(help="How many configurations, the first by the sweep's objective.")] = 3,
    seeds: Annotated[str, typer.Option(help="How many fresh seeds, or a list of them: 100,101,102.")] = "10",
    configuration: options.Configurations = None,
    name: Annotated[str | None, typer.Option(help="Name of the confirmation; by default <sweep>-confirm.")] = None,
    allow_unfinished: Annotated[bool, typer.Option(help="Confirm a sweep that is not finished.")] = False,
    tracking_uri: options.TrackingUri = None,
    overrides: options.Overrides = None,
) -> None:
    """Train the best configurations of a sweep again, on seeds that no selection used. --set: resources, tracking."""
    from orchestrator.sweep.confirm import confirm as confirm_sweep

    outcome = confirm_sweep(
        folder,
        console,
        top=top,
        seeds=seeds,
        configurations=configuration or (),
        name=name,
        allow_unfinished=allow_unfinished,
        overrides=options.with_uri(overrides, tracking_uri),
    )
    raise typer.Exit(outcome.exit_code)


app.add_typer(cli_results.app)


def main() -> None:
    """Run the command line; what lengthwise can explain is one message on stderr and an exit code."""
    make_streams_lenient()
    redact_log_records()
    code = _run_verb()
    sys.stdout.flush()
    sys.exit(code or int(LenientOutput.lost))


def _run_verb() -> int:
    """Run the verb of the command line and return its exit code."""
    try:
        app()
    except SystemExit as ended:  # as all verbs end
        if ended.__context__ is not None and isinstance(ended.__context__.__cause__, KeyboardInterrupt):
            _complain("interrupted")  # which typer turns into an exit
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # code of the user's own may raise anything
        if os.environ.get(DEBUG_VARIABLE):
            sys.stderr.write(masked_traceback(error))
            return (
                error.exit_code if isinstance(error, LengthwiseError) else 2 if isinstance(error, SweepFileError) else 1
            )
        if isinstance(error, LengthwiseError):
            _complain(str(error))
            return error.exit_code
        if isinstance(error, SweepFileError):
            _complain(error.in_full)
            return 2
        if memory := out_of_memory(error):
            sys.stderr.write(f"{redact(memory)}\n")  # a console would need some
            return 1
        if isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
            _complain(f"{error.filename2 or error.filename}: cannot be used: {error.strerror}")
            return 1
        said = f"{type(error).__name__}: {error}\nthis should not happen; {DEBUG_VARIABLE}=1 shows where it did"
        _complain(redact(said))
        return 1
    return 0


def _load(file: Path, overrides: list[str] | None, name: str | None = None, imports: list[str] | None = None) -> Any:
    return _checked(read_sweep(file, overrides or (), name, imports or ()))


def _checked(reading: Reading) -> Any:
    from orchestrator.plan.soundness import checked

    spec = checked(reading)
    for note in spec.notes:
        _say(f"note: {note}")
    return spec


def _say(text: str) -> None:
    say(console, text)


def _complain(text: str) -> None:
    say(errors, text)
