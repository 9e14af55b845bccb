"""A sweep with an empty MLflow store beside it, artifacts that cost nothing, and what a store should hold of it."""

import shutil
import sqlite3
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import Row, Summary
from orchestrator.tracking.contents import pages
from orchestrator.tracking.publish import publish as publish_sweep
from orchestrator.tracking.store.sqlite_store import default_uri, initialise

SPEC = {"task.vocabulary": 8, "objective.lengths": [6]}
DRAWS = [{"training.learning_rate": 10.0**-k, "training.batch_size": 16 * k} for k in (2, 3, 4)]


class Handed:
    """Artifacts of a few bytes each; remembers what was asked for: a configuration by its number, the sweep as -1.

    The first two configurations are shown in detail.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []

    def sentences(self, result: Summary) -> list[str]:
        return [f"{result.name} is *well*."]

    def detailed_rows(self, result: Summary) -> list[Row]:
        return [row for row in result.rows if row.complete][:2]

    def configuration_files(self, result: Summary, row: Row) -> dict[Path, str]:
        self.asked.append(row.number)
        return {self._written(result.folder / "figures" / f"configuration-{row.config_id}.png"): "figures"}

    def sweep_files(self, result: Summary) -> dict[Path, str]:
        self.asked.append(-1)
        figure = self._written(result.folder / "figures" / "comparison.png")
        return {self._written(result.folder / "report.html"): "", figure: "figures"}

    def _written(self, path: Path) -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(path.name.encode() * 3)
        return path


@pytest.fixture
def artifacts() -> Handed:
    return Handed()


@pytest.fixture
def publish(artifacts: Handed) -> Callable[..., Any]:
    """`publish`, with `artifacts` handed over."""
    return partial(publish_sweep, artifacts=artifacts)


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow store: making its schema takes seconds, so the tests copy this one."""
    folder = tmp_path_factory.mktemp("fresh")
    initialise(default_uri(folder))
    return folder / "mlflow.db"


@pytest.fixture
def build(synthetic_sweep: Callable[..., SweepState], simple_curve: Any) -> Callable[..., SweepState]:
    """Writes a sweep into a folder: the first `count` of DRAWS, each with so many seeds, dotted keys on top of SPEC."""

    def make(
        folder: Path,
        count: int = 3,
        seeds: int = 3,
        *,
        curve: Any = simple_curve,
        failed: Any = None,
        spec: Mapping[str, Any] | None = None,
    ) -> SweepState:
        return synthetic_sweep(folder, DRAWS[:count], seeds, curve, failed, spec={**SPEC, **(spec or {})})

    return make


@pytest.fixture
def sweep(tmp_path: Path, build: Callable[..., SweepState], fresh_store: Path) -> SweepState:
    """Three configurations of three seeds; one seed of number 1 failed, every seed of number 2."""
    state = build(tmp_path / "store" / "läng e", failed={(1, 2): 60, (2, 0): 10, (2, 1): 10, (2, 2): 10})
    for store in ("mlflow", "whole", "cut", "growing"):
        shutil.copy(fresh_store, state.folder.parent / f"{store}.db")
    return state


def expected_points(state: SweepState) -> Counter:
    """(config_id, key, step, value) of every curve and summary, worked out from curves.parquet's rows alone."""
    points: Counter = Counter()
    curves = read_curves(state).astype({"config_id": str, "average": str, "metric": str})
    last = at_the_steps_that_count(state, curves)
    headline = ("total_variation", "invalid_mass", "margin")
    for (config_id, metric, average, length), rows in last.groupby(["config_id", "metric", "average", "length"]):
        values = rows["value"].to_numpy(float)
        if metric in headline and not np.isnan(values).all():
            counted = np.where(np.isnan(values), -np.inf if metric == "margin" else np.inf, values)
            quantiles = np.quantile(counted, [0.25, 0.75], method="linear") if np.isfinite(counted).all() else None
            ordered = np.sort(counted)
            # three seeds: the quartiles lie half-way between neighbours, the median is the middle one
            low, high = quantiles if quantiles is not None else ((ordered[:2].sum()) / 2, (ordered[1:].sum()) / 2)
            for statistic, value in (("median", ordered[1]), ("q25", low), ("q75", high)):
                if np.isfinite(value):
                    points[config_id, f"{metric}/{average}/{statistic}", length, value] += 1
        if (metric, average) == ("total_variation", "ema"):
            for seed, value in zip(rows["seed"], values, strict=True):
                if np.isfinite(value):
                    points[config_id, f"total_variation/ema/seed_{seed}", length, value] += 1
    chosen = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema") & (curves["length"] == 6)]
    scores: dict = {}
    select_steps: dict = {}
    for (config_id, step), rows in chosen.groupby(["config_id", "step"]):
        values = np.sort(np.nan_to_num(rows["value"].to_numpy(float), nan=np.inf))
        points[config_id, "progress/loss", step, 0.5] += 1
        if not rows["value"].isna().all():
            points[config_id, "progress/total_variation/ema", step, values[1]] += 1
            select_steps.setdefault(config_id, {})[step] = rows.set_index("seed")["value"].astype(float)
            if step == curves["step"].max():
                scores[config_id] = values[1]
    best = state.spec["objective"].get("evaluation") == "best"
    for config_id, values in select_steps.items():
        table = np.array([values[step] for step in sorted(values)])  # steps by seeds; a seed that is lost stays lost
        chosen = np.where(np.isnan(table[-1]), np.inf, np.nanmin(table, axis=0, initial=np.inf))
        both = {"score_last": scores[config_id], "score_best": np.sort(chosen)[1]}
        for key, score in both.items():
            points[config_id, key, 0, score] += 1
        scores[config_id] = both["score_best" if best else "score_last"]
    for place, config_id in enumerate(sorted(scores, key=scores.__getitem__), start=1):
        points[config_id, "score", 0, scores[config_id]] += 1
        points[config_id, "rank", 0, float(place)] += 1
    for config_id, configuration in state.configurations.items():
        failed = sum(member.status == "failed" for member in configuration.members.values())
        points[config_id, "seeds_run", 0, 3.0] += 1
        points[config_id, "seeds_failed", 0, float(failed)] += 1
    return points


