"""MLflow holds what the ledger says, every point once, whatever was cut short on the way."""

import base64
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from orchestrator.record.ledger import LEDGER_FILE
from orchestrator.record.state import SweepState
from orchestrator.results.summary import summary
from orchestrator.tracking import pages as mlflow_view
from orchestrator.tracking.contents import name, run_name, unique_names
from orchestrator.tracking.publish import Publisher, TrackingError, default_uri, initialise, publish, serve, unpublished
from orchestrator.tracking.server import UiServer, UiServerError, free_port

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it

SPEC = {"task.vocabulary": 8, "objective.lengths": [6]}
DRAWS = [{"training.learning_rate": 10.0**-k, "training.batch_size": 16 * k} for k in (2, 3, 4)]


@pytest.fixture(scope="module")
def fresh_store(tmp_path_factory):
    """An empty MLflow store: making its schema takes seconds, so the tests copy this one."""
    folder = tmp_path_factory.mktemp("fresh")
    initialise(default_uri(folder))
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Figures by sweep, so that each is drawn once."""
    return tmp_path_factory.mktemp("drawn")


@pytest.fixture
def sweep(tmp_path, synthetic_sweep, simple_curve, fresh_store, drawn):
    """Three configurations of three seeds; one seed of number 1 failed, every seed of number 2."""
    failed = {(1, 2): 60, (2, 0): 10, (2, 1): 10, (2, 2): 10}
    state = synthetic_sweep(tmp_path / "store" / "läng e", DRAWS, 3, simple_curve, failed, spec=SPEC)
    for store in ("mlflow", "whole", "cut", "growing"):
        shutil.copy(fresh_store, state.folder.parent / f"{store}.db")
    shutil.copytree(drawn, state.folder / "figures")
    yield state
    shutil.copytree(state.folder / "figures", drawn, dirs_exist_ok=True)


def expected_points(state: SweepState) -> Counter:
    """(config_id, key, step, value) of every curve and summary, worked out from curves.parquet's rows alone."""
    points: Counter = Counter()
    curves = state.curves().astype({"config_id": str, "average": str, "metric": str})
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
    at_steps: dict = {}
    for (config_id, step), rows in chosen.groupby(["config_id", "step"]):
        values = np.sort(np.nan_to_num(rows["value"].to_numpy(float), nan=np.inf))
        points[config_id, "progress/loss", step, 0.5] += 1
        if not rows["value"].isna().all():
            points[config_id, "progress/total_variation/ema", step, values[1]] += 1
            at_steps.setdefault(config_id, {})[step] = rows.set_index("seed")["value"].astype(float)
            if step == curves["step"].max():
                scores[config_id] = values[1]
    best = state.spec["objective"].get("evaluation") == "best"
    for config_id, values in at_steps.items():
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
    for run in children(client, parent_run_id):
        for key in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, key):
                points[run.data.tags["lengthwise.config_id"], key, point.step, point.value] += 1
    return points


def children(client: MlflowClient, parent_run_id: str) -> list:
    experiment = client.get_run(parent_run_id).info.experiment_id
    return list(client.search_runs([experiment], mlflow_view.children_filter(parent_run_id)))


def assert_complete(client: MlflowClient, parent_run_id: str, state: SweepState) -> None:
    stored = stored_points(client, parent_run_id)
    derived = {"area_beyond", "generalization_length"}  # their own tests are elsewhere; here: once each
    assert max(stored.values()) == 1
    for key in derived:
        assert {config_id for config_id, k, _, _ in stored if k == key} >= {c for c, k, _, _ in stored if k == "score"}
    stored = Counter({point: n for point, n in stored.items() if point[1] not in derived})
    assert rounded(stored) == rounded(expected_points(state))


def rounded(points: Counter) -> Counter:
    return Counter({(*point[:3], float(f"{point[3]:.12g}")): n for point, n in points.items()})


def rows_of(uri: str) -> Counter:
    """Every metric row of a SQLite store by configuration, deleted runs left out."""
    query = """select coalesce(t.value, 'sweep'), m.key, m.step, m.value, m.timestamp from metrics m
        join runs r on r.run_uuid = m.run_uuid and r.lifecycle_stage = 'active'
        left join tags t on t.run_uuid = m.run_uuid and t.key = 'lengthwise.config_id'"""
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as connection:
        return Counter(connection.execute(query).fetchall())


