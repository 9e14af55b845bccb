"""Publish a sweep, finished or not, from its ledger to MLflow, or delete its runs there.

`publish` is idempotent and may be interrupted anywhere: runs are found by their tags, times come from the ledger, and
only missing parts of runs are sent. A child process of the driver calls it, too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.mirror.mirrored_ledger import open_ledger
from orchestrator.record.files.curves import CURVES_FILE, read_curves, write_curves
from orchestrator.record.ledger.folders import PUBLISH_LOCK_FILE
from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.write_report import list_report_files, write_report
from orchestrator.results.make_summary import summarize
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_command
from orchestrator.tracking.address import choose_tracking_uri, get_sqlite_path, is_from_this_machine
from orchestrator.tracking.mlflow_names import compute_sweep_id
from orchestrator.tracking.run_contents import MlflowRunBuilder
from orchestrator.tracking.store import MlflowExperiment, open_client, search_runs_by_tag
from orchestrator.tracking.tracking_errors import TrackingError, convert_tracking_errors

CURVES_PICTURE, PICTURE_INCHES = "curves.png", (6.6, 4.0)


@dataclass(frozen=True)
class Published:
    """The result of a `publish` call: numbers of `created` runs, sent `points`, and `completed` configurations."""

    uri: str
    parent_run_id: str
    links: tuple[tuple[str, str], ...]
    created: int
    completed: int
    points: int


def publish(
    folder: Path,
    uri: str | None = None,
    *,
    experiment: str | None = None,
    sweep_files: bool = True,
    wait_for_files: Callable[[], object] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Published:
    """Bring MLflow at `uri` up to date with the ledger of a sweep, finished or not.

    `uri` defaults to `choose_tracking_uri(state)`, "" is SQLite beside the sweep. `experiment` defaults to the last one
    published to, then to `tracking.experiment` of the sweep file, then to the study, which "" also means.
    `sweep_files=False` uploads no files. Otherwise the picture is drawn here, and report, tables and curves.parquet are
    written here unless `wait_for_files` is given, which returns once another process has written them. `on_progress`
    gets the number of sent configurations and the number of all. Raises TrackingError if MLflow cannot be reached or
    refuses, and what `choose_tracking_uri` and reading the sweep raise.
    """
    # Error messages show a command that repeats the call, with --tracking-uri only if the sweep has no such address.
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    recorded_uri = (state.spec.get("tracking") or {}).get("uri")
    uri_option = uri if uri is not None and uri != (recorded_uri or "") else None
    uri = choose_tracking_uri(state, uri)

    # The lock is held from the first read to the last write, so that two publishers do not create a run twice.
    with convert_tracking_errors(uri, format_command("publish", folder), uri_option), _lock_publishing(folder):
        name = _choose_experiment(state, records) if experiment is None else experiment or state.study
        store = MlflowExperiment(uri, name, folder.resolve().parent)
        curves = read_curves(state)
        summary = summarize(state, curves)
        builder = MlflowRunBuilder(summary, records, curves)

        # Update the run of the sweep first, because its children refer to it.
        existing_runs = store.read_runs(builder.sweep_id)
        sweep_run = builder.make_sweep_run()
        digests = list[str]()
        parent = store.sync_run(sweep_run, existing_runs.get(None))
        parent_id = str(parent.info.run_id)
        for row, contents in builder.make_configuration_runs(parent_id):
            store.sync_run(contents, existing_runs.get(row.config_id))
            digests.append(contents.compute_digest())
            on_progress(len(digests), len(summary.rows))

        # Files are large, and change only if a run does; they come last, so that values appear early.
        def make_files() -> Iterator[Path]:
            with TemporaryDirectory() as scratch:
                yield from draw_picture(summary, Path(scratch))  # while another process writes the other files
            if wait_for_files is not None:
                wait_for_files()
            else:
                write_report(folder, summary, curves)
                write_curves(state, curves)
            yield from [folder / CURVES_FILE, *list_report_files(folder)]

        # The digest of all runs says whether the files have changed.
        if sweep_files:
            store.upload(parent, make_files, {"sweep.yaml": state.spec}, sweep_run.compute_digest(*digests))
        links = store.make_links(parent_id)
        completed = summary.complete_configurations
        return Published(store.uri, parent_id, links, store.created, completed, store.points)


def draw_picture(summary: Summary, folder: Path) -> Iterator[Path]:
    """Write the median curves of a sweep to `folder` and yield the path of the picture; nothing without curves."""
    from orchestrator.figures.figure_files import render_curves  # imports matplotlib

    with suppress(UserError):
        picture = render_curves(summary, "png", PICTURE_INCHES)
        (folder / CURVES_PICTURE).write_bytes(picture)
        yield folder / CURVES_PICTURE


def record_address(folder: Path, uri: str) -> None:
    """Record a new address of a sweep in its ledger, unless a driver runs it, which records its own."""
    # Recording is a convenience: a folder of another user, or a ledger that a driver has locked, is no failure.
    if uri not in SweepState.load(folder).published_at:
        with suppress(LengthwiseError), open_ledger(folder) as ledger:
            ledger.append("publish", uri=uri, ok=True, message="")


def delete_runs(folder: Path, uri: str | None = None) -> dict[str, int]:
    """Mark the MLflow runs of the sweep in `folder` as deleted; return their number by address.

    `uri` is the address; by default every address to which this machine has published the sweep. Raises
    TrackingError if MLflow cannot be reached or refuses, and what reading the ledger raises.
    """
    # Addresses in a sweep from another machine are not trusted, because a request sends the user's token.
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    addresses = state.published_at if uri is None and is_from_this_machine(state) else []
    deleted = dict[str, int]()
    retry = f"{format_command('delete', folder)} --mlflow"

    # Opening a SQLite file that is gone would create it.
    for address in dict.fromkeys(choose_tracking_uri(state, address) for address in (uri, *addresses)):
        deleted[address] = 0
        database = get_sqlite_path(address)
        if database is None or database.exists():
            with convert_tracking_errors(address, retry, uri):
                client = open_client(address)

                # `resume` may have named another experiment, so all are searched.
                for run in list(search_runs_by_tag(client, "sweep_id", compute_sweep_id(records))):
                    client.delete_run(run.info.run_id)
                    deleted[address] += 1
    return deleted


def _choose_experiment(state: SweepState, records: Sequence[Record]) -> str:
    """Return the MLflow experiment last published to by a driver, else the sweep file's, else the study."""
    published = [record.fields for record in records if record.kind == "publish" and record.fields.get("ok")]
    experiments = [fields.get("experiment") for fields in reversed(published)]
    return next(filter(None, experiments), (state.spec.get("tracking") or {}).get("experiment") or state.study)


def _lock_publishing(folder: Path) -> AbstractContextManager[object]:
    """Return the lock on publishing a sweep as a context; two publishers at once would create every run twice."""
    path = folder / PUBLISH_LOCK_FILE
    try:
        return FileLock(path, timeout=60).acquire()
    except Timeout:
        raise TrackingError(f"{folder}: another process is publishing this sweep; wait until it has finished") from None
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}; publish a copy of the folder") from error
