"""Averages that still are largely the weights they started from: named by validate, plan, run and report."""

import re

import pytest

from orchestrator.engine.engine import Engine
from orchestrator.plan.checks.sweep_file_checks import build_sample_configurations, summarize_sample
from orchestrator.preview import forecast as module
from orchestrator.preview.forecast import forecast
from orchestrator.results.make_summary import summarize
from search_spaces import SweepFileError, load_sweep

FILE = """name: averaged
study: tests
task: {name: set_complement, vocabulary: 8, train_length: 3}
model: {name: attention_only, width: 8}
training:
  steps: 600
  batch_size: 8
  learning_rate: 0.01
  averages: {raw: {}, ema: {decay: 0.9}}
space: {training.learning_rate: {log_uniform: [1e-3, 1e-1]}}
search: {configurations: 3}
seeds: 2
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
"""
SPACE = "space.training.averages.ema.decay"


@pytest.fixture
def sweep(tmp_path):
    (tmp_path / "averaged.yaml").write_text(FILE)
    return lambda *overrides: load_sweep(tmp_path / "averaged.yaml", overrides)


def shares(sentences) -> list[float]:
    """The share in percent of every sentence about an average."""
    matches = (re.search(r"([\d.]+) % of the average ema", sentence) for sentence in sentences)
    return [float(match[1]) for match in matches if match]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], None),
        (["training.averages.ema.decay=0.9999"], 100 * 0.9999**600),
        (["training.averages.ema.decay=0.9", "training.averages.ema.update_period=100"], 100 * 0.9**6),
        (["training.averages.ema={kind: bema, kappa: 4.0, eta: -1.0}"], 100.0),
        (["training.averages.ema={kind: norm_matched, kappa: 4.0, eta: -1.0}"], 100.0),
        ([f"{SPACE}={{choice: [0.9, 0.9999]}}"], 100 * 0.9999**600),
    ],
)
def test_validate_plan_and_run_name_the_largest_share(overrides, expected, sweep, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_STEP_OPERATIONS", 0.0)
    warnings = summarize_sample(sweep(*overrides)).warnings
    assert shares(warnings) == ([] if expected is None else [pytest.approx(expected, rel=1e-2)])
    assert shares(forecast(sweep(*overrides), 2).warnings) == shares(warnings)
    drawn = build_sample_configurations(sweep(*overrides))
    recorded = [Engine.list_measurements(configuration.build_member(0)).to_fields() for configuration in drawn]
    largest = max(
        (100 * share for fields in recorded for share, _ in fields.get("start_shares", {}).values()), default=None
    )
    assert largest == (None if expected is None else pytest.approx(expected, rel=1e-2))
    assert all(warning.startswith((f"{tmp_path / 'averaged.yaml'}:9: ", "--set ")) for warning in warnings)


def test_a_decay_of_one_is_refused_where_it_is_given_and_where_it_is_drawn(sweep) -> None:
    for override in ("training.averages.ema.decay=1.0", f"{SPACE}={{grid: [0.9, 1.0]}}"):
        with pytest.raises(SweepFileError) as caught:
            summarize_sample(sweep(override, "search.sampler=random"))
        assert any("training.averages.ema.decay" in problem.key for problem in caught.value.problems)


def test_the_report_names_it_from_the_ledger_alone(small_sweep) -> None:
    for measured in small_sweep.measurements_by_digest.values():
        measured["start_shares"] = {"ema": [0.9999**600, "a smaller decay"]}
    assert shares(summarize(small_sweep).notes) == [pytest.approx(100 * 0.9999**600, rel=1e-2)]
