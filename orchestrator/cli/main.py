"""Define the command line: commands on sweep files and sweep directories. Imports little, so that `--help` is quick.

This module has `list`, `init` and the commands on sweep files. `importing` has `import`, `continuing` the commands that
train more of a sweep, and `results` and `upkeep` the commands that read or maintain existing sweeps.
orchestrator/README.md explains the exit codes.
"""

import os
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from platform import python_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchestrator.addresses import get_address_or_path
from orchestrator.cli import continuing, importing, options, results, upkeep
from orchestrator.cli.command_end import DEBUG_VARIABLE, choose_exit_code
from orchestrator.cli.sweep_command import SweepTyper, hide_flag_types
from orchestrator.code.provenance import PACKAGES, read_version
from orchestrator.errors import LengthwiseError, SpecChanged, UserError
from orchestrator.record.ledger.folders import find_default_storage, has_ledger, list_sweep_folders
from orchestrator.running.with_ray import start as ray_start
from orchestrator.sweep.children import SweepChildren
from orchestrator.text.consoles import align_rows, make_console, say, show_until_stopped
from search_spaces import Reading, SweepFileError, SweepSpec, read_sweep


class _CommandGroup(TyperGroup):
    """The group of all commands; its help shows flags without typer's type <bool>."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the global options."""
        return hide_flag_types(super().get_params(ctx))


app = SweepTyper(cls=_CommandGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console, error_console = make_console(), make_console(stderr=True)
_OTHER_LISTS = (
    ("lengthwise list KIND", "names and keys of sweep files, such as task or training"),
    ("lengthwise list --help", "all kinds"),
)
_say, _print_error = partial(say, console), partial(say, error_console)


def _print_versions(is_requested: bool) -> None:
    """Print versions and exit, if --version was given."""
    if is_requested:
        typer.echo(", ".join([*(f"{name} {read_version(name)}" for name in PACKAGES), f"Python {python_version()}"]))
        raise typer.Exit


@app.callback()
def declare_global_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_versions, is_eager=True, help="Print versions, for a bug report."),
    ] = False,
) -> None:
    """Sweeps for length generalization: many configurations and seeds of a script or of small models, median curves,
    and which differences are more than the luck of a seed.
    """