def test_every_point_is_there_once_and_again_changes_nothing(sweep):
    first = publish(sweep.folder)
    client = MlflowClient(first.uri)
    assert first.uri == default_uri(sweep.folder.parent)
    assert (first.created, first.completed) == (4, 3)
    assert_complete(client, first.parent_run_id, sweep)
    rows = rows_of(first.uri)
    assert sum(rows.values()) == first.points

    again = publish(sweep.folder)
    assert (again.created, again.points, again.parent_run_id) == (0, 0, first.parent_run_id)
    assert rows_of(first.uri) == rows


def test_curves_and_scores_are_those_of_the_best_evaluation_where_it_is_judged(tmp_path, synthetic_sweep, fresh_store):
    def curve(number, seed, average, metric, lengths, step):
        return 0.3 + 0.1 * number + 0.1 * np.sin(0.1 * step + seed + lengths + len(metric)) + 0.05 * (average == "raw")

    spec = {**SPEC, "objective.evaluation": "best", "evaluation.every": 20, "objective.threshold": None}
    (tmp_path / "store").mkdir()
    state = synthetic_sweep(tmp_path / "store" / "best", DRAWS[:2], 3, curve, {(1, 2): 90}, spec=spec)
    shutil.copy(fresh_store, state.folder.parent / "mlflow.db")
    first = publish(state.folder)
    client = MlflowClient(first.uri)
    runs = {int(run.data.tags["lengthwise.number"]): run.data.metrics for run in children(client, first.parent_run_id)}
    assert runs[0]["score"] == runs[0]["score_best"] < runs[0]["score_last"]
    stored = stored_points(client, first.parent_run_id)
    derived = {"area_beyond", "generalization_length"}
    stored = Counter({point: n for point, n in stored.items() if point[1] not in derived})
    assert rounded(stored) == rounded(expected_points(state))
    rows = rows_of(first.uri)
    again = publish(state.folder)
    assert (again.created, again.points) == (0, 0) and rows_of(first.uri) == rows


def test_runs_say_what_they_are(sweep):
    done = publish(sweep.folder)
    client = MlflowClient(done.uri)
    parent = client.get_run(done.parent_run_id)
    assert parent.info.status == "FINISHED" and parent.info.run_name == "läng e"
    assert client.get_experiment(parent.info.experiment_id).name == "set_complement"
    tags = parent.data.tags
    assert tags["lengthwise.git_commit"] == "0" * 40 and tags["lengthwise.git_dirty"] == "false"
    assert tags["lengthwise.spec_hash"] == "f" * 16 and tags["lengthwise.version.torch"] == "2.13.0"
    assert parent.data.metrics["seeds_failed"] == 4 and parent.data.metrics["seeds_run"] == 9
    found = {artifact.path for artifact in client.list_artifacts(done.parent_run_id)}
    tables = {"report.csv", "effects.csv", "averages.csv", "evaluations.csv"}
    assert found == {"curves.parquet", "figures", "report.html", "sweep.yaml"} | tables
    figures = {artifact.path for artifact in client.list_artifacts(done.parent_run_id, "figures")}
    assert figures == {
        "figures/comparison.png", "figures/evaluations.png", "figures/score-training.learning_rate.png",
        "figures/score-training.batch_size.png", "figures/pair-margin_min-margin_bound.png",
    }  # fmt: skip

    runs = {int(run.data.tags["lengthwise.number"]): run for run in children(client, done.parent_run_id)}
    assert [runs[n].info.status for n in range(3)] == ["FINISHED", "FINISHED", "FAILED"]
    assert runs[1].data.tags["lengthwise.failed_seeds"] == "2 (at step 60)"
    assert runs[0].data.tags["lengthwise.values_left_out"] == "0"
    assert runs[2].data.tags["lengthwise.values_left_out"] != "0"
    assert "rank" not in runs[2].data.metrics and runs[0].data.metrics["rank"] == 1
    assert runs[0].data.params["training.learning_rate"] == "0.01"
    assert runs[0].data.params["model.name"] == "attention_only"
    begun = next(
        json.loads(line) for line in (sweep.folder / LEDGER_FILE).read_text().splitlines() if "config_id" in line
    )
    assert runs[0].info.start_time == round(begun["time"] * 1000)
    names = {artifact.path for artifact in client.list_artifacts(runs[0].info.run_id)}
    assert names == {"configuration.yaml", "curves.parquet", "figures"}


