"""Imported results are a sweep: same scores and curves as where they come from, read by every verb, never run."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from rich.console import Console

from orchestrator import Sweep, import_table, open_sweep
from orchestrator.claims.archive import read_archive, write_archive
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.errors import SweepExists, UserError
from orchestrator.record.files.curves import read_curves, write_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report.judging_notes import describe_selection
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize

Import = Callable[..., Sweep]
SECTIONS = {"metrics": {"total_variation": "minimize"}, "lengths": [4, 5], "average": "ema", "trained": [1, 2, 3]}


@pytest.fixture(scope="session")
def table(original_sweep: Sweep) -> Path:
    return write_curves(SweepState.load(original_sweep.folder))


@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_curves_of_an_own_sweep_give_its_scores_ranks_and_medians(
    original_sweep: Sweep, table: Path, imported: Import, kind: str
):
    given: Any = table
    if kind != "parquet":
        given = pd.read_parquet(table)
    if kind == "csv":
        given.to_csv(table.with_suffix(".csv"), index=False)
        given = table.with_suffix(".csv")
    again = summarize(SweepState.load(imported(given, **SECTIONS).folder))
    before = summarize(SweepState.load(original_sweep.folder))
    assert [(row.number, row.rank, row.score, row.test_quartiles) for row in again.rows] == [
        (row.number, row.rank, row.score, row.test_quartiles) for row in before.rows
    ]
    for row, old in zip(again.rows, before.rows, strict=True):
        assert {key.removeprefix("config."): value for key, value in row.values.items()} == old.values
    numbers = {row.config_id: row.number for summary in (before, again) for row in summary.rows}
    bands = [{(numbers[key[0]], *key[1:]): band for key, band in summary.bands.items()} for summary in (before, again)]
    assert bands[0] and bands[0] == bands[1]
    recorded = [
        float(configuration.score or 0)
        for configuration in SweepState.load(original_sweep.folder).configurations.values()
    ]
    assert [configuration.score for configuration in SweepState.load(again.folder).configurations.values()] == recorded


def test_drawn_settings_have_the_effects_of_the_sweep_that_drew_them(
    original_sweep: Sweep, table: Path, imported: Import
):
    def list_effects(sweep: Sweep) -> list[Any]:
        effects = compute_score_effects(summarize(SweepState.load(sweep.folder)))
        return [(replace(effect, key=effect.key.removeprefix("config."))) for effect in effects]

    expected = [repr(effect) for effect in list_effects(original_sweep)]
    assert [repr(effect) for effect in list_effects(imported(table, **SECTIONS, drawn=True))] == expected
    assert {effect.unit for effect in list_effects(imported(table, **SECTIONS, name="chosen"))} == {"seeds"}


def test_the_ledger_says_where_the_results_are_from(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    path = tmp_path / "results.csv"
    rows.to_csv(path, index=False)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    state = SweepState.load(imported(path).folder)
    assert state.provenance["imported"] == {"source": str(path), "sha256": sha256, "rows": len(rows)}
    assert state.end_status == "complete" and state.spec["search"]["sampler"] == "listed"
    assert [pack.status for pack in state.packs.values()] == ["complete"]
    key = hashlib.sha256(b"Curves(averages=(0,), lengths={0: (5, 10, 20)})").hexdigest()[:12]  # as at first
    assert state.packs["imported-0"].structural_key == key
    assert {member.form for member in state.members} == {"imported"}
    assert sorted((path.parent / "imported" / "curves").iterdir()) == sorted(
        path.parent / "imported" / fields["file"] for fields in state.packs["imported-0"].evaluations.values()
    )
    for configuration in state.configurations.values():
        assert configuration.resolved["program"]["imported"] == sha256
        assert configuration.resolved["config"]["width"] == 64  # the same in all rows: fixed, not listed
        assert list(configuration.values) == ["config.lr"]
    written = yaml.safe_load((path.parent / "imported" / "sweep.yaml").read_text())
    assert written == state.spec


def test_the_curves_are_those_of_the_table(rows: pd.DataFrame, imported: Import):
    shuffled = rows.sample(frac=1, random_state=0)
    curves = read_curves(SweepState.load(imported(shuffled).folder))
    keys = ["lr", "seed", "step", "metric", "length"]
    values = curves.rename(columns={"config.lr": "lr"}).astype({"metric": str})[[*keys, "value"]]
    expected = rows[[*keys, "value"]].astype({"value": np.float32})
    pd.testing.assert_frame_equal(
        values.sort_values(keys).reset_index(drop=True), expected.sort_values(keys).reset_index(drop=True),
        check_dtype=False,
    )  # fmt: skip


def test_a_nan_is_a_seed_that_diverged(rows: pd.DataFrame, imported: Import):
    at = (rows["lr"] == 0.1) & (rows["seed"] == 1)
    rows.loc[at & (rows["length"] == 20), "value"] = np.nan
    state = SweepState.load(imported(rows).folder)
    first = state.configurations[next(iter(state.configurations))]
    assert [(member.status, member.failed_at) for _, member in sorted(first.members.items())] == [
        ("complete", None), ("failed", 100), ("complete", None),
    ]  # fmt: skip
    assert first.seeds_failed == 1 and not state.failed_packs


def test_members_without_rows_are_asked_for(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    none, late = (rows["lr"] == 0.1) & (rows["seed"] == 2), (rows["lr"] == 0.01) & (rows["seed"] == 0)
    fewer = rows[~none & ~(late & (rows["step"] == 200))]
    with pytest.raises(UserError, match="2 of 6 members") as error:
        imported(fewer)
    assert "lr=0.1, seed 2" in str(error.value) and "lr=0.01, seed 0" in str(error.value)
    assert list(tmp_path.iterdir()) == []

    failed = SweepState.load(imported(fewer, missing="failed", name="failed").folder)
    assert [configuration.seeds_failed for configuration in failed.configurations.values()] == [1, 1]
    assert re.findall("[0-9]+", failed.end_message) == ["2", "2", "6", "2"]  # configurations, seeds, failed ones
    assert len(failed.failed_packs) == 1 and failed.packs[failed.failed_packs[0][0]].step == 100
    curves = read_curves(failed, final_only=True)
    assert curves[curves["value"].isna()].groupby(["number", "seed"]).size().to_dict() == {(0, 2): 3, (1, 0): 3}

    absent = SweepState.load(imported(fewer, missing="absent", name="absent").folder)
    assert [configuration.seeds_failed for configuration in absent.configurations.values()] == [0, 0]
    assert [sorted(configuration.members) for configuration in absent.configurations.values()] == [[0, 1], [1, 2]]
    assert absent.spec["seeds"] == [1] and summarize(absent).has_ended
    assert all(row.is_complete for row in summarize(absent).rows)


def test_seeds_that_no_two_configurations_share(rows: pd.DataFrame, imported: Import):
    rows.loc[rows["lr"] == 0.01, "seed"] += 100
    state = SweepState.load(imported(rows, missing="absent").folder)
    assert state.spec["seeds"] == [] and [row.seeds_run for row in summarize(state).rows] == [3, 3]


def test_a_metric_that_is_not_measured_at_the_end_is_left_out(rows: pd.DataFrame, imported: Import):
    early = rows[(rows["step"] == 100) & (rows["length"] == 5)].assign(metric="grokking")
    late = rows[rows["length"] == 5].assign(metric="loss", length=None)
    sweep = imported(pd.concat([rows, early, late]))
    measured = summarize(SweepState.load(sweep.folder)).measurements
    lengths = {name: metric.lengths for group in measured.values() for name, metric in group.metrics.items()}
    assert lengths == {"accuracy": (5, 10, 20), "loss": (1,)}


def test_a_configuration_without_the_selection_length_is_refused_also_without_lengths(rows, imported, tmp_path: Path):
    disjoint = rows[rows["length"] == np.where(rows["lr"] == 0.1, 5, 10)]
    with pytest.raises(UserError, match=r"lr=0\.01.*: no accuracy at length 5\b.*: 10$"):
        imported(disjoint, lengths=None)
    assert not (tmp_path / "imported").exists()


def test_no_metrics_are_refused(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    with pytest.raises(UserError, match="import_table: metrics:"):
        imported(rows, metrics={})
    assert not (tmp_path / "imported").exists()


def test_the_sweep_file_has_the_lengths_and_metrics_of_all_configurations(rows: pd.DataFrame, imported: Import):
    more = rows[(rows["lr"] == 0.01) & (rows["length"] == 10)]
    tables = [rows[(rows["lr"] == 0.01) | (rows["length"] != 10)], more.assign(length=40), more.assign(metric="loss")]
    state = SweepState.load(imported(pd.concat(tables)).folder)
    evaluation = state.spec["evaluation"]
    assert evaluation["lengths"] == [5, 10, 20, 40]
    assert evaluation["metrics"] == {"accuracy": "maximize", "loss": {"direction": "none", "lengths": [10]}}
    resolved = [configuration.resolved["evaluation"] for configuration in state.configurations.values()]
    assert [section["lengths"] for section in resolved] == [[5, 20], [5, 10, 20, 40]]


def test_configurations_may_end_at_other_steps(rows: pd.DataFrame, imported: Import):
    rows.loc[(rows["lr"] == 0.01) & (rows["step"] == 200), "step"] = 300
    state = SweepState.load(imported(rows).folder)
    training = [configuration.resolved["training"] for configuration in state.configurations.values()]
    assert [section["steps"] for section in training] == [200, 300]
    assert [configuration.values["training.steps"] for configuration in state.configurations.values()] == [200, 300]
    assert [configuration.seeds_failed for configuration in state.configurations.values()] == [0, 0]


def test_settings_that_a_configuration_lacks(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    rows["warmup"] = np.where(rows["lr"] == 0.1, 10.0, np.nan)
    rows["optimizer.name"] = "adamw"
    rows.to_csv(tmp_path / "results.csv", index=False)
    state = SweepState.load(imported(tmp_path / "results.csv").folder)
    assert [configuration.values for configuration in state.configurations.values()] == [
        {"config.lr": 0.1, "config.warmup": 10}, {"config.lr": 0.01},
    ]  # fmt: skip
    assert all(
        configuration.resolved["config"]["optimizer"] == {"name": "adamw"}
        for configuration in state.configurations.values()
    )


def test_a_table_without_settings_is_one_configuration(rows: pd.DataFrame, imported: Import):
    sweep = imported(rows[rows["lr"] == 0.1], columns=[])
    assert len(sweep.configurations) == 1


def test_the_index_of_a_frame_is_settings(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    indexed = rows.set_index(["lr", "seed"])
    indexed.to_parquet(tmp_path / "results.parquet")
    scores = [
        [
            configuration.score
            for configuration in SweepState.load(imported(table, name=name).folder).configurations.values()
        ]
        for name, table in (("a", rows), ("b", indexed), ("c", tmp_path / "results.parquet"))
    ]
    assert scores[0] == scores[1] == scores[2]


def test_an_imported_sweep_is_not_replaced(rows: pd.DataFrame, imported: Import):
    sweep = imported(rows)
    before = (sweep.folder / "events.jsonl").read_bytes()
    with pytest.raises(SweepExists):
        imported(rows)
    assert (sweep.folder / "events.jsonl").read_bytes() == before


def test_a_full_disk_leaves_no_folder(rows: pd.DataFrame, imported: Import, tmp_path: Path, monkeypatch: Any):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orchestrator.importing.folder.write_part", fail)
    with pytest.raises(OSError, match="No space"):
        imported(rows)
    assert not (tmp_path / "imported").exists()

    # A folder that was there keeps its files, and is no sweep afterwards.
    notes = tmp_path / "imported" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    with pytest.raises(OSError, match="No space"):
        imported(rows)
    assert notes.read_text() == "mine" and not (tmp_path / "imported" / "events.jsonl").exists()
    monkeypatch.undo()
    assert SweepState.load(imported(rows).folder).end_status == "complete" and notes.read_text() == "mine"


CLAIMS = """
title: Imported
claims:
  - id: lr
    says: A larger learning rate is better.
    sweep: imported
    question: difference
    arms: {large: {where: {config.lr: 0.1}}, small: {where: {config.lr: 0.01}}}
    compare: [large, small]
    metric: accuracy
    average: raw
    lengths: [20]
    expect: smaller
