"""Delete the MLflow runs of a sweep, found by its tag. MLflow keeps deleted runs in its bin."""

from pathlib import Path

from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.tracking.contents.names import sweep_id
from orchestrator.tracking.publish import experiment_of, tracking_uri_of
from orchestrator.tracking.store.outages import raising_tracking_error
from orchestrator.tracking.store.sqlite_store import sqlite_file
from orchestrator.tracking.store.store import open_client, search_tagged


def delete_runs(folder: Path, uri: str | None = None) -> tuple[str, int]:
    """Delete the parent run and the runs of configurations of the sweep in `folder`; return the address and how many.

    `uri` is by default where the sweep is published to. Raises TrackingError when MLflow cannot be reached or refuses,
    and what reading the ledger raises.
    """
    records = read_records(folder)
    state = SweepState.replay(folder, records)
    uri = tracking_uri_of(state, uri)
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        return uri, 0
    with raising_tracking_error(uri, folder):
        client = open_client(uri)
        experiment = client.get_experiment_by_name(experiment_of(state))
        if experiment is None:
            return uri, 0
        runs = list(search_tagged(client, [experiment.experiment_id], "sweep_id", sweep_id(records)))
        for run in runs:
            client.delete_run(run.info.run_id)
    return uri, len(runs)
