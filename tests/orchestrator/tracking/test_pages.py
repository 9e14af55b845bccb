"""The page of a sweep shows its objective first, and links lead to what is there."""

import base64
import json
import zlib

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.results.summarise import summary
from orchestrator.tracking.contents.contents import ContentsOfSweep
from tests.mlflow_points import children


def test_the_view_puts_the_objective_first_and_finds_the_children(sweep, publish):
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


@pytest.mark.parametrize("power", [1, 8])
def test_errors_over_decades_have_a_logarithmic_axis(tmp_path, build, simple_curve, power):
    state = build(tmp_path / "s", curve=lambda *place: simple_curve(*place) ** power)
    contents = ContentsOfSweep(state, summary(state), read_records(state.folder), read_curves(state))
    view = json.loads(zlib.decompress(base64.b64decode(contents.chart_view("0").removeprefix("deflate;"))))
    scales = {chart["metricKey"]: chart["scaleType"] for chart in view["compareRunCharts"] if chart["type"] == "LINE"}
    assert scales["total_variation/ema/median"] == ("log" if power == 8 else "linear")
    assert scales["margin/ema/median"] == "linear"
