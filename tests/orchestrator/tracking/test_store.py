"""What an outage or another hand has left in a store is put right, or named."""

import shlex
import shutil

import pytest
from mlflow.entities import Metric
from mlflow.store.tracking.abstract_store import AbstractStore
from mlflow.tracking import MlflowClient

from orchestrator.tracking import pages
from orchestrator.tracking.pages import COLOR_TAG, NOTE_TAG
from orchestrator.tracking.store import MlflowExperiment
from orchestrator.tracking.tracking_errors import TrackingError
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


def test_a_value_that_contradicts_the_ledger_is_corrected_in_place(sweep, publish):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    spoiled = next(run for run in children(client, done.parent_run_id) if run.data.tags["lengthwise.number"] == "0")
    client.log_batch(spoiled.info.run_id, [Metric("total_variation/ema/median", 7.0, 1, 3)])
    client.set_tag(spoiled.info.run_id, "lengthwise.published", "an older state")
    assert publish(sweep.folder, sweep_files=False).created == 0
    assert_complete(client, done.parent_run_id, sweep)


@pytest.mark.parametrize("deletes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_extended_sweep_keeps_its_runs_and_what_a_user_gave_them(
    trained_sweep, fresh_store, publish, lengthwise, monkeypatch, deletes
):
    """A server has no request that deletes values, so a later value at the same step is the one that counts."""
    shutil.copy(fresh_store, trained_sweep.parent / "mlflow.db")
    done = publish(trained_sweep, sweep_files=False)
    client = MlflowClient(done.uri)
    before = {run.info.run_id: run for run in children(client, done.parent_run_id)}
    for run_id in (done.parent_run_id, *before):
        client.update_run(run_id, name=f"mine {run_id}")
        for key, text in {"reviewed": "yes", NOTE_TAG: f"see {run_id}", COLOR_TAG: "#123456"}.items():
            client.set_tag(run_id, key, text)
    client.set_tag(noted := next(iter(before)), NOTE_TAG, "")

    lengthwise.succeeds("extend", trained_sweep, "--seeds", "3", "--configurations", "4")
    shutil.copy(fresh_store, trained_sweep.parent / "fresh.db")
    fresh = publish(trained_sweep, f"sqlite:///{trained_sweep.parent}/fresh.db", sweep_files=False)
    if not deletes:
        monkeypatch.setattr("orchestrator.tracking.store.is_database", lambda uri: False)
    again = publish(trained_sweep, sweep_files=False)
    assert (again.parent_run_id, again.created) == (done.parent_run_id, 1)
    after = {run.info.run_id: run for run in children(client, done.parent_run_id)}
    parent = client.get_run(done.parent_run_id)
    assert before.keys() < after.keys()
    for run in (parent, *(after[run_id] for run_id in before)):
        run_id, tags = run.info.run_id, run.data.tags
        assert run.info.run_name == f"mine {run_id}" and run.info.status == "FINISHED"
        assert (tags["reviewed"], tags[COLOR_TAG]) == ("yes", "#123456")
        assert tags[NOTE_TAG] == ("" if run_id == noted else f"see {run_id}")

    # Values are those of a store that never had others; what cannot be deleted is older.
    other = MlflowClient(fresh.uri)
    whole = {run.data.tags["lengthwise.config_id"]: run for run in children(other, fresh.parent_run_id)}
    for run in after.values():
        expected = whole[run.data.tags["lengthwise.config_id"]]
        assert run.data.metrics == expected.data.metrics and run.data.params == expected.data.params
        for key in expected.data.metrics:
            newest = points_of(client, run.info.run_id, key)
            assert newest == points_of(other, expected.info.run_id, key)
            if deletes:
                assert len(client.get_metric_history(run.info.run_id, key)) == len(newest)
    known = parent.data.params if deletes else parent.data.tags
    assert known["search.configurations" if deletes else "lengthwise.now.search.configurations"] == "4"
    assert publish(trained_sweep, sweep_files=False).points == 0


def points_of(client: MlflowClient, run_id: str, key: str) -> dict[int, float]:
    history = sorted(client.get_metric_history(run_id, key), key=lambda point: point.timestamp)
    return {point.step: point.value for point in history}


def test_the_note_of_the_sweep_is_written_again_until_a_user_changes_it(sweep, publish, monkeypatch):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)

    def publish_note(sentence: str) -> str:
        monkeypatch.setattr(pages, "make_answers", lambda result, **_options: [sentence])
        publish(sweep.folder, sweep_files=False)
        return client.get_run(done.parent_run_id).data.tags[NOTE_TAG]

    assert "second" in publish_note("second")
    note = publish_note("third")
    assert "third" in note
    client.set_tag(done.parent_run_id, NOTE_TAG, f"{note} Mine.")
    assert publish_note("fourth") == f"{note} Mine."


def test_everything_is_in_mlflow_when_publishing_ends_although_logging_is_asynchronous(sweep, publish, monkeypatch):
    def log_batch_async(*arguments, **named):
        raise AssertionError("an asynchronous request")

    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "true")
    monkeypatch.setattr(AbstractStore, "log_batch_async", log_batch_async)
    done = publish(sweep.folder)
    assert_complete(MlflowClient(done.uri), done.parent_run_id, sweep)


def test_a_deleted_experiment_is_named(sweep, publish):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    client.delete_experiment(client.get_run(done.parent_run_id).info.experiment_id)
    with pytest.raises(TrackingError, match="'set_complement' is deleted"):
        publish(sweep.folder)
    assert publish(sweep.folder, experiment="another", sweep_files=False).created == 4


def test_the_command_that_opens_a_store_can_be_pasted(tmp_path, fresh_store):
    (folder := tmp_path / "läng e").mkdir()
    shutil.copy(fresh_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    ((_, command),) = MlflowExperiment(uri, "mine", tmp_path).make_links("")
    assert shlex.split(command) == ["lengthwise", "ui", "--tracking-uri", uri]


def test_the_artifacts_of_a_database_are_beside_the_sweeps(tmp_path, monkeypatch):
    created = []

    class Client:
        def __init__(self, uri):
            self.get_experiment_by_name = lambda name: None

        def create_experiment(self, name, artifact_location, tags):
            created.append(artifact_location)

    monkeypatch.setattr("orchestrator.tracking.store.MlflowClient", Client)
    uri = "postgresql://ada@db.example.org/mlflow"
    ((_, command),) = MlflowExperiment(uri, "mine", tmp_path).make_links("")
    assert shlex.split(command)[2:] == [
        *("--backend-store-uri", "postgresql://ada@db.example.org/mlflow"),
        *("--default-artifact-root", str(tmp_path / "mlartifacts")),
    ]
    MlflowExperiment("databricks", "mine", tmp_path)
    assert created[0].startswith(f"{(tmp_path / 'mlartifacts').as_uri()}/mine-") and created[1] is None


def test_an_address_whose_driver_is_not_installed_is_explained(sweep, publish, monkeypatch):
    def connect(*arguments, **settings):
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", connect)
    with pytest.raises(TrackingError, match=r"needs the package psycopg, which is not installed\ncomplete it later"):
        publish(sweep.folder, sweep_files=False)
