"""What an outage or another hand has left in a store is put right, or named."""

import shlex

import pytest
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from orchestrator.tracking.store.outages import TrackingError
from orchestrator.tracking.store.store import Store
from tests.mlflow_points import assert_complete, children


def test_a_run_made_twice_because_the_answer_was_lost_is_kept_once(sweep, monkeypatch, publish):
    original = MlflowClient.create_run
    lost = iter([False, False, True])

    def create_run(self, *args, **kwargs):
        run = original(self, *args, **kwargs)
        if next(lost, False):
            original(self, *args, **kwargs)  # the client's own repetition of a request that had arrived
            raise ConnectionError("connection reset")
        return run

    monkeypatch.setattr(MlflowClient, "create_run", create_run)
    with pytest.raises(TrackingError, match="connection reset"):
        publish(sweep.folder, sweep_files=False)
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    assert len(children(client, done.parent_run_id)) == 3
    assert_complete(client, done.parent_run_id, sweep)


def test_a_run_that_contradicts_the_ledger_is_made_anew(sweep, publish):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    spoiled = next(run for run in children(client, done.parent_run_id) if run.data.tags["lengthwise.number"] == "0")
    client.log_batch(spoiled.info.run_id, [Metric("total_variation/ema/median", 7.0, 1, 3)])
    client.set_tag(spoiled.info.run_id, "lengthwise.published", "an older state")
    assert publish(sweep.folder, sweep_files=False).created == 1
    assert client.get_run(spoiled.info.run_id).info.lifecycle_stage == "deleted"
    assert_complete(client, done.parent_run_id, sweep)


def test_a_deleted_experiment_is_named(sweep, publish):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    client.delete_experiment(client.get_run(done.parent_run_id).info.experiment_id)
    with pytest.raises(TrackingError, match="'set_complement' is in the bin"):
        publish(sweep.folder)
    assert publish(sweep.folder, experiment="another", sweep_files=False).created == 4


def test_the_command_that_opens_a_store_can_be_pasted(tmp_path):
    (folder := tmp_path / "läng e").mkdir()
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    ((_, command),) = Store(uri, "mine", tmp_path).links("", "", None)
    assert shlex.split(command) == ["lengthwise", "ui", "--tracking-uri", uri]


def test_the_artifacts_of_a_database_are_beside_the_sweeps(tmp_path, monkeypatch):
    created = []

    class Client:
        def __init__(self, uri):
            self.get_experiment_by_name = lambda name: None

        def create_experiment(self, name, artifact_location, tags):
            created.append(artifact_location)

    monkeypatch.setattr("orchestrator.tracking.store.store.MlflowClient", Client)
    uri = "postgresql://ada:s3cretpass@db.example.org/mlflow"
    ((_, command),) = Store(uri, "mine", tmp_path).links("", "", None)
    assert shlex.split(command)[2:] == [
        *("--backend-store-uri", "postgresql://ada:***@db.example.org/mlflow"),
        *("--default-artifact-root", str(tmp_path / "mlartifacts")),
    ]
    Store("databricks", "mine", tmp_path)
    assert created[0].startswith(f"{(tmp_path / 'mlartifacts').as_uri()}/mine-") and created[1] is None


def test_an_address_whose_driver_is_not_installed_is_explained(sweep, publish, monkeypatch):
    def connect(*arguments, **settings):
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", connect)
    with pytest.raises(TrackingError, match=r"needs the package psycopg, which is not installed\ncomplete it later"):
        publish(sweep.folder, sweep_files=False)
