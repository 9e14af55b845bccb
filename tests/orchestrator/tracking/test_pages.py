"""The page of a sweep shows its objective first, and links lead to what is there."""

import base64
import json
import zlib

from mlflow.tracking import MlflowClient

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
