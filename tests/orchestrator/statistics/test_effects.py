"""Effects of hyperparameters on planted scores, and on samples too small for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.partial_effects import compute_partial_effects, fit_least_squares
from orchestrator.statistics.effects.rank_effects import compute_effects
from orchestrator.statistics.effects.within import compare_within

inf, nan = math.inf, math.nan


def planted(n: int = 40, seed: int = 0) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Scores that fall with the logarithm of the rate, are worse with norm b, and do not know about width."""
    rng = np.random.default_rng(seed)
    values, scores = {}, {}
    for number in range(n):
        rate, norm, width = 10 ** rng.uniform(-4, -1), str(rng.choice(["a", "b", "c"])), int(rng.choice([16, 32]))
        values[f"c{number}"] = {"rate": rate, "norm": norm, "width": width}
        scores[f"c{number}"] = -math.log10(rate) + (1.5 if norm == "b" else 0.0) + 0.3 * rng.normal()
    return values, scores


def test_effects_find_what_was_planted() -> None:
    values, scores = planted()
    rate, norm, width = compute_effects(values, scores)
    assert (rate.key, rate.kind, rate.n, rate.distinct) == ("rate", "numeric", 40, 40)
    order = list(scores)
    expected = stats.spearmanr([values[c]["rate"] for c in order], [scores[c] for c in order]).statistic
    assert rate.correlation == pytest.approx(expected)
    assert -1 < rate.low < rate.correlation < rate.high < -0.3
    assert not rate.medians
    assert (norm.key, norm.kind, norm.n) == ("norm", "categorical", 40)
    groups = {name: [scores[c] for c in order if values[c]["norm"] == name] for name in "abc"}
    assert norm.medians == pytest.approx({name: np.median(group) for name, group in groups.items()})
    assert norm.counts == {name: len(group) for name, group in groups.items()}
    assert norm.p == pytest.approx(stats.kruskal(*groups.values()).pvalue)
    assert norm.p < 0.01
    assert (width.kind, list(width.medians), width.low < 0 < width.high) == ("numeric", ["16", "32"], True)
    assert all(effect.reason is None for effect in (rate, norm, width))


def test_a_best_value_in_the_middle_has_a_correlation_of_its_own() -> None:
    rng = np.random.default_rng(3)
    rates = 10 ** rng.uniform(-4, -2, 20)
    values = {f"c{i}": {"rate": float(rate), "layers": i % 4} for i, rate in enumerate(rates)}
    scores = {f"c{i}": abs(math.log10(rate) + 3) + 0.02 * rng.normal() for i, rate in enumerate(rates)}
    rate, layers = compute_effects(values, scores)
    distance = np.abs(stats.rankdata(rates) - 10.5)
    assert rate.middle.value == pytest.approx(stats.spearmanr(distance, list(scores.values())).statistic)
    assert rate.middle.low > 0.5 and rate.low < 0 < rate.high
    assert math.isnan(layers.middle.value), "four values are too few to have a middle"
    adaptive = compute_effects(values, scores, Design(kind="adaptive"))
    assert math.isnan(adaptive[0].middle.low)


def test_failed_configurations_are_dropped_and_counted_and_infinite_ones_rank_last() -> None:
    values = {f"c{n}": {"x": n, "norm": "ab"[n % 2]} for n in range(8)}
    scores: dict[str, float | None] = {f"c{n}": float(n) for n in range(8)}
    scores |= {"c0": None, "c1": nan, "c7": inf}
    x, norm = compute_effects(values, scores)
    assert (x.n, x.dropped, x.correlation) == (6, 2, pytest.approx(1.0))
    assert (norm.n, norm.dropped, norm.medians) == (6, 2, {"a": 4.0, "b": 5.0})
    assert not math.isnan(norm.p)