"""


@pytest.fixture
def folder(rows: pd.DataFrame, tmp_path: Path, lengthwise: Any) -> Path:
    """The folder of a table that the command line imported."""
    rows.to_csv(tmp_path / "results.csv", index=False)
    words = ["--name", "imported", "--metric", "accuracy:maximize", "--lengths", "20", "--trained", "5,10"]
    done = lengthwise.succeeds("import", tmp_path / "results.csv", *words, "--storage", tmp_path)
    assert str(tmp_path / "imported") in done.stdout
    return tmp_path / "imported"


def test_no_retry_is_advised_for_a_seed_without_rows(rows: pd.DataFrame, tmp_path: Path, lengthwise: Any):
    rows[(rows["lr"] != 0.1) | (rows["seed"] != 1)].to_csv(tmp_path / "results.csv", index=False)
    words = ["--name", "imported", "--metric", "accuracy:maximize", "--lengths", "20", "--trained", "5,10"]
    lengthwise.succeeds("import", tmp_path / "results.csv", *words, "--missing", "failed", "--storage", tmp_path)
    folder = tmp_path / "imported"
    assert SweepState.load(folder).failed_packs
    status = lengthwise.succeeds("status", folder, "--trace").stdout
    lengthwise.succeeds("report", folder)
    assert "retry-failed" not in status + (folder / "report.html").read_text() and "no failed" not in status


def test_verbs_that_read_results_work(folder: Path, tmp_path: Path, lengthwise: Any):
    assert "imported" in lengthwise.succeeds("list", "sweeps", "--storage", tmp_path).stdout
    status = lengthwise.succeeds("status", folder).stdout.split()
    assert status[status.index("packs") + 1] == "1/1" and "runs" not in status
    lengthwise.succeeds("report", folder)
    assert "results.csv" in (folder / "report.html").read_text()
    shown = lengthwise.succeeds("compare", folder, "0", "1").stdout
    assert "same training data" not in shown and "same test inputs" not in shown
    shutil.copytree(folder, tmp_path / "copied")
    lengthwise.succeeds("compare", folder, tmp_path / "copied")
    for option, name in (("--latex", "t.tex"), ("--curves", "c.csv")):
        lengthwise.succeeds("export", folder, option, tmp_path / name)
    assert open_sweep(folder).best is not None
    lengthwise.succeeds("delete", folder, "--yes")
    assert not folder.exists()


def test_claims_about_imported_results_are_registered_afterwards(folder: Path, tmp_path: Path, lengthwise: Any):
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    lengthwise.succeeds("claims", tmp_path / "claims.yaml", "--storage", tmp_path, "--page", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "registered afterwards" in page and "of one core" not in page


def test_claims_read_results_at_step_0_also_from_an_archive(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    untrained = rows[rows["step"] == 100].assign(step=0)
    folder = imported(untrained).folder
    sweep = SweepCurves(folder, SweepState.load(folder))
    write_archive(sweep, [], tmp_path / "imported.tar.xz")
    for read in (sweep, read_archive(tmp_path / "imported.tar.xz")):
        values = read.make_table(("accuracy",), "raw", "last")
        assert np.array_equal(np.sort(values.to_numpy(), axis=None), np.sort(untrained["value"].astype(np.float32)))


def test_the_axis_is_named(rows: pd.DataFrame, tmp_path: Path, lengthwise: Any):
    rows.to_csv(tmp_path / "results.csv", index=False)
    words = ["import", tmp_path / "results.csv", "--metric", "accuracy:maximize", "--lengths", "20"]
    hashes = set()
    for name, axis in (("unnamed", None), ("named", "digits")):
        lengthwise.succeeds(*words, "--storage", tmp_path, "--name", name, *(("--axis", axis) if axis else ()))
        state = SweepState.load(tmp_path / name)
        assert (summarize(state).axis, state.spec["evaluation"].get("axis")) == (axis or "length", axis)
        hashes.add(state.spec_hash)
    assert len(hashes) == 2


def test_columns_are_named_with_or_without_blanks(rows: pd.DataFrame, tmp_path: Path, lengthwise: Any):
    rows.assign(noise=range(len(rows))).to_csv(tmp_path / "results.csv", index=False)
    words = ["--name", "imported", "--metric", "accuracy:maximize", "--lengths", "5, 20", "--columns", "lr, width"]
    lengthwise.succeeds("import", tmp_path / "results.csv", *words, "--storage", tmp_path)
    configurations = SweepState.load(tmp_path / "imported").configurations.values()
    assert [set(configuration.resolved["config"]) for configuration in configurations] == [{"lr", "width"}] * 2


def test_trained_lengths_that_nobody_named_are_not_denied(rows: pd.DataFrame, imported: Import):
    result = summarize(SweepState.load(imported(rows).folder))
    assert "no length" not in describe_selection(result)
    assert "trained on 5" in describe_selection(
        summarize(SweepState.load(imported(rows, name="b", trained=[5]).folder))
    )


def test_results_are_imported_to_an_address(rows: pd.DataFrame, imported: Import, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows.to_csv(tmp_path / "results.csv", index=False)
    words = {
        "name": "far",
        "metrics": {"accuracy": "maximize"},
        "lengths": [20],
        "storage": f"file://{tmp_path / 'far'}",
    }
    here = import_table(tmp_path / "results.csv", console=Console(file=io.StringIO()), **words)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    there = open_sweep(f"file://{tmp_path / 'far' / 'far'}")
    pd.testing.assert_frame_equal(there.curves, here.curves)


def test_verbs_that_train_or_evaluate_refuse(folder: Path, tmp_path: Path, lengthwise: Any):
    ledger = (folder / "events.jsonl").read_bytes()
    for verb in (
        ["resume", folder],
        ["resume", folder, "--retry-failed"],
        ["extend", folder, "--seeds", "9"],
        ["extend", folder, "--steps", "900"],
        ["confirm", folder],
        ["evaluate", folder, "0"],
        ["replay", folder, "0", "0"],
        ["export", folder, "--best", tmp_path / "best.yaml"],
    ):
        refused = lengthwise.refuses(*verb, message=f"{folder}: imported from {tmp_path / 'results.csv'}")
        assert "\n" not in refused.stderr.strip(), verb
    assert (folder / "events.jsonl").read_bytes() == ledger
    for verb in ("run", "validate"):
        options = ["--name", "again", "--storage", tmp_path] if verb == "run" else []
        lengthwise.refuses(verb, folder / "sweep.yaml", *options, message="program.imported")
    assert not (tmp_path / "again").exists()
