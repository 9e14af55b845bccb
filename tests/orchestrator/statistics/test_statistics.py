"""Statistics against numpy, scipy and brute force, on planted effects, and on samples too small for them."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.record.curves import read_curves
from orchestrator.record.state import SweepState
from orchestrator.results.objective import quartiles
from orchestrator.statistics.bootstrap import bootstrap_clustered_median
from orchestrator.statistics.effects import EFFECT_COLUMNS, PARTIAL_COLUMNS
from orchestrator.statistics.medians import (
    MEDIAN_CURVE_COLUMNS,
    bootstrap_median,
    effects,
    median_curves,
    paired,
    partial_effects,
    spearman,
)

inf, nan = math.inf, math.nan
measured = st.floats(-1000, 1000, width=32) | st.sampled_from([nan, nan, inf])


def curves_of(values: dict[tuple[str, str, int, int, int], float]) -> pd.DataFrame:
    """Tidy curves from {(config_id, metric, length, step, seed): value}."""
    rows = [(name, seed, "ema", metric, length, step, v) for (name, metric, length, step, seed), v in values.items()]
    columns = ["config_id", "seed", "average", "metric", "length", "step", "value"]
    return pd.DataFrame(rows, columns=columns).astype({"value": np.float32})


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["c1", "c0"]), st.sampled_from(["tv", "margin", "other"]), st.sampled_from([3, 1]),
            st.sampled_from([100, 50]), st.integers(0, 5),
        ),
        measured,
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_median_curves_by_brute_force(
    values: dict[tuple[str, str, int, int, int], float], worst: bool, categorical: bool
) -> None:
    directions = {"tv": "minimize", "margin": "maximize", "other": "none"} if worst else {}
    curves = curves_of(values)
    if categorical:
        curves = curves.astype({"config_id": "category", "average": "category", "metric": "category"})
    medians = median_curves(curves, directions)
    assert tuple(medians.columns) == MEDIAN_CURVE_COLUMNS
    expected = {}
    for group in {key[:4] for key in values}:
        seeds = np.array([value for key, value in values.items() if key[:4] == group], dtype=np.float64)
        alive, failed = seeds[~np.isnan(seeds)], int(np.isnan(seeds).sum())
        stand_in = {"minimize": inf, "maximize": -inf}.get(directions.get(group[1], "none"))
        counted = alive if stand_in is None else np.concatenate([alive, [stand_in] * failed])
        three = quartiles(counted, stand_in or inf) if len(alive) else (nan, nan, nan)
        expected[group] = (three[1], three[0], three[2], len(seeds), failed)
    got = {
        (row.config_id, row.metric, row.length, row.step): (row.median, row.q25, row.q75, row.seeds, row.failed)
        for row in medians.itertuples()
    }
    assert got.keys() == expected.keys()
    for group in expected:
        np.testing.assert_array_equal(got[group], expected[group])
    order = ["config_id", "average", "metric", "step", "length"]
    assert medians[order].astype({"config_id": str, "metric": str}).apply(tuple, axis=1).is_monotonic_increasing


def test_median_curves_of_a_sweep(small_sweep: SweepState) -> None:
    curves = read_curves(small_sweep)
    medians = median_curves(curves)
    groups = curves.groupby(["config_id", "average", "metric", "length", "step"], observed=True)["value"]
    assert len(medians) == groups.ngroups
    assert list(medians["config_id"].cat.categories) == list(small_sweep.configurations)
    indexed = medians.set_index(["config_id", "average", "metric", "length", "step"])["median"]
    expected = groups.median().astype(np.float64)
    np.testing.assert_allclose(indexed.to_numpy(), expected.reindex(indexed.index).to_numpy(), rtol=1e-6)
    lost = medians[medians["failed"] > 0]
    assert set(lost["config_id"].astype(str)) == {list(small_sweep.configurations)[1]}
    assert set(medians["seeds"]) == {3}


def test_median_curves_of_nothing() -> None:
    medians = median_curves(curves_of({}))
    assert tuple(medians.columns) == MEDIAN_CURVE_COLUMNS
    assert len(medians) == 0


def test_median_curves_of_a_million_rows_take_a_second_or_so() -> None:
    shape = (125, 8, 3, 8, 40)
    grid = np.indices(shape, dtype=np.int32).reshape(5, -1)
    columns = dict(zip(["config_id", "seed", "average", "metric", "length"], grid, strict=True))
    curves = pd.DataFrame(columns).assign(
        step=100, value=np.random.default_rng(0).random(grid.shape[1], dtype=np.float32)
    )
    began = time.monotonic()
    medians = median_curves(curves)
    seconds = time.monotonic() - began
    assert len(medians) == 125 * 3 * 8 * 40
    assert seconds < 10  # 0.3 s on one idle core


@given(
    st.lists(st.tuples(st.integers(-5, 5) | st.just(inf), st.integers(-5, 5) | st.just(-inf)), min_size=2, max_size=20)
)
def test_spearman_is_scipys(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    estimate = spearman([*x, nan, 1.0], [*y, 1.0, nan], resamples=50)
    assert estimate.n == len(pairs)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert (estimate.value, estimate.interval, estimate.reason) == (None, None, "one side is the same everywhere")
        return
    expected = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic
    assert estimate.value == pytest.approx(expected, abs=1e-12)
    if len(pairs) < 4:
        assert estimate.interval is None
        assert estimate.reason == f"n = {len(pairs)} is too few for an interval (at least 4)"
    elif abs(expected) > 1 - 1e-9 or estimate.interval is None:
        assert estimate.interval is None
        assert estimate.reason is not None and estimate.reason.startswith("every resample has the same correlation")
    else:
        low, high = estimate.interval
        assert -1 - 1e-9 <= low <= high <= 1 + 1e-9
        assert estimate.reason is None


@pytest.mark.parametrize("n", [0, 1])
def test_spearman_of_too_few(n: int) -> None:
    estimate = spearman([1.0] * n, [2.0] * n)
    assert (estimate.value, estimate.interval, estimate.n) == (None, None, n)
    assert estimate.reason == f"n = {n} is too few for a correlation"


@pytest.mark.parametrize(("n", "rho"), [(8, 0.0), (16, 0.6), (40, 0.9)])
def test_spearman_intervals_cover_planted_correlations(n: int, rho: float) -> None:
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's correlation of a bivariate normal
    rng = np.random.default_rng(n)
    samples, covered, beyond_zero = 300, 0, 0
    for _ in range(samples):
        x = rng.normal(size=n)
        y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=n)
        interval = spearman(x, np.exp(y), resamples=300).interval
        assert interval is not None
        covered += interval[0] <= truth <= interval[1]
        beyond_zero += interval[0] > 0
    assert 0.90 <= covered / samples <= 0.99
    if rho == 0.0:
        assert beyond_zero / samples < 0.06
    if rho == 0.9:
        assert beyond_zero / samples > 0.95


def test_median_intervals_cover_the_median() -> None:
    rng = np.random.default_rng(0)
    estimates = [bootstrap_median(rng.exponential(size=25), resamples=300) for _ in range(300)]
    covered = sum(one.interval is not None and one.interval[0] <= math.log(2) <= one.interval[1] for one in estimates)
    assert 0.90 <= covered / 300 <= 0.99


def test_clusters_are_what_is_resampled() -> None:
    """Eight seeds that share their configuration's luck are worth one, not eight."""
    rng = np.random.default_rng(0)
    covered = {"clusters": 0, "members": 0}
    for _ in range(200):
        luck = rng.normal(size=20)
        clusters = [np.full(8, one) + 0.01 * rng.normal(size=8) for one in luck]
        for name, sample in (("clusters", clusters), ("members", list(np.concatenate(clusters)[:, None]))):
            interval = bootstrap_clustered_median(sample, resamples=200).interval
            assert interval is not None
            covered[name] += interval[0] <= 0 <= interval[1]
    assert 0.88 <= covered["clusters"] / 200 <= 0.99
    assert covered["members"] / 200 < 0.7


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=4, max_size=7), st.integers(0, 9))
def test_clustered_resamples_by_brute_force(clusters: list[list[float]], seed: int) -> None:
    arrays = [np.array(cluster) for cluster in clusters]
    counts = np.random.default_rng(seed).multinomial(len(arrays), [1 / len(arrays)] * len(arrays), 60)
    medians = [
        np.median(np.concatenate([array for array, times in zip(arrays, row, strict=True) for _ in range(times)]))
        for row in counts
    ]
    estimate = bootstrap_clustered_median(arrays, resamples=60, seed=seed)
    expected = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    assert estimate.value == np.median(np.concatenate(arrays))
    assert estimate.interval == pytest.approx(tuple(expected))
    assert estimate.n == len(arrays)


