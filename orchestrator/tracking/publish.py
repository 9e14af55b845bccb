"""From the ledger to MLflow: idempotent, in batches, off the control path. The only module that imports mlflow.

`publish` may be repeated and may be cut short anywhere: runs are found by their tags, times come from the ledger, and
only what is missing is sent. `Publisher` does it in the background of a sweep; an outage delays pictures and loses
nothing.

TrackingError (a LengthwiseError)    MLflow cannot be reached, or refuses what is sent; the sweep itself is unharmed
"""

import hashlib
import json
import logging
import os
import re
import shlex
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from filelock import FileLock, Timeout

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before the import: clusters often have no way out

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from orchestrator.consoles import command
from orchestrator.errors import LengthwiseError
from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.record.curves import write_curves
from orchestrator.record.folders import sweep_folders
from orchestrator.record.ledger import read_records
from orchestrator.record.lock import running
from orchestrator.record.state import SweepState
from orchestrator.report.files import csv_tables, write_report
from orchestrator.results.summary import Row, summary
from orchestrator.tracking import pages as mlflow_view
from orchestrator.tracking.contents import ContentsOfSweep, Point, RunContents, sweep_id
from orchestrator.tracking.server import UiServer, serve_until_stopped

METRICS_PER_BATCH, TEXTS_PER_BATCH, BYTES_PER_BATCH = 1000, 100, 800_000
DIGEST_TAG, FILES_TAG = "lengthwise.published", "lengthwise.published_files"
IDENTITY = (
    *("lengthwise.kind", "lengthwise.sweep", "lengthwise.sweep_id", "lengthwise.spec_hash", "lengthwise.config_id"),
    "mlflow.parentRunId",
)
OUTAGE = {  # MLflow's own settings let one call block for four minutes; these notice an outage in seconds
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}

_log = logging.getLogger(__name__)
for _noisy in ("mlflow", "alembic"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)


class TrackingError(LengthwiseError):
    """MLflow cannot be reached or refuses what is sent; names the address and how to complete it later."""


@dataclass(frozen=True)
class Published:
    """What one call of `publish` did: runs `created` and `points` sent by it, configurations `completed` in all."""

    uri: str
    parent_run_id: str
    links: tuple[tuple[str, str], ...]
    created: int
    completed: int
    points: int


def default_uri(storage: Path) -> str:
    """The SQLite store of a storage folder."""
    return f"sqlite:///{(storage / 'mlflow.db').resolve()}"


def publish(
    folder: Path, uri: str | None = None, *, experiment: str | None = None, sweep_files: bool = True
) -> Published:
    """Bring MLflow at `uri` up to what the ledger of `folder` says; unfinished sweeps as far as they are.

    `uri` and `experiment` default to the sweep file's `tracking` section, then to SQLite beside the sweep and to the
    study. `sweep_files=False` leaves what is drawn from all configurations (comparison, report, curves.parquet) to a
    later call. Raises TrackingError when MLflow cannot
    be reached or refuses, and what reading the sweep raises.
    """
    folder = Path(folder)
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    section = state.spec.get("tracking") or {}
    uri = uri or section.get("uri") or default_uri(folder.resolve().parent)
    for key, value in OUTAGE.items():
        os.environ.setdefault(key, value)
    try:
        with FileLock(folder / ".publish.lock", timeout=60):
            store = _Store(uri, experiment or section.get("experiment") or state.study)
            curves = state.curves()
            contents = ContentsOfSweep(state, summary(state, curves), records, curves)
            return _publish(store, contents, sweep_files)
    except Timeout:
        raise TrackingError(f"{folder}: another process is publishing this sweep") from None
    except OSError as error:  # requests' errors are OSErrors
        raise TrackingError(_outage(uri, folder, error)) from error
    except MlflowException as error:
        raise TrackingError(_outage(uri, folder, error)) from error


