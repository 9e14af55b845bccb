"""Sweeps whose members stop early and train by a curriculum: ledger, tables, figures, status, MLflow, restarts."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from orchestrator.errors import DamagedLedger
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import make_csv_tables
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.validation_scores import read_validation_scores
from orchestrator.running.watching.status import make_status_rows
from orchestrator.sweep.run_and_resume import resume_sweep
from orchestrator.tracking.run_contents import MlflowRunBuilder

STOPPING = (
    "training.stop={metric: accuracy, threshold: 0.9, samples: 100}",
    "training.curriculum={name: threshold, metric: accuracy, threshold: 0.8, samples: 100}",
    "space.training.learning_rate={grid: [0.0001, 0.01, 0.02, 0.04]}",
    "seeds=3",
)
SAVED = "resources.checkpoint_steps=10"


def steps_of(state: SweepState) -> dict[tuple[str, int], int | None]:
    return {(c.config_id, m.seed): m.stopped_at for c in state.configurations.values() for m in c.members.values()}


@pytest.mark.slow
def test_a_sweep_in_which_members_stop(ran, short_text):
    folder = ran(*STOPPING, SAVED)
    state = SweepState.load(folder)
    stopped = steps_of(state)
    rates = {c.config_id: c.values["training.learning_rate"] for c in state.configurations.values()}
    assert all((at is None) == (rates[name] == 0.0001) for (name, _), at in stopped.items()), stopped
    assert len({at for at in stopped.values() if at}) > 1, "at different evaluations"
    assert {m.status for c in state.configurations.values() for m in c.members.values()} == {"complete"}
    assert all(c.score is not None and math.isfinite(c.score) for c in state.configurations.values())

    curves, result = read_curves(state), summarize(state)
    assert result.has_early_stops and result.seeds_failed == 0
    assert result.stop_steps == tuple(sorted(at for at in stopped.values() if at))
    every_step = sorted(set(curves["step"]))
    assert every_step[-1] == 60 and np.ptp(np.diff(every_step)) == 0
    for (name, seed), mine in curves.groupby(["config_id", "seed"], observed=True):
        assert sorted(set(mine["step"])) == every_step
        if at := stopped[name, seed]:
            wide = mine.set_index(["average", "metric", "length", "step"])["value"].unstack()
            for step in wide.columns[wide.columns > at]:
                np.testing.assert_array_equal(wide[step], wide[at])

    count, median = len(result.stop_steps), np.median(result.stop_steps)
    assert f"{count} stopped early" in short_text(result, 250)
    assert dict(make_status_rows(state))["seeds stopped early"] == f"{count}/12, median at step {median:,g}"
    tables = make_csv_tables(result)
    assert [line["seeds_stopped"] for line in tables["report.csv"]] == [len(row.stop_steps) for row in result.rows]
    seen = pd.DataFrame(tables["validation.csv"])
    assert set(seen["stage"]) == {0, 1} and {"at_1", "at_2", "at_3"} <= set(seen.columns)
    for (name, seed), mine in seen.groupby(["config_id", "seed"]):
        good = mine[(mine["mean"] >= np.float32(0.9)) & (mine["stage"] == 1)]["step"]
        assert (int(good.min()) if len(good) else None) == stopped[name, seed]
        assert mine["stage"].is_monotonic_increasing

    page, table = write_report(folder, result)
    assert f"{count} stopped early" in page.read_text()
    assert pd.read_csv(table)["seeds_stopped"].sum() == count and (folder / "validation.csv").exists()

    contents = MlflowRunBuilder(result, read_records(folder), curves)
    runs = {row.config_id: run for row, run in contents.make_configuration_runs()}
    for row in result.rows:
        points = {point.key: point.value for point in runs[row.config_id].points}
        assert points["seeds_stopped"] == len(row.stop_steps)
        assert ("stopped_at_median" in points) == bool(row.stop_steps)
    assert {point.key for point in contents.make_sweep_run().points} >= {"seeds_stopped"}


def test_a_sweep_without_stopping_says_nothing_of_it(ran, short_text):
    folder = ran()
    state = SweepState.load(folder)
    assert not any(
        {"stopped_at", "stages", "validation"} & fields.keys()
        for p in state.packs.values()
        for fields in p.evaluations.values()
    )
    result = summarize(state)
    assert not result.has_early_stops and read_validation_scores(state) == ()
    assert "stopped" not in short_text(result, 250) and "seeds stopped early" not in dict(make_status_rows(state))
    assert (
        "validation.csv" not in make_csv_tables(result)
        and "seeds_stopped" not in make_csv_tables(result)["report.csv"][0]
    )


@pytest.mark.slow
def test_a_killed_sweep_goes_on_as_if_never_stopped(ran, study, tmp_path):
    """Its ledger ends in the middle of a pack of which some members have stopped."""
    whole = ran(*STOPPING, SAVED)
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    lines = (whole / "events.jsonl").read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines]
    last = max(i for i, record in enumerate(records) if record["kind"] == "evaluation" and not record["data"]["final"])
    some = records[last]["data"]["stopped_at"]
    assert max(some) > 0 > min(some)
    (cut / "events.jsonl").write_text("".join(lines[: last - 1]))
    assert resume_sweep(cut, Console(quiet=True)).exit_code == 0
    state = SweepState.load(cut)
    assert state.end_status == "complete" and not state.conflicts
    pd.testing.assert_frame_equal(read_curves(state), read_curves(SweepState.load(whole)))
    assert steps_of(state) == steps_of(SweepState.load(whole))
    assert read_validation_scores(state) == read_validation_scores(SweepState.load(whole))


def test_what_a_ledger_cannot_say_is_damage(ran):
    folder = ran()
    records = read_records(folder)
    broken = [
        Record(r.seq, r.time, r.kind, {**r.fields, "stopped_at": [1]}) if r.kind == "evaluation" else r for r in records
    ]
    with pytest.raises(DamagedLedger, match="1 were reported"):
        SweepState.replay(folder, broken)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stop={metric: acuracy, threshold: 1}", "did you mean accuracy?"),
        ("training.stop={metric: steps_to_accuracy, threshold: 1}", "is computed from several evaluations"),
        ("training.stop={metric: accuracy}", "training.stop.threshold"),
        ("evaluation.every=null", "evaluation.every: training.stop"),
        ("task={name: set_complement}", "training.curriculum"),
    ],
)
def test_impossible_stop_settings_are_refused_by_validate(study, lengthwise, override, message):
    assert message in lengthwise("validate", study, *(f"--set={setting}" for setting in (*STOPPING, override))).stderr


def test_a_plan_says_that_it_is_the_most(study, lengthwise_says):
    output = lengthwise_says("plan", study, *(f"--set={setting}" for setting in STOPPING))
    assert "at most about" in output
    assert "at most" not in lengthwise_says("plan", study)
