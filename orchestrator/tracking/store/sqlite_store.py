"""The SQLite store of a storage folder: its file, its artifacts, and its creation."""

import hashlib
import logging
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import mlflow
from filelock import FileLock
from mlflow.tracking import MlflowClient

from orchestrator.tracking.store.outages import TrackingError
from trainers.files.atomic_file import write_atomic
from trainers.files.cache_folder import cache_folder

_log = logging.getLogger(__name__)


def default_uri(storage: Path) -> str:
    """Return the URI of the SQLite store of a storage folder."""
    return f"sqlite:///{(storage / 'mlflow.db').resolve()}"


def sqlite_file(uri: str) -> Path | None:
    """Return the absolute path of a `sqlite:///` URI; None for any other."""
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def artifact_folder(storage: Path) -> Path:
    """Return the folder of artifacts beside a SQLite store."""
    return storage.resolve() / "mlartifacts"


def initialise(uri: str) -> None:
    """Create the schema of a SQLite store, one process at a time: two at once crash in MLflow's migration.

    MLflow creates it by all migrations of its history, which takes a second. So an empty store is cached for this
    version of MLflow, and a new store is an atomic copy of it. Raises TrackingError for a path with a question mark.
    """
    database = sqlite_file(uri)
    if database is None:
        return
    if "?" in uri:  # behind which SQLAlchemy reads options
        raise TrackingError(f"{uri}: MLflow takes no '?' in the path of a SQLite file; give another --tracking-uri")
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        if not database.exists():
            write_atomic(database, [_read_cached_store() or _make_empty_store()])
        MlflowClient(uri).search_experiments(max_results=1)


def _read_cached_store() -> bytes | None:
    """Return the cached empty store for this version of MLflow; None if it is missing or damaged."""
    try:
        for path in cache_folder("mlflow").glob(f"empty-{mlflow.__version__}-*.db"):
            content = path.read_bytes()
            if path.stem.endswith(f"-{hashlib.sha256(content).hexdigest()[:12]}"):
                return content
    except OSError:
        _log.debug("no empty store is cached", exc_info=True)
    return None


def _make_empty_store() -> bytes:
    """Return a new empty store, and cache it if possible; without its default experiment, which names a folder."""
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as folder:
        database = Path(folder) / "empty.db"
        MlflowClient(f"sqlite:///{database}").search_experiments(max_results=1)
        with closing(sqlite3.connect(database)) as made, closing(sqlite3.connect(":memory:")) as copy:
            made.backup(copy)
            copy.execute("DELETE FROM experiments")
            copy.commit()
            copy.execute("VACUUM")
            content = copy.serialize()
    try:
        name = f"empty-{mlflow.__version__}-{hashlib.sha256(content).hexdigest()[:12]}.db"
        write_atomic(cache_folder("mlflow") / name, [content])
    except OSError:
        _log.debug("the empty store is not cached", exc_info=True)
    return content