def test_small_medians_say_why_there_is_no_interval() -> None:
    assert bootstrap_median([]).reason == "no values"
    assert bootstrap_median([nan]).n == 0
    three = bootstrap_median([1.0, 5.0, 2.0, nan])
    assert (three.value, three.interval, three.n) == (2.0, None, 3)
    assert three.reason == "n = 3 is too few for an interval (at least 4)"
    assert bootstrap_median([inf, -inf, inf, -inf]).reason == "the middle lies between two infinities"
    assert bootstrap_median([1.0, 2.0, 3.0, inf, inf]).value == 3.0
    assert bootstrap_median([4.0] * 5).interval == (4.0, 4.0)
    assert bootstrap_clustered_median([]).reason == "no values"


def test_the_same_seed_gives_the_same_interval() -> None:
    x, y = np.arange(10.0), np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3.0])
    assert spearman(x, y, seed=3) == spearman(x, y, seed=3)
    assert spearman(x, y, seed=3).interval != spearman(x, y, seed=4).interval
    narrow, wide = spearman(x, y, level=0.5).interval, spearman(x, y, level=0.99).interval
    assert narrow is not None and wide is not None
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


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
    table = effects(values, scores)
    assert tuple(table.columns) == EFFECT_COLUMNS
    rate, norm, width = (row for _, row in table.iterrows())
    assert (rate["hyperparameter"], rate["kind"], rate["n"], rate["values"]) == ("rate", "numeric", 40, 40)
    order = list(scores)
    expected = stats.spearmanr([values[c]["rate"] for c in order], [scores[c] for c in order]).statistic
    assert rate["correlation"] == pytest.approx(expected)
    assert -1 < rate["low"] < rate["correlation"] < rate["high"] < -0.3
    assert rate["medians"] is None
    assert (norm["hyperparameter"], norm["kind"], norm["n"]) == ("norm", "categorical", 40)
    groups = {name: [scores[c] for c in order if values[c]["norm"] == name] for name in "abc"}
    assert norm["medians"] == pytest.approx({name: np.median(group) for name, group in groups.items()})
    assert norm["counts"] == {name: len(group) for name, group in groups.items()}
    assert norm["p"] == pytest.approx(stats.kruskal(*groups.values()).pvalue)
    assert norm["p"] < 0.01
    assert (width["kind"], list(width["medians"]), width["low"] < 0 < width["high"]) == ("numeric", ["16", "32"], True)
    assert table["reason"].isna().all()


