"""Reports show the last and the chosen evaluation of each configuration; `evaluation: best` uses the chosen one."""

import csv
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from orchestrator.figures import drawing
from orchestrator.figures.last_and_best import SHOWN, last_and_best_figure
from orchestrator.figures.panels import arrange_panels
from orchestrator.record.kept import curves as curve_store
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import write_report
from orchestrator.results.analysis import compare_weight_averages
from orchestrator.results.scoring.last_and_best import compare_last_and_best
from orchestrator.results.scoring.objective import choose_evaluations, recorded_objective
from orchestrator.results.summarise import summary

BEST = {"objective.evaluation": "best"}
MANY = {"evaluation.every": 10}  # ten evaluations of 100 steps
VALUES = [{"training.learning_rate": rate} for rate in (0.001, 0.002, 0.003)]


def restless(number, seed, average, metric, lengths, step):
    """Wanders with the step, differently for each seed, average and metric, and out of step at longer lengths."""
    phase = seed + 2 * number + (3 if average == "raw" else 0) + len(metric)
    return 0.4 + 0.1 * number + 0.2 * np.sin(0.09 * step * (1 + 0.2 * (lengths - 6)) + phase) + 0.01 * lengths


def build(folder, synthetic_sweep, **settings):
    spec = MANY | settings.pop("spec", {})
    return synthetic_sweep(folder, VALUES, 4, restless, settings.pop("failed", {(1, 2): 95}), spec=spec)


@pytest.fixture
def sweeps(tmp_path, synthetic_sweep):
    """The same curves judged at the last and at the best evaluation; seed 2 of number 1 diverges at the end."""
    return lambda name, **settings: build(tmp_path / name, synthetic_sweep, **settings)


@pytest.fixture(scope="module")
def built(tmp_path_factory, synthetic_sweep):
    folder = tmp_path_factory.mktemp("built")
    for name, spec in (("last", {}), ("best", BEST)):
        build(folder / name, synthetic_sweep, spec=spec)
    return folder


@pytest.fixture
def both(built, tmp_path):
    return tuple(SweepState.load(shutil.copytree(built / name, tmp_path / name)) for name in ("last", "best"))


def table_of(state):
    """config_id, seed -> step -> length -> value of the judged curve."""
    curves = read_curves(state).astype({"config_id": str})
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    return {
        member: rows.pivot(index="step", columns="length", values="value").astype(float)
        for member, rows in mine.groupby(["config_id", "seed"])
    }


def by_hand(state):
    """config_id -> seed -> (step chosen, table), None for the step where the last value is NaN."""
    found = {}
    for (name, seed), table in table_of(state).items():
        judged = table[[6, 7]].mean(axis=1, skipna=False)
        step = None if math.isnan(judged.iloc[-1]) else judged.idxmin()
        found.setdefault(name, {})[seed] = (step, table)
    return found


def median(values):
    return float(np.median([math.inf if math.isnan(value) else value for value in values]))


def test_the_chosen_evaluation_is_used_for_everything(both):
    last, best = both
    wanted = by_hand(best)
    result = summary(best)
    assert {row.config_id for row in result.rows} == set(wanted)
    moved = 0
    for row in result.rows:
        members = wanted[row.config_id]
        at = {s: table.loc[100 if step is None else step] for s, (step, table) in members.items()}
        moved += sum(step not in (None, 100) for step, _ in members.values())
        assert row.score == pytest.approx(median([t[[6, 7]].mean(skipna=False) for t in at.values()]))
        assert row.test.median == pytest.approx(median([t[[8, 9, 10, 11]].mean(skipna=False) for t in at.values()]))
        assert row.trained.median == pytest.approx(median([t[[1, 2, 3, 4, 5]].mean(skipna=False) for t in at.values()]))
        band = result.bands[row.config_id, "total_variation", "ema"]
        for seed, curve in band.seeds.items():
            assert curve == pytest.approx(at[seed].tolist(), nan_ok=True)
        other = result.bands[row.config_id, "kl", "raw"]  # another metric and average, at the very same step
        curves = read_curves(best)
        for seed, (step, _) in members.items():
            mine = curves[(curves["config_id"] == row.config_id) & (curves["seed"] == seed)]
            mine = mine[(mine["metric"] == "kl") & (mine["average"] == "raw") & (mine["step"] == (step or 100))]
            assert other.seeds[seed] == pytest.approx(mine.sort_values("length")["value"].tolist(), nan_ok=True)
        assert row.seeds_failed == sum(step is None for step, _ in members.values())
    assert moved >= 9
    assert [row.score for row in result.rows] == sorted(row.score for row in result.rows)
    assert all(row.score < other.score for row, other in zip(result.rows, summary(last).rows, strict=True))
    diverged = best.configurations[next(name for name, c in best.configurations.items() if c.number == 1)]
    assert np.isnan(result.bands[diverged.config_id, "total_variation", "ema"].seeds[2]).all()
    for found in (last, best):  # what the ledger recorded is what the report shows
        scores = {row.config_id: row.score for row in summary(found).rows}
        assert scores == {name: configuration.score for name, configuration in found.configurations.items()}


