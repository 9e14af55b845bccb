"""Choose the MLflow address of a sweep, and find the files of a SQLite store.

Imports neither MLflow nor other slow packages, because commands that begin a sweep need its address.
"""

import os
import shlex
import socket
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage
from orchestrator.record.state.state import SweepState
from orchestrator.text.redaction import URI_VARIABLE, strip_password
from orchestrator.text.wording import format_command
from search_spaces.grammar.values import STORES, find_store_problem, make_store_absolute


def read_uri_variable() -> str | None:
    """Return the absolute address in MLFLOW_TRACKING_URI without its password; None if it is not set.

    Raises UserError if lengthwise cannot publish there.
    """
    uri = strip_password(os.environ.get(URI_VARIABLE, ""))
    if not uri:
        return None

    # Other programs may have set the variable to a kind of store that lengthwise does not support.
    if problem := find_store_problem(uri):
        raise UserError(
            f"{URI_VARIABLE}={uri} {problem}; allowed: {STORES}, "
            "or --tracking-uri '' for a SQLite file in the storage folder"
        )
    return make_store_absolute(uri)


def choose_tracking_uri(state: SweepState, uri: str | None = None) -> str:
    """Return the address that a sweep is published to, without its password.

    The first of these that is given counts: `uri`, `tracking.uri` of the sweep file, the environment variable; "" is
    SQLite beside the sweep. The address in a sweep from another machine (by host name) is not trusted, because the
    user's token would be sent to it. Such an address raises UserError unless the environment variable is set.
    """
    # A sweep from elsewhere could name a server that collects tokens.
    if uri is None:
        recorded_uri = (state.spec.get("tracking") or {}).get("uri")
        is_trusted = recorded_uri is not None and is_from_this_machine(state)
        uri = recorded_uri if is_trusted else read_uri_variable()
        if uri is None and recorded_uri is not None:
            raise UserError(
                f"{state.folder}: untrusted tracking.uri {recorded_uri}, recorded on {' and '.join(_list_hosts(state))}"
                f"; to trust it, run: {format_command('publish', state.folder)} --tracking-uri "
                f"{shlex.quote(recorded_uri)}"
            )

    # The password is added again when the store is opened, so that no ledger contains it.
    return make_store_absolute(strip_password(uri or make_default_uri(state.folder.resolve().parent)))


def is_from_this_machine(state: SweepState) -> bool:
    """Return whether a sweep was begun or resumed on this machine, so that its addresses can be trusted."""
    return socket.gethostname() in _list_hosts(state)


def _list_hosts(state: SweepState) -> list[str]:
    """Return the names of the machines that began or resumed a sweep."""
    return list(dict.fromkeys(str(origin.get("hostname")) for origin in (state.provenance, *state.resumes)))


def make_default_uri(storage: Path) -> str:
    """Return the URI of the SQLite store of a storage folder."""
    return f"sqlite:///{(storage / 'mlflow.db').resolve()}"


def get_sqlite_path(uri: str) -> Path | None:
    """Return the absolute path of a `sqlite:///` URI; None for any other."""
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def is_server(uri: str) -> bool:
    """Return whether a store is an MLflow server."""
    return uri.startswith(("http://", "https://"))


def is_database(uri: str) -> bool:
    """Return whether a store is a database, whose values can be deleted: SQLite, PostgreSQL, MySQL, SQL Server."""
    return uri.startswith(("sqlite", "postgresql", "mysql", "mssql"))


def choose_artifact_folder(storage: Path, uri: str = "") -> Path:
    """Return the folder of artifacts: beside a SQLite file, or else in the storage folder."""
    database = get_sqlite_path(uri)
    return (storage if database is None else database.parent).resolve() / "mlartifacts"


def make_server_command(uri: str, storage: Path) -> str:
    """Return the command that starts an MLflow server on a store."""
    # `lengthwise ui` needs no options for the default store, and cannot serve databases other than SQLite.
    if uri == make_default_uri(storage):
        is_default = storage.resolve() == find_default_storage().resolve() and not os.environ.get(URI_VARIABLE)
        return "lengthwise ui" if is_default else format_command("ui --storage", storage)
    if get_sqlite_path(uri) or not is_database(uri):
        return f"lengthwise ui --tracking-uri {shlex.quote(uri)}"
    artifacts = str(choose_artifact_folder(storage))
    return shlex.join(["mlflow", "server", "--backend-store-uri", uri, "--default-artifact-root", artifacts])
