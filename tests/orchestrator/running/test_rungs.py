"""Rungs of a race: pruned in the course of training as the full sweep says, and survivors keep their bits."""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from orchestrator.errors import DamagedLedger
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.record_kinds import find_record_problem
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import make_effect_records
from orchestrator.report.effect_sentences import describe_effects
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.configuration_scores import read_objective
from orchestrator.results.scoring.rung_decision import compute_scores_at_step, decide_rung
from orchestrator.running.schedulers import inline
from orchestrator.running.watching.meter import count_steps, count_steps_done
from orchestrator.statistics.effects.design import SURVIVORS
from orchestrator.tracking.run_contents import MlflowRunBuilder
from search_spaces import Objective, Rungs, load_sweep
from tests.orchestrator.running.ledgers import (
    cut_ledger,
    keyed,
    ledger_kinds,
    ledger_lines,
    same_curves,
    scores,
    sets,
)

SIZE = ("search.configurations=8", "seeds=4", "training.steps=40", "evaluation.every=5")
RATES = (*SIZE, "space={training.learning_rate: {log_uniform: [0.001, 0.1]}}")
HALVING = "search.racing={first: 4, steps: {first: 10, growth: 2, keep: 0.5, guard: false}}"
GUARDED = "search.racing={first: 4, steps: {first: 10, growth: 2, keep: 0.25}}"
ROUNDS = "search.racing={first: 2, keep: 0.5, steps: {first: 10, growth: 2, keep: 0.5, guard: false}}"


