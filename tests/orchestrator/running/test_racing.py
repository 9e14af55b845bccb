"""Races over seeds: they are what an independent race over a full sweep is, wherever their driver is killed."""

import math
import re
import shutil

import pandas as pd
import pytest
from scipy import stats

from orchestrator import open_sweep
from orchestrator.errors import UserError
from orchestrator.plan.rounds import plan_rounds
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from orchestrator.sweep.selection import choose_best_rows
from search_spaces import Racing, load_sweep
from tests.orchestrator.running.ledgers import (
    cut_ledger,
    evaluated_once,
    ledger_kinds,
    same_curves,
    scores,
    sets,
)
from tests.orchestrator.tiny_sweeps import SHORT

SIZE = ("search.configurations=8", "seeds=8", "training.steps=10", "evaluation.every=10")
WHOLE = (*SIZE, "space={model.dropout: {uniform: [0.0, 0.6]}}", "training.learning_rate=0.02")
RATES = (*SIZE, "space={training.learning_rate: {log_uniform: [0.001, 0.1]}}")  # some are clearly worse
SHARE = "search.racing={first: 2, keep: 0.5}"
TEST = "search.racing={first: 4, test: friedman, level: 0.3}"
BOUNDS = [2, 4, 8]


def member_scores(state: SweepState, length: int = 4) -> pd.DataFrame:
    """(config_id, seed) judged by the objective of the tiny sweep, in the order of numbers."""
    curves = read_curves(state, final_only=True)
    judged = curves[(curves.average == "ema") & (curves.metric == "total_variation") & (curves.length == length)]
    return judged.astype({"config_id": str}).pivot(index="config_id", columns="seed", values="value").astype(float)


def race_by_share(scores: pd.DataFrame, keep: float) -> list[set[str]]:
    alive, rounds = scores, []
    for bound in BOUNDS[:-1]:
        medians = alive[list(range(bound))].median(axis=1)
        last = medians.sort_values().iloc[math.ceil(keep * len(alive)) - 1]
        alive = alive[medians <= last]
        rounds.append(set(alive.index))
    return rounds


def race_by_test(scores: pd.DataFrame, level: float, bounds: list[int]) -> list[set[str]]:
    alive, rounds = scores, []
    for bound in bounds:
        ranks = alive[list(range(bound))].rank(axis=0)
        sums, n, k = ranks.sum(axis=1).sort_values(), bound, len(alive)
        if stats.friedmanchisquare(*alive[list(range(bound))].to_numpy()).pvalue < level:
            error = 2 * (n * (ranks**2).to_numpy().sum() - (sums**2).sum()) / ((n - 1) * (k - 1))
            stays = sums[sums - sums.iloc[0] <= stats.t.ppf(1 - level / 2, (n - 1) * (k - 1)) * error**0.5]
            alive = alive.loc[sorted(stays.index if len(stays) > 1 else sums[sums <= sums.iloc[1]].index)]
        rounds.append(set(alive.index))
    return rounds


def survivors(state: SweepState) -> list[set[str]]:
    return [set(decision.survivors) for decision in state.decisions]


def members(state: SweepState) -> int:
    return sum(len(configuration.members) for configuration in state.configurations.values())


def test_a_race_for_a_share_is_the_one_over_the_full_sweep(played, tiny):
    whole, race = played(*WHOLE, pack=32), played(*WHOLE, SHARE)
    judged = member_scores(whole)
    assert survivors(race) == race_by_share(judged, 0.5)
    assert survivors(race) != race_by_share(member_scores(whole, length=5), 0.5), "test lengths would have decided so"
    assert same_curves(race, whole)
    planned = plan_rounds(load_sweep(tiny, [*WHOLE, SHARE]), len(race.configurations))
    for rounds in (planned, race.race.rounds):
        assert [planned_round.member_count for planned_round in rounds] == [16, 8, 8]
    assert members(race) == 32 and race.race.has_ended
    last = race.race.contenders
    assert {name: race.configurations[name].score for name in last} == judged.loc[list(last)].median(axis=1).to_dict()


def test_a_race_by_a_test_is_the_one_over_the_full_sweep(played, tiny):
    whole, race = played(*RATES, pack=32), played(*RATES, TEST)
    assert survivors(race) == race_by_test(member_scores(whole), 0.3, [4])
    assert 2 <= len(race.race.contenders) < 8 and race.decisions[0].p < 0.3
    assert same_curves(race, whole)
    planned = plan_rounds(load_sweep(tiny, [*RATES, TEST]), 8)
    assert members(race) <= sum(planned_round.member_count for planned_round in planned) == 64