@pytest.mark.parametrize("call", [1, 5, 6, 12])  # the parent's parameters, a child's points, its tags, the last tags
def test_a_publish_cut_short_is_completed(sweep, monkeypatch, call):
    whole = publish(sweep.folder, f"sqlite:///{sweep.folder.parent}/whole.db")
    uri = f"sqlite:///{sweep.folder.parent}/cut.db"
    calls = iter(range(1, 1000))
    original = MlflowClient.log_batch

    def log_batch(self, *args, **kwargs):
        if next(calls) == call:
            raise ConnectionError("connection refused")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    with pytest.raises(TrackingError, match=r"connection refused\ncomplete it later with: lengthwise publish"):
        publish(sweep.folder, uri)
    cut = rows_of(uri)
    assert cut <= rows_of(whole.uri)
    done = publish(sweep.folder, uri)
    assert rows_of(uri) == rows_of(whole.uri)
    assert done.points == sum((rows_of(uri) - cut).values())


def test_a_ledger_published_as_it_grows_ends_like_one_published_whole(sweep, synthetic_sweep, simple_curve):
    def ever_better(number, *rest):  # so that ranks change as configurations finish
        return simple_curve(2 - number, *rest)

    folder = sweep.folder.parent / "growing"
    sweep = synthetic_sweep(folder, DRAWS, 3, ever_better, {(1, 2): 60}, spec=SPEC)
    whole = publish(sweep.folder, f"sqlite:///{sweep.folder.parent}/whole.db")
    uri = f"sqlite:///{sweep.folder.parent}/growing.db"
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    seen = []
    for length in (*range(2, len(lines), 3), len(lines)):
        ledger.write_bytes(b"".join(lines[:length]))
        done = publish(sweep.folder, uri, sweep_files=False)
        seen.append((done.completed, MlflowClient(uri).get_run(done.parent_run_id).info.status))
        assert rows_of(uri) <= rows_of(whole.uri)
    assert rows_of(uri) == rows_of(whole.uri)
    assert seen[0] == (0, "RUNNING") and (1, "RUNNING") in seen and seen[-1] == (3, "FINISHED")


def test_a_run_made_twice_because_the_answer_was_lost_is_kept_once(sweep, monkeypatch):
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


def test_a_run_that_contradicts_the_ledger_is_made_anew(sweep):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    spoiled = next(run for run in children(client, done.parent_run_id) if run.data.tags["lengthwise.number"] == "0")
    client.log_batch(spoiled.info.run_id, [Metric("total_variation/ema/median", 7.0, 1, 3)])
    client.set_tag(spoiled.info.run_id, "lengthwise.published", "an older state")
    assert publish(sweep.folder, sweep_files=False).created == 1
    assert client.get_run(spoiled.info.run_id).info.lifecycle_stage == "deleted"
    assert_complete(client, done.parent_run_id, sweep)


def test_two_sweeps_of_one_name_are_two_parents(tmp_path, synthetic_sweep, simple_curve, fresh_store):
    uri = default_uri(Path(shutil.copy(fresh_store, tmp_path)).parent)
    folders = [tmp_path / part / "same" for part in ("a", "b")]
    for folder in folders:
        synthetic_sweep(folder, DRAWS[:1], 1, simple_curve, spec=SPEC)
    ids = {publish(folder, uri, sweep_files=False).parent_run_id for folder in folders}
    assert len(ids) == 2
    assert all(len(children(MlflowClient(uri), run_id)) == 1 for run_id in ids)


def test_hostile_labels_become_valid_and_distinct_keys(tmp_path, synthetic_sweep, simple_curve):
    averages = {
        "ema": {"kind": "ema", "decay": 0.99},
        "a/b": {"kind": "raw"},
        "a b": {"kind": "ema", "decay": 0.5},
        "β+": {"kind": "raw"},
    }
    averages |= {"a:b": {"kind": "ema", "decay": 0.9}, "..": {"kind": "ema", "decay": 0.8}}
    spec = {**SPEC, "training.averages": averages, "study": "Étude №1 'x'"}
    state = synthetic_sweep(tmp_path / "it's", DRAWS[:1], 1, simple_curve, spec=spec)
    done = publish(state.folder, sweep_files=False)
    (run,) = children(MlflowClient(done.uri), done.parent_run_id)
    assert {key.split("/")[1] for key in run.data.metrics if key.startswith("margin/")} == {
        "ema", "a_b", "a b", "β_", "a_b_2", "_"
    }  # fmt: skip