def replayed(whole: SweepState, race: SweepState) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The survivors and who was guarded at every rung, from the curves of the sweep without a race."""
    rungs = Rungs.model_validate(race.spec["search"]["racing"]["steps"])
    objective, curves = read_objective(whole.spec), read_curves(whole)
    names, outcomes, seeds = list(whole.configurations), [], race.rungs[0].seeds
    for rung in rungs.list_rungs(5, 40):
        now, before = (compute_scores_at_step(curves, objective, step, names, seeds) for step in rung)
        outcome = decide_rung(now, before, rungs, objective)
        outcomes.append((outcome.survivors, outcome.guarded))
        names = list(outcome.survivors)
    return outcomes


def recorded_outcomes(state: SweepState) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(rung.survivors, rung.guarded) for rung in state.rungs]


def last_steps(state: SweepState) -> dict[str, int]:
    curves = read_curves(state)
    return {str(name): int(step) for name, step in curves.groupby("config_id", observed=True)["step"].max().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "left"), [(HALVING, [4, 2]), (GUARDED, None)])
def test_rungs_decide_as_the_full_sweep_says_and_survivors_keep_their_bits(played, rule, left):
    whole, race = played(*RATES, pack=32), played(*RATES, rule, pack=8)
    assert recorded_outcomes(race) == replayed(whole, race)
    assert left is None or [len(rung.survivors) for rung in race.rungs] == left
    assert same_curves(race, whole)
    stays = race.rungs[-1].survivors
    for name, configuration in race.configurations.items():
        assert (configuration.pruned_at is None) == (name in stays) == configuration.is_scored
        assert last_steps(race)[name] == (40 if name in stays else configuration.pruned_at)
    assert race.race.has_ended and {pack.status for pack in race.packs.values()} == {"complete"}
    assert race.race.member_steps_saved == sum(
        4 * (40 - configuration.pruned_at) for configuration in race.configurations.values() if configuration.pruned_at
    )


@pytest.mark.slow
def test_survivors_race_on_over_seeds(played):
    whole, race = played(*RATES, pack=32), played(*RATES, ROUNDS, pack=8)
    assert [len(rung.survivors) for rung in race.rungs] == [4, 2] and len(race.decisions) == 1
    assert race.decisions[0].values.keys() == set(race.rungs[-1].survivors)
    assert same_curves(race, whole)
    pruned = [configuration for configuration in race.configurations.values() if configuration.pruned_at]
    assert [len(configuration.members) for configuration in pruned] == [2] * 6
    assert sum(len(configuration.members) for configuration in race.configurations.values()) == 18
    state = SweepState(race.folder)
    for record in read_records(race.folder):
        state.apply(record)
        assert state.trained.member_steps == sum(pack.sum_member_steps(pack.step) for pack in state.packs.values())


@pytest.mark.slow
def test_decisions_do_not_depend_on_packs_or_their_order(stage, played):
    first = stage("one", *RATES, HALVING, pack=3).play(order=lambda packs: packs[::-1])
    second = played(*RATES, HALVING, pack=8)
    assert first.rungs == second.rungs and same_curves(first, second)


@pytest.mark.slow
def test_rungs_that_are_killed_anywhere_resume_to_the_same_bits(stage, played):
    whole = played(*RATES, ROUNDS, pack=8)
    lines, kinds = ledger_lines(whole.folder), ledger_kinds(whole.folder)
    rungs = [index for index, kind in enumerate(kinds) if kind == "rung"]
    cuts = sorted({kinds.index("evaluation") + 1, *(rung + beside for rung in rungs for beside in (0, 1))})
    for number, cut in enumerate(cuts):
        killed = stage(f"killed {cut}", *RATES, ROUNDS, pack=8)
        shutil.copytree(whole.folder / "curves", killed.folder / "curves")
        if number % 2:  # otherwise all states are lost
            keep_checkpoints_until(whole.folder, killed.folder, lines[:cut])
        cut_ledger(killed.folder, cut, whole.folder)
        state = killed.play()
        assert state.rungs == whole.rungs and state.decisions == whole.decisions, cut
        assert same_curves(state, whole) and len(keyed(state)) == len(keyed(whole))
        assert scores(state) == scores(whole)
        assert ledger_kinds(killed.folder).count("rung") == len(rungs)


def keep_checkpoints_until(source, target, lines) -> None:
    """Copy the checkpoints that were written before the last of these records."""
    reached = Counter()
    for line in lines:
        record = json.loads(line)
        if record["kind"] == "evaluation":
            reached[record["data"]["pack_id"]] = record["data"]["step"]
    for pack_id, step in reached.items():
        for path in (source / "checkpoints" / pack_id).glob("step-*.ckpt"):
            if int(path.stem.removeprefix("step-")) <= step:
                (target / "checkpoints" / pack_id).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target / "checkpoints" / pack_id)


@pytest.mark.slow
def test_a_pack_that_dies_at_a_rung_does_not_train_beyond_it(stage, played, monkeypatch):
    whole = played(*RATES, pack=32)
    begun, original, died = stage("race", *RATES, HALVING), inline.train_pack, []

    def train_pack(work, reporter):
        original(work, reporter)
        if not died:  # its state is saved, and the driver does not know that it has paused
            died.append(work.pack_id)
            raise OSError("lost")

    monkeypatch.setattr(inline, "train_pack", train_pack)
    beyond = []

    def during(pack_id, step):
        beyond.append((pack_id, step, ledger_kinds(begun.folder).count("rung")))

    state = begun.play(during=during)
    assert died and all(step <= (10, 20, 40)[rungs] for _, step, rungs in beyond)
    assert same_curves(state, whole)


@pytest.mark.slow
def test_who_is_pruned_is_in_no_rank_and_no_effect(played):
    result = summarize(played(*RATES, HALVING, pack=8))
    assert [row.rank for row in result.rows] == [1, 2, *[None] * 6]
    assert [row.why_unranked for row in result.rows[2:]] == ["pruned at step 20"] * 2 + ["pruned at step 10"] * 4
    assert {row.score for row in result.rows[2:]} == {None} and result.complete_configurations == 2
    for effect in compute_score_effects(result):
        assert effect.configurations == 2


def test_seeds_that_fail_before_a_rung_count_as_the_objective_says(stage):
    diverging = "space={training.learning_rate: {grid: [0.01, 0.02, 1.0e+30, 1.0e+38]}}"
    plain = ("search={racing: {first: 2, steps: {first: 10, keep: 0.9, guard: false}}}", "seeds=2")
    state = stage("race", diverging, *plain, "training.steps=20", "evaluation.every=5").play()
    (rung,) = state.rungs
    assert [rung.values[name] is None for name in state.configurations] == [False, False, True, True]
    assert rung.survivors == tuple(state.configurations)[:2]
    result = summarize(state)
    assert [row.seeds_failed for row in result.rows] == [0, 0, 2, 2]
    (effect,) = compute_score_effects(result)
    (difference,) = effect.differences
    assert result.design.survivors and effect.reason == SURVIVORS
    assert [math.isnan(number) for number in (difference.median, difference.low, difference.p)] == [False, True, True]
    assert SURVIVORS in describe_effects(result)
    ends = ("low", "high", "p", "difference_low", "difference_high")
    assert all(math.isnan(line[end]) for line in make_effect_records(result) for end in ends)


@pytest.mark.slow
def test_a_pack_that_was_given_up_at_a_rung_changes_no_decision_when_it_is_retried(stage, lose_first_pack, monkeypatch):
    begun = stage("race", *RATES, HALVING, "resources.retries=0", pack=4)
    lost = lose_first_pack()
    state = begun.play()
    ((name, _), *_) = state.packs[lost[0]].members
    assert state.rungs[0].values[name] is None and state.configurations[name].pruned_at == 10
    monkeypatch.undo()
    with Ledger.open(begun.folder) as ledger:
        ledger.append("retry", pack_ids=lost)
    again = begun.play()
    assert again.rungs == state.rungs and again.configurations[name].score is None


# The guard -----------------------------------------------------------------------------------------------------------

OBJECTIVE = Objective(metric="m", average="raw", lengths=[1], direction="minimize")


def decide(now: dict[str, list[float]], before: dict[str, list[float]], **rungs: object):
    return decide_rung(now, before, Rungs(**{"first": 10, "keep": 0.3, **rungs}), OBJECTIVE)


def test_the_guard_keeps_who_improves_by_more_than_its_seeds_differ():
    now = {"ahead": [0.1, 0.2, 0.3], "late": [0.8, 0.9, 1.0], "flat": [0.7, 0.8, 0.9], "noisy": [0.5, 0.9, 1.3]}
    before = {"ahead": [0.1, 0.2, 0.3], "late": [1.0, 1.1, 1.2], "flat": [0.7, 0.8, 0.9], "noisy": [0.8, 1.2, 1.6]}
    outcome = decide(now, before, keep=0.25)
    assert outcome.survivors == ("ahead", "late") and outcome.guarded == ("late",)
    assert outcome.improvements["late"] == pytest.approx(0.2) and outcome.spreads["late"] == pytest.approx(0.1)
    assert outcome.improvements["noisy"] == pytest.approx(0.3) and outcome.spreads["noisy"] == pytest.approx(0.4)
    assert decide(now, before, keep=0.25, guard=False).survivors == ("ahead",)


def test_ties_stay_shares_are_rounded_up_and_failed_seeds_count():
    flat = {name: [value] * 4 for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.2), ("d", 0.3), ("e", np.nan))}
    assert decide(flat, flat, keep=0.3).survivors == ("a", "b", "c")
    assert decide(flat, flat, keep=0.2).survivors == ("a",)
    assert decide(flat, flat, keep=1e-7).survivors == ("a",)
    assert decide(flat, flat, keep=0.99).survivors == ("a", "b", "c", "d")
    assert decide({"e": [np.nan] * 2}, {"e": [np.nan] * 2}).survivors == ()
    half = {"a": [0.1] * 4, "b": [0.5, 0.5, 0.5, np.nan]}
    before = {"a": [0.1] * 4, "b": [0.9] * 4}
    outcome = decide(half, before)
    assert outcome.spreads["b"] == np.inf and outcome.guarded == ()  # one of four failed: its quartile is the worst


def test_a_member_whose_pack_had_ended_has_its_last_values_and_a_lost_one_has_none():
    rows = [("a", 0, 5, 0.5), ("a", 0, 40, 0.5), ("a", 1, 5, 0.7), ("a", 1, 40, np.nan), ("b", 0, 5, 0.6)]
    rows += [("b", 0, 10, 0.4), ("b", 0, 15, 0.1), ("b", 1, 5, 0.2)]
    curves = pd.DataFrame(rows, columns=["config_id", "seed", "step", "value"]).assign(
        metric="m", average="raw", length=1
    )
    last = compute_scores_at_step(curves, OBJECTIVE, 10, ["a", "b"], [0, 1])
    assert str(last) == "{'a': [0.5, nan], 'b': [0.4, nan]}"
    best = compute_scores_at_step(curves, OBJECTIVE.model_copy(update={"evaluation": "best"}), 15, ["b"], [0])
    assert best == {"b": [0.1]}


@pytest.mark.slow
def test_a_late_learner_is_lost_without_the_guard_and_wins_with_it(stage, reporting):
    """Planted curves: three configurations stay where they are, and the last falls slowly and passes them."""
    early, late = (0.001, 0.002, 0.003), 0.004

    def planted(work, evaluation, record):
        values = evaluation.values_MAKL.copy()
        for m, (member, (_, seed)) in enumerate(zip(work.members, work.member_ids, strict=True)):
            rate = member["training"]["learning_rate"]
            values[m] = 0.01 * seed + (1.0 - 0.02 * evaluation.step if rate == late else 0.5 + rate)
        record(replace(evaluation, values_MAKL=values))

    reporting(planted)

    def play(name: str, racing: str) -> SweepState:
        listed = ", ".join(f"{{training.learning_rate: {rate}}}" for rate in (*early, late))
        search = f"search={{sampler: listed, listed: [{listed}]{racing}}}"
        return stage(name, *SIZE[1:], "space={}", search, pack=6).play()

    whole = play("whole", "")
    plain = play("plain", ", racing: {first: 4, steps: {first: 10, growth: 2, keep: 0.5, guard: false}}")
    guarded = play("guarded", ", racing: {first: 4, steps: {first: 10, growth: 2, keep: 0.5}}")
    name = list(whole.configurations)[-1]
    assert plain.configurations[name].pruned_at == 10 and summarize(plain).rows[0].config_id != name
    assert [rung.guarded for rung in guarded.rungs] == [(name,), (name,)]
    assert [len(rung.survivors) for rung in guarded.rungs] == [3, 3]
    assert summarize(guarded).rows[0].config_id == summarize(whole).rows[0].config_id == name
    assert same_curves(guarded, whole) and recorded_outcomes(guarded) == replayed(whole, guarded)


# What is written and refused -----------------------------------------------------------------------------------------


def test_rungs_are_evaluations_and_end_before_training():
    steps = [
        [rung.step for rung in Rungs(first=300, growth=growth, keep=0.5).list_rungs(100, 3000)] for growth in (3, 1.5)
    ]
    assert steps == [[300, 900, 2700], [300, 500, 800, 1200, 1800, 2700]]
    assert [rung.since for rung in Rungs(first=300, keep=0.5).list_rungs(100, 3000)] == [100, 300, 900]
    assert [rung.step for rung in Rungs(first=2, growth=1.7e308, keep=0.5).list_rungs(1, 4)] == [2]
    assert [rung.step for rung in Rungs(first=1, growth=1.0000001, keep=0.5).list_rungs(1, 4)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("search.racing.steps.first=12",), "there is no evaluation at this step; given 12; allowed: a multiple of"),
        (("search.racing.steps.first=40",), "is not before the end"),
        (("search.racing.steps.first=5",), "the guard needs an evaluation in the first half of the steps to the rung"),
        (("seeds=1", "search.racing.first=1"), "the guard needs the spread over seeds, but there is only one seed"),
        (("seeds=1",), "seeds: the guard needs the spread over seeds, but there is only one seed"),
        (("seeds=[7]",), "seeds: the guard needs the spread over seeds, but there is only one seed"),
        (("search.racing.steps.keep=1.0",), "search.racing.steps.keep"),
        (("search.racing.steps.growth=1",), "search.racing.steps.growth"),
        (("search.racing.steps.patience=3",), "search.racing.steps.patience"),
        (("evaluation.every=null",), "compares configurations at evaluations, but the only evaluation is at the end"),
        (("space.training.steps={choice: [40, 80]}",), "rungs need the same training.steps in every configuration"),
        (("search.racing.first=2",), "has neither keep nor test"),
    ],
)
def test_rungs_that_cannot_be_are_refused(lengthwise, tiny, settings, message):
    words = sets(*RATES, GUARDED, *settings)
    done = lengthwise("validate", tiny, *words)
    assert done.returncode == 2 and message in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_a_sweep_without_rungs_keeps_its_hash_and_rungs_are_resolved(tiny):
    race = "search.racing={first: 2, keep: 0.5}"
    plain, rungs = load_sweep(tiny, ["seeds=4", race]), load_sweep(tiny, [*SIZE, GUARDED])
    assert plain.resolved()["search"]["racing"] == {"first": 2, "growth": 2.0, "keep": 0.5}
    steps = {"first": 10, "growth": 2.0, "keep": 0.25, "guard": True}
    assert rungs.resolved()["search"]["racing"] == {"first": 4, "growth": 2.0, "steps": steps}


@pytest.mark.slow
def test_a_record_of_a_rung_is_checked(played, tmp_path):
    race = played(*RATES, HALVING, pack=8).folder
    (fields, *_) = [record.fields for record in read_records(race) if record.kind == "rung"]
    assert "spreads" in find_record_problem(
        "rung", {name: value for name, value in fields.items() if name != "spreads"}
    )
    for change, message in (({"step": 15}, "not at the next rung"), ({"survivors": ["x"]}, "unknown configuration x")):
        state = SweepState.replay(race, [r for r in read_records(race) if r.kind != "rung"])
        with (
            Ledger.open(shutil.copytree(race, tmp_path / message)) as ledger,
            pytest.raises(DamagedLedger, match=message),
        ):
            state.apply(ledger.append("rung", **fields | change))


@pytest.mark.slow
def test_the_command_line_plans_runs_and_reports_rungs(lengthwise, tiny):
    rule = sets(*RATES, ROUNDS, "search.racing.steps.guard=true")
    plan = " ".join(lengthwise("plan", tiny, *rule).stdout.split())
    assert "8 configurations to step 10, 4 configurations to step 20, 2 configurations to step 40" in plan
    assert "member-steps 400 " in plan  # 320 in the first round
    done = lengthwise.succeeds("run", tiny, "--storage", tiny.parent, *rule)
    folder = tiny.parent / "tiny"
    state, table = SweepState.load(folder), pd.read_csv(folder / "rungs.csv")
    guarded = {name for rung in state.rungs for name in rung.guarded}
    assert set(table[table["outcome"] == "guarded"]["config_id"]) == guarded
    assert list(table.groupby("step").size()) == [len(rung.values) for rung in state.rungs]
    saved = f"That saved {state.race.member_steps_saved:,} of 640 member-steps of the first round."
    page = (folder / "report.html").read_text()
    assert "3 pruned" in done.stdout and saved in page
    assert "pruned at step 10" in page and "Pruned during training" in page
    report = pd.read_csv(folder / "report.csv")
    pruned = {
        name: configuration.pruned_at for name, configuration in state.configurations.items() if configuration.pruned_at
    }
    assert report.dropna(subset="pruned_at").set_index("config_id")["pruned_at"].to_dict() == pruned
    assert report[report["config_id"].isin(pruned)][["rank", "score"]].isna().all(axis=None)
    status = lengthwise("status", folder).stdout
    assert "rung at step 10" in status and "configurations 8/8" in " ".join(status.split())
    assert sum(count_steps_done(state).values()) == count_steps(state)  # those saved by the rungs count as done
    (first, *_) = [f"#{state.configurations[name].number}" for name in pruned]
    best = f"#{next(row.number for row in summarize(state).rows)}"
    for words in (
        ("compare", folder, best, first),
        ("confirm", folder, "--configuration", first),
        ("extend", folder, "--seeds", "+1", "--configuration", first),
    ):
        lengthwise.refuses(*words, message="was pruned at step")
    lengthwise.refuses("extend", folder, "--configurations", "9", message="allowed: more seeds")


@pytest.mark.slow
def test_a_rung_is_decided_when_no_pack_runs(stage):
    """Whoever asks for a pack while another one has just reached the rung, and has yet to save its state, gets none."""
    asked = []
    race = stage("race", *RATES, HALVING, pack=3).play(
        order=list, watch=lambda driver: asked.append(driver.take_next_pack())
    )
    assert len(race.rungs) == 2 and len(asked) > 8 and not any(asked)


@pytest.mark.slow
def test_mlflow_shows_a_pruned_configuration_up_to_its_rung(played):
    state = played(*RATES, HALVING, pack=8)
    contents = MlflowRunBuilder(summarize(state), read_records(state.folder), read_curves(state))
    for row, run in contents.make_configuration_runs():
        assert max(point.step for point in run.points if point.key == "progress/loss") == (row.pruned_at or 40)


@pytest.mark.slow
def test_damaged_curves_of_a_pruned_configuration_are_trained_again(lengthwise, tiny):
    sweep = ("--storage", tiny.parent, *sets(*RATES, HALVING, "resources.pack=4"))
    lengthwise.succeeds("run", tiny, *sweep)
    state = SweepState.load(folder := tiny.parent / "tiny")
    before = read_curves(state)
    pruned = next(configuration for configuration in state.configurations.values() if configuration.pruned_at == 20)
    pack = state.packs[pruned.members[0].pack_id]
    (folder / pack.evaluations[10]["file"]).unlink()
    lengthwise.succeeds("repair", folder)
    assert sorted(SweepState.load(folder).packs[pack.pack_id].evaluations) == [5]
    lengthwise.succeeds("resume", folder)
    again = SweepState.load(folder)
    assert again.end_status == "complete" and again.rungs == state.rungs
    pd.testing.assert_frame_equal(read_curves(again), before)