@pytest.mark.slow
def test_a_race_that_is_killed_anywhere_resumes_to_the_same_bits(stage, played):
    whole = played(*WHOLE, TEST)
    kinds = ledger_kinds(whole.folder)
    races = [index for index, kind in enumerate(kinds) if kind == "race"]
    for cut in sorted({kinds.index("score"), *(race + beside for race in races for beside in (0, 2))}):
        killed = stage(f"killed {cut}", *WHOLE, TEST)
        shutil.copytree(whole.folder / "curves", killed.folder / "curves")
        cut_ledger(killed.folder, cut, whole.folder)
        state = killed.play()
        assert state.decisions == whole.decisions, cut
        assert same_curves(state, whole) and members(state) == members(whole)
        assert scores(state) == scores(whole) and evaluated_once(killed.folder)
        assert ledger_kinds(killed.folder).count("race") == len(races)


def test_decisions_do_not_depend_on_packs_or_their_order(stage, played):
    state = stage("one", *WHOLE, SHARE, pack=3).play(order=lambda packs: packs[::-1])
    assert state.decisions == played(*WHOLE, SHARE).decisions


def test_who_left_is_ranked_behind_and_effects_are_over_shared_seeds(played):
    state = played(*WHOLE, SHARE)
    result = summarize(state)
    assert [row.rounds for row in result.rows] == [3, 3, 2, 2, 1, 1, 1, 1]
    assert [row.rank for row in result.rows] == list(range(1, 9))
    for first, second in zip(result.rows, result.rows[1:], strict=False):
        assert first.rounds > second.rounds or first.score <= second.score
    assert result.shared_seeds == {0, 1}
    rates = {row.config_id: row.values["model.dropout"] for row in result.rows}
    medians = member_scores(state)[[0, 1]].median(axis=1)
    (effect,) = [effect for effect in compute_score_effects(result) if effect.key == "model.dropout"]
    assert effect.correlation == pytest.approx(stats.spearmanr([rates[name] for name in medians.index], medians)[0])


def test_a_race_that_is_not_over_ranks_nobody_first_who_left(played, tmp_path):
    folder = shutil.copytree(played(*WHOLE, SHARE).folder, tmp_path / "race")
    cut_ledger(folder, ledger_kinds(folder).index("race") + 2)
    result = summarize(SweepState.load(folder))
    assert [row.rank for row in result.rows] == [5, 6, 7, 8, None, None, None, None]
    with pytest.raises(UserError, match="the race of tiny is not over"):
        choose_best_rows(result, 1)


@pytest.mark.parametrize(("policy", "left"), [("worst", 4), ("exclude", 4), ("fail", 2)])
def test_seeds_that_diverge_count_as_the_objective_says(stage, policy, left):
    diverging = "space={training.learning_rate: {grid: [0.01, 0.02, 1.0e+30, 1.0e+38]}}"
    state = stage(
        "race",
        *SHORT,
        diverging,
        "search={racing: {first: 2, keep: 0.9}}",
        "seeds=4",
        f"objective.failed_seeds={policy}",
    ).play()
    failed = [configuration for configuration in state.configurations.values() if configuration.seeds_failed]
    survivors = {name for decision in state.decisions for name in decision.survivors}
    assert survivors.isdisjoint(configuration.config_id for configuration in failed)
    assert len(failed) == 2 and {len(configuration.members) for configuration in failed} == {2}


@pytest.mark.slow
def test_the_command_line_runs_extends_confirms_and_reports_a_race(lengthwise, tiny):
    rule = ("--set", SHARE, "--set", "seeds=4", "--set", "training.steps=20")
    plan = lengthwise("plan", tiny, *rule)
    assert "2 seeds of 4 configurations, then 2 seeds of 2 configurations" in " ".join(plan.stdout.split())
    lengthwise.succeeds("run", tiny, "--storage", tiny.parent, *rule)
    sentence = (
        "A race over seeds had 2 seeds of 4 configurations, then 4 seeds of 2 configurations: 12 of 16 members (75 %)."
    )
    folder = tiny.parent / "tiny"
    assert sentence in re.sub("<[^<>]*>", "", (folder / "report.html").read_text())  # percentages stand in spans
    table = pd.read_csv(folder / "race.csv")
    assert table.groupby("round").size().to_dict() == {1: 4, 2: 2} and table["stays"].sum() == 2
    status = lengthwise("status", folder).stdout
    assert "seeds 0-1 of 4 configurations: 2 stay, by median" in status
    assert "seeds 2-3 of 2 configurations: the last round" in status
    lengthwise.refuses("extend", folder, "--configurations", "6", message="allowed: more seeds")
    more = lengthwise.succeeds("extend", folder, "--seeds", "8")
    assert "added: seeds 4-7 of the remaining configurations of the race" in more.stdout
    assert "the race continues after round 2 with its 4 seeds" in more.stdout
    state = SweepState.load(folder)
    assert [len(race_round.new_seeds) for race_round in state.race.rounds] == [2, 2, 4] and members(state) == 16
    first = lengthwise("extend", folder, "--seeds", "+2", "--top", "1")
    assert first.returncode == 0 and "added: seeds 8-9 of #" in first.stdout
    lengthwise.succeeds("confirm", folder, "--top", "1", "--seeds", "2")
    assert SweepState.load(tiny.parent / "tiny-confirm").race is None


