"""Sweeps that earlier versions wrote keep their names when they are published, confirmed, drawn and resumed."""

import io
import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from orchestrator.errors import SpecChanged, SweepExists, UserError
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.recorded_configurations import map_config_ids
from orchestrator.record.files.curve_tables import COLUMNS
from orchestrator.record.files.curves import read_curves
from orchestrator.record.files.weights import list_kept_weights, load
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.records import read_first_record
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.sweep.confirm import confirm_sweep, plan_confirmation
from orchestrator.sweep.extend import extend_sweep
from orchestrator.sweep.run_and_resume import resume_sweep
from orchestrator.sweep.specification import load_spec, refuse_existing
from orchestrator.tracking.publish import publish
from search_spaces import SweepFileError, load_sweep
from trainers.config.recorded_members import build_recorded_member
from trainers.models.attention_only import AttentionOnly

RELEASED = Path(__file__).resolve().parent / "1.0.0"
SWEEPS = sorted(path.parent for path in RELEASED.glob("*/events.jsonl"))


def copied(name: str, to: Path) -> Path:
    """A sweep to work on, without the confirmation of it."""
    shutil.copytree(RELEASED / name, to / name)
    return to / name


def recorded(state: SweepState) -> list[Configuration]:
    return list(state.configurations.values())


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.name)
def test_the_specification_is_still_the_same_sweep(folder: Path) -> None:
    state, spec = SweepState.load(folder), load_sweep(folder / "sweep.yaml")
    assert state.spec_hash == read_first_record(folder).fields["spec_hash"] == spec.spec_hash
    with pytest.raises(SweepExists):
        refuse_existing(spec, folder)
    with pytest.raises(SpecChanged, match=r"training\.steps"):
        refuse_existing(load_sweep(folder / "sweep.yaml", ["training.steps=7"]), folder)


def test_a_sweep_file_that_is_damaged_in_its_folder_is_written_again_once_it_is_deleted(tmp_path: Path) -> None:
    folder = shutil.copytree(SWEEPS[0], tmp_path / "copy")
    state, file = SweepState.load(folder), folder / "sweep.yaml"
    file.write_text("[")
    with pytest.raises(SweepFileError) as error:
        load_spec(state)
    assert error.value.unchecked == f"or delete {file}; it will be rewritten from the ledger"
    file.unlink()
    assert load_spec(state).spec_hash == state.spec_hash and file.exists()


@pytest.mark.slow
def test_an_interrupted_one_is_extended(tmp_path: Path) -> None:
    folder = copied("interrupted_weights", tmp_path)
    before, spec = SweepState.load(folder), load_sweep(folder / "sweep.yaml")
    ledger = (folder / LEDGER_FILE).read_bytes()
    inline = ["resources.scheduler=inline", "tracking.enabled=false"]
    outcome = extend_sweep(folder, quiet(), overrides=inline, accept_code_change=True, seeds="+1", labels=["0"])
    state = SweepState.load(folder)
    assert outcome.status == state.end_status == "complete" and state.conflicts == []
    assert (folder / LEDGER_FILE).read_bytes().startswith(ledger)
    assert state.spec_hash == before.spec_hash and state.draws.keys() >= before.draws.keys()
    for label, added in {"#0": 1, "#1": 0}.items():
        configuration = find_configuration(state, label)
        assert len(configuration.members) == len(spec.seeds) + added
        assert all(member.status in ("complete", "failed") for member in configuration.members.values())
    now, then = read_curves(state), read_curves(before)
    trained = now.merge(then, on=["config_id", "seed", "average", "metric", "length", "step"], suffixes=("", "_then"))
    assert len(trained) == len(then) and (trained["value"] == trained["value_then"])[trained["value"].notna()].all()