def test_a_conditional_hyperparameter_is_judged_where_it_is() -> None:
    values, scores = planted(20)
    for name in list(values)[:8]:
        values[name]["clip"] = float(name[1:])
    counts = {effect.key: effect.n for effect in compute_effects(values, scores)}
    assert (counts["clip"], counts["rate"]) == (8, 20)
    clip = compute_partial_effects(values, scores)["clip"]
    assert clip.reason == "missing in some configurations" and not clip.slopes


def test_values_of_mixed_kinds_are_categories_in_order() -> None:
    mixed = [None, 10, 2, 1.5, True, [1, 2], "x"]
    values = {f"c{n}": {"clip": value} for n, value in enumerate(mixed)}
    (row,) = compute_effects(values, {f"c{n}": float(n) for n in range(7)})
    assert row.kind == "categorical"
    assert list(row.medians) == ["1.5", "2", "10", "[1, 2]", "null", "true", "x"]


def test_different_values_of_any_kind_are_different_groups() -> None:
    mixed = [1, "1", None, "null", True, "true", "[1]", [1], '"1"', "a"]
    values = {f"c{n}": {"clip": value} for n, value in enumerate(mixed)}
    (row,) = compute_effects(values, dict.fromkeys(values, 0.1))
    assert row.distinct == len(mixed)
    values = {f"c{n}": {"clip": value} for n, value in enumerate([1, "1", None, "null", True, "true"])}
    (row,) = compute_effects(values, dict.fromkeys(values, 0.1))
    assert row.counts == {"1": 1, '"1"': 1, '"null"': 1, '"true"': 1, "null": 1, "true": 1}


def test_a_number_is_written_shortly_and_no_two_numbers_alike() -> None:
    values = {"a": 1e12, "b": 1e6, "c": 0.05, "d": 1.0, "e": 123456789.0, "f": 1e-05, "g": 123456000000.5, "h": 0.0}
    (row,) = compute_effects({name: {"k": value} for name, value in values.items()}, dict.fromkeys(values, 0.1))
    assert list(row.counts) == ["0.0", "1e-05", "0.05", "1.0", "1e+06", "123456789.0", "123456000000.5", "1e+12"]


def test_many_values_have_no_medians() -> None:
    values = {f"c{n}": {"name": f"v{n % 9}"} for n in range(18)}
    (row,) = compute_effects(values, {f"c{n}": float(n) for n in range(18)})
    assert (row.distinct, row.medians, row.counts) == (9, {}, {})


