"""The SQLite store of a storage folder: where it lies, where its artifacts lie, and how it is begun."""

from pathlib import Path

from filelock import FileLock
from mlflow.tracking import MlflowClient


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
    """Create the schema of a SQLite store, one process at a time: two at once crash in MLflow's migration."""
    database = sqlite_file(uri)
    if database is None:
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=120):
        MlflowClient(uri).search_experiments(max_results=1)