def test_failed_configurations_are_dropped_and_counted_and_infinite_ones_rank_last() -> None:
    values = {f"c{n}": {"x": n, "norm": "ab"[n % 2]} for n in range(8)}
    scores: dict[str, float | None] = {f"c{n}": float(n) for n in range(8)}
    scores |= {"c0": None, "c1": nan, "c7": inf}
    x, norm = (row for _, row in effects(values, scores).iterrows())
    assert (x["n"], x["dropped"], x["correlation"]) == (6, 2, pytest.approx(1.0))
    assert (norm["n"], norm["dropped"], norm["medians"]) == (6, 2, {"a": 4.0, "b": 5.0})
    assert not math.isnan(norm["p"])


def test_a_conditional_hyperparameter_is_judged_where_it_is() -> None:
    values, scores = planted(20)
    for name in list(values)[:8]:
        values[name]["clip"] = float(name[1:])
    table = effects(values, scores).set_index("hyperparameter")
    assert table.loc["clip", "n"] == 8
    assert table.loc["rate", "n"] == 20
    partial = partial_effects(values, scores).set_index("hyperparameter")
    assert partial.loc["clip", "reason"] == "some configurations do not have it"
    assert math.isnan(partial.loc["clip", "coefficient"])


def test_values_of_mixed_kinds_are_categories_in_order() -> None:
    mixed = [None, 10, 2, 1.5, True, [1, 2], "x"]
    values = {f"c{n}": {"clip": value} for n, value in enumerate(mixed)}
    (row,) = effects(values, {f"c{n}": float(n) for n in range(7)}).to_dict("records")
    assert row["kind"] == "categorical"
    assert list(row["medians"]) == ["1.5", "2", "10", "[1, 2]", "null", "true", "x"]