def test_what_is_no_race_is_refused(lengthwise, tiny):
    for setting, message in (
        ("search.racing={first: 2}", "has neither keep nor test"),
        ("search.racing={first: 2, keep: 0.5, test: friedman}", "has both keep and test"),
        ("search.racing={first: 4, keep: 0.5}", "there is no round after the first: all 4 seeds are in it"),
        ("search={sampler: tpe, configurations: 4, racing: {first: 2, keep: 0.5}}", "tpe cannot learn from scores"),
        ("claims=claims.yaml", "a race gives seeds by results"),
    ):
        done = lengthwise("validate", tiny, "--set", SHARE, "--set", "seeds=4", "--set", setting)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_round_has_all_seeds_at_most_and_keeps_one_configuration_at_least():
    race = Racing(first=2, keep=1e-7, growth=1.7e308)
    assert race.compute_next_seed_count(2, 16) == 16 and race.count_kept(100) == 1
    assert Racing(first=2, keep=0.5, growth=1.5).compute_next_seed_count(3, 16) == 5


def test_a_sweep_without_a_race_keeps_its_hash_and_a_race_has_one_of_its_own(tiny):
    plain, race = load_sweep(tiny, ["seeds=4"]), load_sweep(tiny, ["seeds=4", SHARE])
    assert "racing" not in plain.resolved()["search"] and plain.spec_hash != race.spec_hash
    assert race.resolved()["search"]["racing"] == {"first": 2, "growth": 2.0, "keep": 0.5}
    tested = load_sweep(tiny, ["seeds=4", "search.racing={first: 2, test: friedman}"])
    assert tested.resolved()["search"]["racing"] == {"first": 2, "growth": 2.0, "test": "friedman", "level": 0.05}


def test_a_race_that_its_budget_stopped_resumes_to_the_same_survivors(lengthwise, tiny, played):
    rule = sets(*WHOLE, SHARE)
    stopped = lengthwise("run", tiny, "--storage", tiny.parent, *rule, "--set", "budget.member_steps=230")
    assert stopped.returncode == 0 and "stopped by its budget" in stopped.stdout
    folder = tiny.parent / "tiny"
    state = SweepState.load(folder)
    assert 0 < len(state.decisions) < 3 and not state.race.has_ended
    lengthwise.succeeds("resume", folder, "--set", "budget.member_steps=null")
    whole = played(*WHOLE, SHARE)
    assert SweepState.load(folder).decisions == whole.decisions


def test_a_list_races_and_python_reads_its_rounds(stage):
    listed = [f"{{training.learning_rate: {rate}}}" for rate in (0.001, 0.003, 0.01, 0.03)]
    search = f"search={{sampler: listed, listed: [{', '.join(listed)}], racing: {{first: 1, keep: 0.5}}}}"
    begun = stage("listed", "space={}", search, "seeds=3", "training.steps=10", "evaluation.every=10")
    state = begun.play()
    table = open_sweep(begun.folder).race
    assert list(table["round"]) == [1, 1, 1, 1, 2, 2, 3]
    assert set(table[table["round"] == 1].query("stays == True")["config_id"]) == set(state.decisions[0].survivors)
    first = member_scores(state)[0]
    assert set(state.decisions[0].survivors) == set(first.nsmallest(2).index)


def test_a_pack_that_was_given_up_and_trained_after_all_changes_no_decision(stage, lose_first_pack, monkeypatch):
    begun = stage("race", *WHOLE, SHARE, "resources.retries=0", pack=2)
    lost = lose_first_pack()
    state = begun.play()
    ((name, _), *_) = state.packs[lost[0]].members
    decisions = state.decisions
    assert decisions[0].values[name] is None and name not in decisions[0].survivors
    monkeypatch.undo()
    with Ledger.open(begun.folder) as ledger:
        ledger.append("retry", pack_ids=lost)
    again = begun.play()
    assert again.decisions == decisions and again.configurations[name].score is not None
    row = next(row for row in summarize(again).rows if row.config_id == name)
    assert row.rounds == 1 and row.rank > len(decisions[0].survivors)


def test_a_race_that_has_not_begun_is_reported(stage, lengthwise):
    begun = stage("tiny", *WHOLE, SHARE)
    assert "A race" not in lengthwise("report", begun.folder).stdout
    status = lengthwise("status", begun.folder)
    assert status.returncode == 0 and "seeds 0-1 of 0 configurations: not decided yet" in status.stdout