def _outage(uri: str, folder: Path, error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"MLflow at {uri}: {lines[0][:300]}\ncomplete it later with: lengthwise publish {folder}"


def _publish(store: "_Store", contents: ContentsOfSweep, sweep_files: bool) -> Published:
    """The parent first (children point to it), then each configuration, then the files drawn from all of them."""
    found = store.runs_of(contents.sweep_id)
    sent = _Sent()
    parent = contents.parent()
    stamps = []
    parent_id = store.bring_up(parent, found.get(None), sent)
    completed, best = 0, None
    for row, child in contents.children():
        child = replace(child, tags={**child.tags, "mlflow.parentRunId": parent_id})
        stamps.append(child.digest())
        files = partial(_configuration_files, contents, row) if row.complete else None
        run_id = store.bring_up(child, found.get(row.config_id), sent, files, stamps[-1])
        completed += row.complete
        best = (run_id, row.config_id) if row.rank == 1 else best
    store.set_view(contents.sweep_id, mlflow_view.chart_view(contents.charts(), parent_id))
    if sweep_files:
        run = store.client.get_run(parent_id)
        store.bring_up(parent, run, sent, partial(_sweep_files, contents), parent.digest(*stamps))
    links = store.links(contents.sweep_id, parent_id, best)
    return Published(store.uri, parent_id, links, sent.created, completed, sent.points)


@dataclass
class _Sent:
    created: int = 0
    points: int = 0


Files = Callable[[Path], dict[Path, str]]  # writes into a folder; returns local path -> folder among the artifacts


def _configuration_files(contents: ContentsOfSweep, row: Row, folder: Path) -> dict[Path, str]:
    summary, state = contents.summary, contents.state
    curves = folder / "curves.parquet"
    mine = contents.curves[contents.curves["config_id"] == row.config_id]
    mine.astype({"config_id": "str"}).to_parquet(curves, index=False)
    spec = folder / "configuration.yaml"
    spec.write_text(yaml.safe_dump(state.configurations[row.config_id].resolved, sort_keys=False, allow_unicode=True))
    figure = configuration_figure(summary, row, state.folder / "figures" / f"configuration-{row.config_id}.png")
    return {curves: "", spec: "", figure: "figures"}


def _sweep_files(contents: ContentsOfSweep, folder: Path) -> dict[Path, str]:
    state = contents.state
    spec = folder / "sweep.yaml"
    spec.write_text(yaml.safe_dump(state.spec, sort_keys=False, allow_unicode=True))
    drawn = draw_all(contents.summary, state.folder / "figures")
    html, _ = write_report(state.folder, contents.summary)
    tables = [state.folder / table for table in csv_tables(contents.summary)]
    files = dict.fromkeys([spec, html, *tables, write_curves(state)], "")
    return {**files, **dict.fromkeys(drawn.all, "figures")}


class _Store:
    """One experiment of one MLflow store."""

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        self.server = uri.rstrip("/") if uri.startswith(("http://", "https://")) else None
        initialise(uri)
        self.client = MlflowClient(uri)
        self.experiment_id = self._experiment(experiment)

    def runs_of(self, sweep_id: str) -> dict[str | None, Run]:
        """The runs of a sweep by config_id (None: the parent); a twin left by a lost answer is deleted."""
        runs: dict[str | None, list[Run]] = defaultdict(list)
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id], f"tags.`lengthwise.sweep_id` = '{sweep_id}'", max_results=1000, page_token=token
            )
            for run in page:
                runs[run.data.tags.get("lengthwise.config_id")].append(run)
            token = page.token
            if not token:
                break
        for twins in runs.values():
            twins.sort(key=lambda run: (-len(run.data.metrics), run.info.run_id))
            for twin in twins[1:]:
                self.client.delete_run(twin.info.run_id)
        return {config_id: twins[0] for config_id, twins in runs.items()}

    def bring_up(
        self, contents: RunContents, run: Run | None, sent: _Sent, files: Files | None = None, files_stamp: str = ""
    ) -> str:
        """Send what is missing of one run and return its id; with `files` also those, unless they bear `files_stamp`.

        A run that says otherwise than the ledger is deleted and made anew, since MLflow can correct neither parameters
        nor points.
        """
        if run is not None and run.data.tags.get(DIGEST_TAG) != contents.digest() and self._contradicts(run, contents):
            self.client.delete_run(run.info.run_id)
            run = None
        if run is None:
            identity = {key: contents.tags[key] for key in IDENTITY if key in contents.tags}
            run = self.client.create_run(self.experiment_id, contents.start_ms, identity, contents.name)
            sent.created += 1
        run_id = str(run.info.run_id)
        if run.data.tags.get(DIGEST_TAG) != contents.digest():
            self._send(run, contents, sent)
        if files is not None and run.data.tags.get(FILES_TAG) != files_stamp:
            with tempfile.TemporaryDirectory(prefix="lengthwise-") as folder:
                for path, place in files(Path(folder)).items():
                    self.client.log_artifact(run_id, str(path), place or None)
            self.client.set_tag(run_id, FILES_TAG, files_stamp)
        return run_id

    def _send(self, run: Run, contents: RunContents, sent: _Sent) -> None:
        """Parameters, points and tags that are not there yet; the digest last, when all of them are."""
        run_id, known = run.info.run_id, run.data
        params = [Param(key, text) for key, text in contents.params.items() if key not in known.params]
        for batch in _batches(params, TEXTS_PER_BATCH):
            self.client.log_batch(run_id, params=batch)
        missing = self._missing(run_id, set(known.metrics), contents.points)
        for batch in _batches([Metric(p.key, p.value, p.time_ms, p.step) for p in missing], METRICS_PER_BATCH):
            self.client.log_batch(run_id, metrics=batch)
            sent.points += len(batch)
        changed = [RunTag(key, text) for key, text in contents.tags.items() if known.tags.get(key) != text]
        for batch in _batches(changed, TEXTS_PER_BATCH):
            self.client.log_batch(run_id, tags=batch)
        if contents.end_ms is not None:
            self.client.set_terminated(run_id, contents.status, contents.end_ms)
        else:
            self.client.update_run(run_id, status=contents.status)
        self.client.set_tag(run_id, DIGEST_TAG, contents.digest())

    def set_view(self, key: str, view: str) -> None:
        """Store the charts of the sweep's page, unless they are there."""
        tag = mlflow_view.VIEW_TAG + key
        if self.client.get_experiment(self.experiment_id).tags.get(tag) != view:
            self.client.set_experiment_tag(self.experiment_id, tag, view)

    def links(self, view_key: str, parent_id: str, best: tuple[str, str] | None) -> tuple[tuple[str, str], ...]:
        """Where to look: pages of the server, or the command that starts one."""
        if self.server is None:
            return (("MLflow pages of this sweep", f"lengthwise ui --tracking-uri {self.uri}"),)
        return _links(self.server, self.experiment_id, view_key, parent_id, best)

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                tags = {"mlflow.experimentKind": "custom_model_development"}
                return str(self.client.create_experiment(name, artifact_location=self._location(name), tags=tags))
            except MlflowException as error:
                found = self.client.get_experiment_by_name(name)  # another sweep of the study was quicker
                if found is None:
                    raise error
        if found.lifecycle_stage == "deleted":
            raise TrackingError(
                f"MLflow at {self.uri}: the experiment {name!r} is in the bin; name another one "
                f"(tracking.experiment) or restore it: mlflow experiments restore --experiment-id {found.experiment_id}"
            )
        location = found.artifact_location
        if self.server and location.startswith("file:") and not Path(unquote(urlsplit(location).path)).parent.exists():
            raise TrackingError(
                f"MLflow at {self.uri}: the experiment {name!r} keeps its artifacts in {location}, a folder of another "
                "machine; name another one (tracking.experiment)"
            )
        return str(found.experiment_id)

    def _location(self, name: str) -> str | None:
        """Artifacts of a SQLite store lie beside it; a server, also one on the same file, reads them there."""
        database = sqlite_file(self.uri)
        if database is None:
            return None
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60]
        folder = artifact_folder(database.parent) / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return folder.as_uri()

    def _contradicts(self, run: Run, contents: RunContents) -> bool:
        """Whether the run holds another parameter or another value at the same step: neither can be corrected."""
        params = run.data.params
        if any(params[key] != text for key, text in contents.params.items() if key in params):
            return True
        wanted: dict[str, dict[int, float]] = defaultdict(dict)
        for point in contents.points:
            wanted[point.key][point.step] = point.value
        return any(
            metric.value != wanted[key].get(metric.step, metric.value)
            for key in sorted(set(wanted) & set(run.data.metrics))
            for metric in self.client.get_metric_history(run.info.run_id, key)
        )

    def _missing(self, run_id: str, known: set[str], points: Sequence[Point]) -> list[Point]:
        present = {
            (key, metric.step)
            for key in sorted(known & {point.key for point in points})
            for metric in self.client.get_metric_history(run_id, key)
        }
        return [point for point in points if (point.key, point.step) not in present]