def test_many_values_have_no_medians() -> None:
    values = {f"c{n}": {"name": f"v{n % 9}"} for n in range(18)}
    (row,) = effects(values, {f"c{n}": float(n) for n in range(18)}).to_dict("records")
    assert (row["values"], row["medians"], row["counts"]) == (9, None, None)


def test_partial_effects_separate_what_moves_together() -> None:
    """y follows x alone; z follows x closely, so that by itself it seems to matter."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    values = {f"c{n}": {"z": x[n] + 0.5 * rng.normal(), "x": x[n], "norm": "ab"[n % 2]} for n in range(60)}
    scores = {f"c{n}": 2 * x[n] + 0.5 * rng.normal() for n in range(60)}
    alone = effects(values, scores).set_index("hyperparameter")
    assert alone.loc["z", "low"] > 0.5
    table = partial_effects(values, scores)
    assert tuple(table.columns) == PARTIAL_COLUMNS
    z, row, norm = (row for _, row in table.iterrows())
    assert [z["hyperparameter"], row["hyperparameter"], norm["hyperparameter"]] == ["z", "x", "norm"]
    assert z["low"] < 0 < z["high"] or abs(z["coefficient"]) < 0.2
    assert row["low"] > 0.5
    assert (norm["value"], norm["low"] < 0 < norm["high"]) == ("b", True)
    assert set(table["n"]) == {60}


def test_partial_effects_are_least_squares_on_ranks() -> None:
    values, scores = planted(30, seed=3)
    table = partial_effects(values, scores).set_index(["hyperparameter", "value"])

    def standard(column: list[float]) -> np.ndarray:
        ranks = stats.rankdata(column)
        return (ranks - ranks.mean()) / ranks.std()

    order = list(scores)
    design = np.column_stack([
        np.ones(30), standard([values[c]["rate"] for c in order]), *([float(values[c]["norm"] == name) for c in order]
        for name in "bc"), standard([values[c]["width"] for c in order]),
    ])  # fmt: skip
    expected, (residual,), *_ = np.linalg.lstsq(design, standard([scores[c] for c in order]), rcond=None)
    np.testing.assert_allclose(table["coefficient"], expected[1:])
    error = math.sqrt(residual / 25 * np.linalg.inv(design.T @ design)[1, 1])
    rate = table.loc[("rate", "")]
    assert rate["high"] - rate["low"] == pytest.approx(2 * stats.t.ppf(0.975, 25) * error)
    assert rate["r_squared"] == pytest.approx(1 - residual / 30)


def test_planted_partial_effects_are_covered() -> None:
    """With no effect at all, 95 of 100 intervals hold zero."""
    rng = np.random.default_rng(0)
    held = [
        row["low"] <= 0 <= row["high"]
        for _ in range(60)
        for _, row in partial_effects(
            {f"c{n}": {name: rng.random() for name in "xyz"} for n in range(20)},
            {f"c{n}": rng.normal() for n in range(20)},
        ).iterrows()
    ]
    assert 0.90 <= np.mean(held) <= 0.99


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
        (drawn(1, **ONE), scored(1, float), "it is the same everywhere"),
        (drawn(1, **ONE), scored(1, lambda _: None), None),
        (drawn(1, **ONE), {}, None),
        (drawn(6, **ONE), scored(6, float), "it is the same everywhere"),
        (drawn(6, **TWO), scored(6, lambda _: 1.0), "the score is the same everywhere"),
        (drawn(6, **TWO), scored(6, lambda _: inf), "the score is the same everywhere"),
        (drawn(6, **TWO), scored(6, lambda _: nan), None),
        (drawn(3, **TWO), scored(3, float), "n = 3 is too few for 2 effects at once"),
        (
            drawn(9, x=lambda n: n, y=lambda n: 3 * n),
            scored(9, lambda n: n % 5),
            "the hyperparameters move together and cannot be told apart",
        ),
        (
            drawn(9, x=lambda n: n),
            scored(9, lambda n: n**2),
            "the fit is exact: nothing is left over to judge it by",
        ),
    ],
)
def test_tiny_samples_give_reasons_and_no_warnings(
    values: dict[str, dict[str, Any]], scores: dict[str, float | None], reason: str | None
) -> None:
    table = effects(values, scores)
    partial = partial_effects(values, scores)
    for row in table.to_dict("records"):
        if row["kind"] == "numeric" and math.isnan(row["low"]):
            assert row["reason"]
        if row["kind"] == "categorical" and math.isnan(row["p"]):
            assert row["reason"]
    for row in partial.to_dict("records"):
        assert math.isnan(row["coefficient"])
        assert row["reason"]
        if reason is not None:
            assert row["reason"] == reason
    assert set(table["hyperparameter"]) == set(partial["hyperparameter"])


def members(values: list[list[float]]) -> pd.Series:
    pairs = [(f"c{c}", s) for c, row in enumerate(values) for s in range(len(row))]
    index = pd.MultiIndex.from_tuples(pairs, names=["config_id", "seed"])
    return pd.Series(list(itertools.chain(*values)), index=index, dtype=np.float64)


def test_paired_against_scipy() -> None:
    rng = np.random.default_rng(0)
    first = members(rng.normal(size=(6, 5)).tolist())
    second = first + 0.3 + 0.5 * rng.normal(size=30)
    second.iloc[3] = nan
    result = paired(first, second.iloc[::-1])  # matched by label, not by place
    difference = (first - second).dropna()
    assert (result["n"], result["configurations"], result["dropped"], result["ties"]) == (29, 6, 1, 0)
    assert result["median_difference"] == np.median(difference)
    assert (result["q25"], result["q75"]) == tuple(np.quantile(difference, [0.25, 0.75]))
    of_configurations = difference.groupby(level=0).median()
    assert result["wilcoxon_p"] == pytest.approx(stats.wilcoxon(of_configurations).pvalue)
    below = int((difference < 0).sum())
    assert (result["first_smaller"], result["second_smaller"]) == (below, 29 - below)
    assert result["sign_p"] == pytest.approx(stats.binomtest(int((of_configurations < 0).sum()), 6).pvalue)
    assert result["low"] <= result["median_difference"] <= result["high"] < 0
    assert result["reason"] is None


@pytest.mark.parametrize(
    ("first", "second", "n", "reason"),
    [
        ([[]], [[]], 0, "no member has both scores"),
        ([[nan, 1.0]], [[1.0, nan]], 0, "no member has both scores"),
        ([[1.0, 2.0]], [[1.0, 2.0]], 2, "no member differs"),
        ([[inf], [1.0], [2.0]], [[inf], [1.0], [2.0]], 3, "no member differs"),
        ([[1.0]], [[2.0]], 1, "n = 1 is too few for an interval (at least 4)"),
        ([[1.0, inf, -inf, 3.0]], [[2.0, 1.0, 4.0, 3.0]], 4, "n = 1 is too few for an interval (at least 4)"),
    ],
)
def test_small_pairings_say_why(first: list[list[float]], second: list[list[float]], n: int, reason: str) -> None:
    result = paired(members(first), members(second))
    assert (result["n"], result["reason"]) == (n, reason)
    assert math.isnan(result["low"])
    assert math.isnan(result["wilcoxon_p"]) and math.isnan(result["sign_p"])


def test_more_seeds_make_a_pairing_no_surer() -> None:
    few, many = (paired(members([[0.0] * s] * 3), members([[1.0] * s] * 3)) for s in (1, 50))
    assert few["sign_p"] == many["sign_p"] == pytest.approx(0.25) and few["wilcoxon_p"] == many["wilcoxon_p"]