def at_the_steps_that_count(state: SweepState, curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of each seed at its last evaluation, or with `evaluation: best` where its error at length 6 is least."""
    found = []
    for _, member in curves.groupby(["config_id", "seed"]):
        judged = member[
            (member["metric"] == "total_variation") & (member["average"] == "ema") & (member["length"] == 6)
        ]
        judged = judged.sort_values("step").set_index("step")["value"].astype(float)
        step = judged.index[-1]
        if state.spec["objective"].get("evaluation") == "best" and not np.isnan(judged.iloc[-1]):
            step = judged.idxmin()
        found.append(member[member["step"] == step])
    return pd.concat(found)


def stored_points(client: MlflowClient, parent_run_id: str) -> Counter:
    """(config_id, key, step, value) of every point of every configuration, from get_metric_history."""
    points: Counter = Counter()
    for run in _children(client, parent_run_id):
        for key in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, key):
                points[run.data.tags["lengthwise.config_id"], key, point.step, point.value] += 1
    return points


def _children(client: MlflowClient, parent_run_id: str) -> list:
    experiment = client.get_run(parent_run_id).info.experiment_id
    return list(client.search_runs([experiment], pages.children_filter(parent_run_id)))


def _assert_complete(client: MlflowClient, parent_run_id: str, state: SweepState) -> None:
    """Every point of the sweep is there once, and no other."""
    stored = stored_points(client, parent_run_id)
    derived = {"area_beyond", "generalization_length"}  # their own tests are elsewhere; here: once each
    assert max(stored.values()) == 1
    for key in derived if state.spec["objective"]["threshold"] is not None else {"area_beyond"}:
        assert {config_id for config_id, k, _, _ in stored if k == key} >= {c for c, k, _, _ in stored if k == "score"}
    stored = Counter({point: n for point, n in stored.items() if point[1] not in derived})
    assert rounded(stored) == rounded(expected_points(state))


def rounded(points: Counter) -> Counter:
    return Counter({(*point[:3], float(f"{point[3]:.12g}")): n for point, n in points.items()})


def _rows_of(uri: str) -> Counter:
    """Every metric row of a SQLite store by configuration, deleted runs left out."""
    query = """select coalesce(t.value, 'sweep'), m.key, m.step, m.value, m.timestamp from metrics m
        join runs r on r.run_uuid = m.run_uuid and r.lifecycle_stage = 'active'
        left join tags t on t.run_uuid = m.run_uuid and t.key = 'lengthwise.config_id'"""
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as connection:
        return Counter(connection.execute(query).fetchall())


def _artifact(server: str, run_id: str, path: str) -> bytes:
    """What the pages of the UI fetch."""
    query = urllib.parse.urlencode({"path": path, "run_uuid": run_id})
    with urllib.request.urlopen(f"{server}/get-artifact?{query}", timeout=20) as answer:
        return answer.read()


@pytest.fixture
def assert_complete() -> Callable[..., None]:
    return _assert_complete


@pytest.fixture
def rows_of() -> Callable[[str], Counter]:
    return _rows_of


@pytest.fixture
def children() -> Callable[..., list]:
    return _children


@pytest.fixture
def paths_of() -> Callable[[MlflowClient, str], set[str]]:
    """Of a client and a run_id: the paths of all artifacts."""

    def paths(client: MlflowClient, run_id: str, folder: str | None = None) -> set[str]:
        found = client.list_artifacts(run_id, folder)
        below = [paths(client, run_id, one.path) for one in found if one.is_dir]
        return {one.path for one in found if not one.is_dir}.union(*below)

    return paths


@pytest.fixture
def artifact() -> Callable[..., bytes]:
    return _artifact
