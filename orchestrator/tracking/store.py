"""Read the runs of an experiment in an MLflow store, and send missing parts in batches."""

import hashlib
import os
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock
from mlflow.entities import Experiment, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy import event
from sqlalchemy.engine import Engine

from orchestrator.text.redaction import restore_password
from orchestrator.tracking.address import (
    choose_artifact_folder,
    get_sqlite_path,
    is_database,
    is_server,
    make_server_command,
)
from orchestrator.tracking.pages import COLOR_TAG, COLORS, NOTE_TAG, make_sweep_links
from orchestrator.tracking.run_contents import Point, RunContents
from orchestrator.tracking.tracking_errors import TIMEOUTS, TrackingError

# A request may have 1,000 items, 100 parameters and 100 tags.
METRICS_PER_BATCH = 800
TEXTS_PER_BATCH = 100
DIGEST_TAG = "lengthwise.published"
FILES_TAG = "lengthwise.published_files"
WRITTEN_NOTE_TAG = "lengthwise.note"  # digest of the note that lengthwise wrote; an edited note has a different digest
CHANGED_TAG = "lengthwise.now."  # + key: the current value of a parameter whose old value a server cannot replace
TABLE_METRICS = {"score", "rank", "generalization_length", "area_beyond", "seeds_run", "seeds_failed"}


def open_client(uri: str) -> MlflowClient:
    """Return a client of the store at `uri` with short timeouts."""
    # MLflow reads timeouts from the environment only, and would print the address with its password.
    for key, value in TIMEOUTS.items():
        os.environ.setdefault(key, value)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(restore_password(uri))


def create_sqlite_store(uri: str) -> None:
    """Create a missing SQLite store atomically, in one process at a time; do nothing for other stores.

    Two simultaneous processes would crash in MLflow's migration. Raises TrackingError for a path with a question mark.
    """
    database = get_sqlite_path(uri)
    if database is None:
        return

    # SQLAlchemy would read the text after a question mark as options.
    if "?" in uri:
        raise TrackingError(f"{uri}: the path of a SQLite file must not contain '?'; choose another --tracking-uri")

    # An interrupted migration would leave a store that MLflow refuses, so the tables are made in a temporary file.
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        if not database.exists():
            with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=database.parent) as folder:
                new_database = Path(folder) / "new.db"
                with _connect_without_sync():
                    MlflowClient(f"sqlite:///{new_database}").search_experiments(max_results=1)
                with closing(sqlite3.connect(new_database)) as connection, connection:
                    # The default experiment contains the path of the current folder. This commit waits for the disk.
                    connection.execute("DELETE FROM experiments")
                new_database.replace(database)
        MlflowClient(uri).search_experiments(max_results=1)  # creates a missing default experiment under the lock


