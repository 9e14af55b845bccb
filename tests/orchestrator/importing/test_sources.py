"""What MLflow, Weights & Biases and Ray Tune have is imported with the values they were given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Metric

from orchestrator import Sweep
from orchestrator.errors import UserError
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.tracking.publish import publish
from tests.command_line import NO_SPARE_WORKERS
from tests.orchestrator.importing.conftest import make_rows

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
Import = Callable[..., Sweep]
PATTERN = r"eval/accuracy_(?P<length>\d+)"


def curves_of(sweep: Sweep) -> pd.DataFrame:
    """Return the table that was imported: lr, seed, step, length, value."""
    curves = read_curves(SweepState.load(sweep.folder)).rename(columns={"config.lr": "lr"})
    return curves[["lr", "seed", "step", "length", "value"]]


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    keys = ["lr", "seed", "step", "length"]
    tables = [
        table[[*keys, "value"]].astype({"value": np.float32}).sort_values(keys).reset_index(drop=True)
        for table in (first, second)
    ]
    pd.testing.assert_frame_equal(*tables, check_dtype=False)


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each step of each member, with a column for each length."""
    named = rows.assign(name=[f"eval/accuracy_{length}" for length in rows["length"]])
    return named.pivot(index=["lr", "width", "seed", "step"], columns="name", values="value").reset_index()


def test_the_runs_of_imported_results_have_their_settings(
    rows: pd.DataFrame, imported: Import, tmp_path: Path, fresh_store: Path
):
    uri = f"sqlite:///{shutil.copy(fresh_store, tmp_path / 'store.db')}"
    publish(imported(rows, study="sums").folder, uri, experiment="", sweep_files=False)
    client = mlflow.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("sums").experiment_id])
    params = {run.data.tags.get("lengthwise.number", "sweep"): run.data.params for run in runs}
    assert params["sweep"]["config.width"] == "64" and params["sweep"]["program.imported"]
    assert not params["sweep"].keys() & {"task", "model"}
    assert [params[number]["config.lr"] for number in ("0", "1")] == ["0.1", "0.01"]