def test_names():
    assert name("ema/0.99 (β)") == "ema_0.99 _β_"
    assert name("...") == "_" and name("") == "_" and len(name("x" * 500)) == 80
    assert list(unique_names(["Ab", "ab", "ab "]).values()) == ["Ab", "ab_2", "ab_3"]


def test_the_view_puts_the_objective_first_and_finds_the_children(sweep):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    experiment = client.get_experiment(client.get_run(done.parent_run_id).info.experiment_id)
    (tag,) = [value for key, value in experiment.tags.items() if key.startswith("mlflow.sharedViewState.")]
    view = json.loads(zlib.decompress(base64.b64decode(tag.removeprefix("deflate;"))))
    charts = [chart["metricKey"] for chart in view["compareRunCharts"] if chart["type"] == "LINE"]
    assert charts[:2] == ["total_variation/ema/median", "total_variation/raw/median"]
    params = {chart["xaxis"]["key"] for chart in view["compareRunCharts"] if chart["type"] == "SCATTER"}
    stored = next(run for run in children(client, done.parent_run_id) if run.data.tags["lengthwise.number"] == "0")
    assert params == {"training.learning_rate", "training.batch_size"} <= set(stored.data.params)
    assert set(charts) <= set(stored.data.metrics)
    assert len(client.search_runs([experiment.experiment_id], view["searchFilter"])) == 3


def test_a_dead_server_is_noticed_in_seconds_and_the_sweep_goes_on(sweep):
    address = f"http://127.0.0.1:{free_port()}"
    publisher = Publisher(sweep.folder, address, pause=0.1)
    begun = time.monotonic()
    publisher.notify()
    message = publisher.close(timeout=30)
    assert time.monotonic() - begun < 20
    assert message is not None and address in message and f"lengthwise publish {sweep.folder}" in message


def test_the_publisher_follows_a_growing_ledger(sweep):
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:6]))
    publisher = Publisher(sweep.folder, pause=0.01)
    publisher.notify()
    deadline = time.monotonic() + 30
    while publisher.latest is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert publisher.latest is not None and publisher.latest.completed == 1
    ledger.write_bytes(b"".join(lines))
    assert publisher.close(timeout=60) is None
    assert publisher.latest.completed == 3
    assert_complete(MlflowClient(publisher.latest.uri), publisher.latest.parent_run_id, sweep)


def test_the_publisher_keeps_even_an_unexpected_error_to_itself(sweep, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("orchestrator.tracking.publish.publish", broken)
    message = Publisher(sweep.folder).close(timeout=10)
    assert message is not None and "RuntimeError: no such luck" in message and "lengthwise publish" in message


def test_a_server_killed_while_publishing_ends_with_every_point_once(sweep, tmp_path, monkeypatch):
    storage = tmp_path / "central"
    storage.mkdir()
    shutil.copy(sweep.folder.parent / "mlflow.db", storage)
    port = free_port()

    def server() -> UiServer:
        return UiServer(
            database=storage / "mlflow.db", artifacts=storage / "mlartifacts", port=port, log=tmp_path / "log"
        )

    running = server().start()
    try:
        original, calls = MlflowClient.log_batch, iter(range(1, 1000))

        def log_batch(self, *args, **kwargs):
            if next(calls) == 6:  # amid the points of the second configuration, while the answer is on its way
                threading.Timer(0.003, running.kill).start()
            return original(self, *args, **kwargs)

        monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
        begun = time.monotonic()
        with pytest.raises(TrackingError, match=f"127.0.0.1:{port}"):
            publish(sweep.folder, running.url)
        assert time.monotonic() - begun < 20
        monkeypatch.undo()
        before = rows_of(default_uri(storage))
        assert 0 < sum(before.values())

        running = server().start()
        done = publish(sweep.folder, running.url)
        client = MlflowClient(running.url)
        assert_complete(client, done.parent_run_id, sweep)
        assert publish(sweep.folder, running.url).points == 0
        assert before <= rows_of(default_uri(storage))
        for _, link in done.links:
            assert link.startswith(running.url) and "workflowType=machine_learning" in link
        key = urllib.parse.parse_qs(dict(done.links)["curves of the configurations ranked first"].split("?")[1])[
            "viewStateShareKey"
        ]
        experiment = client.get_experiment(client.get_run(done.parent_run_id).info.experiment_id)
        assert mlflow_view.VIEW_TAG + key[0] in experiment.tags
        assert artifact(running.url, done.parent_run_id, "report.html") == (sweep.folder / "report.html").read_bytes()
    finally:
        running.close()


def test_artifacts_sent_to_sqlite_open_through_the_ui_and_serve_leaves_nothing_running(sweep):
    done = publish(sweep.folder)
    port = free_port()
    code = (
        "import sys; from pathlib import Path; from orchestrator.tracking.publish import serve;"
        "serve(Path(sys.argv[1]), port=int(sys.argv[2]))"
    )
    command = [sys.executable, "-u", "-c", code, str(sweep.folder.parent), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            lines = [process.stdout.readline().strip() for _ in range(6)]
            assert lines[0] == f"MLflow runs at http://127.0.0.1:{port} (Ctrl-C ends it)"
            assert lines[1] == "set_complement / läng e"
            links = dict(line.split(": ", 1) for line in lines[2:])
            assert "/artifacts/figures/comparison.png?" in links["comparison figure"]
            figure = artifact(f"http://127.0.0.1:{port}", done.parent_run_id, "figures/comparison.png")
            assert figure == (sweep.folder / "figures" / "comparison.png").read_bytes()
            again = publish(sweep.folder, f"http://127.0.0.1:{port}")  # the same store by its other door
            assert (again.created, again.points) == (0, 0)
            group = int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(process.pid)], text=True).split()[0])
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            left = subprocess.run(
                ["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False
            ).stdout
            assert all(state.startswith("Z") for state in left.split())
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
        finally:
            process.kill()


def artifact(server: str, run_id: str, path: str) -> bytes:
    """What the pages of the UI fetch."""
    query = urllib.parse.urlencode({"path": path, "run_uuid": run_id})
    with urllib.request.urlopen(f"{server}/get-artifact?{query}", timeout=20) as answer:
        return answer.read()


def test_a_taken_port_and_a_foreign_store_are_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UiServerError, match="is taken"):
            serve(tmp_path, port=taken.getsockname()[1])
    with pytest.raises(TrackingError, match="postgresql://db is not a SQLite store"):
        serve(tmp_path, uri="postgresql://db")


