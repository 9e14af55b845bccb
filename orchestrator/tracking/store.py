"""One experiment of one MLflow store: read its runs, and send missing parts in batches."""

import hashlib
import os
import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from orchestrator.redaction import with_password
from orchestrator.tracking.artifacts import Files
from orchestrator.tracking.errors import OUTAGE, TrackingError
from orchestrator.tracking.pages import COLOR_TAG, COLORS, NOTE_TAG, sweep_links
from orchestrator.tracking.run_contents import RunContents
from orchestrator.tracking.sqlite_store import artifact_folder, initialise, sqlite_file

METRICS_PER_BATCH, TEXTS_PER_BATCH = 800, 100  # a request may have 1,000 items, 100 parameters and 100 tags
DIGEST_TAG = "lengthwise.published"
FILES_TAG = "lengthwise.published_files"
WRITTEN_NOTE_TAG = "lengthwise.note"  # digest of the note as it was written; a user's note has another one
CHANGED_TAG = "lengthwise.now."  # + the key of a parameter: its value, where a server keeps an older one
TABLE_METRICS = {"score", "rank", "generalization_length", "area_beyond", "seeds_run", "seeds_failed"}
IDENTITY = (
    *("lengthwise.kind", "lengthwise.sweep", "lengthwise.sweep_id", "lengthwise.spec_hash", "lengthwise.config_id"),
    "mlflow.parentRunId",
)


def open_client(uri: str) -> MlflowClient:
    """Return a client of the store at `uri`, which notices an outage in seconds."""
    for key, value in OUTAGE.items():
        os.environ.setdefault(key, value)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # it prints the address with its password
    return MlflowClient(with_password(uri))


def search_tagged(client: MlflowClient, experiment_ids: list[str], tag: str, value: str) -> Iterator[Run]:
    """Yield the runs of these experiments whose tag `lengthwise.<tag>` has this value."""
    tagged = f"tags.`lengthwise.{tag}` = '{value}'"
    return every_page(partial(client.search_runs, experiment_ids, tagged, max_results=1000))


def search_everywhere(client: MlflowClient, tag: str, value: str) -> Iterator[Run]:
    """Yield the runs of all experiments whose tag `lengthwise.<tag>` has this value."""
    experiments = [one.experiment_id for one in every_page(client.search_experiments)]
    return search_tagged(client, experiments, tag, value)


