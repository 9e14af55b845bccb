"""Define the commands that read existing sweeps: state, results, ledger, MLflow."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.sweep_command import SweepTyper
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage, refuse_empty_storage
from orchestrator.running.driving.interrupts import INTERRUPTED_EXIT_CODE
from orchestrator.text.consoles import align_rows, make_console, say
from orchestrator.text.wording import format_command

app = SweepTyper()
console = make_console()
_say = partial(say, console)


@app.command(rich_help_panel=options.LOOK, examples=("quickstart --follow",))
def status(
    folder: options.OptionalSweepFolder = None,
    trace: options.Trace = False,
    follow: options.Follow = False,
    storage: options.SweepStorage = None,
) -> None:
    """Show how far a sweep is, and its best configuration so far.

    Without DIR: a line for every sweep of the storage folder.
    """
    if folder is None:
        if trace or follow:
            raise UserError(f"{'--trace' if trace else '--follow'}: needs DIR, the folder or name of a sweep")
        from orchestrator.upkeep.listing import list_sweeps

        _say("\n".join(list_sweeps(find_default_storage(), is_default=storage is None, width=console.width)))
        return

    # The display ends with the sweep; Ctrl-C ends only the display.
    from orchestrator.record.state.state import SweepState
    from orchestrator.running.watching.follow import follow_sweep
    from orchestrator.running.watching.leading_curve import make_leading_curve_rows, make_undefined_rows
    from orchestrator.running.watching.status import make_status_rows, make_trace_lines

    try:
        state = follow_sweep(folder, console) if follow else SweepState.load(folder)
    except KeyboardInterrupt:
        _say(f"no longer followed; the sweep continues: {format_command('status', folder)} --follow")
        raise typer.Exit(INTERRUPTED_EXIT_CODE) from None

    rows = [*make_status_rows(state, traces_follow=trace), *make_leading_curve_rows(state), *make_undefined_rows(state)]
    _say("\n".join([align_rows(rows), *(make_trace_lines(state) if trace else ())]))


@app.command(rich_help_panel=options.LOOK, examples=("quickstart --open",))
def report(
    folder: options.SweepFolder,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Write the page and the tables of a sweep; print its results."""
    from orchestrator.report.write_report import present_report, refuse_read_only

    refuse_read_only(folder)
    present_report(folder, console, show=show)


@app.command(
    rich_help_panel=options.LOOK,
    short_help="Compare configurations or whole sweeps over their seeds.",
    examples=("quickstart 8 2", "quickstart narrow"),
)
def compare(
    folder: options.SweepFolder,
    others: options.ComparedNames = None,
    metric: Annotated[str | None, typer.Option(help="By default the judged metric.")] = None,
    average: Annotated[str | None, typer.Option(help="By default the judged weight average.")] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Lengths, such as 5,8-10; by default the test, selection and trained ones.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="PATH.csv", help="Also write the numbers to this file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="PATH.png", help="For sweeps: also draw the difference against length.")
    ] = None,
    force: options.Force = False,
    storage: options.SweepStorage = None,
) -> None:
    """Compare configurations or whole sweeps over their seeds.

    Several sweeps are each compared with the first. Trains nothing.
    """
    from orchestrator.report.comparisons import compare_and_show

    if not others:
        raise UserError(
            f"nothing to compare with; give two configurations: {format_command('compare', folder)} 0 1; or another "
            f"sweep: {format_command('compare', folder)} SWEEP (lengthwise list sweeps)"
        )
    question = {"metric": metric, "average": average, "lengths": lengths}
    for line in compare_and_show(folder, others, console, csv, figure, **question, force=force):
        _say(line)


@app.command(rich_help_panel=options.LOOK)
def claims(
    file: Annotated[Path, typer.Argument(metavar="CLAIMS.yaml", help="A claims file.")],
    storage: options.Storage = None,
    page: Annotated[
        Path | None, typer.Option(metavar="OUT.md", help="Also write a page with every number and figure.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="First run or resume the sweeps beside the claims file.")] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Also archive the results behind the verdicts in results/ beside the claims file."),
    ] = False,
) -> None:
    """Judge claims by sweeps, with effects, intervals and seeds.

    Trains nothing without --run.
    """
    from orchestrator.claims.judge_file import judge_claims, run_missing
    from orchestrator.mirror.fetch import fetch_storage

    storage = storage or find_default_storage()
    fetch_storage(storage)
    if run and (code := run_missing(file, storage, _say, page)):
        raise typer.Exit(code)
    for line in judge_claims(file, storage, page, keep=keep):
        _say(line)


@app.command(rich_help_panel=options.EXPORT)
def publish(
    folder: options.SweepFolder,
    tracking_uri: options.TrackingUri = None,
    storage: options.SweepStorage = None,
) -> None:
    """Send the results that MLflow lacks; may be repeated at any time."""
    from orchestrator.tracking.publish import publish as publish_sweep
    from orchestrator.tracking.publish import record_address

    with make_console(stderr=True).status("publishing ...") as status_line:
        published = publish_sweep(
            folder,
            tracking_uri,
            on_progress=lambda done, total: status_line.update(f"publishing: {done} of {total} configurations sent"),
        )

    # `lengthwise delete --mlflow` later reads the address from the ledger.
    record_address(folder, published.uri)
    _say(f"{published.uri}: {published.completed} configurations published; {published.points} new points sent")
    for name, link in published.links:
        _say(f"{name}: {link}")


@app.command(rich_help_panel=options.MAINTENANCE)
def repair(
    folder: options.SweepFolder,
    storage: options.SweepStorage = None,
) -> None:
    """Cut a damaged ledger after its last good record.

    Prints what is lost, and keeps the damaged file.
    """
    from orchestrator.record.repair import repair_ledger

    for line in repair_ledger(folder):
        _say(line)


@app.command(rich_help_panel=options.LOOK, short_help="Open MLflow on the sweeps of the storage folder.")
def ui(
    storage: options.Storage = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(metavar="URI", parser=options.parse_store, help="Another store of the form sqlite:///FILE."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port; by default a free one.")] = None,
    allowed_hosts: Annotated[str | None, typer.Option(help="Accepted host names, separated by commas.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page of the newest sweep in a browser.")] = False,
) -> None:
    """Open MLflow on the sweeps of the storage folder, by default sweeps/ in this folder, with links to the newest."""
    from orchestrator.mirror.fetch import fetch_storage

    # The option precedes the environment variable, and both precede the file in the storage folder.
    is_default, storage = storage is None, storage or find_default_storage()
    fetch_storage(storage)
    if tracking_uri is None:
        from orchestrator.tracking.address import read_uri_variable

        tracking_uri = read_uri_variable()
    if not tracking_uri:
        refuse_empty_storage(storage, is_default=is_default)

    _say("starting MLflow ...")
    from orchestrator.tracking.ui import serve

    serve(storage, host, port, allowed_hosts=allowed_hosts, uri=tracking_uri, show=show, say=_say)
