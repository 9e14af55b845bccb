"""Delete the MLflow runs of a sweep, found by its tag. MLflow keeps deleted runs in its bin."""

from pathlib import Path

from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.tracking.errors import raising_tracking_error
from orchestrator.tracking.names import sweep_id
from orchestrator.tracking.publish import is_from_this_machine, tracking_uri_of
from orchestrator.tracking.sqlite_store import sqlite_file
from orchestrator.tracking.store import open_client, search_everywhere
from orchestrator.wording import command


def delete_runs(folder: Path, uri: str | None = None) -> dict[str, int]:
    """Delete the parent run and the runs of configurations of the sweep in `folder`; return how many at each address.

    They are deleted at `uri`, by default at all addresses to which this machine has published the sweep. Raises
    TrackingError when MLflow cannot be reached or refuses, and what reading the ledger raises.
    """
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    others = state.published_at if uri is None and is_from_this_machine(state) else []
    deleted, again = dict[str, int](), f"{command('delete', folder)} --mlflow"
    for address in dict.fromkeys(tracking_uri_of(state, known) for known in (uri, *others)):
        with raising_tracking_error(address, again, uri):
            deleted[address] = _delete_runs_at(address, sweep_id(records))
    return deleted


def _delete_runs_at(uri: str, sweep_id: str) -> int:
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        return 0
    client = open_client(uri)
    runs = list(search_everywhere(client, "sweep_id", sweep_id))  # `resume` may have named another experiment
    for run in runs:
        client.delete_run(run.info.run_id)
    return len(runs)