def test_own_results_in_mlflow_have_the_same_medians(
    original_sweep: Sweep, imported: Import, tmp_path: Path, fresh_store: Path
):
    uri = f"sqlite:///{shutil.copy(fresh_store, tmp_path / 'store.db')}"
    publish(original_sweep.folder, uri, experiment="", sweep_files=False)
    pattern = r"(?P<metric>total_variation)/(?P<average>ema)/seed_(?P<seed>\d+)"
    sweep = imported(
        f"mlflow:{uri}", pattern=pattern, experiment="tests", step=6, metrics={"total_variation": "minimize"},
        lengths=[4, 5], trained=[1, 2, 3],
    )  # fmt: skip
    before, again = (summarize(SweepState.load(each.folder)) for each in (original_sweep, sweep))

    def medians(summary: Any, prefix: str = "") -> dict[float, Any]:
        rates = {row.config_id: row.values[f"{prefix}training.learning_rate"] for row in summary.rows}
        return {rates[key[0]]: band for key, band in summary.bands.items() if key[1:] == ("total_variation", "ema")}

    assert medians(before) == medians(again, "config.") and len(medians(before)) == 4
    assert {row.rank: row.score for row in before.rows} == {row.rank: row.score for row in again.rows}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, fresh_store: Path) -> str:
    """An MLflow store with a run for each member, and one that logged nothing."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{shutil.copy(fresh_store, folder / 'mlflow.db')}"
    client = mlflow.MlflowClient(uri)
    experiment = client.create_experiment("sums", artifact_location=str(folder / "artifacts"))
    for (lr, seed), of_run in make_rows().groupby(["lr", "seed"]):
        run = client.create_run(experiment).info.run_id
        for name, value in {"lr": lr, "random_seed": seed, "width": 64, "compile": True}.items():
            client.log_param(run, name, value)
        points = [(f"eval/accuracy_{row.length}", row.value, row.step) for row in of_run.itertuples()]
        client.log_batch(run, [Metric(name, value, 0, step) for name, value, step in [*points, ("loss", 0.1, 100)]])
    client.create_run(experiment)
    return f"mlflow:{uri}"


def test_mlflow_runs_are_members(store: str, rows: pd.DataFrame, imported: Import):
    sweep = imported(store, pattern=PATTERN, experiment="sums", seed_column="random_seed")
    same(curves_of(sweep), rows)
    first = next(iter(SweepState.load(sweep.folder).configurations.values()))
    assert first.resolved["config"] == {"lr": 0.01, "width": 64, "compile": True}


def test_missing_names_of_mlflow_are_reported(store: str, imported: Import, tmp_path: Path):
    for options, message in (
        ({"experiment": "sum"}, "did you mean sums?"),
        ({}, "--experiment"),
        ({"experiment": "sums", "pattern": r"accuracy_(?P<length>\d+)"}, "eval/accuracy_10"),
        ({"experiment": "sums", "pattern": r"eval/accuracy_(?P<lenght>\d+)"}, "did you mean length?"),
        ({"experiment": "sums", "pattern": "eval/("}, "--pattern eval/("),
        ({"experiment": "sums", "pattern": None}, "--pattern"),
        ({"experiment": "sums"}, "no column seed"),
    ):
        with pytest.raises(UserError) as error:
            imported(store, **{"pattern": PATTERN, **options})
        assert message in str(error.value), error.value
    with pytest.raises(UserError, match=r"other\.db"):
        imported(f"mlflow:sqlite:///{tmp_path / 'other.db'}", pattern=PATTERN, experiment="sums")
    with pytest.raises(UserError, match=r"--from mlflow:http://\[::1:5000"):
        imported("mlflow:http://[::1:5000", pattern=PATTERN, experiment="sums")
    assert not (tmp_path / "other.db").exists() and not (tmp_path / "imported").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_history_of_wandb(rows: pd.DataFrame, imported: Import, tmp_path: Path, kind: str):
    history = wide(rows).rename(columns={"step": "_step", **{key: f"config.{key}" for key in ("lr", "width", "seed")}})
    losses = history.assign(
        **{name: np.nan for name in history if name.startswith("eval/")}, _step=history["_step"] - 1
    )
    history = pd.concat([history, losses.assign(loss=0.5)], ignore_index=True).assign(_runtime=1.0)
    path = tmp_path / "history"
    if kind == "folder":
        path.mkdir()
        for seed, of_run in history.groupby("config.seed"):
            of_run.to_parquet(path / f"{seed}.parquet")
    else:
        path = path.with_suffix(f".{kind}")
        history.to_csv(path, index=False) if kind == "csv" else history.to_parquet(path)
    same(curves_of(imported(f"wandb:{path}", pattern=PATTERN)), rows)


def test_a_history_without_its_step(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    wide(rows).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(UserError, match="--step-column"):
        imported(f"wandb:{tmp_path / 'a.csv'}", pattern=PATTERN)


def write_trials(rows: pd.DataFrame, folder: Path) -> None:
    """Write what JsonLoggerCallback of Tune writes for each trial."""
    for (lr, seed), of_trial in wide(rows).groupby(["lr", "seed"]):
        trial = folder / f"train_{lr}_{seed}"
        trial.mkdir(parents=True)
        config = {"lr": lr, "model": {"width": 64, "sizes": [1, 2]}, "seed": int(seed)}
        (trial / "params.json").write_text(json.dumps(config, indent=2, sort_keys=True))
        lines = [
            json.dumps({
                "eval": {f"accuracy_{length}": row[f"eval/accuracy_{length}"] for length in (5, 10, 20)},
                "done": False, "training_iteration": int(row["step"]), "trial_id": f"{lr}-{seed}", "config": config,
            })
            for _, row in of_trial.iterrows()
        ]  # fmt: skip
        (trial / "result.json").write_text("\n".join(lines) + "\n")


def test_trials_of_tune(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    write_trials(rows, tmp_path / "tune")
    sweep = imported(f"tune:{tmp_path / 'tune'}", pattern=PATTERN)
    same(curves_of(sweep), rows)
    first = next(iter(SweepState.load(sweep.folder).configurations.values()))
    assert first.resolved["config"]["model"]["width"] == 64


def test_a_step_that_tune_reported_twice_is_named_by_its_line(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    write_trials(rows, tmp_path / "tune")
    file = tmp_path / "tune" / "train_0.01_1" / "result.json"
    file.write_text(file.read_text() + file.read_text().splitlines()[1] + "\n")
    with pytest.raises(UserError) as error:
        imported(f"tune:{tmp_path / 'tune'}", pattern=PATTERN)
    assert f"{file}:3" in str(error.value) and f"{file}:2" in str(error.value)


def test_a_trial_without_its_settings(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    write_trials(rows, tmp_path / "tune")
    params = tmp_path / "tune" / "train_0.01_1" / "params.json"
    params.unlink()
    with pytest.raises(UserError) as error:
        imported(f"tune:{tmp_path / 'tune'}", pattern=PATTERN)
    assert str(params) in str(error.value) and "JSON" not in str(error.value)


def test_a_line_that_is_no_json(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    write_trials(rows, tmp_path / "tune")
    file = tmp_path / "tune" / "train_0.01_1" / "result.json"
    file.write_text(file.read_text() + '{"eval": ')
    (file.parent / "checkpoints").mkdir()
    with pytest.raises(UserError, match=r"result\.json:3"):
        imported(f"tune:{tmp_path / 'tune'}", pattern=PATTERN)
    with pytest.raises(UserError, match=r"result\.json"):
        imported(f"tune:{tmp_path / 'tune' / 'train_0.01_1' / 'checkpoints'}", pattern=PATTERN)


@pytest.mark.slow
def test_trials_that_tune_wrote(
    rows: pd.DataFrame, imported: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from ray import tune

    # A trial for each rate, one after the other in one process.
    rows = rows[rows["seed"] == 2]
    table = wide(rows)
    for name, value in NO_SPARE_WORKERS.items():
        monkeypatch.setenv(name, value)

    def train(config: dict[str, Any]) -> None:
        rows = table[(table["lr"] == config["lr"]) & (table["seed"] == config["seed"])]
        for _, row in rows.sort_values("step").iterrows():
            tune.report(
                {"eval": {f"accuracy_{n}": row[f"eval/accuracy_{n}"] for n in (5, 10, 20)}, "step": int(row["step"])}
            )

    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    try:
        space = {"lr": tune.grid_search([0.1, 0.01]), "seed": 2, "width": 64}
        run_config = tune.RunConfig(storage_path=str(tmp_path), name="tune", verbose=0)
        reuse = tune.TuneConfig(reuse_actors=True)
        assert not tune.Tuner(train, param_space=space, run_config=run_config, tune_config=reuse).fit().errors
    finally:
        ray.shutdown()
    same(curves_of(imported(f"tune:{tmp_path / 'tune'}", pattern=PATTERN, step_column="step")), rows)