def test_a_server_that_ends_at_once_says_why(tmp_path):
    broken = tmp_path / "mlflow.db"
    broken.write_bytes(b"this is no database" * 100)
    server = UiServer(database=broken, artifacts=tmp_path, log=tmp_path / "log")
    with pytest.raises(UiServerError, match=r"ended with exit code .*its last output: .*"):
        server.start()


def test_a_deleted_experiment_is_named(sweep):
    done = publish(sweep.folder, sweep_files=False)
    client = MlflowClient(done.uri)
    client.delete_experiment(client.get_run(done.parent_run_id).info.experiment_id)
    with pytest.raises(TrackingError, match="'set_complement' is in the bin"):
        publish(sweep.folder)
    assert publish(sweep.folder, experiment="another", sweep_files=False).created == 4


def test_several_processes_may_open_a_fresh_store_at_once(tmp_path):
    code = "import sys; from orchestrator.tracking.publish import initialise; initialise(sys.argv[1])"
    uri = default_uri(tmp_path)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, uri], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert {path.name for path in tmp_path.iterdir()} <= {"mlflow.db", ".mlflow.db.lock"}
    assert (tmp_path / "mlflow.db").stat().st_size > 0


def test_sweeps_the_store_lacks_are_named_with_the_command(tmp_path, synthetic_sweep, simple_curve):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    done, begun = tmp_path / "done", tmp_path / "just begun"
    synthetic_sweep(done, values, 1, simple_curve)
    synthetic_sweep(begun, values, 1, simple_curve, ended=False)
    synthetic_sweep(tmp_path / "elsewhere", values, 1, simple_curve, spec={"tracking.uri": "http://lab3:5000"})
    uri = default_uri(tmp_path)
    publish(done)
    assert unpublished(tmp_path, uri) == [("just begun, not finished", f"lengthwise publish '{begun}'")]
    publish(begun)
    assert unpublished(tmp_path, uri) == []
    other = f"sqlite:///{tmp_path / 'other.db'}"
    initialise(other)
    assert [how for _, how in unpublished(tmp_path, other)] == [
        f"lengthwise publish {folder} --tracking-uri {other}" for folder in (done, f"'{begun}'")
    ]


def test_runs_are_named_by_configuration_number(small_sweep):
    names = {row.number: run_name(row) for row in summary(small_sweep).rows}
    assert names[1].startswith("configuration 1: ") and "norm pre" in names[1] and "batch 32" in names[1]
