"""A sweep that is judged on a test set of its own: groups of lengths, tables, MLflow, confirmation."""

import io
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from orchestrator.plan.checks.sweep_file_checks import check_parsed_sweep, summarize_sample
from orchestrator.preview.forecast import forecast
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record, encode_record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.judging_notes import list_judging_notes
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.sweep.confirm import confirm_sweep, plan_confirmation
from orchestrator.tracking.publish import publish
from search_spaces import SweepFileError, load_sweep, read_sweep

LENGTHS = {"": {1, 2, 3, 4}, ".hard": {3, 4}, ".long": {5, 6, 7}}


def test_each_metric_has_its_own_lengths_and_missing_ones_are_no_failed_seeds(ran):
    folder = ran()
    state = SweepState.load(folder)
    curves, result = read_curves(state), summarize(state)
    for name, ending in {"accuracy": "", "steps_to_accuracy.hard": ".hard", "error.long": ".long"}.items():
        assert set(curves[curves["metric"] == name]["length"]) == LENGTHS[ending]
    accuracy = curves[curves["metric"].astype(str).str.match(r"(accuracy|error)(\.|$)")]
    assert len(accuracy) and not accuracy["value"].isna().any()
    assert (result.seeds_run, result.seeds_failed) == (8, 0)
    row = result.rows[0]
    assert row.groups == LengthGroups(evaluated=(3, 4), trained=(), selection=(3,), test=(4,))
    assert result.find_length_groups(row, "accuracy") == LengthGroups(
        evaluated=(1, 2, 3, 4), trained=(1, 2, 3), selection=(), test=(4,)
    )
    assert result.find_length_groups(row, "accuracy.long") == LengthGroups(
        evaluated=(5, 6, 7), trained=(), selection=(), test=(5, 6, 7)
    )
    assert (row.trained_quartiles, row.area_beyond) == (None, None)
    assert list(row.other_distributions) == [("accuracy", "trained"), ("accuracy", "test"), ("accuracy.long", "test")]
    assert result.headline[:3] == ("accuracy.hard", "accuracy", "accuracy.long")
    assert result.distributions == ("accuracy", "accuracy.hard", "accuracy.long")
    last = curves[(curves["step"] == 60) & (curves["average"] == "raw") & (curves["config_id"] == row.config_id)]
    long = last[last["metric"] == "accuracy.long"].groupby("seed")["value"].mean()
    assert row.other_distributions["accuracy.long", "test"].median == pytest.approx(long.median())
    assert row.score == pytest.approx(
        last[(last["metric"] == "accuracy.hard") & (last["length"] == 3)]["value"].median()
    )


def test_a_pack_that_died_is_lost_at_the_lengths_of_its_metrics_alone(ran):
    folder = ran("resources.pack=4")
    state, kept = SweepState.load(folder), []
    dead = next(reversed(state.packs.values()))
    for record in read_records(folder):
        later = record.kind in ("score", "end") or record.fields.get("step", 0) > 30 or record.kind == "pack_end"
        if not (later and record.fields.get("pack_id", dead.pack_id) == dead.pack_id):
            kept.append(encode_record(Record(len(kept), record.time, record.kind, record.fields)))
    (folder / LEDGER_FILE).write_bytes(b"".join(kept))
    with Ledger.open(folder) as ledger:
        ledger.append("pack_end", pack_id=dead.pack_id, status="failed", error="died", seconds=1.0)
    state = SweepState.load(folder)
    curves = read_curves(state)
    for name, _ in dead.members:
        lost = curves[(curves["config_id"] == name) & (curves["step"] == 60)]
        assert len(lost) and lost["value"].isna().all()
        for ending, lengths in LENGTHS.items():
            assert set(lost[lost["metric"] == f"accuracy{ending}"]["length"]) == lengths
    rows = {row.config_id: row for row in summarize(state).rows}
    assert len({name for name, _ in dead.members}) == 2
    assert all(rows[name].has_failed and rows[name].seeds_crashed == 2 for name, _ in dead.members)
    assert sum(row.has_failed for row in rows.values()) == 2


def test_on_the_trained_distribution_test_lengths_lie_beyond_the_trained_ones(ran):
    folder = ran("objective.metric=accuracy", "objective.lengths=[2]", "evaluation.lengths=[1, 2, 4, 5]")
    (groups,) = {row.groups for row in summarize(SweepState.load(folder)).rows}
    assert groups == LengthGroups(evaluated=(1, 2, 4), trained=(1, 2), selection=(2,), test=(4,))