@contextmanager
def _connect_without_sync() -> Iterator[None]:
    """Open SQLite files without waiting for the disk: each of MLflow's hundred migrations would wait several times.

    A later commit of a connection with the usual settings writes the whole file to the disk.
    """

    def turn_off(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", turn_off)
    try:
        yield
    finally:
        event.remove(Engine, "connect", turn_off)


def search_runs_by_tag(
    client: MlflowClient, tag: str, value: str, experiment_ids: list[str] | None = None
) -> Iterator[Run]:
    """Yield the runs whose tag `lengthwise.<tag>` has this value, in these experiments, by default in all."""
    if experiment_ids is None:
        experiment_ids = [experiment.experiment_id for experiment in iterate_pages(client.search_experiments)]
    condition = f"tags.`lengthwise.{tag}` = '{value}'"
    return iterate_pages(partial(client.search_runs, experiment_ids, condition, max_results=1000))


def iterate_pages(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield the results of all pages of a search."""
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


class MlflowExperiment:
    """An experiment of the MLflow store at `uri`, created if missing; counts runs `created` and `points` sent.

    Artifacts are stored beside a SQLite file, for other databases in `storage`, for a server where it keeps them.
    Raises TrackingError for an experiment that is deleted or has its artifacts on another machine; errors of MLflow.
    """

    def __init__(self, uri: str, experiment: str, storage: Path) -> None:
        create_sqlite_store(uri)
        self.uri = uri
        self.storage = storage
        self.client = open_client(uri)
        self.experiment_id = self._find_or_create_experiment(experiment)
        self.created = self.points = 0

    def read_runs(self, sweep_id: str) -> dict[str | None, Run]:
        """Return the runs of a sweep by config_id (None: the parent); delete duplicates (MLflow's answer was lost)."""
        runs: dict[str | None, list[Run]] = defaultdict(list)
        for run in search_runs_by_tag(self.client, "sweep_id", sweep_id, [self.experiment_id]):
            runs[run.data.tags.get("lengthwise.config_id")].append(run)

        # The run with most metrics stays, and of equal ones the first by id, so that two publishers delete the same.
        for duplicates in runs.values():
            duplicates.sort(key=lambda run: (-len(run.data.metrics), run.info.run_id))
            for run in duplicates[1:]:
                self.client.delete_run(run.info.run_id)
        return {config_id: duplicates[0] for config_id, duplicates in runs.items()}

    def sync_run(self, contents: RunContents, run: Run | None) -> Run:
        """Bring a run up to date, or create it if it is None; return it with the tags that it had before.

        A name, other tags, and a note or color of the user stay. Outdated values, such as medians of fewer seeds,
        are deleted from a database; a server, which has no request for this, keeps them beside the new values.
        """
        # Note and color, which a user may have changed, are sent later by `_choose_tags`.
        if run is None:
            identity = {key: text for key, text in contents.tags.items() if key not in (NOTE_TAG, COLOR_TAG)}
            run = self.client.create_run(self.experiment_id, contents.start_ms, identity, contents.name)
            self.created += 1

        # Names of a sweep have one form, which new configurations may change.
        run_id = str(run.info.run_id)
        if run.info.run_name in contents.other_names:
            self.client.update_run(run_id, name=contents.name)

        # An equal digest means that MLflow has these contents already: most runs need no further request.
        digest = contents.compute_digest()
        if run.data.tags.get(DIGEST_TAG) == digest:
            return run

        # MLflow keeps every value ever sent, so values that the ledger contradicts, such as ranks before an extension,
        # must be deleted; only a database allows this.
        resent_keys = sorted({point.key for point in contents.points}.intersection(run.data.metrics))
        history = [point for key in resent_keys for point in self.client.get_metric_history(run_id, key)]
        params = dict(run.data.params)
        expected = {(point.key, point.step): point.value for point in contents.points}
        outdated_metrics = {old.key for old in history if expected.get((old.key, old.step), old.value) != old.value}
        outdated_metrics |= run.data.metrics.keys() & TABLE_METRICS - {point.key for point in contents.points}
        changed_params = {key for key, text in contents.params.items() if params.get(key, text) != text}
        if (outdated_metrics or changed_params) and is_database(self.uri):
            _delete_values(self.client, run_id, outdated_metrics, changed_params)
            history = [old for old in history if old.key not in outdated_metrics]
            params = {key: text for key, text in params.items() if key not in changed_params}
            changed_params = set()

        # A server keeps old values of parameters, so a tag has the current value of a changed one.
        metrics = _select_new_points(contents.points, history)
        missing_params = [Param(key, text) for key, text in contents.params.items() if key not in params]
        tags = _choose_tags(contents, run.data.tags) | {
            CHANGED_TAG + key: contents.params[key] for key in changed_params
        }
        self._send(run_id, metrics, missing_params, [RunTag(*tag) for tag in tags.items() - run.data.tags.items()])

        # The digest comes last, because it means that the run is complete.
        if contents.end_ms is not None:
            self.client.set_terminated(run_id, contents.status, contents.end_ms)
        else:
            self.client.update_run(run_id, status=contents.status)
        self.client.set_tag(run_id, DIGEST_TAG, digest, synchronous=True)
        return run

    def upload(self, run: Run, make_files: Callable[[], Iterable[Path]], texts: Mapping[str, Any], digest: str) -> None:
        """Make and upload the files of a run and `texts` (YAML contents by file name), unless a tag has `digest`."""
        if run.data.tags.get(FILES_TAG) != digest:
            run_id = str(run.info.run_id)
            for path in make_files():
                self.client.log_artifact(run_id, str(path))
            for name, content in texts.items():
                self.client.log_dict(run_id, content, name)
            self.client.set_tag(run_id, FILES_TAG, digest, synchronous=True)

    def make_links(self, parent_id: str) -> tuple[tuple[str, str], ...]:
        """Return links to pages of the server, or the command that starts a server."""
        if is_server(self.uri):
            return make_sweep_links(self.client, self.uri, self.client.get_run(parent_id))
        return (("MLflow", make_server_command(self.uri, self.storage)),)

    def _send(self, run_id: str, metrics: Sequence[Metric], params: Sequence[Param], tags: Sequence[RunTag]) -> None:
        """Send values in as few requests as MLflow's limits allow."""
        sizes = ((metrics, METRICS_PER_BATCH), (params, TEXTS_PER_BATCH), (tags, TEXTS_PER_BATCH))
        batches = [[items[start : start + size] for start in range(0, len(items), size)] for items, size in sizes]
        for batch in zip_longest(*batches, fillvalue=()):
            self.client.log_batch(run_id, *batch, synchronous=True)
            self.points += len(batch[0])

    def _find_or_create_experiment(self, name: str) -> str:
        """Return the id of the experiment, created if missing."""
        # Another sweep of the study may create the experiment between the look-up and the creation.
        experiment: Experiment | None = self.client.get_experiment_by_name(name)
        if experiment is None:
            try:
                tags = {"mlflow.experimentKind": "custom_model_development"}
                return str(
                    self.client.create_experiment(name, artifact_location=self._make_artifact_location(name), tags=tags)
                )
            except MlflowException as error:
                experiment = self.client.get_experiment_by_name(name)
                if experiment is None:
                    raise error

        # Runs could be created in these experiments, but nobody would see them or their artifacts.
        subject = f"{self.uri}: experiment {name!r}"
        location = experiment.artifact_location
        if experiment.lifecycle_stage == "deleted":
            raise TrackingError(
                f"{subject} is deleted; set another tracking.experiment, or restore it: "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            )
        if (
            is_server(self.uri)
            and location.startswith("file:")
            and not Path(unquote(urlsplit(location).path)).parent.exists()
        ):
            raise TrackingError(
                f"{subject} stores artifacts on another machine ({location}); set another tracking.experiment"
            )
        return str(experiment.experiment_id)

    def _make_artifact_location(self, name: str) -> str | None:
        """Return the URI of the folder of artifacts for a database; None for a server, which has its own."""
        if not is_database(self.uri):
            return None
        # Different names can have the same safe name, so a digest follows.
        safe_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60]
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        return (choose_artifact_folder(self.storage, self.uri) / f"{safe_name}-{digest}").as_uri()


def _select_new_points(points: Iterable[Point], history: Iterable[Metric]) -> list[Metric]:
    """Return the points that a run with this history of metrics lacks, or has with another value."""
    # MLflow shows the newest of several values at a step, so a correction gets a later time than the old value.
    newest = {(old.key, old.step): old for old in sorted(history, key=lambda old: old.timestamp)}
    metrics = []
    for point in points:
        old = newest.get((point.key, point.step))
        if old is None or old.value != point.value:
            time_ms = point.time_ms if old is None else max(point.time_ms, old.timestamp + 1)
            metrics.append(Metric(point.key, point.value, time_ms, point.step))
    return metrics


def _delete_values(client: MlflowClient, run_id: str, metrics: Collection[str], params: Collection[str]) -> None:
    """Delete metrics with all their points, and parameters, of a run in a database."""
    # MLflow has no function that deletes values, so delete the rows of its tables.
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam

    with client._tracking_client.store.ManagedSessionMaker() as session:
        for table, keys in ((SqlMetric, metrics), (SqlLatestMetric, metrics), (SqlParam, params)):
            rows = session.query(table).filter(table.run_uuid == run_id, table.key.in_(sorted(keys)))
            rows.delete(synchronize_session=False)


def _choose_tags(contents: RunContents, present_tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags to write to a run that has `present_tags`, except a note or color chosen by the user."""
    # A color that is not one of ours was chosen by the user.
    tags = dict(contents.tags)
    note = present_tags.get(NOTE_TAG, "")
    if present_tags.get(COLOR_TAG, COLORS[0]) not in COLORS:
        tags.pop(COLOR_TAG, None)

    # A note that lacks the digest of ours was edited by the user.
    if NOTE_TAG in tags:
        if note and present_tags.get(WRITTEN_NOTE_TAG) != _hash_text(note):
            del tags[NOTE_TAG]
        else:
            tags[WRITTEN_NOTE_TAG] = _hash_text(tags[NOTE_TAG])
    return tags


def _hash_text(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
