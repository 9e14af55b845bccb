"""From the ledger to MLflow: idempotent, and as far as the sweep has come.

`publish` may be repeated and may be cut short anywhere: runs are found by their tags, times come from the ledger, and
only missing parts of runs are sent.
"""

import shlex
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml
from filelock import FileLock, Timeout

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.mirror.mirrored import open_ledger
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.ledger.folders import PUBLISH_LOCK_FILE
from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.redaction import URI_VARIABLE, without_password
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row
from orchestrator.tracking.artifacts import Artifacts, Files
from orchestrator.tracking.contents import ContentsOfSweep
from orchestrator.tracking.errors import TrackingError, raising_tracking_error
from orchestrator.tracking.sqlite_store import default_uri
from orchestrator.tracking.store import Store
from orchestrator.tracking.variable import uri_of_variable
from orchestrator.wording import command
from search_spaces.grammar.values import make_store_absolute


@dataclass(frozen=True)
class Published:
    """What one call of `publish` did: runs `created` and `points` sent by it, configurations `completed` in all."""

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
    artifacts: Artifacts,
    experiment: str | None = None,
    sweep_files: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Published:
    """Bring MLflow at `uri` up to date with the ledger of `folder`; unfinished sweeps as far as they are.

    `uri` defaults to the address in the sweep file's `tracking` section, then to MLFLOW_TRACKING_URI, then to SQLite
    beside the sweep; `experiment` to the one that a driver last published to, then to the file's, then to the study. ""
    is SQLite beside the sweep, or the study, whatever the file and the variable name. An address that is named by a
    sweep of another machine is not used. `artifacts` makes the report when it is to be uploaded.
    `sweep_files=False` leaves artifacts made from all configurations (report, curves.parquet) to a later call.
    `on_progress` is called with the number of configurations sent and of all. Raises TrackingError when MLflow cannot
    be reached or refuses, UserError if the only known address is named by a sweep of another machine, and what reading
    the sweep raises.
    """
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    own = (state.spec.get("tracking") or {}).get("uri")
    given = uri if uri is not None and uri != (own or "") else None
    uri = tracking_uri_of(state, uri)
    with raising_tracking_error(uri, command("publish", folder), given), _lock_publishing(folder):
        named = _experiment_of(state, records) if experiment is None else experiment or state.study
        store = Store(uri, named, folder.resolve().parent)
        curves = read_curves(state)
        result = summary(state, curves)
        contents = ContentsOfSweep(state, result, records, curves, artifacts.sentences(result))
        files = partial(_sweep_files, contents, artifacts) if sweep_files else None
        return _publish(store, contents, files, on_progress)


def record_address(folder: Path, uri: str) -> None:
    """Record that a sweep is published at `uri`, if that is new and no driver runs it; a driver records its own."""
    if uri not in SweepState.load(folder).published_at:
        with suppress(LengthwiseError), open_ledger(folder) as ledger:  # the folder of somebody else is not writable
            ledger.append("publish", uri=uri, ok=True, message="")


def tracking_uri_of(state: SweepState, uri: str | None = None) -> str:
    """Return the address that a sweep is published to, without password; `uri` if one is given, "" for the default.

    Raises UserError if only a sweep of another machine names an address.
    """
    if uri is None:
        uri = _named_address((state.spec.get("tracking") or {}).get("uri"), state)
    uri = uri or default_uri(state.folder.resolve().parent)
    return make_store_absolute(without_password(uri))


def _experiment_of(state: SweepState, records: Sequence[Record]) -> str:
    """Return the name of the MLflow experiment that a driver last published a sweep to, else its own or its study."""
    recorded = [one.fields.get("experiment") for one in records if one.kind == "publish" and one.fields.get("ok")]
    own = (state.spec.get("tracking") or {}).get("experiment")
    return next(filter(None, reversed(recorded)), own or state.study)


def _named_address(named: str | None, state: SweepState) -> str | None:
    """Return the tracking address that a folder names if the sweep ran on this machine, else that of MLflow's variable.

    The author of a folder may have named any address, to which the user's own token would be sent. A machine is known
    by its host name; a container has another one each time, and must then be given the address.
    """
    if named is not None and is_from_this_machine(state):
        return named
    if (uri := uri_of_variable()) is not None or named is None:
        return uri
    raise UserError(
        f"{state.folder} was written on {' and '.join(_hosts(state))}, not on this machine, and "
        f"names the MLflow at {named}; if you trust it: {command('publish', state.folder)} --tracking-uri "
        f"{shlex.quote(named)}, otherwise give another address there or by {URI_VARIABLE}"
    )


def is_from_this_machine(state: SweepState) -> bool:
    """Return whether a sweep was begun or resumed on this machine, so that the addresses it names can be trusted."""
    return socket.gethostname() in _hosts(state)


def _hosts(state: SweepState) -> list[str]:
    return list(dict.fromkeys(str(origin.get("hostname")) for origin in (state.provenance, *state.resumes)))


def _lock_publishing(folder: Path) -> AbstractContextManager[object]:
    """Take the lock on publishing this sweep, which leaving the context releases."""
    path = folder / PUBLISH_LOCK_FILE
    try:
        return FileLock(path, timeout=60).acquire()
    except Timeout:
        raise TrackingError(f"{folder}: another process is publishing this sweep") from None
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}; publish a copy of the folder") from error


def _publish(
    store: Store,
    contents: ContentsOfSweep,
    sweep_files: Callable[[Path], Files] | None,
    on_progress: Callable[[int, int], None],
) -> Published:
    """Publish the parent first (children point to it), then configurations, then files, which may still be drawn."""
    found = store.read_runs(contents.sweep_id)
    parent = contents.parent()
    run = store.update_run(parent, found.get(None))
    parent_id = str(run.info.run_id)
    stamps, uploads = [], []
    completed = 0
    for row, child in contents.children():
        child = replace(child, tags={**child.tags, "mlflow.parentRunId": parent_id})
        stamps.append(child.digest())
        child_run = store.update_run(child, found.get(row.config_id))
        if row.complete:
            files = partial(_configuration_files, contents, row)
            uploads.append(partial(store.upload, child_run, files, stamps[-1]))
        completed += row.complete
        on_progress(len(stamps), len(contents.summary.rows))
    for upload in uploads:
        upload()
    if sweep_files:
        store.upload(run, sweep_files, parent.digest(*stamps))
    links = store.links(parent_id)
    return Published(store.uri, parent_id, links, store.created, completed, store.points)


def _configuration_files(contents: ContentsOfSweep, row: Row, folder: Path) -> Files:
    """Return the uploads of every configuration; data files are written into `folder`."""
    curves = folder / "curves.parquet"
    mine = contents.curves[contents.curves["config_id"] == row.config_id]
    mine.astype({"config_id": "str"}).to_parquet(curves, index=False)
    spec = folder / "configuration.yaml"
    resolved = contents.state.configurations[row.config_id].resolved
    spec.write_text(yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return {curves: "", spec: ""}


def _sweep_files(contents: ContentsOfSweep, artifacts: Artifacts, folder: Path) -> Files:
    """Return the files to upload of the sweep; sweep.yaml is written into `folder`."""
    spec = folder / "sweep.yaml"
    spec.write_text(yaml.safe_dump(contents.state.spec, sort_keys=False, allow_unicode=True), encoding="utf-8")
    curves = write_curves(contents.state, contents.curves)
    return {spec: "", curves: "", **artifacts.sweep_files(contents.summary, contents.curves)}
