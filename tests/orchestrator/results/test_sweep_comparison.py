"""Whole sweeps against each other: numbers by brute force, the band's coverage, what is matched and what is paired."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from orchestrator.errors import UserError
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report.sweep_sentences import describe_differing
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.comparing.seed_comparisons import NO_VALUES, UNPAIRED_FAILED, UNPAIRED_INFINITE
from orchestrator.results.comparing.sweep_comparison import (
    TOGETHER,
    compare_sweeps,
    compute_band_level,
)
from orchestrator.results.make_summary import summarize
from orchestrator.statistics.intervals import estimate_median
from search_spaces.grammar.load import parse_sweep
from tests.command_line import REPOSITORY

RATES = [{"training.learning_rate": rate} for rate in (0.001, 0.01, 0.1)]
LOG = {"space": {"training.learning_rate": {"grid": [0.001, 0.01, 0.1]}}}
GROUPS = {"trained": range(1, 6), "selection": (6, 7), "test": range(8, 12)}


def noisy(shift):
    """Curves with noise of their own in every seed; beyond length 7 they are lower by `shift`."""

    def curve(number, seed, average, metric, lengths, step):
        noise = np.random.default_rng([number, seed, int(1000 * shift)]).normal(0, 0.01, len(lengths))
        return 0.3 + 0.02 * number + 0.03 * seed + noise - shift * (lengths > 7)

    return curve


@pytest.fixture(scope="module")
def built(tmp_path_factory, synthetic_sweep):
    """Return the folder of a synthetic sweep, which is written once for the module."""
    storage, known = tmp_path_factory.mktemp("built"), {}

    def build(name, shift, values, seeds, failed, spec):
        key = repr((name, shift, values, seeds, failed, spec))
        if key not in known:
            folder = storage / str(len(known)) / name
            known[key] = synthetic_sweep(folder, values, seeds, noisy(shift), failed, spec=spec).folder
        return known[key]

    return build


@pytest.fixture
def build(built, tmp_path):
    """Build the summary of a synthetic sweep by its name."""

    def build(name, shift=0.0, values=RATES, seeds=12, failed=None, space=LOG, **spec):
        folder = built(name, shift, values, seeds, failed, {**space, **spec})
        return summarize(SweepState.load(Path(shutil.copytree(folder, tmp_path / name))))

    return build


def table(result):
    """The judged values by (learning rate, seed) and length, read with pandas."""
    curves = read_curves(SweepState.load(result.folder), final_only=True)
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    return mine.pivot(index=["training.learning_rate", "seed"], columns="length", values="value").astype(float)


def list_pairs(result):
    """The numbers of matched configurations."""
    return [(first.row.number, second.row.number) for first, second in result.matching.pairs]


def interval(differences, level):
    return stats.quantile_test(differences, p=0.5).confidence_interval(confidence_level=level)


def test_the_best_of_each_sweep_are_compared_though_they_do_not_match(build):
    """Number 0 is the best of each sweep, with the smallest rate in the first and the largest in the second."""
    turned = {"training.learning_rate": {"grid": [0.1, 0.01, 0.001]}}
    first, second = build("first"), build("second", 0.04, values=RATES[::-1], space=turned)
    best = compare_sweeps(first, second).best
    named = compare_named(first.folder, "0", f"{second.folder}/0").comparisons[0]
    assert (best.first, best.second) == (first.rows[0].config_id, second.rows[0].config_id)
    assert first.rows[0].values != second.rows[0].values and [first.rows[0].rank, second.rows[0].rank] == [1, 1]
    assert best.question.group == named.question.group == "test" and best.outcome == named.outcome
    single = build("single", values=RATES[:1], space={"space": {"training.learning_rate": {"grid": [0.001]}}})
    assert compare_sweeps(first, single).best is None
    asked = compare_sweeps(first, second, lengths="9").best
    assert (asked.question.lengths, asked.first, asked.second) == ((9,), best.first, best.second)


def test_best_configurations_that_cannot_be_compared_do_not_prevent_the_comparison_of_others(build):
    rates = [{"training.learning_rate": rate} for rate in (1.0, 0.001, 0.01, 0.1)]
    grid = {"space": {"training.learning_rate": {"grid": [1.0, 0.001, 0.01, 0.1]}}}
    first, second = build("first"), build("second", values=rates, space=grid)
    assert compare_sweeps(first, second).best.second == second.rows[0].config_id
    lacking = replace(second.measurements[second.rows[0].config_id], metrics={})
    other_task = replace(second, measurements={**second.measurements, second.rows[0].config_id: lacking})
    compared = compare_sweeps(first, other_task)
    assert compared.best is None and len(compared.matching.pairs) == 3 and compared.together


def test_numbers_equal_those_of_pandas_and_scipy(build):
    first, second = build("first"), build("second", 0.04, **{"model.norm": "pre"})
    result = compare_sweeps(first, second)
    difference = table(first) - table(second)
    assert result.specification == {"model.norm": ("none", "pre")} and not result.code and not result.environment
    assert (len(result.matching.pairs), result.matching.only_first, result.matching.only_second) == (3, 0, 0)
    for group, lengths in GROUPS.items():
        (together,) = (comparison for comparison in result.together if comparison.question.group == group)
        by_seed = difference[list(lengths)].mean(axis=1).groupby("seed").mean().to_numpy()
        assert together.outcome.n == 12 and together.outcome.difference == pytest.approx(np.median(by_seed))
        low, high = interval(by_seed, 0.95)
        assert (together.outcome.low, together.outcome.high) == pytest.approx((low, high))
        assert together.outcome.p == pytest.approx(stats.binomtest(int((by_seed < 0).sum()), 12).pvalue)
        alone = [comparison for comparison in result.configurations if comparison.question.group == group]
        p = []
        for (_, rows), comparison in zip(difference.groupby(level=0), alone, strict=True):
            values = rows[list(lengths)].mean(axis=1).to_numpy()
            p.append(stats.binomtest(int((values < 0).sum()), 12).pvalue)
            assert comparison.outcome.p == pytest.approx(p[-1]) and comparison.outcome.difference == pytest.approx(
                np.median(values)
            )
        adjusted = np.maximum.accumulate(np.sort(p) * [3, 2, 1]).clip(max=1)
        assert sorted(comparison.holm_p for comparison in alone) == pytest.approx(adjusted)
    level = 1 - 0.05 / 11
    assert [comparison.question.lengths for comparison in result.by_length] == [(length,) for length in range(1, 12)]
    for comparison in result.by_length:
        by_seed = difference[comparison.question.lengths[0]].groupby("seed").mean().to_numpy()
        assert (comparison.outcome.low, comparison.outcome.high) == pytest.approx(tuple(interval(by_seed, level)))
    clear = {comparison.question.lengths[0] for comparison in result.by_length if comparison.outcome.low > 0}
    assert clear == set(GROUPS["test"])  # and nothing differs at the other lengths


def test_the_band_contains_all_medians_at_once():
    """In 95 % of sweeps or more, for independent and for dependent lengths, and with skewed differences."""
    generator, lengths, sweeps = np.random.default_rng(0), 5, 1000
    for n, correlation in ((8, 0.0), (12, 0.0), (12, 0.9)):
        shared, separate = generator.exponential(size=(sweeps, n, 1)), generator.exponential(size=(sweeps, n, lengths))
        values = np.where(generator.random((sweeps, n, 1)) < correlation, shared, separate) - math.log(2)
        missed = 0
        for sample in values:
            intervals = [estimate_median(column, level=compute_band_level(lengths)) for column in sample.T]
            missed += any(interval.low > 0 or interval.high < 0 for interval in intervals)
        assert missed / sweeps < 0.05 + 3 * math.sqrt(0.05 * 0.95 / sweeps)
        assert missed > 0  # an interval that is never wrong would be no interval


def test_a_sweep_and_itself_differ_nowhere(build):
    first = build("same", seeds=10)
    result = compare_sweeps(first, first)
    for comparison in (*result.together, *result.by_length, *result.configurations):
        outcome = comparison.outcome
        assert (outcome.difference, outcome.low, outcome.high) == (0, 0, 0) and outcome.p == 1
    assert result.has_band and not result.specification


def test_six_seeds_have_intervals_and_no_band(build):
    result = compare_sweeps(build("first", seeds=6), build("second", 0.04, seeds=6))
    assert not result.has_band and {comparison.outcome.reason for comparison in result.by_length} == {
        "6 pairs of seeds are too few for an interval (at least 9)"
    }
    assert all(math.isfinite(comparison.outcome.low) for comparison in result.together)
    asked = compare_sweeps(result.first, result.second, lengths="9")
    assert asked.has_band  # one length: 95 %
    assert [comparison.question.group for comparison in asked.together] == ["asked"]


def test_configurations_are_matched_by_their_values_whatever_their_numbers(build):
    first = build("first")
    values = [RATES[2], {"training.learning_rate": 0.5}, RATES[0]]
    result = compare_sweeps(first, build("second", values=values))
    assert list_pairs(result) == [(0, 2), (2, 0)]
    assert (result.matching.only_first, result.matching.only_second) == (1, 1)
    with pytest.raises(UserError, match=r"match in the searched keys \(training.learning_rate\)") as none:
        compare_sweeps(first, build("other", values=[{"training.learning_rate": 0.7}]))
    assert "training.learning_rate 0.1 / 0.7; " in str(none.value)  # the nearest two
    verb, folder, *names = str(none.value).rpartition("lengthwise ")[2].split()
    assert verb == "compare" and compare_named(Path(folder), *names).comparisons  # the command as it is printed

    # No command that would be refused: these are judged at different evaluations.
    best = build("best", values=[{"training.learning_rate": 0.7}], **{"objective.evaluation": "best"})
    with pytest.raises(UserError, match="match in the searched keys") as none:
        compare_sweeps(first, best)
    assert "lengthwise compare" not in str(none.value)


def test_a_key_that_one_sweep_searched_has_the_fixed_value_of_the_other(build):
    norms = [{**rate, "model.norm": norm} for rate in RATES for norm in ("none", "pre")]
    space = {"space": {**LOG["space"], "model.norm": {"grid": ["none", "pre"]}}}
    result = compare_sweeps(build("wide", values=norms, space=space), build("narrow", **{"model.norm": "pre"}))
    assert list_pairs(result) == [(1, 0), (3, 1), (5, 2)]
    assert result.matching.keys == ("model.norm", "training.learning_rate") and result.matching.only_first == 3


def drawn_sweep(build, name, *removed):
    """Build a sweep with the draws of a search without some keys."""
    text = (REPOSITORY / "search_spaces" / "quickstart.yaml").read_text()
    spec = parse_sweep(text, "quickstart.yaml", [f"space.{key}=null" for key in removed])
    values = [draw.values for draw in draw_sample(spec, 4)]
    return build(name, values=values, seeds=6, space={"space": {key: {"choice": [0]} for key in spec.space}})


def test_a_key_taken_out_of_a_search_leaves_the_keys_before_it_to_match_by(build):
    whole = drawn_sweep(build, "whole")
    result = compare_sweeps(whole, drawn_sweep(build, "without", "model.dropout"))
    assert list_pairs(result) == [(n, n) for n in range(4)]
    before = ("training.batch_size", "training.learning_rate", "training.weight_decay")
    assert result.matching.keys == before
    assert result.matching.unmatched_keys == ("model.dropout", "training.averages.ema.decay")
    for left, right in result.matching.pairs:
        assert all(left.row.values[key] == right.row.values[key] for key in before)
    with pytest.raises(UserError, match="match in the searched keys"):
        compare_sweeps(whole, drawn_sweep(build, "other", "training.learning_rate"))  # batch_size tells none apart


def test_shared_seeds_alone_are_paired_and_others_are_no_pairs(build):
    first = build("first", seeds=8)
    more = compare_sweeps(first, build("more", seeds=12)).together[0]
    assert more.outcome.paired and (more.outcome.n, more.unmatched) == (8, 4)
    fresh = compare_sweeps(first, build("fresh", seeds=range(20, 30)))
    assert {comparison.outcome.paired for comparison in fresh.together} == {False} and not fresh.has_band
    both = (fresh.together[0].outcome.n, fresh.together[0].outcome.n_second)
    assert both == (8, 10) and fresh.together[0].family == TOGETHER


def test_sweeps_of_other_code_share_nothing_and_are_not_paired(build):
    first, second = build("first"), build("second")
    other_code = {
        name: replace(provenance, code={seed: {"engine": "changed"} for seed in range(12)})
        for name, provenance in second.provenance.items()
    }
    result = compare_sweeps(first, replace(second, provenance=other_code))
    assert result.code == {"engine": (None, "changed")}
    assert not any(
        comparison.outcome.paired for comparison in (*result.together, *result.configurations, *result.by_length)
    )
    groups = [table(result)[list(range(8, 12))].mean(axis=1).groupby("seed").mean() for result in (first, second)]
    test = stats.mannwhitneyu(*groups, method="exact")
    assert result.together[0].outcome.p == pytest.approx(test.pvalue)


@pytest.mark.slow
def test_environments_of_packs_are_compared(build):
    first, second = build("first"), build("second")
    sides = []
    for result, threads in ((first, (1, 1)), (second, (1, 2))):
        state = SweepState.load(result.folder)
        state.environments = {str(n): {"threads": n, "torch": "2", "engine": "e"} for n in threads}
        for pack, n in zip(state.packs.values(), (*threads, 1), strict=True):
            pack.ran_under = [(None, str(n))]
        sides.append(summarize(state))
    assert compare_sweeps(*sides).environment == {"threads": ("1", "1 and 2")}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["worst", "exclude", "fail"])
def test_failed_seeds_follow_the_policy(build, policy):
    spec = {"objective.failed_seeds": policy}
    lost = {(0, 3): 10, (2, 5): 60}
    first, second = build("first", failed=lost, **spec), build("second", 0.04, failed={(0, 3): 10}, **spec)
    comparison = compare_sweeps(first, second).together[0]
    assert (comparison.first_seeds, comparison.unmatched) == (36, 0)
    assert (comparison.first_failed, comparison.second_failed) == (2, 1)
    difference = (table(first) - table(second))[list(range(8, 12))].mean(axis=1, skipna=False)
    if policy == "fail":
        assert comparison.outcome.n == 0 and "objective.failed_seeds: fail" in str(comparison.outcome.reason)
        return
    if policy == "worst":
        difference = difference.copy()
        difference.loc[(0.001, 3)], difference.loc[(0.1, 5)] = 0.0, math.inf  # both failed; the first alone
    by_seed = difference.groupby("seed").mean()
    assert comparison.outcome.n == 12 and comparison.outcome.difference == pytest.approx(by_seed.median())
    low, high = interval(by_seed.to_numpy(), 0.95)
    assert (comparison.outcome.low, comparison.outcome.high) == pytest.approx((low, high))


def test_nothing_is_said_of_sweeps_whose_seeds_all_failed(build):
    all_failed = {(number, seed): 10 for number in range(3) for seed in range(3)}
    first, second = (build(name, seeds=3, failed=all_failed) for name in ("first", "second"))
    together = compare_sweeps(first, second).together
    assert together and {(comparison.outcome.n, comparison.outcome.reason) for comparison in together} == {
        (0, NO_VALUES)
    }
    some = compare_sweeps(first, build("some", seeds=3)).together
    assert NO_VALUES not in {comparison.outcome.reason for comparison in some}


def test_unfinished_configurations_are_left_out_and_counted(build, tmp_path, synthetic_sweep):
    first = build("first")
    unfinished = synthetic_sweep(tmp_path / "unfinished", RATES, 12, noisy(0.0), spec=LOG, ended=False)
    with pytest.raises(UserError, match=rf"no common configuration has ended in both; .*: {unfinished.folder}$"):
        compare_sweeps(first, summarize(unfinished))
    rows = tuple(replace(row, is_complete=row.number != 1) for row in first.rows)
    result = compare_sweeps(first, replace(first, rows=rows))
    assert (len(result.matching.pairs), result.matching.unfinished, result.matching.only_first) == (2, 1, 0)


def test_values_of_lists_and_parts_are_matched(build):
    values = [{"model.dropout_sites": sites} for sites in (["attention"], ["attention", "residual"])]
    space = {"space": {"model.dropout_sites": {"grid": [["attention"], ["attention", "residual"]]}}}
    result = compare_sweeps(
        build("lists", values=values, space=space), build("again", values=values[::-1], space=space)
    )
    assert list_pairs(result) == [(0, 1), (1, 0)]
    assert result.matching.keys == ("model.dropout_sites",)


def test_a_part_that_is_drawn_by_its_name_is_matched_with_the_fixed_one(build):
    names = [{"training.schedule": {"name": name}} for name in ("constant", "cosine")]
    drawn = build("drawn", values=names, space={"space": {"training.schedule": {"grid": ["constant", "cosine"]}}})
    rows = tuple(
        replace(row, values={"training.schedule": row.values["training.schedule"]["name"]}) for row in drawn.rows
    )
    fixed = build("fixed", values=[{}], space={"training.schedule": {"name": "cosine"}})
    result = compare_sweeps(replace(drawn, rows=rows), fixed)
    assert list_pairs(result) == [(1, 0)]


def levels(number, seed, average, metric, lengths, step):
    return (0.1 if number == 0 else 10.0) + 0.001 * seed + 0.0 * lengths


@pytest.mark.parametrize("paired", [True, False])
def test_configurations_without_their_failed_seeds_are_not_mixed(tmp_path, synthetic_sweep, paired):
    """Of one configuration five of eight seeds failed in the first sweep; without them both sweeps are alike."""
    spec = {"objective.failed_seeds": "exclude", "space": {"model.dropout": {"grid": [0.1, 0.2]}}}
    values, failed = [{"model.dropout": 0.1}, {"model.dropout": 0.2}], {(1, seed): 10 for seed in range(5)}
    first = synthetic_sweep(tmp_path / "first", values, 8, levels, failed, spec={**spec, "task.vocabulary": 12})
    other = {"task.vocabulary": 12, "training.weight_decay": 0.02} if paired else {"task.vocabulary": 13}
    second = synthetic_sweep(tmp_path / "second", values, 8, levels, spec={**spec, **other})
    comparison = compare_sweeps(summarize(first), summarize(second)).together[0]
    assert comparison.outcome.paired == paired
    if paired:
        assert (comparison.outcome.difference, comparison.first_median) == (0.0, comparison.second_median)
    else:
        assert math.isnan(comparison.outcome.difference)
        assert "cannot be averaged without it" in str(comparison.outcome.reason)


def test_a_single_matched_pair_gives_the_same_alone_and_together(tmp_path, synthetic_sweep):
    """Their seeds are not paired, and two of them failed."""
    spec = {"objective.failed_seeds": "exclude", "space": {"model.dropout": {"grid": [0.1]}}}
    values, failed = [{"model.dropout": 0.1}], {(0, seed): 10 for seed in range(2)}
    first = synthetic_sweep(tmp_path / "first", values, 8, levels, failed, spec={**spec, "task.vocabulary": 12})
    second = synthetic_sweep(tmp_path / "second", values, 8, levels, spec={**spec, "task.vocabulary": 13})
    comparison = compare_sweeps(summarize(first), summarize(second))
    (alone, *_), (together, *_) = comparison.configurations, comparison.together
    assert not together.outcome.paired and (together.outcome.n, together.outcome.n_second) == (6, 8)
    assert (together.outcome.difference, together.outcome.p) == (alone.outcome.difference, alone.outcome.p)


def never_reached(number, seed, average, metric, lengths, step):
    return np.where(seed == 1, np.inf, levels(number, seed, average, metric, lengths, step))


@pytest.mark.parametrize(
    ("curve", "failed", "reason"),
    [(never_reached, {}, UNPAIRED_INFINITE), (levels, {(1, 1): 10}, UNPAIRED_FAILED)],
)
def test_an_infinite_value_is_no_failed_seed(tmp_path, synthetic_sweep, curve, failed, reason):
    values, space = [{"model.dropout": 0.1}, {"model.dropout": 0.2}], {"model.dropout": {"grid": [0.1, 0.2]}}
    spec = {"space": space, "objective.failed_seeds": "worst"}
    first = synthetic_sweep(tmp_path / "first", values, 8, curve, failed, spec={**spec, "task.vocabulary": 12})
    second = synthetic_sweep(tmp_path / "second", values, 8, levels, spec={**spec, "task.vocabulary": 13})
    comparison = compare_sweeps(summarize(first), summarize(second)).together[0]
    assert not comparison.outcome.paired and comparison.outcome.reason == reason
    assert comparison.first_failed == len(failed)


def test_unpaired_sweeps_are_better_by_their_medians(tmp_path, synthetic_sweep):
    values, spec = [{"model.dropout": 0.1}], {"space": {"model.dropout": {"grid": [0.1]}}}

    def build(name, level, vocabulary):
        curve = lambda number, seed, average, metric, lengths, step: level + 0.0 * lengths  # noqa: E731
        return synthetic_sweep(tmp_path / name, values, 8, curve, spec={**spec, "task.vocabulary": vocabulary})

    low, high = summarize(build("low", 0.1, 12)), summarize(build("high", 0.5, 13))
    for first, second in ((low, high), (high, low)):
        (sentence,) = describe_differing(compare_sweeps(first, second))
        assert "#0" in sentence and "low is better" in sentence and "high is better" not in sentence