def test_comparisons_of_averages_are_at_one_step_of_each_member(both):
    result = summary(both[1])
    steps = {(name, seed): step for name, of in by_hand(both[1]).items() for seed, (step, _) in of.items()}
    curves = read_curves(both[1]).astype({"config_id": str})
    mine = curves[(curves["metric"] == "total_variation") & curves["length"].isin([8, 9, 10, 11])]
    apart = {}
    for (name, seed), step in steps.items():
        at = mine[(mine["config_id"] == name) & (mine["seed"] == seed) & (mine["step"] == step)]
        means = at.groupby("average", observed=True)["value"].apply(lambda v: v.astype(float).mean())
        apart |= {name: [*apart.get(name, []), means["raw"] - means["ema"]]} if step else {}
    (pair,) = [one for one in compare_weight_averages(result) if one.group == "test"]
    of_each = [np.median(values) for values in apart.values()]
    assert (pair.members, pair.n) == (11, 3) and pair.difference == pytest.approx(np.median(of_each))


def test_both_are_reported_whichever_is_judged(both):
    for state in both:
        result, members = summary(state), by_hand(state)
        assert [one.config_id for one in result.last_and_best] == [row.config_id for row in result.rows]
        for one in result.last_and_best:
            seeds = members[one.config_id]
            alive = {seed: (step, table) for seed, (step, table) in seeds.items() if step is not None}
            assert one.steps == {seed: step for seed, (step, _) in alive.items()}
            for lengths, group in (([1, 2, 3, 4, 5], "trained"), ([6, 7], "selection"), ([8, 9, 10, 11], "test")):
                for which, at in ((one.last, lambda step: 100), (one.best, lambda step: step or 100)):
                    values = [t.loc[at(step), lengths].mean(skipna=False) for step, t in seeds.values()]
                    assert getattr(which, group).median == pytest.approx(median(values)), (group, one.config_id)
            test = {seed: table[[8, 9, 10, 11]].mean(axis=1) for seed, (_, table) in alive.items()}
            apart = [test[seed][step] - test[seed][100] for seed, (step, _) in alive.items()]
            assert one.difference.median == pytest.approx(np.median(apart))
            ranges = [values.loc[60:].max() - values.loc[60:].min() for values in test.values()]
            assert len(values := next(iter(test.values())).loc[60:]) == 5 and values.index[0] == 60
            assert one.fluctuation == pytest.approx(np.median(ranges)) and one.fluctuation > 0.05
            assert one.evaluated == tuple(range(10, 101, 10))
        row = {row.config_id: row for row in result.rows}
        for one in result.last_and_best:
            at, name = one.best if result.objective.evaluation == "best" else one.last, one.config_id
            assert (at.selection.median, at.test, at.trained) == (row[name].score, row[name].test, row[name].trained)