@app.command(rich_help_panel=options.BEGIN, examples=("my_study", "my_study --program"))
def init(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for the files; made if missing.")] = Path(),
    program: Annotated[
        bool, typer.Option("--program", help="Write a training script instead of a task and a model.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Write a sweep file to change and run.

    It has a task and a model of your own, or with --program a script.
    """
    from orchestrator.upkeep.new_study import write_start_files

    for line in write_start_files(target, program=program, force=force):
        _say(line)


@app.command("list", rich_help_panel=options.LOOK, examples=("sweeps", "task"))
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="sweeps; examples; all; names: task, metric, model, position, optimizer, loss, average, schedule, "
            "curriculum; keys: file, training, evaluation, search, objective, resources, budget, tracking, space."
        ),
    ] = None,
    imports: options.Imports = None,
    storage: options.Storage = None,
) -> None:
    """List sweeps, or the names and keys of sweep files.

    Without a kind it lists the sweeps in sweeps/, or else the kinds; with --storage, the sweeps in that folder.
    """
    # Sweeps are in a storage folder, names in the code and its imports, so each kind has an option of its own.
    if kind == "sweeps" or (storage is not None and kind is None):
        if imports:
            raise UserError("--import: not allowed with `lengthwise list sweeps`")
        from orchestrator.upkeep.listing import list_sweeps

        lines = list_sweeps(storage or find_default_storage(), is_default=storage is None, width=console.width)
    else:
        if storage is not None:
            raise UserError("--storage: only allowed with `lengthwise list sweeps`")
        # Somebody who types no kind most likely looks for a sweep.
        if kind is None and not imports and list_sweep_folders(find_default_storage()):
            from orchestrator.upkeep.listing import list_sweeps

            sweeps = list_sweeps(find_default_storage(), is_default=True, width=console.width)
            lines = [*sweeps, "", align_rows(_OTHER_LISTS)]
        else:
            from orchestrator.preview.names import describe_names

            lines = describe_names(kind, imports or ())
    for line in lines:
        _say(line)


@app.command(rich_help_panel=options.BEGIN)
def validate(
    files: options.SweepFiles,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    smoke: options.Smoke = False,
) -> None:
    """Check every line of sweep files, and the configurations that they can draw.

    Writes nothing.
    """
    from orchestrator.claims.registration import digest_claims
    from orchestrator.preview.smoke import validate_sweep

    # An invalid file does not stop the check of the others.
    exit_codes = {0}
    for file in files:
        try:
            spec = _check_and_print_notes(read_sweep(file, overrides or (), imports=imports or ()))
            *warnings, verdict = validate_sweep(spec, with_smoke=smoke)
            digest_claims(spec)  # raises for an invalid claims file
        except (SweepFileError, LengthwiseError) as error:
            if os.environ.get(DEBUG_VARIABLE) and not isinstance(error, SweepFileError):
                raise
            _print_error(error.full_text if isinstance(error, SweepFileError) else f"{file}: {error}")
            exit_codes.add(choose_exit_code(error))
            continue

        for warning in warnings:
            _say(warning)
        _say(f"{file}: {verdict}")
    raise typer.Exit(max(exit_codes))


@app.command(rich_help_panel=options.BEGIN)
def plan(
    file: options.SweepFile,
    storage: options.Storage = None,
    name: options.Name = None,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers at once; by default what fits here.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run a member of a program to its first report, to measure its time.")
    ] = False,
) -> None:
    """Show the configurations, memory and time of a sweep before it runs.

    Writes nothing.
    """
    from orchestrator.claims.registration import digest_claims
    from orchestrator.preview.forecast import forecast

    # Everything is computed before the first line is printed, so that after an error only the error is printed.
    spec = _check_and_print_notes(read_sweep(file, overrides or (), name, imports or ()), storage)
    forecast_result = forecast(spec, workers, should_measure=measure)
    digest_claims(spec)  # raises for an invalid claims file

    _say(f"{spec.name} would be stored in {get_address_or_path((storage or find_default_storage()) / spec.name)}")
    _say(align_rows(forecast_result.rows))
    for warning in forecast_result.warnings:
        _say(f"warning: {warning}")


@app.command(rich_help_panel=options.BEGIN)
def data(
    file: options.SweepFile,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    examples: Annotated[int, typer.Option(min=1, help="The number of training inputs to show.")] = 5,
    fetch: Annotated[bool, typer.Option("--fetch", help="First prepare missing corpora.")] = False,
) -> None:
    """Show the first inputs that a sweep trains on.

    Runs nothing.
    """
    spec = _check_and_print_notes(read_sweep(file, overrides or (), imports=imports or ()))
    from orchestrator.preview.data_view import describe_data

    if fetch:
        from orchestrator.preview.corpora import fetch_corpora

        for line in fetch_corpora(spec):
            _say(line)
    for line in describe_data(spec, examples):
        _say(line)


@app.command(rich_help_panel=options.BEGIN, examples=("quickstart", "quickstart --name ten --set seeds=10"))
def run(
    file: options.SweepFile,
    storage: options.Storage = None,
    tracking_uri: options.TrackingUri = None,
    notify: options.Notify = None,
    name: options.Name = None,
    overrides: options.Overrides = None,
    imports: options.Imports = None,
    max_time: options.MaxTime = None,
    resume: options.Resume = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers at once, at most (resources.workers).")] = None,
) -> None:
    """Run a sweep to its report; with --resume also one that exists."""
    max_seconds = options.parse_duration(max_time)
    overrides = [*(overrides or ()), *([f"resources.workers={workers}"] if workers is not None else [])]
    overrides = options.add_uris(overrides, tracking_uri, notify)
    storage = storage or find_default_storage()

    with ExitStack() as exit_stack:
        # Reading checks only the grammar; names and bounds need torch, which takes seconds to import.
        first_line = exit_stack.enter_context(show_until_stopped(console, f"{file}: reading ..."))
        reading = read_sweep(file, overrides, name, imports or ())
        unchecked_spec = None if reading.findings.problems else reading.spec

        # First decision: without --resume, a sweep that exists is refused, if possible before torch is imported.
        if unchecked_spec is not None and not resume:
            _refuse_existing_early(unchecked_spec, storage / unchecked_spec.name)

        # Second decision: the child processes of a new sweep start now, and import while this process checks the file.
        children = None
        if unchecked_spec is not None and not (storage / unchecked_spec.name).exists():
            children = SweepChildren(unchecked_spec.resources.scheduler, tracking=unchecked_spec.tracking.enabled)
            exit_stack.enter_context(children)
        spec = _check_and_print_notes(reading, storage)
        from orchestrator.running.schedulers.choice import refuse_workers

        refuse_workers(spec.resources.scheduler, workers)

        # Third decision: with --resume, a sweep that has begun is resumed; every other is run from its beginning.
        if resume and _has_begun(storage / spec.name):
            from orchestrator.sweep.run_and_resume import resume_with_spec

            first_line.stop()
            outcome = resume_with_spec(spec, storage, console, max_seconds=max_seconds)
        else:
            ray_start.start_local_ray(spec.resources)  # before the imports of the next line, which take a second
            from orchestrator.sweep.run_and_resume import run_sweep

            first_line.stop()
            outcome = run_sweep(spec, storage, console, children=children, max_seconds=max_seconds)
    raise typer.Exit(outcome.exit_code)


app.add_typer(importing.app)
app.add_typer(continuing.app)
app.add_typer(results.app)
app.add_typer(upkeep.app)


def _check_and_print_notes(reading: Reading, storage: Path | None = None) -> SweepSpec:
    """Return the checked specification and print its notes. Raises SweepFileError with every problem of the file."""
    if reading.spec is None:
        reading.findings.raise_any(reading.unchecked)

    # The registries know the names and bounds that the grammar does not.
    from orchestrator.sweep.check_sweep_file import check_sweep_file  # imports the registries

    spec = check_sweep_file(reading, storage)
    for note in spec.notes:
        _say(f"note: {note}")
    return spec


def _refuse_existing_early(spec: SweepSpec, folder: Path) -> None:
    """Raise SweepExists if `folder` has this sweep; `run_sweep` refuses other sweeps, after the file is checked."""
    # The metric `accuracy.hard` may name a distribution of the task, which is not imported yet.
    if "." in spec.objective.metric:
        return
    from orchestrator.sweep.specification import refuse_existing

    with suppress(SpecChanged):
        refuse_existing(spec, folder)


def _has_begun(folder: Path) -> bool:
    """Return whether `folder` has a sweep, or its address, where another machine may have begun it."""
    from orchestrator.mirror.fetch import fetch_sweep

    fetch_sweep(folder)
    return has_ledger(folder)
