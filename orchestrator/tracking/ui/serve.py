"""The verb `ui`: MLflow's server on the store of a storage folder, with links to its sweeps."""

import shlex
from collections.abc import Callable
from pathlib import Path

from mlflow.tracking import MlflowClient

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.record.ledger.folders import sweep_folders
from orchestrator.record.ledger.lock import running
from orchestrator.record.ledger.records import read_records
from orchestrator.tracking.contents.names import sweep_id
from orchestrator.tracking.contents.pages import sweep_links
from orchestrator.tracking.store.outages import raising_tracking_error
from orchestrator.tracking.store.sqlite_store import artifact_folder, default_uri, initialise, sqlite_file
from orchestrator.tracking.store.store import is_database, search_everywhere, search_tagged, server_command
from orchestrator.tracking.ui.server import UiServer, serve_until_stopped
from orchestrator.wording import command, counted
from search_spaces.grammar.values import store_problem

SHOWN_SWEEPS = 20


def serve(
    storage: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allowed_hosts: str | None = None,
    uri: str | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Run MLflow's server on the store of `storage` until SIGINT or SIGTERM.

    Prints links to the newest SHOWN_SWEEPS in it, how many more there are, and the command that publishes each missing
    one.

    `uri` names another `sqlite:///` store. `allowed_hosts` is MLflow's list of Host headers it answers (needed behind
    another name than localhost). Raises UiServerError if the server cannot start, UserError for other kinds of URI, a
    file that is missing or no store, a host that is not this machine and a port that is taken, and TrackingError for a
    store that MLflow refuses.
    """
    given, uri = uri, uri or default_uri(storage)
    database = sqlite_file(uri)
    if database is None:
        instead = f"run: {server_command(uri, storage)}" if is_database(uri) else "open the server of this address"
        raise UserError(f"{uri} is not a SQLite store (sqlite:///FILE); instead {instead}")
    if given and not database.exists():
        raise UserError(f"{uri}: there is no such file; publishing a sweep there makes it")
    if problem := store_problem(uri):
        raise UserError(f"{uri} {problem}; put a copy of the database there, or remove the file and publish again")
    server = UiServer(
        database=database,
        artifacts=artifact_folder(database.parent),
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        log=database.with_name("mlflow-server.log"),
    )
    with raising_tracking_error(uri):
        initialise(uri)

    def ready(server: UiServer) -> None:
        found = sweeps_in(uri, server.url)
        lines = [
            f"{title}\n" + "\n".join(f"  {what}: {link}" for what, link in links)
            for title, links in found[:SHOWN_SWEEPS]
        ]
        if older := len(found[SHOWN_SWEEPS:]):
            lines.append(f"and {counted(older, 'older sweep')}, among the experiments of MLflow")
        missing = [f"not published yet: {what}\n  {how}" for what, how in unpublished(storage, uri)]
        say("\n".join([f"MLflow runs at {server.url} (Ctrl-C ends it)", *lines, *missing]))

    serve_until_stopped(server, ready)


def sweeps_in(uri: str, server: str) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return the sweeps published at `uri`, newest first, as (study / sweep, links to their pages on `server`)."""
    client = MlflowClient(uri)
    experiments = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
    runs = search_tagged(client, list(experiments), "kind", "sweep")
    return [
        (
            f"{experiments[run.info.experiment_id]} / {run.data.tags['lengthwise.sweep']}",
            sweep_links(server, run.info.experiment_id, run.data.tags["lengthwise.sweep_id"], run.info.run_id),
        )
        for run in sorted(runs, key=lambda run: -run.info.start_time)
    ]


def unpublished(storage: Path, uri: str) -> list[tuple[str, str]]:
    """Return the sweeps of `storage` that the store at `uri` lacks, as (name and state, command to publish it).

    Sweeps whose file names another store are left out.
    """
    client, found = MlflowClient(uri), []
    known = {run.data.tags["lengthwise.sweep_id"] for run in search_everywhere(client, "kind", "sweep")}
    for folder in sweep_folders(storage):
        try:
            records = read_records(folder)
        except LengthwiseError:  # `lengthwise status` shows the error
            continue
        own = (records[0].fields["spec"].get("tracking") or {}).get("uri")
        if sweep_id(records) in known or own not in (None, uri):
            continue
        ends = [record for record in records if record.kind in ("end", "resume", "extend", "retry")][-1:]
        ended = ends[0].fields["status"] if ends and ends[0].kind == "end" else "not finished"
        there = "" if uri == default_uri(storage) else f" --tracking-uri {shlex.quote(uri)}"
        found.append((f"{folder.name}, {'running' if running(folder) else ended}", command("publish", folder) + there))
    return found