@pytest.mark.slow
def test_the_report_says_what_was_chosen_and_where_it_is_optimistic(both, full_text):
    for state, scored in zip(both, ("last", "chosen"), strict=True):
        page, _ = write_report(state.folder)
        result = summary(state)
        for text in (full_text(result, 1000), page.read_text()):
            assert f"Scored here: the {scored} evaluation." in text
            assert "lowest total_variation (ema) at the selection lengths 6-7, the later one of equals" in text
            assert "These lengths chose it, so it is optimistic there; the test lengths had no influence." in text
            assert ("each seed at the evaluation they choose" in text) == (scored == "chosen")
            assert ("total_variation (ema, chosen evaluation)" in text) == (scored == "chosen")
        for heading in ("selection, last", "selection, chosen", "test, last", "test, chosen", "chosen step"):
            assert heading in full_text(result, 1000)
        with (state.folder / "evaluations.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert [line["config_id"] for line in lines] == [row.config_id for row in result.rows]
        for line, one in zip(lines, result.last_and_best, strict=True):
            assert float(line["last_test_median"]) == one.last.test.median
            assert float(line["chosen_test_median"]) == one.best.test.median
            assert float(line["chosen_selection_median"]) == one.best.selection.median
            assert float(line["test_difference_median"]) == one.difference.median
            assert float(line["test_fluctuation"]) == one.fluctuation and line["evaluations"] == "10"
            assert json.loads(line["chosen_steps"]) == {str(seed): step for seed, step in one.steps.items()}
            assert int(line["chosen_step_min"]) == min(one.steps.values())
        assert f"{state.folder / 'figures' / 'evaluations.png'}" in full_text(summary(state), 1000)
        better = sum(one.difference.median < 0 for one in result.last_and_best)
        assert f"better than the last in {better} of 3 configurations, worse in {3 - better}" in full_text(result, 1000)


def test_one_evaluation_leaves_nothing_to_compare(tmp_path, synthetic_sweep, simple_curve, full_text):
    state = synthetic_sweep(tmp_path / "once", VALUES, 2, simple_curve, spec={"evaluation.every": 100})
    write_report(state.folder)
    assert summary(state).last_and_best == () and "chosen evaluation" not in full_text(summary(state), 1000)
    assert not (state.folder / "evaluations.csv").exists()
    assert not (state.folder / "figures" / "evaluations.png").exists()


def test_without_test_lengths_and_with_every_seed_lost(sweeps, full_text):
    spec = {"objective.lengths": [6, 7, 8], "task.vocabulary": 9, **BEST}
    state = sweeps("bare", spec=spec, failed={(0, seed): 50 for seed in range(4)})
    result = summary(state)
    write_report(state.folder)
    assert {one.last.test for one in result.last_and_best} == {None}
    lost = next(one for one in result.last_and_best if not one.steps)
    assert lost.difference is None and lost.best.selection.median == math.inf and math.isnan(lost.fluctuation)
    assert "At the test lengths the chosen" not in full_text(result, 1000)
    with (state.folder / "evaluations.csv").open(newline="") as file:
        line = next(line for line in csv.DictReader(file) if line["config_id"] == lost.config_id)
    assert line["rank"] == "" and line["chosen_step_median"] == "" and line["chosen_steps"] == "{}"


def test_a_pack_that_died_stays_failed(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "died", VALUES, 2, restless, died=[1], spec=MANY | BEST)
    result = summary(state)
    row = next(row for row in result.rows if row.number == 1)
    assert row.failed and row.rank is None  # though it had five evaluations before
    one = next(one for one in result.last_and_best if one.config_id == row.config_id)
    assert one.steps == {} and one.best.selection.median == math.inf


def test_other_directions_choose_the_highest(sweeps, full_text):
    spec = {**BEST, "objective.metric": "margin", "objective.direction": "maximize", "objective.threshold": 0.1}
    state = sweeps("up", spec=spec)
    result = summary(state)
    curves = read_curves(state).astype({"config_id": str})
    mine = curves[(curves["metric"] == "margin") & (curves["average"] == "ema") & curves["length"].isin([6, 7])]
    means = mine.astype({"value": float}).groupby(["config_id", "seed", "step"])["value"].mean()
    for one in result.last_and_best:
        for seed, step in one.steps.items():
            assert step == means[one.config_id, seed].idxmax()
    assert "the highest margin (ema)" in full_text(result, 1000)


def test_figure_draws_every_seed_and_marks_what_was_chosen(both, monkeypatch, tmp_path):
    found = {}
    monkeypatch.setattr(drawing, "save", lambda path, draw, *facts: found.setdefault(path.name, draw()) and path)
    result = summary(both[0])
    last_and_best_figure(result, tmp_path / "evaluations.png")
    panels = found["evaluations.png"].axes
    assert len(panels) == 2 * min(SHOWN, 3)
    for i, one in enumerate(result.last_and_best):
        for axes, values in zip(panels[2 * i : 2 * i + 2], (one.selection, one.test), strict=True):
            marks = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"}
            assert marks == {(step, values[s][one.evaluated.index(step)]) for s, step in one.steps.items()}
            thin = [line for line in axes.lines if line.get_linewidth() == 0.6]
            np.testing.assert_array_equal([line.get_ydata() for line in thin], list(values.values()))
            (thick,) = [line for line in axes.lines if line.get_linewidth() == 2.0]
            expected = [median(at) for at in zip(*values.values(), strict=True)]
            assert list(thick.get_ydata()) == pytest.approx(expected)
    assert panels[1].get_title(loc="left") == "test lengths 8-11"
    title = panels[0].get_title(loc="left")
    assert title.startswith(f"1. #{result.rows[0].number} lr 0.00") and title.endswith("\nselection lengths 6-7")
    arrange_panels(found["evaluations.png"])
    texts = [text for axes in panels for text in axes.get_children() if isinstance(text, Text) and text.get_text()]
    lines = [text.get_window_extent() for text in texts]
    assert len(lines) == len(panels) and not any(a.overlaps(b) for i, a in enumerate(lines) for b in lines[:i])


def test_what_is_read_in_pieces_gives_the_same_summary(both, monkeypatch):
    for state in both:
        whole = summary(state, read_curves(state))
        for rows in (1, 5000, 10**9):
            monkeypatch.setattr(curve_store, "_ROWS_AT_ONCE", rows)
            assert str(summary(SweepState.load(state.folder))) == str(whole)


def test_keep_and_packs_give_the_rows_they_name(both):
    state = both[0]
    every = read_curves(state)
    few = read_curves(state, keep=lambda curves: (curves["length"] == 6).to_numpy())
    pd.testing.assert_frame_equal(few, every[every["length"] == 6].reset_index(drop=True))
    one = read_curves(state, packs={"pack0001"})
    name = next(name for name, c in state.configurations.items() if c.number == 1)
    wanted = every[every["config_id"] == name].reset_index(drop=True).astype({"config_id": str})
    pd.testing.assert_frame_equal(one.astype({"config_id": str}), wanted)
    assert (
        len(read_curves(state, packs=set())) == 0
        and len(read_curves(state, keep=lambda curves: np.zeros(len(curves), bool))) == 0
    )


def test_an_unfinished_sweep_chooses_for_what_is_done(tmp_path, synthetic_sweep, full_text):
    state = synthetic_sweep(tmp_path / "begun", VALUES, 2, restless, spec=MANY | BEST, ended=False, stop_after_step=50)
    assert summary(state).last_and_best == () and "chosen step" not in full_text(summary(state), 1000)
    assert len(choose_evaluations(read_curves(state), recorded_objective(state.spec))) == 6


def test_a_seed_that_stopped_early_keeps_its_last_values(tmp_path, synthetic_sweep):
    """Two of four seeds stop at step 30: until the last step their pack reports nothing of them."""
    state = synthetic_sweep(tmp_path / "stopped", VALUES, 4, restless, spec=MANY)
    curves, objective = read_curves(state), recorded_objective(state.spec)
    ended = {seed: curves[(curves.seed == seed) & (curves.step == 30)].value.to_numpy() for seed in (0, 1)}
    for seed, values in ended.items():
        curves.loc[(curves.seed == seed) & (curves.step == 100), "value"] = values
    whole = curves.copy()
    for seed, values in ended.items():
        for step in range(40, 100, 10):
            whole.loc[(whole.seed == seed) & (whole.step == step), "value"] = values
    reported = curves[~(curves.seed.isin([0, 1]) & curves.step.between(40, 90))]
    groups = {row.config_id: row.groups for row in summary(state).rows}
    seeds = state.seeds()
    assert compare_last_and_best(reported, objective, groups, seeds) == compare_last_and_best(
        whole, objective, groups, seeds
    )
