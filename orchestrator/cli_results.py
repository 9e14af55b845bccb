"""The verbs of sweeps that are there: where one stands, what came out, its ledger, MLflow. See `cli`."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator import options
from orchestrator.consoles import aligned, make_console, say
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import check_storage, default_storage
from orchestrator.redaction import remember

app = typer.Typer()
console = make_console()


@app.command()
def status(folder: options.SweepFolder, trace: options.Trace = False) -> None:
    """Say where a sweep stands, whether it is running, and its best configuration so far."""
    from orchestrator.record.state.state import SweepState
    from orchestrator.running.watching.meter import status_rows, trace_lines

    state = SweepState.load(folder)
    _say("\n".join([aligned(status_rows(state)), *(trace_lines(state) if trace else ())]))


@app.command()
def report(
    folder: options.SweepFolder,
    maps: options.Maps = None,
    full: Annotated[bool, typer.Option("--full", help="Print every table.")] = False,
) -> None:
    """Draw figures and report of a sweep, finished or not, and print what came out."""
    from orchestrator.figures.maps import draw_maps
    from orchestrator.report.files import present

    asked = draw_maps(folder, maps) if maps else []
    present(folder, console, full=full)
    for line in asked:
        _say(line)


@app.command()
def attention(
    folder: options.SweepFolder,
    configuration: Annotated[str, typer.Argument(metavar="CONFIGURATION", help="Number, label or config_id.")],
    length: Annotated[int, typer.Option(help="Of the input: one that was evaluated.")],
    distribution: Annotated[str | None, typer.Option(help="By default the one that is trained on.")] = None,
    row: Annotated[int, typer.Option(help="Which of the inputs that were evaluated there, from 0.")] = 0,
    seed: Annotated[int | None, typer.Option(help="By default the median one.")] = None,
    average: Annotated[str | None, typer.Option(help="Of the weights; by default the one that is judged.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="PATH.png", help="By default below the figures of the sweep.")
    ] = None,
) -> None:
    """Draw what each token of one input attends to, in every layer and head, from kept weights. Trains nothing."""
    from orchestrator.figures.drawing import check_target
    from orchestrator.figures.maps import attention_path, draw_attention
    from orchestrator.results.from_weights.attention_maps import attention_of

    if figure is not None:
        check_target(figure)
    found = attention_of(
        folder, configuration, length=length, distribution=distribution, row=row, seed=seed, average=average
    )
    _say(f"Attention: {draw_attention(found, figure or attention_path(folder, found))}")


@app.command()
def compare(
    folder: options.SweepFolder,
    first: options.Compared,
    second: options.Compared,
    metric: Annotated[str | None, typer.Option(help="By default the one that is judged.")] = None,
    average: Annotated[str | None, typer.Option(help="By default the one that is judged.")] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Such as 5,8; by default the test, selection and trained lengths.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="PATH.csv", help="Also write what is printed.")] = None,
) -> None:
    """Compare two configurations over their seeds: difference, interval, exact test. Trains nothing."""
    from orchestrator.report.terminal.named_comparison import show_comparison, write_comparison
    from orchestrator.results.comparing.named_comparison import compare_named

    if csv is not None and csv.exists():
        raise UserError(f"{csv} is there already; name another file, or remove it")
    found = compare_named(folder, first, second, metric=metric, average=average, lengths=lengths)
    show_comparison(found, console)
    if csv is not None:
        write_comparison(found, csv)
        _say(f"wrote {csv}")


@app.command()
def claims(
    file: Annotated[Path, typer.Argument(metavar="CLAIMS.yaml", help="A claims file.")],
    storage: options.Storage = None,
    page: Annotated[
        Path | None, typer.Option(metavar="OUT.md", help="Also write a page with every number and figure.")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="First run or resume the sweeps whose files lie beside the claims file.")
    ] = False,
) -> None:
    """Put claims to sweeps: verdicts with effects, intervals and seeds. Trains nothing without --run."""
    from orchestrator.claims.verb import put_claims, run_missing

    storage = storage or default_storage()
    if run and (code := run_missing(file, storage, _say)):
        raise typer.Exit(code)
    for line in put_claims(file, storage, page):
        _say(line)


@app.command()
def publish(folder: options.SweepFolder, tracking_uri: options.TrackingUri = None) -> None:
    """Bring MLflow up to what the ledger says; may be repeated at any time."""
    from orchestrator.report import artifacts
    from orchestrator.tracking.publish import publish as publish_sweep

    remember(tracking_uri)
    with make_console(stderr=True).status("publishing ...") as shown:
        published = publish_sweep(
            folder,
            tracking_uri,
            artifacts=artifacts,
            told=lambda done, total: shown.update(f"publishing: {done} of {total} configurations are sent"),
        )
    _say(f"{published.uri}: {published.completed} configurations are published; {published.points} points were new")
    for what, link in published.links:
        _say(f"{what}: {link}")


@app.command()
def repair(folder: options.SweepFolder) -> None:
    """Cut a damaged ledger after its last good record, and say what is lost; the damaged file is kept."""
    from orchestrator.record.repair import repair as repair_ledger

    for line in repair_ledger(folder).sentences():
        _say(line)


@app.command()
def ui(
    storage: options.Storage = None,
    tracking_uri: Annotated[str | None, typer.Option(help="Another store of the form sqlite:///FILE.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="Port; by default a free one.")] = None,
    allowed_hosts: Annotated[str | None, typer.Option(help="Host names it answers to, separated by commas.")] = None,
) -> None:
    """Open MLflow on the store of the storage folder and print links to the charts of every sweep."""
    storage = storage or default_storage()
    if tracking_uri is None:
        check_storage(storage)
    _say("starting MLflow ...")
    from orchestrator.tracking.ui.serve import serve

    serve(storage, host, port, allowed_hosts=allowed_hosts, uri=tracking_uri, say=_say)


def _say(text: str) -> None:
    say(console, text)
