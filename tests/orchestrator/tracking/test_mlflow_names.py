"""Names that MLflow takes, distinct where the texts are."""

from dataclasses import replace

from orchestrator.results.make_summary import summarize
from orchestrator.tracking.mlflow_names import make_key_part, make_run_name, make_unique_names


def test_names():
    assert make_key_part("ema/0.99 (β)") == "ema_0.99 _β_"
    assert make_key_part("...") == "_" and make_key_part("") == "_" and len(make_key_part("x" * 500)) == 80
    assert list(make_unique_names(["Ab", "ab", "ab "]).values()) == ["Ab", "ab_2", "ab_3"]


def test_runs_are_named_by_configuration_number(small_sweep):
    row = next(row for row in summarize(small_sweep).rows if row.number == 1)
    assert make_run_name(row, "#1", "quickstart") == "quickstart #1" and len(row.values) > 1
    assert make_run_name(row, "#1", 24 * "x") == "#1"
    assert make_run_name(replace(row, values={}), "#1", "quickstart") == "quickstart #1"
    name = make_run_name(replace(row, values={"lr": 0.003}), "#1", "quickstart")
    assert name.startswith("#1: ") and "0.003" in name