def test_the_report_shows_every_distribution_by_name(ran, short_text):
    folder = ran()
    page, table = write_report(folder)
    result = summarize(SweepState.load(folder))
    assert "no length of accuracy.hard was trained on" in " ".join(list_judging_notes(result))
    for words in ("accuracy.long test", "accuracy trained", "selection"):
        assert words in page.read_text(), words
    for words in ("accuracy.long test", "accuracy trained", "accuracy test"):
        assert words in short_text(result, 200), words
    assert "trained none" not in page.read_text()
    rows = pd.read_csv(table, dtype={"config_id": str}).set_index("config_id")
    for row in result.rows:
        others, written = row.other_distributions, rows.loc[row.config_id]
        assert written["accuracy_trained_median"] == others["accuracy", "trained"].median
        assert written["accuracy.long_test_q75"] == others["accuracy.long", "test"].q75


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_mlflow_and_a_confirmation_have_the_distributions(ran, tmp_path, fresh_store):
    folder = ran("space={training.learning_rate: {grid: [0.0001, 0.02]}}")
    quiet = Console(file=io.StringIO())
    plan = partial(plan_confirmation, top=1, seeds="3", overrides=["resources.scheduler=inline"])
    assert confirm_sweep(folder, quiet, plan).exit_code == 0
    first, fresh = (summarize(SweepState.load(tmp_path / name)).rows[0] for name in ("sets", "sets-confirm"))
    assert (fresh.groups, fresh.seeds_run, fresh.config_id) == (first.groups, 3, first.config_id)
    (confirmed,) = read_confirmations(summarize(SweepState.load(folder)))
    assert confirmed.rows[0].confirmed.median == fresh.score
    uri = f"sqlite:///{shutil.copy(fresh_store, tmp_path)}"
    done = publish(folder, uri)
    client, result = MlflowClient(uri), summarize(SweepState.load(folder))
    parent = client.get_run(done.parent_run_id)
    children = client.search_runs([parent.info.experiment_id], f"tags.mlflow.parentRunId = '{done.parent_run_id}'")
    assert len(children) == 2
    for run in children:
        config_id = run.data.tags["lengthwise.config_id"]
        for metric, lengths in {f"accuracy{ending}": lengths for ending, lengths in LENGTHS.items()}.items():
            points = client.get_metric_history(run.info.run_id, f"{metric}/ema/median")
            assert {point.step for point in points} == lengths
            band = result.bands[config_id, metric, "ema"]
            assert sorted((p.step, p.value) for p in points) == list(zip(band.lengths, band.median, strict=True))
        reached = client.get_metric_history(run.info.run_id, "steps_to_accuracy.hard/raw/median")
        assert all(np.isfinite(point.value) and point.value <= 60 for point in reached)
    again = publish(folder, uri)
    assert (again.created, again.points) == (0, 0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["objective.metric=accuracy.hrad"], "did you mean accuracy.hard?"),
        (["objective.lengths=[2]"], "2 is not among the lengths that are evaluated for accuracy.hard"),
        (["objective.lengths=[2]"], "allowed: 3-4"),
        (["objective.metric=accuracy.long", "evaluation.lengths=[1, 2, 3]"], "allowed: none"),
        (
            ["objective.metric=balance.hrad", "model.width=-1"],
            "is not a metric that is evaluated; given 'balance.hrad'",
        ),
    ],
)
def test_what_a_distribution_does_not_have_is_refused(study, overrides, message):
    with pytest.raises(SweepFileError) as refused:
        summarize_sample(load_sweep(study, overrides))
    assert message in str(refused.value)


def test_a_metric_of_the_model_is_known_on_every_distribution(study):
    with pytest.raises(SweepFileError) as refused:
        summarize_sample(load_sweep(study, ["objective.metric=balance.hard", "training.batch_size=0"]))
    assert "metric" not in str(refused.value), "another fault must not hide that the model measures it"
    assert summarize_sample(load_sweep(study, ["objective.metric=balance.hard"])).configuration_count == 4


def test_plan_and_validate_name_the_distributions(study, lengthwise_says):
    assert "evaluated at lengths 1-4; hard: 3-4; long: 5-7" in lengthwise_says("validate", study)
    (line,) = [text for label, text in forecast(load_sweep(study), None).rows if label == "evaluated at"]
    assert line == "1-4; hard: 3-4; long: 5-7"


def test_the_first_distribution_may_be_called_by_its_name(study):
    spec = check_parsed_sweep(read_sweep(study, ["objective.metric=accuracy.iid", "objective.lengths=[4]"]))
    assert spec.objective.metric == "accuracy"
    assert spec == check_parsed_sweep(read_sweep(study, ["objective.metric=accuracy", "objective.lengths=[4]"]))
    assert check_parsed_sweep(read_sweep(study)).objective.metric == "accuracy.hard"