def test_partial_effects_separate_what_moves_together() -> None:
    """y follows x alone; z follows x closely, so that by itself it seems to matter."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    values = {f"c{n}": {"z": x[n] + 0.5 * rng.normal(), "x": x[n], "norm": "ab"[n % 2]} for n in range(60)}
    scores = {f"c{n}": 2 * x[n] + 0.5 * rng.normal() for n in range(60)}
    alone, _, _ = compute_effects(values, scores)
    assert alone.key == "z" and alone.low > 0.5
    partial = compute_partial_effects(values, scores)
    assert list(partial) == ["z", "x", "norm"]
    (z,), (row,), (norm,) = (effect.slopes for effect in partial.values())
    assert z.low < 0 < z.high or abs(z.coefficient) < 0.2
    assert row.low > 0.5
    assert (norm.value, norm.low < 0 < norm.high) == ("b", True)
    assert {effect.n for effect in partial.values()} == {60}


def test_partial_effects_are_least_squares_on_ranks() -> None:
    values, scores = planted(30, seed=3)
    partial = compute_partial_effects(values, scores)
    slopes = [slope for effect in partial.values() for slope in effect.slopes]

    def standard(column: list[float]) -> np.ndarray:
        ranks = stats.rankdata(column)
        return (ranks - ranks.mean()) / ranks.std()

    order = list(scores)
    design = np.column_stack([
        np.ones(30), standard([values[c]["rate"] for c in order]), *([float(values[c]["norm"] == name) for c in order]
        for name in "bc"), standard([values[c]["width"] for c in order]),
    ])  # fmt: skip
    expected, (residual,), *_ = np.linalg.lstsq(design, standard([scores[c] for c in order]), rcond=None)
    np.testing.assert_allclose([slope.coefficient for slope in slopes], expected[1:])
    error = math.sqrt(residual / 25 * np.linalg.inv(design.T @ design)[1, 1])
    (rate,) = partial["rate"].slopes
    assert rate.high - rate.low == pytest.approx(2 * stats.t.ppf(0.975, 25) * error)


def drawn(n: int, **values: Any) -> dict[str, dict[str, Any]]:
    """Values of n configurations, each hyperparameter by a function of the number."""
    return {f"c{number}": {name: value(number) for name, value in values.items()} for number in range(n)}


def scored(n: int, score: Any) -> dict[str, float | None]:
    return {f"c{number}": score(number) for number in range(n)}


ONE = {"x": lambda _: 1, "k": lambda _: "a"}


TWO = {"x": lambda n: n, "k": lambda n: "ab"[n % 2]}


@pytest.mark.parametrize(
    ("values", "scores", "reason"),
    [
        ({}, {}, None),
        (drawn(1, **ONE), scored(1, float), "1 configuration is too few"),
        (drawn(1, **ONE), scored(1, lambda _: None), None),
        (drawn(1, **ONE), {}, None),
        (drawn(6, **ONE), scored(6, float), "constant"),
        (drawn(8, **TWO), scored(8, lambda _: 1.0), "the score is constant"),
        (drawn(8, **TWO), scored(8, lambda _: inf), "the score is constant"),
        (drawn(6, **TWO), scored(6, lambda _: nan), None),
        (drawn(3, **TWO), scored(3, float), "3 configurations are too few for 2 effects at once (at least 7)"),
        (
            drawn(9, x=lambda n: n, y=lambda n: 3 * n),
            scored(9, lambda n: n % 5),
            "hyperparameters are collinear: effects cannot be separated",
        ),
        (
            drawn(9, x=lambda n: n, y=lambda n: 5 * n % 9),
            scored(9, lambda n: n**2),
            "exact fit: no residual error to estimate",
        ),
    ],
)
def test_tiny_samples_give_reasons_and_no_warnings(
    values: dict[str, dict[str, Any]], scores: dict[str, float | None], reason: str | None
) -> None:
    alone, partial = compute_effects(values, scores), compute_partial_effects(values, scores)
    for effect in alone:
        if effect.kind == "numeric" and math.isnan(effect.low):
            assert effect.reason
        if effect.kind == "categorical" and math.isnan(effect.p):
            assert effect.reason
    for held in partial.values():
        assert not held.slopes
        assert held.reason
        if reason is not None:
            assert held.reason == reason
    assert [effect.key for effect in alone] == list(partial)


# What is independent of what ------------------------------------------------------------------------------------------


def grid_of_draws(draws: int = 9) -> tuple[dict[str, dict[str, Any]], dict[str, float], Design]:
    """Draws of a rate at three norms: b is worse by 1, c by 2, and draws differ by 10."""
    values, scores, draw = {}, {}, {}
    for i in range(draws):
        for j, norm in enumerate("abc"):
            name = f"c{3 * i + j}"
            values[name] = {"norm": norm, "rate": float(i)}
            scores[name] = 10.0 * (i * 4 % 9) + j + 0.1 * (i % 3)
            draw[name] = i
    return values, scores, Design(kind="grid_by_random", draws=draw, grid=frozenset(["norm"]))


def test_grid_values_are_compared_within_each_draw_and_draws_are_counted() -> None:
    values, scores, design = grid_of_draws()
    norm, rate = compute_effects(values, scores, design)
    assert (norm.unit, norm.n, norm.configurations, norm.test) == ("draws", 9, 27, "Friedman")
    compared = [(difference.value, difference.against, difference.n) for difference in norm.differences]
    assert compared == [("b", "a", 9), ("c", "a", 9)]
    assert [difference.median for difference in norm.differences] == pytest.approx([1.0, 2.0])
    assert all(difference.low > 0 for difference in norm.differences) and norm.p < 1e-5
    assert (rate.n, rate.kind) == (9, "numeric")
    order = stats.spearmanr(range(9), [10.0 * (i * 4 % 9) + 0.1 * (i % 3) for i in range(9)]).statistic
    assert rate.correlation == pytest.approx(order) and rate.low < 0 < rate.high
    independent, _ = compute_effects(values, scores)
    assert independent.p > 0.5, "differences between draws hide it where configurations are taken for independent"


@given(st.lists(st.integers(-3, 3), min_size=6, max_size=24))
def test_the_p_of_two_values_never_contradicts_its_interval(differences: list[int]) -> None:
    values = {f"{n}{value}": {"norm": value} for n in range(len(differences)) for value in "ab"}
    scores = {f"{n}{value}": difference * (value == "b") for n, difference in enumerate(differences) for value in "ab"}
    draw = {name: int(name[:-1]) for name in values}
    (norm,) = compute_effects(values, scores, Design(kind="grid_by_random", draws=draw, grid=frozenset(["norm"])))
    (difference,) = norm.differences
    assert (norm.p <= 0.05) == (difference.low > 0 or difference.high < 0)


def test_numbers_of_a_grid_are_correlated_within_each_draw() -> None:
    values, scores, design = grid_of_draws()
    values = {
        name: {"depth": "abc".index(str(configuration["norm"])), "rate": configuration["rate"]}
        for name, configuration in values.items()
    }
    design = Design(kind="grid_by_random", draws=design.draws, grid=frozenset(["depth"]))
    depth, _ = compute_effects(values, scores, design)
    assert (depth.correlation, depth.low, depth.high, depth.n) == (1.0, 1.0, 1.0, 9)


def test_a_draw_without_a_score_at_one_grid_point_is_left_out_of_that_comparison() -> None:
    values, scores, design = grid_of_draws()
    lost: dict[str, float | None] = {**scores, "c0": None, "c4": inf}
    norm, rate = compute_effects(values, lost, design)
    b, c = norm.differences
    assert (b.n, c.n, b.median, rate.n, norm.dropped) == (8, 8, pytest.approx(1.0), 9, 1)


def test_slopes_are_over_draws() -> None:
    values, scores, design = grid_of_draws(12)
    for name, configuration in values.items():
        configuration["other"] = design.draws[name] * 5 % 12
    partial = compute_partial_effects(values, scores, design)
    assert partial["norm"].reason == "compared within draws"
    assert (partial["rate"].n, partial["other"].n) == (12, 12)


def test_a_list_is_compared_seed_by_seed() -> None:
    values = {"a": {"rate": 1, "norm": "x"}, "b": {"rate": 2, "norm": "x"}, "c": {"rate": 3, "norm": "y"}}
    members = {name: {s: 10.0 * s + index for s in range(7)} for index, name in enumerate("abc")}
    scores = {name: 30.0 + index for index, name in enumerate("abc")}
    members["c"][6] = nan
    rate, norm = compute_effects(values, scores, Design(kind="fixed"), members)
    assert (rate.unit, rate.n, rate.correlation, rate.low) == ("seeds", 6, 1.0, 1.0)
    assert [difference.n for difference in rate.differences] == [7, 6] and not rate.matched
    (difference,) = norm.differences
    assert (difference.median, difference.low, difference.high) == (1.5, 1.5, 1.5)
    assert norm.test == "sign test" and norm.p == pytest.approx(stats.binomtest(6, 6).pvalue)
    with pytest.raises(ValueError, match="score of each member"):
        compute_effects(values, scores, Design(kind="fixed"))


def test_no_test_where_a_value_has_one_configuration() -> None:
    values = {f"c{n}": {"norm": "a" if n else "b"} for n in range(12)}
    (row,) = compute_effects(values, {f"c{n}": float(n) for n in range(12)})
    assert math.isnan(row.p) and row.reason == "a value has only one of the configurations"


def test_a_unit_whose_contexts_differ_by_opposite_infinities_has_no_difference() -> None:
    units = [{("A",): {"x": [1.0], "y": [inf]}, ("B",): {"x": [inf], "y": [1.0]}} for _ in range(6)]
    difference = compare_within(units, ["x", "y"], numeric=False, unit="seeds").differences[0]
    assert (difference.n, math.isnan(difference.p), math.isnan(difference.median)) == (0, True, True)


def test_friedman_of_one_order_in_all_units_allows_for_its_ties() -> None:
    many = list(map(float, range(200)))
    for row, orders in (([1.0, inf, inf], 3), ([1.0, 2.0, 3.0], 6), ([1.0, 1.0, 2.0, 2.0], 6), (many, inf)):
        units = [{(): {str(index): [value] for index, value in enumerate(row)}} for _ in range(6)]
        labels = [str(index) for index in range(len(row))]
        assert compare_within(units, labels, numeric=False, unit="seeds").p == pytest.approx(orders**-5.0)


def test_friedmans_n_counts_the_units_with_all_values() -> None:
    """Four units lack the third value, so they count for the difference of the first two alone."""
    units = [
        {(): {"x": [1.0 + seed], "y": [2.0 + seed], **({"z": [0.5 + seed]} if seed > 3 else {})}} for seed in range(11)
    ]
    within = compare_within(units, ["x", "y", "z"], numeric=False, unit="seeds")
    assert (within.test, within.n, [difference.n for difference in within.differences]) == ("Friedman", 7, [11, 7])
    assert within.p == pytest.approx(6**-6.0)  # one order of three values in seven units


def test_a_number_drawn_alone_has_no_slope_beside_its_correlation() -> None:
    values: dict[str, dict[str, Any]] = {f"c{n}": {"rate": n} for n in range(12)}
    scores = {f"c{n}": float((n * 5) % 12) for n in range(12)}
    assert compute_partial_effects(values, scores)["rate"].slopes == ()
    for n, configuration in enumerate(values.values()):
        configuration["kind"] = "ab"[n % 2]
    assert all(effect.slopes for effect in compute_partial_effects(values, scores).values())


def test_a_value_of_which_every_seed_failed_does_not_hide_the_others() -> None:
    values = {name: {"dropout": rate} for name, rate in (("a", 0.0), ("b", 0.1), ("c", 0.2))}
    seeds = {"a": 0.5, "b": nan, "c": 0.4}
    members = {name: {seed: level + 0.001 * seed for seed in range(8)} for name, level in seeds.items()}
    scores = {"a": 0.5, "b": inf, "c": 0.4}
    (effect,) = compute_effects(values, scores, Design(kind="fixed"), members)
    assert (effect.matched, effect.dropped, effect.reason) == (True, 1, None)
    (difference,) = effect.differences
    assert (difference.value, difference.median, difference.n) == ("0.2", pytest.approx(-0.1), 8)


@given(st.integers(0, 1000), st.integers(6, 60), st.integers(0, 4))
def test_least_squares_are_those_of_statsmodels(seed: int, n: int, count: int) -> None:
    random = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), *random.normal(size=(count, n))])
    response = random.normal(size=n) + design.sum(axis=1)
    coefficients, low, high, p, squares = fit_least_squares(response, design)
    fit = OLS(response, design).fit()
    expected = [fit.params, *fit.conf_int(alpha=0.05).T, fit.pvalues]
    for ours, theirs in zip([coefficients, low, high, p], expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert squares == pytest.approx(fit.ssr, rel=1e-12)


@pytest.mark.parametrize("scored", [0, 1, 2])
def test_values_that_differ_are_not_constant_with_few_scores(scored: int) -> None:
    values = {"a": {"rate": 1, "width": 3, "depth": 2}, "b": {"rate": 2, "width": 5, "depth": 2}}
    scores = dict(list({"a": 1.0, "b": 2.0}.items())[:scored])
    partial = compute_partial_effects(values, scores)
    assert [key for key, effect in partial.items() if effect.reason == "constant"] == (["depth"] if scored == 2 else [])
    assert all(effect.reason and effect.n == scored and not effect.slopes for effect in partial.values())
