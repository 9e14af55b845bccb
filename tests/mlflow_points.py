"""What MLflow has of a sweep, and every point that it should have of three seeds that are judged at length 6."""

import sqlite3
import urllib.parse
import urllib.request
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.tracking import pages


def children(client: MlflowClient, parent_run_id: str) -> list[Run]:
    """The runs of configurations of a sweep."""
    experiment = client.get_run(parent_run_id).info.experiment_id
    return list(client.search_runs([experiment], pages.make_children_filter(parent_run_id)))


def rows_of(uri: str) -> Counter:
    """Every metric row of a SQLite store by configuration, deleted runs left out."""
    query = """select coalesce(t.value, 'sweep'), m.key, m.step, m.value, m.timestamp from metrics m
        join runs r on r.run_uuid = m.run_uuid and r.lifecycle_stage = 'active'
        left join tags t on t.run_uuid = m.run_uuid and t.key = 'lengthwise.config_id'"""
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as connection:
        return Counter(connection.execute(query).fetchall())


def paths_of(client: MlflowClient, run_id: str, folder: str | None = None) -> set[str]:
    """The paths of all artifacts of a run."""
    artifacts = client.list_artifacts(run_id, folder)
    below = [paths_of(client, run_id, artifact.path) for artifact in artifacts if artifact.is_dir]
    return {artifact.path for artifact in artifacts if not artifact.is_dir}.union(*below)


def artifact(server: str, run_id: str, path: str) -> bytes:
    """What the pages of the UI fetch."""
    query = urllib.parse.urlencode({"path": path, "run_uuid": run_id})
    with urllib.request.urlopen(f"{server}/get-artifact?{query}", timeout=20) as answer:
        return answer.read()


def assert_complete(client: MlflowClient, parent_run_id: str, state: SweepState) -> None:
    """Every point of the sweep is in MLflow once, and no other."""
    points: Counter = Counter()
    for run in children(client, parent_run_id):
        for key in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, key):
                points[run.data.tags["lengthwise.config_id"], key, point.step, point.value] += 1
    assert_points(points, state)


def assert_points(stored: Counter, state: SweepState) -> None:
    """Every point of the sweep is in `stored`, (config_id, key, step, value), once, and no other."""
    derived = {"area_beyond", "generalization_length"}  # their own tests are elsewhere; here: once each
    assert max(stored.values()) == 1
    for key in derived if state.spec["objective"]["threshold"] is not None else {"area_beyond"}:
        assert {config_id for config_id, k, _, _ in stored if k == key} >= {c for c, k, _, _ in stored if k == "score"}
    stored = Counter({point: n for point, n in stored.items() if point[1] not in derived})
    assert rounded(stored) == rounded(expected_points(state))


def expected_points(state: SweepState) -> Counter:
    """(config_id, key, step, value) of every curve and summary, worked out from curves and losses alone."""
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
    losses: dict = defaultdict(list)
    for pack in state.packs.values():
        for step, evaluation in pack.evaluations.items():
            for (config_id, _), loss in zip(pack.members, evaluation["loss"], strict=True):
                losses[config_id, step].append(loss)
    scores: dict = {}
    select_steps: dict = {}
    for (config_id, step), rows in chosen.groupby(["config_id", "step"]):
        values = np.sort(np.nan_to_num(rows["value"].to_numpy(float), nan=np.inf))
        points[config_id, "progress/loss", step, np.sort(np.nan_to_num(losses[config_id, step], nan=np.inf))[1]] += 1
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
        scores[config_id] = both["score_best" if best else "score_last"]
    for rank, config_id in enumerate(sorted(scores, key=scores.__getitem__), start=1):
        points[config_id, "score", 0, scores[config_id]] += 1
        points[config_id, "rank", 0, float(rank)] += 1
    for config_id, configuration in state.configurations.items():
        failed = sum(member.status == "failed" for member in configuration.members.values())
        points[config_id, "seeds_run", 0, 3.0] += 1
        points[config_id, "seeds_failed", 0, float(failed)] += 1
    return points


def at_the_steps_that_count(state: SweepState, curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of each seed at its last evaluation, or with `evaluation: best` where its error at length 6 is least."""
    rows = []
    for _, member in curves.groupby(["config_id", "seed"]):
        judged = member[
            (member["metric"] == "total_variation") & (member["average"] == "ema") & (member["length"] == 6)
        ]
        judged = judged.sort_values("step").set_index("step")["value"].astype(float)
        step = judged.index[-1]
        if state.spec["objective"].get("evaluation") == "best" and not np.isnan(judged.iloc[-1]):
            step = judged.idxmin()
        rows.append(member[member["step"] == step])
    return pd.concat(rows)


def rounded(points: Counter) -> Counter:
    return Counter({(*point[:3], float(f"{point[3]:.12g}")): n for point, n in points.items()})
