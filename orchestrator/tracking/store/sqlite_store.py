"""The SQLite store of a storage folder: where it lies, where its artifacts lie, and how it is begun."""

import hashlib
import logging
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import mlflow
from filelock import FileLock
from mlflow.tracking import MlflowClient

from trainers.files.atomic_file import write_whole
from trainers.files.cache_folder import cache_folder

_log = logging.getLogger(__name__)


def default_uri(storage: Path) -> str:
    """The SQLite store of a storage folder."""
    return f"sqlite:///{(storage / 'mlflow.db').resolve()}"


def sqlite_file(uri: str) -> Path | None:
    """The file of a `sqlite:///` URI, absolute; None for any other."""
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def artifact_folder(storage: Path) -> Path:
    """Where artifacts lie beside a SQLite store."""
    return storage.resolve() / "mlartifacts"


def initialise(uri: str) -> None:
    """Create the schema of a SQLite store, one process at a time: two at once crash in MLflow's migration.

    MLflow makes it by its whole history of migrations, a second of work. So an empty store is made elsewhere and kept
    for this version of MLflow, and every new one begins as a copy of it: it is there whole or not at all.
    """
    database = sqlite_file(uri)
    if database is None:
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        if not database.exists():
            write_whole(database, [_kept() or _made()])
        MlflowClient(uri).search_experiments(max_results=1)


def _kept() -> bytes | None:
    """The empty store that is kept for this version of MLflow; None where there is none, or it is not as written."""
    try:
        for path in cache_folder("mlflow").glob(f"empty-{mlflow.__version__}-*.db"):
            content = path.read_bytes()
            if path.stem.endswith(f"-{hashlib.sha256(content).hexdigest()[:12]}"):
                return content
    except OSError:
        _log.debug("no empty store is kept", exc_info=True)
    return None


def _made() -> bytes:
    """A new empty store, kept where that is possible; without its one experiment, which names a folder."""
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
        write_whole(cache_folder("mlflow") / name, [content])
    except OSError:
        _log.debug("the empty store is not kept", exc_info=True)
    return content