@pytest.mark.parametrize("name", ["finished", "judged_at_best"])
def test_resume_of_one_that_has_ended_changes_nothing(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    before = (folder / LEDGER_FILE).read_bytes()
    assert resume_sweep(folder, quiet()).status == "complete"
    assert (folder / LEDGER_FILE).read_bytes() == before
    now, then = pd.read_parquet(folder / "curves.parquet"), pd.read_parquet(RELEASED / name / "curves.parquet")
    pd.testing.assert_frame_equal(now[list(then.columns)], then, check_exact=True)
    page = (folder / "report.html").read_text()
    assert all(f'"{name}"' in page for name in SweepState.load(folder).configurations)


def test_weights_are_found_under_the_names_of_the_ledger(tmp_path: Path) -> None:
    folder = copied("kept_weights", tmp_path)
    state = SweepState.load(folder)
    assert len(list_kept_weights(state)) == 4
    for config_id, configuration in state.configurations.items():
        for seed in configuration.members:
            assert load(folder, config_id, seed, "ema")["embedding"].shape == (6, 8)


@pytest.mark.slow
def test_a_confirmation_trains_what_it_did_then(tmp_path: Path) -> None:
    folder = copied("finished", tmp_path)
    plan = partial(plan_confirmation, top=2, seeds="3", overrides=["resources.scheduler=inline"])
    assert confirm_sweep(folder, quiet(), plan).exit_code == 0
    now, then = (SweepState.load(where / "finished-confirm") for where in (tmp_path, RELEASED))
    members = [
        [build_recorded_member(configuration.resolved, 0) for configuration in state.configurations.values()]
        for state in (now, then)
    ]
    assert members[0] == members[1]
    assert list(now.configurations) == list(map_config_ids(recorded(then))), "a new sweep names them by today's rule"
    mine, known = read_curves(now), pd.read_parquet(RELEASED / "finished-confirm" / "curves.parquet")
    mine, known = mine[list(COLUMNS)], known[list(COLUMNS)]
    known["config_id"] = known["config_id"].map(dict(zip(then.configurations, now.configurations, strict=True)))
    keys = ["config_id", "seed", "average", "metric", "length", "step"]
    both = [curves.astype(dict.fromkeys(keys, str)).sort_values(keys, ignore_index=True) for curves in (mine, known)]
    pd.testing.assert_frame_equal(*both, rtol=1e-5, atol=1e-5)  # the order of metrics is not kept
    for state in (SweepState.load(folder), now):
        (confirmation,) = read_confirmations(summarize(state))
        first = json.loads((RELEASED / "finished.summary.json").read_text())[:2]
        assert [row.config_id for row in confirmation.rows] == [row["config_id"] for row in first]
        assert [row.confirmed.median for row in confirmation.rows] == pytest.approx(
            [configuration.score for configuration in then.configurations.values()], abs=1e-5
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_a_sweep_and_its_confirmation_are_published_under_their_names(tmp_path: Path, fresh_store: Path) -> None:
    folders = [copied(name, tmp_path) for name in ("finished", "finished-confirm")]
    uri = f"sqlite:///{shutil.copy(fresh_store, tmp_path)}"
    for folder in folders:
        done, state = publish(folder, uri), SweepState.load(folder)
        client = MlflowClient(uri)
        parent = client.get_run(done.parent_run_id)
        assert parent.data.tags["lengthwise.spec_hash"] == state.spec_hash
        children = client.search_runs(
            [parent.info.experiment_id], f"tags.mlflow.parentRunId = '{done.parent_run_id}'", max_results=100
        )
        by_name = {run.data.tags["lengthwise.config_id"]: run for run in children}
        assert set(by_name) == set(state.configurations)
        for config_id, run in by_name.items():
            assert run.data.metrics["score"] == pytest.approx(state.configurations[config_id].score)
        again = publish(folder, uri)
        assert (again.created, again.points) == (0, 0)
    then = state.provenance["confirms"]["configurations"]
    assert {name: run.data.metrics["search_score"] for name, run in by_name.items()} == {
        row["config_id"]: pytest.approx(row["score"][0]) for row in then
    }


def test_sweeps_of_a_revised_class_are_read_but_not_resumed(tmp_path: Path, monkeypatch) -> None:
    folders = {name: copied(name, tmp_path) for name in ("interrupted_eager", "finished")}
    before = {name: (folder / LEDGER_FILE).read_bytes() for name, folder in folders.items()}
    monkeypatch.setattr(AttentionOnly, "revision", 2)
    with pytest.raises(UserError, match=r"(?s)cannot be resumed.*model: attention_only was revision 1 and is rev"):
        resume_sweep(folders["interrupted_eager"], quiet(), accept_code_change=True)
    with pytest.raises(UserError, match="cannot be confirmed"):
        confirm_sweep(folders["finished"], quiet(), plan_confirmation)
    assert len(summarize(SweepState.load(folders["finished"])).rows) == 6
    assert resume_sweep(folders["finished"], quiet()).status == "complete", "nothing of it is trained again"
    assert {name: (folder / LEDGER_FILE).read_bytes() for name, folder in folders.items()} == before
