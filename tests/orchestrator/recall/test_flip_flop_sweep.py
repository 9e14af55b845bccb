"""A sweep of flip-flop from its file to its report: sparse and dense tests are shown by name."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.preview.data_view import describe_data
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.terminal import Screen
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.tracking.run_contents import MlflowRunBuilder
from search_spaces import load_sweep

SWEEP = """name: flips
study: tests
task: {name: flip_flop, pairs: 4, test_pairs: [8], measured_distances: [1, 3]}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: alibi}
training: {steps: 20, batch_size: 8, learning_rate: 0.01, compile: false, schedule: {name: cosine, warmup_share: 0.05}}
space: {training.learning_rate: {grid: [0.001, 0.01]}}
seeds: 2
evaluation: {every: 10, samples: 20}
objective: {metric: read_error.dense, average: raw, lengths: [8], direction: minimize}
resources: {scheduler: inline}
tracking: {enabled: false}
"""
SETS = {"", ".sparse", ".dense"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flips.yaml").write_text(SWEEP)
    return tmp_path / "flips.yaml"


def test_every_set_is_in_curves_score_report_and_mlflow(file: Path, run_inline: Callable[..., Path]) -> None:
    folder = run_inline(file)
    state = SweepState.load(folder)
    curves, result = read_curves(state), summarize(state)
    assert set(curves["metric"].astype(str)) == {
        f"{name}{of}"
        for name in ("accuracy", "read_error", "read_error_distance_1", "read_error_distance_3")
        for of in SETS
    }
    row = result.rows[0]
    last = curves[(curves["step"] == 20) & (curves["config_id"] == row.config_id) & (curves["length"] == 8)]
    assert row.score == pytest.approx(last[last["metric"] == "read_error.dense"]["value"].median())
    assert result.seeds_failed == 0 and result.headline[:3] == ("read_error.dense", "read_error", "read_error.sparse")
    page, _ = write_report(folder, result)
    assert "read_error.sparse" in page.read_text()
    output = io.StringIO()
    Console(file=output, width=300).print(Screen(result))
    assert "read_error.dense" in output.getvalue() and "read_error.sparse test" in output.getvalue()
    runs = MlflowRunBuilder(result, read_records(folder), curves).make_configuration_runs()
    for _, run in runs:
        steps = {(point.key, point.step) for point in run.points}
        assert steps >= {(f"read_error{of}/raw/median", length) for of in SETS for length in (4, 8)}


def test_its_rows_and_sets_are_shown_before_a_run(file: Path) -> None:
    spec = load_sweep(file)
    lines = describe_data(spec, 3)
    assert "trained on length 4, evaluated at 4, 8; sparse: 4, 8; dense: 4, 8" in lines
    rows = [line for line in lines if set(line) <= set("wri01") and line]
    assert len(rows) == 3 and all(len(row) == 8 and row[0] == "w" and row[-2] == "r" for row in rows)