def every_page(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield what a search finds, page after page."""
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def is_server(uri: str) -> bool:
    """Return whether a store is a server and no file or database."""
    return uri.startswith(("http://", "https://"))


def is_database(uri: str) -> bool:
    """Return whether a store is a database of a server, such as PostgreSQL, and no server of MLflow."""
    return uri.startswith(("postgresql", "mysql", "mssql"))


def server_command(uri: str, storage: Path) -> str:
    """Return the command that starts a server on a store, whose artifacts are beside the sweeps if it is a database."""
    if not is_database(uri):
        return f"lengthwise ui --tracking-uri {shlex.quote(uri)}"
    artifacts = ["--default-artifact-root", str(artifact_folder(storage))]
    return shlex.join(["mlflow", "server", "--backend-store-uri", uri, *artifacts])


class Store:
    """One experiment of the MLflow store at `uri`, created if it is missing; counts runs `created` and `points` sent.

    Artifacts are beside a SQLite file, for another database beside the sweeps of `storage`, else where the server keeps
    them. Raises TrackingError if it is deleted or keeps its artifacts on another machine, and errors of MLflow.
    """

    def __init__(self, uri: str, experiment: str, storage: Path) -> None:
        self.uri = uri
        self.storage = storage
        self.server = uri.rstrip("/") if is_server(uri) else None
        initialise(uri)
        self.client = open_client(uri)
        self.experiment_id = self._experiment(experiment)
        self.created = self.points = 0

    def read_runs(self, sweep_id: str) -> dict[str | None, Run]:
        """Return the runs of a sweep by config_id (None: the parent); delete duplicates left by a lost answer."""
        runs: dict[str | None, list[Run]] = defaultdict(list)
        for run in search_tagged(self.client, [self.experiment_id], "sweep_id", sweep_id):
            runs[run.data.tags.get("lengthwise.config_id")].append(run)
        for twins in runs.values():
            twins.sort(key=lambda run: (-len(run.data.metrics), run.info.run_id))
            for twin in twins[1:]:
                self.client.delete_run(twin.info.run_id)
        return {config_id: twins[0] for config_id, twins in runs.items()}

    def update_run(self, contents: RunContents, run: Run | None) -> Run:
        """Bring one run up to date in place and return it, with the tags that it had before.

        Its name, its other tags, and a note or colour chosen by a user stay. Outdated values, such as medians of fewer
        seeds, are deleted from a database; a server has no request for it and keeps them beside the new ones.
        """
        if run is None:
            identity = {key: contents.tags[key] for key in IDENTITY if key in contents.tags}
            run = self.client.create_run(self.experiment_id, contents.start_ms, identity, contents.name)
            self.created += 1
        if run.data.tags.get(DIGEST_TAG) == contents.digest():
            return run

        # Find what the run has otherwise than the ledger, and delete it from a database.
        run_id, history, params = str(run.info.run_id), self._read_history(run, contents), dict(run.data.params)
        wanted = {(point.key, point.step): point.value for point in contents.points}
        outdated = {one.key for one in history if wanted.get((one.key, one.step), one.value) != one.value}
        outdated |= run.data.metrics.keys() & TABLE_METRICS - {point.key for point in contents.points}
        changed = {key for key, text in contents.params.items() if params.get(key, text) != text}
        if (outdated or changed) and (sqlite_file(self.uri) or is_database(self.uri)):
            _delete_values(self.client, run_id, outdated, changed)
            history = [one for one in history if one.key not in outdated]
            params, changed = {key: text for key, text in params.items() if key not in changed}, set()

        # Send missing parts; MLflow shows the newest of several values at one step.
        newest = {(one.key, one.step): one for one in sorted(history, key=lambda one: one.timestamp)}
        missing = []
        for point in contents.points:
            old = newest.get((point.key, point.step))
            if old is None or old.value != point.value:
                time_ms = point.time_ms if old is None else max(point.time_ms, old.timestamp + 1)
                missing.append(Metric(point.key, point.value, time_ms, point.step))
        tags = _own_tags(contents, run.data.tags) | {CHANGED_TAG + key: contents.params[key] for key in sorted(changed)}
        missing_params = [Param(key, text) for key, text in contents.params.items() if key not in params]
        self._send(run, contents, missing, missing_params, tags)
        return run

    def upload(self, run: Run, files: Callable[[Path], Files], stamp: str) -> None:
        """Send files of a run unless its tag, as `update_run` has returned it, equals the stamp.

        `files` may write into the given folder, which is deleted after the upload.
        """
        if run.data.tags.get(FILES_TAG) != stamp:
            run_id = str(run.info.run_id)
            with tempfile.TemporaryDirectory(prefix="lengthwise-") as folder:
                for path, place in files(Path(folder)).items():
                    self.client.log_artifact(run_id, str(path), place or None)
            self.client.set_tag(run_id, FILES_TAG, stamp, synchronous=True)

    def _send(
        self, run: Run, contents: RunContents, metrics: Sequence[Metric], params: Sequence[Param], tags: dict[str, str]
    ) -> None:
        """Send points, parameters and those of `tags` that the run lacks, then the status, and the digest last."""
        run_id, known = run.info.run_id, run.data.tags
        changed = [RunTag(key, text) for key, text in tags.items() if known.get(key) != text]
        batches = [_batches(params, TEXTS_PER_BATCH), _batches(changed, TEXTS_PER_BATCH)]
        for some_metrics, some_params, some_tags in zip_longest(
            _batches(metrics, METRICS_PER_BATCH), *batches, fillvalue=()
        ):
            self.client.log_batch(run_id, metrics=some_metrics, params=some_params, tags=some_tags, synchronous=True)
            self.points += len(some_metrics)
        if contents.end_ms is not None:
            self.client.set_terminated(run_id, contents.status, contents.end_ms)
        else:
            self.client.update_run(run_id, status=contents.status)
        self.client.set_tag(run_id, DIGEST_TAG, contents.digest(), synchronous=True)

    def links(self, parent_id: str) -> tuple[tuple[str, str], ...]:
        """Return links to pages of the server, or the command that starts one."""
        if self.server is None:
            return (("MLflow pages of this sweep", server_command(self.uri, self.storage)),)
        return sweep_links(self.server, self.experiment_id, parent_id)

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                tags = {"mlflow.experimentKind": "custom_model_development"}
                return str(self.client.create_experiment(name, artifact_location=self._location(name), tags=tags))
            except MlflowException as error:
                found = self.client.get_experiment_by_name(name)  # another sweep of the study created it
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
        """Return the folder of artifacts for a database (see `Store`); None for a server, which has its own."""
        database = sqlite_file(self.uri)
        if database is None and not is_database(self.uri):
            return None
        storage = self.storage if database is None else database.parent
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60]
        folder = artifact_folder(storage) / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return folder.as_uri()

    def _read_history(self, run: Run, contents: RunContents) -> list[Metric]:
        """Return every point that a run has of the metrics in its contents."""
        keys = sorted({point.key for point in contents.points}.intersection(run.data.metrics))
        return [one for key in keys for one in self.client.get_metric_history(run.info.run_id, key)]


def _delete_values(client: MlflowClient, run_id: str, metrics: Collection[str], params: Collection[str]) -> None:
    """Delete metrics, with all their points, and parameters of a run from a database: no request to a server does."""
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam

    with client._tracking_client.store.ManagedSessionMaker() as session:
        for table, keys in ((SqlMetric, metrics), (SqlLatestMetric, metrics), (SqlParam, params)):
            rows = session.query(table).filter(table.run_uuid == run_id, table.key.in_(sorted(keys)))
            rows.delete(synchronize_session=False)


def _own_tags(contents: RunContents, known: Mapping[str, str]) -> dict[str, str]:
    """Return the tags to write to a run whose tags are `known`, without a note or a colour that a user has chosen."""
    tags, note = dict(contents.tags), known.get(NOTE_TAG, "")
    if known.get(COLOR_TAG, COLORS[0]) not in COLORS:
        tags.pop(COLOR_TAG, None)
    if NOTE_TAG in tags:
        if note and known.get(WRITTEN_NOTE_TAG) != _digest(note):
            del tags[NOTE_TAG]
        else:
            tags[WRITTEN_NOTE_TAG] = _digest(tags[NOTE_TAG])
    return tags


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _batches(items: Sequence[Any], count: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), count):
        yield items[start : start + count]