def initialise(uri: str) -> None:
    """Create the schema of a SQLite store, one process at a time: two at once crash in MLflow's migration."""
    database = sqlite_file(uri)
    if database is None:
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        MlflowClient(uri).search_experiments(max_results=1)


def sqlite_file(uri: str) -> Path | None:
    """The file of a `sqlite:///` URI, absolute; None for any other."""
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def artifact_folder(storage: Path) -> Path:
    """Where artifacts lie beside a SQLite store."""
    return storage.resolve() / "mlartifacts"


def _batches(items: Sequence[Any], count: int) -> Iterator[list[Any]]:
    """At most `count` items and about BYTES_PER_BATCH of JSON at a time: MLflow refuses more than 1 MB."""
    batch: list[Any] = []
    size = 0
    for item in items:
        cost = len(json.dumps([str(value) for value in dict(item).values()])) + 80
        if batch and (len(batch) == count or size + cost > BYTES_PER_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += cost
    if batch:
        yield batch


def _links(
    server: str, experiment_id: str, view_key: str, parent_id: str, best: tuple[str, str] | None
) -> tuple[tuple[str, str], ...]:
    links = [
        ("curves of the configurations ranked first", mlflow_view.charts_link(server, experiment_id, view_key)),
        ("table of configurations", mlflow_view.table_link(server, experiment_id, view_key)),
        ("comparison figure", mlflow_view.artifact_link(server, experiment_id, parent_id, "figures/comparison.png")),
        ("report", mlflow_view.artifact_link(server, experiment_id, parent_id, "report.html")),
    ]
    if best is not None:
        run_id, config_id = best
        path = f"figures/configuration-{config_id}.png"
        links.append(
            ("configuration ranked first, every seed", mlflow_view.artifact_link(server, experiment_id, run_id, path))
        )
    return tuple(links)


class Publisher:
    """Publishes one sweep from a background thread; never raises into the sweep.

    `notify` after each finished configuration; passes follow each other at a distance, since each reads the whole
    ledger. `close` makes one last pass with figures and report, after the ledger has its `end` record.
    """

    def __init__(
        self, folder: Path, uri: str | None = None, *, experiment: str | None = None, pause: float = 5.0
    ) -> None:
        self.folder, self.uri, self.experiment, self.pause = Path(folder), uri, experiment, pause
        self.latest: Published | None = None
        self.problem: str | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lengthwise-publisher", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Something is new in the ledger; returns at once."""
        self._wake.set()

    def close(self, timeout: float = 60.0) -> str | None:
        """Make the last pass and wait for it; returns None, or what is not published and how to publish it."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            late = f"publishing to MLflow did not end in {timeout:.0f} s"
            return f"{late}; complete it with: lengthwise publish {self.folder}"
        return self.problem

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            last = self._closing.is_set()
            started = time.monotonic()
            self._pass(last)
            if last:
                return
            distance = self.pause * (6 if self.problem else 1)  # an outage is not asked about every few seconds
            self._closing.wait(max(distance, 4 * (time.monotonic() - started)))

    def _pass(self, last: bool) -> None:
        try:
            self.latest = publish(self.folder, self.uri, experiment=self.experiment, sweep_files=last)
            self.problem = None
        except LengthwiseError as error:
            self.problem = str(error)
        except Exception as error:
            _log.exception("publishing %s failed", self.folder)
            self.problem = (
                f"publishing to MLflow failed ({type(error).__name__}: {error}); "
                f"complete it with: lengthwise publish {self.folder}"
            )


def sweeps_in(uri: str, server: str) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """The sweeps published at `uri`, newest first, as (study / sweep, links to their pages on `server`)."""
    client = MlflowClient(uri)
    experiments = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
    runs = client.search_runs(
        list(experiments), "tags.`lengthwise.kind` = 'sweep'", max_results=20, order_by=["attributes.start_time DESC"]
    )
    return [
        (
            f"{experiments[run.info.experiment_id]} / {run.data.tags['lengthwise.sweep']}",
            _links(server, run.info.experiment_id, run.data.tags["lengthwise.sweep_id"], run.info.run_id, None),
        )
        for run in runs
    ]


def unpublished(storage: Path, uri: str) -> list[tuple[str, str]]:
    """The sweeps of `storage` that the store at `uri` does not hold, as (name and standing, the command for it).

    Sweeps whose file names another store are left out.
    """
    client, known, token = MlflowClient(uri), set(), None
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    while True:
        page = client.search_runs(experiments, "tags.`lengthwise.kind` = 'sweep'", max_results=1000, page_token=token)
        known |= {run.data.tags["lengthwise.sweep_id"] for run in page}
        token = page.token
        if not token:
            break
    found = []
    for folder in sweep_folders(storage):
        try:
            records = read_records(folder)
        except LengthwiseError:  # `lengthwise status` says what is wrong with it
            continue
        own = (records[0].fields["spec"].get("tracking") or {}).get("uri")
        if sweep_id(records) in known or own not in (None, uri):
            continue
        ends = [record for record in records if record.kind in ("end", "resume", "retry")][-1:]
        ended = ends[0].fields["status"] if ends and ends[0].kind == "end" else "not finished"
        there = "" if uri == default_uri(storage) else f" --tracking-uri {shlex.quote(uri)}"
        found.append((f"{folder.name}, {'running' if running(folder) else ended}", command("publish", folder) + there))
    return found


def serve(
    storage: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allowed_hosts: str | None = None,
    uri: str | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Run MLflow's server on the store of `storage` until SIGINT or SIGTERM; prints links to every sweep in it,
    and how to publish those that it lacks.

    `uri` names another `sqlite:///` store. `allowed_hosts` is MLflow's list of Host headers it answers (needed behind
    another name than localhost). Raises UiServerError if the server cannot start, TrackingError for other kinds of URI.
    """
    uri = uri or default_uri(storage)
    database = sqlite_file(uri)
    if database is None:
        raise TrackingError(
            f"{uri} is not a SQLite store (sqlite:///FILE); a server for it runs elsewhere: open that one"
        )
    initialise(uri)
    server = UiServer(
        database=database,
        artifacts=artifact_folder(database.parent),
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        log=database.with_name("mlflow-server.log"),
    )

    def ready(server: UiServer) -> None:
        lines: Iterable[str] = (
            f"{title}\n" + "\n".join(f"  {what}: {link}" for what, link in links)
            for title, links in sweeps_in(uri, server.url)
        )
        missing = [f"not published yet: {what}\n  {how}" for what, how in unpublished(storage, uri)]
        say("\n".join([f"MLflow runs at {server.url} (Ctrl-C ends it)", *lines, *missing]))

    serve_until_stopped(server, ready)
