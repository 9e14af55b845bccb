"""The SQLite store of a storage folder: its file, its artifacts, and its creation."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from filelock import FileLock
from mlflow.tracking import MlflowClient

from orchestrator.tracking.errors import TrackingError


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
    """Create a SQLite store if it is missing, whole or not at all, and one process at a time.

    Two processes at once crash in MLflow's migration. Raises TrackingError for a path with a question mark.
    """
    database = sqlite_file(uri)
    if database is None:
        return
    if "?" in uri:  # behind which SQLAlchemy reads options
        raise TrackingError(f"{uri}: MLflow takes no '?' in the path of a SQLite file; give another --tracking-uri")
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        if not database.exists():
            with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=database.parent) as folder:
                new = Path(folder) / "new.db"
                MlflowClient(f"sqlite:///{new}").search_experiments(max_results=1)
                with closing(sqlite3.connect(new)) as connection, connection:
                    connection.execute("DELETE FROM experiments")  # the default one, which names the current folder
                new.replace(database)
        MlflowClient(uri).search_experiments(max_results=1)
