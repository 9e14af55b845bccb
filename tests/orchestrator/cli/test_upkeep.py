"""The verbs that keep the storage folder, and the help, as a person types them."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from orchestrator import open_sweep
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.ledgers import sets
from tests.orchestrator.tiny_sweeps import SHORT

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0"


def test_sweeps_are_listed_and_deleted_by_name(lengthwise, tmp_path, monkeypatch):
    for name in ("finished", "grid"):
        shutil.copytree(RELEASED / name, tmp_path / name)
    listed = lengthwise("list", "sweeps", "--storage", tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["name", "grid", "finished"]
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_STORAGE", str(tmp_path))
    both = lengthwise("list").stdout.splitlines()
    assert both[:3] == listed.stdout.splitlines() and both[3] == "" and both[4].startswith("lengthwise list KIND ")
    assert len(both) <= 6
    refused = lengthwise("delete", tmp_path / "grid")
    assert refused.returncode == 2 and "use --yes to delete" in refused.stderr and (tmp_path / "grid").exists()
    words = ("delete", tmp_path / "grid", "--yes")
    for option in (("--mlflow",), ("--tracking-uri", "sqlite:///a.db"), ("--tracking-uri", "")):
        lengthwise.refuses(*words, "--checkpoints", *option, message=f"--checkpoints: not allowed with {option[0]}")
    for uri in ("sqlite:///a.db", ""):
        lengthwise.refuses(*words, "--tracking-uri", uri, message="only allowed with --mlflow")
    done = lengthwise("delete", tmp_path / "grid", "--yes")
    assert done.returncode == 0 and not (tmp_path / "grid").exists() and (tmp_path / "finished").exists()
    lengthwise.refuses("delete", tmp_path / "grid", "--yes", message="does not exist")
    assert "did you mean sweeps?" in lengthwise("list", "sweep").stderr


def test_a_sweep_that_is_being_run_keeps_its_mlflow_runs(lengthwise, tmp_path, monkeypatch):
    folder, asked = shutil.copytree(RELEASED / "grid", tmp_path / "grid"), []
    monkeypatch.setattr("orchestrator.tracking.publish.delete_runs", lambda *given: asked.append(given) or {"a": 1})
    with SweepLock(folder):
        lengthwise.refuses("delete", folder, "--yes", "--mlflow", message="another driver is running")
        assert not asked
    assert lengthwise("delete", folder, "--yes").returncode == 0 and not asked
    folder = shutil.copytree(RELEASED / "grid", tmp_path / "grid")
    done = lengthwise.succeeds("delete", shutil.copytree(folder, tmp_path / "copied"), "--yes", "--mlflow")
    assert not asked and "the copy grid and the MLflow runs stay" in done.stdout
    done = lengthwise.succeeds("delete", folder, "--yes", "--mlflow")
    assert asked == [(folder, None)] and "a: 1 run deleted" in done.stdout


@pytest.mark.slow
def test_runs_are_deleted_wherever_this_machine_published_them_and_what_stays_is_named(
    lengthwise, tiny, tmp_path, fresh_store
):
    for store in ("mlflow.db", "elsewhere.db"):
        shutil.copy(fresh_store, tmp_path / store)
    other = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    for name in ("one", "two"):
        settings = sets("search.configurations=1", f"tracking.enabled={name == 'one'}")
        lengthwise.succeeds("run", tiny, "--storage", tmp_path, "--name", name, *settings)
        if name == "two":
            lengthwise.succeeds("publish", tmp_path / name)
        for again in (False, True):
            sent = lengthwise("publish", tmp_path / name, "--tracking-uri", other)
            assert sent.returncode == 0 and (" 0 new points sent" in sent.stdout) == again, sent.stderr
    local_store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert f" {local_store}, {other}\n" in lengthwise("status", tmp_path / "one").stdout
    done = lengthwise("delete", tmp_path / "one", "--yes", "--mlflow")
    assert f"{local_store}: 2 runs" in done.stdout and f"{other}: 2 runs" in done.stdout and "stay" not in done.stdout
    done = lengthwise("delete", tmp_path / "two", "--yes", "--mlflow", "--tracking-uri", local_store)
    assert f"{local_store}: 2 runs" in done.stdout and f"its MLflow runs stay at {other}" in done.stdout
    client = MlflowClient(other)
    left = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    assert {run.data.tags["lengthwise.sweep"] for run in left} == {"two"}


def test_a_member_is_replayed_and_a_difference_is_exit_code_1(lengthwise, tiny, tmp_path, monkeypatch):
    assert lengthwise("run", tiny, "--storage", tmp_path, *sets(*SHORT, "search.configurations=1")).returncode == 0
    good = lengthwise("replay", tmp_path / "tiny", "0", "1")
    assert good.returncode == 0 and "agree bit for bit at steps 4, 8, 12" in good.stdout, good.stderr
    monkeypatch.setattr("orchestrator.upkeep.replay._describe_difference", lambda *given: "they differ")
    assert lengthwise("replay", tmp_path / "tiny", "0", "1").returncode == 1


def test_an_export_says_what_it_wrote(lengthwise, tmp_path):
    done = lengthwise("export", RELEASED / "finished", "--latex", tmp_path / "t.tex", "--best", tmp_path / "best.yaml")
    assert done.returncode == 0 and done.stdout.startswith(f"wrote {tmp_path / 'best.yaml'}\n"), done.stderr
    assert lengthwise("validate", tmp_path / "best.yaml").returncode == 0
    lengthwise.refuses("export", RELEASED / "finished", "--latex", tmp_path / "t.tex", message="exists already")


def test_after_a_repair_damaged_curves_are_trained_again_and_extensions_stay(lengthwise, tiny, tmp_path):
    folder = tmp_path / "tiny"
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets(*SHORT))
    lengthwise.succeeds("extend", folder, "--seeds", "+1", "--configuration", "1")
    before, state = open_sweep(folder).curves, SweepState.load(folder)
    pack = next(iter(state.packs.values()))
    (folder / pack.evaluations[min(pack.evaluations)]["file"]).unlink()
    repaired = lengthwise("repair", folder)
    assert repaired.returncode == 0 and "curves missing or damaged" in repaired.stdout, repaired.stderr
    assert SweepState.load(folder).additional_seeds == state.additional_seeds
    resumed = lengthwise("resume", folder)
    assert resumed.returncode == 0 and "Finished: 4 configurations" in resumed.stdout, resumed.stderr
    assert " scored" not in resumed.stdout  # the report has said it
    pd.testing.assert_frame_equal(open_sweep(folder).curves, before)
