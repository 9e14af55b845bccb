"""Configurations against each other over their seeds: the numbers by hand, who is compared, what failed seeds do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.engine.engine_streams import DATA, INPUTS
from orchestrator.errors import UserError
from orchestrator.report.csv_tables import make_csv_tables
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.seed_comparison_table import make_comparison_columns, make_comparison_records
from orchestrator.results.analysis import compare_orders
from orchestrator.results.comparing import questions
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.comparing.seed_comparisons import (
    AGAINST_FIRST,
    FIRST_TWO,
    MAX_AGAINST_FIRST,
    NO_VALUES,
    PAIRS,
    compare_seeds,
)
from orchestrator.results.make_summary import summarize
from orchestrator.results.pack_environments import find_differing_code

NORMS = [{"model.norm": norm} for norm in ("none", "pre", "post")]
GRID = {"space": {"model.norm": {"grid": ["none", "pre", "post"]}}}


def by_seed(number, seed, average, metric, lengths, step):
    """Later configurations are a little worse, by more in later seeds; beyond length 7 the last one is the lowest."""
    level = 0.1 + 0.01 * number * (1 + seed) + 0.03 * seed
    return level + 0.02 * np.maximum(lengths - 5, 0) - (0.2 if number == 2 else 0.0) * (lengths > 7)


@pytest.fixture(scope="module")
def three(tmp_path_factory, synthetic_sweep):
    return summarize(synthetic_sweep(tmp_path_factory.mktemp("built") / "three", NORMS, 6, by_seed, spec=GRID))


def at(result, group, first=0, second=1):
    names = {row.number: row.config_id for row in result.rows}
    return next(
        comparison
        for comparison in compare_seeds(result)
        if comparison.question.group == group and (comparison.first, comparison.second) == (names[first], names[second])
    )


def test_every_pair_of_a_grid_is_compared_at_every_group_of_lengths(three):
    comparisons = compare_seeds(three)
    groups = [comparison.question.group for comparison in comparisons]
    assert groups == ["test"] * 3 + ["selection"] * 3 + ["trained"] * 3
    assert {(comparison.family, comparison.tests) for comparison in comparisons} == {(PAIRS, 3)}
    for group, lengths in (("trained", range(1, 6)), ("selection", (6, 7)), ("test", range(8, 12))):
        for second in (1, 2):
            comparison = at(three, group, 0, second)
            values = [
                [float(np.mean([np.float32(by_seed(number, seed, "ema", "", np.array([s]), 100)[0]) for s in lengths]))
                 for seed in range(6)]
                for number in (0, second)
            ]  # fmt: skip
            difference = np.subtract(*values)
            assert comparison.question.lengths == tuple(lengths)
            assert comparison.outcome.difference == pytest.approx(np.median(difference))
            assert (comparison.outcome.low, comparison.outcome.high) == pytest.approx(
                (difference.min(), difference.max())
            )
            assert comparison.outcome.level == pytest.approx(0.96875)
            assert (comparison.first_median, comparison.second_median) == pytest.approx(
                tuple(np.median(values, axis=1))
            )
            assert comparison.outcome.p == stats.binomtest(int((difference < 0).sum()), 6).pvalue == 2**-5
            assert comparison.holm_p == 3 * 2**-5
            assert (comparison.first_better_count, comparison.second_better_count) == (
                (0, 6) if (group, second) == ("test", 2) else (6, 0)
            )


def test_better_follows_the_direction(tmp_path, synthetic_sweep):
    spec = {**GRID, "objective.metric": "margin", "objective.direction": "maximize"}
    result = summarize(synthetic_sweep(tmp_path / "up", NORMS, 3, by_seed, spec=spec))
    assert [row.number for row in result.rows] == [2, 1, 0]
    assert at(result, "selection", 2, 0).first_better_count == 3 and at(result, "test", 2, 0).second_better_count == 3


def test_failed_seeds_follow_the_policy(tmp_path, synthetic_sweep):
    by_policy = {}
    for policy in ("worst", "exclude", "fail"):
        lost = {(0, 1): 10, (1, 1): 10, (1, 4): 60}
        spec = {**GRID, "objective.failed_seeds": policy}
        result = summarize(synthetic_sweep(tmp_path / policy, NORMS, 6, by_seed, lost, spec=spec))
        by_policy[policy] = [comparison for comparison in compare_seeds(result) if comparison.question.group == "test"]
    worst = next(pair for pair in by_policy["worst"] if pair.first_failed == 1 and pair.second_failed == 2)
    assert (worst.outcome.n, worst.outcome.ties, worst.outcome.first_smaller_count) == (
        6,
        1,
        5,
    )  # both lost: neither is smaller
    assert worst.outcome.low == -math.inf and math.isnan(worst.outcome.mean)
    left = next(pair for pair in by_policy["exclude"] if pair.first_failed == 1 and pair.second_failed == 2)
    assert left.outcome.n == 4 and math.isfinite(left.outcome.mean)
    assert by_policy["fail"] == []  # one configuration of three is left


def test_nothing_is_said_of_configurations_whose_seeds_all_failed(tmp_path, synthetic_sweep):
    lost = {(number, seed): 10 for number in (0, 1) for seed in range(6)}
    state = synthetic_sweep(tmp_path / "lost", NORMS, 6, by_seed, lost, spec=GRID)
    both, single = (compare_named(state.folder, "0", other).comparisons for other in ("1", "2"))
    assert {(asked.outcome.n, asked.outcome.reason) for asked in both} == {(0, NO_VALUES)}
    assert {asked.outcome.reason for asked in single} == {None}


def test_seeds_of_a_pack_that_died_count_as_failed(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "died", NORMS, 4, by_seed, died=[1], spec=GRID)
    result = summarize(state)
    assert [row.has_failed for row in result.rows] == [False, False, True]
    assert len(compare_seeds(result)) == 3  # a configuration that failed is compared with nothing
    died = compare_named(state.folder, "0", "1").comparisons[0]
    assert (died.first_failed, died.second_failed) == (0, 4) and died.outcome.first_smaller_count == 4


@pytest.mark.slow
def test_who_is_compared(tmp_path, synthetic_sweep):
    rates = [{"training.learning_rate": 0.001 * (n + 1), "model.norm": ("none", "pre")[n % 2]} for n in range(8)]
    searched = {"training.learning_rate": {"log_uniform": [0.001, 0.1]}, "model.norm": {"choice": ["none", "pre"]}}
    drawn = summarize(synthetic_sweep(tmp_path / "drawn", rates, 3, by_seed, spec={"space": searched}))
    assert {comparison.family for comparison in compare_seeds(drawn)} == {FIRST_TWO} and len(compare_seeds(drawn)) == 3
    assert math.isnan(compare_seeds(drawn)[0].outcome.low) and compare_seeds(drawn)[0].tests == 1
    draws = [{"training.learning_rate": rate, **norm} for rate in (0.001, 0.002, 0.003) for norm in NORMS]
    crossed = {"training.learning_rate": searched["training.learning_rate"], **GRID["space"]}
    grid = summarize(synthetic_sweep(tmp_path / "crossed", draws, 3, by_seed, spec={"space": crossed}))
    first = grid.rows[0].values["training.learning_rate"]
    values = {row.config_id: row.values for row in grid.rows}
    of_grid = [comparison for comparison in compare_seeds(grid) if comparison.family == PAIRS]
    assert len(of_grid) == 9
    assert {
        values[name]["training.learning_rate"]
        for comparison in of_grid
        for name in (comparison.first, comparison.second)
    } == {first}
    many = [{"training.learning_rate": 0.001 * (n + 1)} for n in range(25)]
    wide = summarize(synthetic_sweep(tmp_path / "wide", many, 2, by_seed, spec={"search.sampler": "listed"}))
    against = [comparison for comparison in compare_seeds(wide) if comparison.question.group == "test"]
    assert {comparison.family for comparison in against} == {AGAINST_FIRST} and len(against) == MAX_AGAINST_FIRST
    assert {comparison.first for comparison in against} == {wide.rows[0].config_id}
    assert compare_seeds(summarize(synthetic_sweep(tmp_path / "one", NORMS[:1], 3, by_seed, spec=GRID))) == ()


def test_a_technical_key_has_no_column(tmp_path, synthetic_sweep):
    rates = [{"training.learning_rate": rate, "model.norm": norm} for rate in (0.1, 0.2) for norm in ("none", "pre")]
    state = synthetic_sweep(tmp_path / "t", rates, 3, by_seed, spec={"search.sampler": "listed"})
    for measured in state.measurements_by_digest.values():
        measured["technical"] = ["model.norm"]
    result = summarize(state)
    assert list(result.searched) == ["training.learning_rate"]
    assert "model.norm" not in make_csv_tables(result)["report.csv"][0]


def test_packs_of_one_sweep_that_trained_with_other_code_share_nothing_for_sure(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "resumed", NORMS, 6, by_seed, spec=GRID)
    state.environments = {name: {"engine": name, "threads": 1} for name in "ab"}
    for pack, under in zip(state.packs.values(), ("a", "a", "ab"), strict=True):
        pack.ran_under = [(None, name) for name in under]
    result = summarize(state)
    alike, other = (at(result, "test", 0, second) for second in (1, 2))
    assert alike.shared.common == (DATA, INPUTS) and alike.outcome.paired and "engine" not in alike.shared.differing
    assert other.shared.common == () and not other.outcome.paired
    assert other.shared.differing["engine"] == ("a", "a then b (pack pack0002)")
    assert f"{DATA} may differ (engine)" in other.shared.sentence


@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        ({}, {}, []),
        ({"engine": "a"}, {"engine": "a", "module mine": "b"}, []),  # nothing that the first one has was drawn by it
        ({"engine": "a", "module old": "b"}, {"engine": "a", "module new": "c"}, ["module new", "module old"]),
        ({"engine": "a", "mine.py": "b"}, {"engine": "a", "mine.py": "c"}, ["mine.py"]),
        ({}, {"engine": "a"}, ["engine"]),
    ],
)
def test_which_parts_of_the_code_differ(first, second, differing):
    assert sorted(find_differing_code({0: first}, {0: second})) == differing
    assert sorted(find_differing_code({0: second, 1: second}, {2: first})) == differing  # other seeds


def test_two_sweeps_are_compared_and_other_seeds_are_no_pairs(tmp_path, synthetic_sweep):
    here = synthetic_sweep(tmp_path / "here", NORMS, 6, by_seed, spec=GRID)
    synthetic_sweep(tmp_path / "more", NORMS, 9, by_seed, spec=GRID)
    synthetic_sweep(tmp_path / "other", NORMS, range(6, 10), by_seed, spec=GRID)
    more = compare_named(here.folder, "0", f"{tmp_path / 'more'}/1").comparisons[0]
    assert more.outcome.paired and more.outcome.n == 6 and more.unmatched == 3
    assert more.outcome == compare_named(here.folder, "0", "1").comparisons[0].outcome
    other = compare_named(here.folder, "0", f"{tmp_path / 'other'}/1").comparisons[0]
    assert not other.outcome.paired and (other.outcome.n, other.outcome.n_second) == (6, 4)
    assert other.outcome.p == pytest.approx(2 / math.comb(10, 4)) and math.isnan(other.outcome.low)


def test_a_comparison_can_ask_for_another_metric_average_and_lengths(three):
    folder = three.folder
    asked = compare_named(folder, "0", "1", metric="margin", average="raw", lengths="8, 11").comparisons
    (comparison,) = asked
    question = comparison.question
    assert (question.group, question.lengths, question.metric, question.average) == ("asked", (8, 11), "margin", "raw")
    assert question.direction == "maximize" and comparison.first_better_count == 0
    assert comparison.holm_p == comparison.outcome.p


def test_of_a_metric_without_a_better_direction_neither_is_better(three):
    comparisons = compare_named(three.folder, "1", "0", metric="displacement").comparisons
    assert {comparison.question.direction for comparison in comparisons} == {"none"} and comparisons[0].outcome.n == 6
    assert "first better" not in make_cells(comparisons, make_comparison_columns(comparisons))
    for line in make_comparison_records(comparisons):
        assert line["first_better"] is None and line["second_better"] is None and line["ties"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"second": "7"}, "no configuration 7; allowed: #0 to #2"),
        ({"second": "0"}, "are the same configuration"),
        ({"metric": "margni"}, "; did you mean margin?"),
        ({"average": "emma"}, "; did you mean ema?"),
        ({"lengths": "11-13"}, "--lengths '11-13': not evaluated: lengths 12-13; "),
        ({"lengths": "99"}, "(1-11)"),
        ({"lengths": "5-3"}, "--lengths '5-3': the range 5-3 is reversed; "),
        ({"lengths": "a"}, "--lengths 'a'"),
    ],
)
def test_what_is_not_there_is_named(three, words, message):
    names = {"first": "0", "second": "1", **words}
    with pytest.raises(UserError) as caught:
        compare_named(three.folder, names.pop("first"), names.pop("second"), **names)
    assert message in str(caught.value)


def test_tasks_without_a_common_metric_are_told_apart_in_words():
    for allowed, message in (
        (({"kl": 1}, {"exact_match": 1}), "no common metric: kl; exact_match"),
        (
            ({"kl": 1, "loss": 1}, {"loss": 1}),
            "not every configuration has kl",
        ),
    ):
        with pytest.raises(UserError, match=message):
            questions._choose_common("metric", None, "kl", allowed, ("first", "second"))


def test_a_configuration_that_has_not_ended_is_refused(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "going", NORMS, 3, by_seed, spec=GRID, ended=False)
    with pytest.raises(UserError, match="has not ended"):
        compare_named(state.folder, "0", "1")
    assert compare_seeds(summarize(state)) == () and compare_orders(summarize(state)) is None


def test_configurations_of_other_draws_are_not_compared_at_other_grid_points(tmp_path, synthetic_sweep):
    """Each grid point has a drawn key of its own, so equal values do not tell draws apart."""
    space = {
        "model.norm": {"grid": ["none", "pre"]},
        "training.learning_rate": {"log_uniform": [1e-4, 1e-1], "when": {"model.norm": ["none"]}},
        "model.dropout": {"uniform": [0, 0.5], "when": {"model.norm": ["pre"]}},
    }
    values = []
    for draw in range(3):
        values.append({"model.norm": "none", "training.learning_rate": 0.01 / (1 + draw)})
        values.append({"model.norm": "pre", "model.dropout": 0.1 * draw + 0.05})

    def by_norm(number, seed, *rest):
        return by_seed(number // 2 + 5 * (number % 2), seed, *rest)

    result = summarize(synthetic_sweep(tmp_path / "draws", values, 6, by_norm, spec={"space": space}))
    assert [row.number for row in result.rows] == [0, 2, 4, 1, 3, 5]
    numbers = {row.config_id: row.number for row in result.rows}
    compared = {
        (comparison.family, numbers[comparison.first], numbers[comparison.second])
        for comparison in compare_seeds(result)
    }
    assert compared == {(PAIRS, 0, 1), (FIRST_TWO, 0, 2)}
