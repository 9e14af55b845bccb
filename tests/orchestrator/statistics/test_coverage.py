"""Every interval that a report prints, held against many samples with a known truth: it covers as often as it says.

A correlation's interval is within three points of 95 %. Where values are tied it may cover more often, and never less.
The interval of a median covers in at least 95 %, and for continuous values as often as the binomial distribution says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from orchestrator.claims.seed_tests import answer_median
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.partial_effects import Slope, compute_partial_effects
from orchestrator.statistics.effects.rank_effects import MIDDLE_LEVEL, Members, compute_effects, score_units
from orchestrator.statistics.effects.within import compare_within
from orchestrator.statistics.intervals import (
    compute_correlation_intervals,
    compute_coverage,
    compute_rank_correlations,
    estimate_median,
    find_order_statistic,
)

Floats = np.ndarray[Any, np.dtype[np.float64]]
POINTS = 0.03
SAMPLES = 160  # of a whole sweep: the standard error of a coverage is then under two points


def within_three_points(covered: Any, nominal: float = 0.95, *, or_more: bool = False) -> None:
    share, error = float(np.mean(covered)), math.sqrt(nominal * (1 - nominal) / np.size(covered))
    assert share >= nominal - POINTS - error, f"covers in {share:.3f} of {np.size(covered)}"
    assert or_more or share <= nominal + POINTS + error, f"covers in {share:.3f} of {np.size(covered)}"


# Rank correlations ----------------------------------------------------------------------------------------------------


def continuous(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return x, np.exp(y)


def tied(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Three values of the hyperparameter, five of the score."""
    return np.digitize(x, [-0.43, 0.43]).astype(float), np.digitize(y, [-0.84, -0.25, 0.25, 0.84]).astype(float)


def two_values(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return (x > 0).astype(float), y


def failing(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A quarter of the scores are infinite."""
    return x, np.where(y > 0.67, np.inf, y)


def spreading(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Scores spread more where the hyperparameter is large."""
    return x, y * np.exp(0.5 * x)


def pairs(kind: Callable[[Floats, Floats], tuple[Floats, Floats]], rho: float, samples: int, n: int) -> Floats:
    rng = np.random.default_rng([n, int(10 * rho)])
    x, noise = rng.normal(size=(2, samples, n))
    return np.stack(kind(x, rho * x + math.sqrt(1 - rho**2) * noise), axis=2)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("kind", [continuous, tied, two_values, failing, spreading])
def test_correlations(kind: Callable[[Floats, Floats], tuple[Floats, Floats]], rho: float) -> None:
    (truth,) = compute_rank_correlations(pairs(kind, rho, 1, 100_000))
    for n, samples in ((8, 400), (16, 300), (64, 200)):
        low, high = compute_correlation_intervals(pairs(kind, rho, samples, n))
        given = ~np.isnan(low)
        within_three_points((low <= truth)[given] & (truth <= high)[given], or_more=kind in (tied, two_values))


@pytest.mark.parametrize("n", [8, 64])
def test_the_middle_of_a_key_without_an_effect(n: int) -> None:
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(100):
        values = {str(number): {"rate": value} for number, value in enumerate(rng.random(n).tolist())}
        (effect,) = compute_effects(values, dict(zip(values, rng.normal(size=n).tolist(), strict=True)))
        covered.append(effect.middle.low <= 0 <= effect.middle.high)
    within_three_points(covered, nominal=MIDDLE_LEVEL)


# Medians --------------------------------------------------------------------------------------------------------------

MEDIANS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "skewed": (lambda rng, n: rng.exponential(size=n), math.log(2)),
    "two heaps": (lambda rng, n: np.where(rng.random(n) < 0.6, rng.random(n), 5 + rng.random(n)), 0.5 / 0.6),
    "heavy tails": (lambda rng, n: rng.standard_t(2, size=n), 0.0),
    "some do not learn": (
        lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, 0.5) + 0.02 * rng.random(n),
        0.02 * 0.5 / 0.7,
    ),
    "all or nothing": (lambda rng, n: (rng.random(n) < 0.4).astype(float), 0.0),
    "infinite": (lambda rng, n: np.where(rng.random(n) < 0.3, np.inf, rng.random(n)), 0.5 / 0.7),
}


@pytest.mark.parametrize("name", MEDIANS)
@pytest.mark.parametrize("n", [6, 7, 16, 64])
def test_medians(n: int, name: str) -> None:
    draw, truth = MEDIANS[name]
    rng = np.random.default_rng(n)
    intervals = [estimate_median(draw(rng, n)) for _ in range(300)]
    covered = [interval.low <= truth <= interval.high for interval in intervals]
    order = find_order_statistic(n)
    assert order is not None and 0.95 <= compute_coverage(n, order) <= 0.993
    within_three_points(covered, compute_coverage(n, order), or_more=name == "all or nothing")


@pytest.mark.parametrize("n", [6, 8, 20])
def test_the_seeds_of_claims(n: int) -> None:
    rng = np.random.default_rng(n)
    chosen = find_order_statistic(n)
    assert chosen is not None
    for share, truth in ((0.3, 0.0), (0.8, 1.0)):
        answers = [answer_median((rng.random(n) < share).astype(float), truth) for _ in range(200)]
        within_three_points([answer.low <= truth <= answer.high for answer in answers], or_more=True)
    answers = [answer_median(rng.normal(size=n), 0.0) for _ in range(200)]
    within_three_points([answer.low <= 0 <= answer.high for answer in answers], compute_coverage(n, chosen))
    assert all((answer.p > 0.05) == (answer.low <= 0 <= answer.high) for answer in answers), (
        "the test is that of the interval"
    )


# Sweeps ---------------------------------------------------------------------------------------------------------------

Sweep = tuple[dict[str, dict[str, Any]], dict[str, float | None], Design, Members]


def plain_random(rng: np.random.Generator, n: int, effect: float) -> Sweep:
    """`rate` matters; `clip` is there for half of the configurations and matters as much; `other` does not."""
    values: dict[str, dict[str, Any]] = {}
    scores: dict[str, float | None] = {}
    rates, others, clips, noise = rng.normal(size=(4, n))
    for i in range(n):
        name, clipped = f"c{i:04}", i % 2 == 0
        values[name] = {"rate": rates[i], "other": others[i]} | ({"clip": clips[i]} if clipped else {})
        scores[name] = effect * (rates[i] + clipped * clips[i]) + noise[i]
    return values, scores, Design.random(values), {}


def grid_by_random(rng: np.random.Generator, n: int, effect: float) -> Sweep:
    """n draws of `rate` and of `clip` at 2 x 2 grid points, `clip` at norm b alone.

    The grid points of a draw share its luck, and they differ in level and in spread.
    """
    values: dict[str, dict[str, Any]] = {}
    scores: dict[str, float | None] = {}
    draw = {}
    for i in range(n):
        rate, clip, luck = rng.normal(size=3)
        for j, (norm, width) in enumerate([("a", 16), ("a", 32), ("b", 16), ("b", 32)]):
            name = f"c{4 * i + j:05}"
            values[name] = {"norm": norm, "width": width, "rate": rate} | ({"clip": clip} if norm == "b" else {})
            level = effect * ((norm == "b") + rate + (norm == "b") * clip) + luck + 0.5 * rng.normal()
            scores[name] = 3 * j + (1 + j) * level if j == 1 else level
            draw[name] = i
    return values, scores, Design(kind="grid_by_random", draws=draw, grid=frozenset(["norm", "width"])), {}


def grid_alone(rng: np.random.Generator, n: int, effect: float) -> Sweep:
    """Norm by depth by width, n seeds that share their luck over configurations; `depth` has three values."""
    cells = [{"norm": norm, "depth": depth, "width": width} for norm in "ab" for depth in (1, 2, 3) for width in (8, 9)]
    return summarize_seeds(rng, n, [(cell, effect * ((cell["norm"] == "b") + cell["depth"])) for cell in cells])


def listed(rng: np.random.Generator, n: int, effect: float) -> Sweep:
    """Four configurations that differ in everything at once."""
    cells = [{"rate": 0.1 * i, "norm": "ab"[i % 2]} for i in range(4)]
    return summarize_seeds(rng, n, [(cell, effect * (3 * cell["rate"] + (cell["norm"] == "b"))) for cell in cells])


def summarize_seeds(rng: np.random.Generator, n: int, cells: list[tuple[dict[str, Any], float]]) -> Sweep:
    luck = rng.normal(size=n)
    values = {f"c{i:02}": cell for i, (cell, _) in enumerate(cells)}
    noise = rng.normal(size=(len(cells), n))
    members = {f"c{i:02}": dict(enumerate((level + luck + noise[i]).tolist())) for i, (_, level) in enumerate(cells)}
    scores: dict[str, float | None] = {name: float(np.median(list(seeds.values()))) for name, seeds in members.items()}
    return values, scores, Design(kind="fixed", grid=frozenset(values["c00"])), members


def numbers(sweep: Sweep) -> Iterator[tuple[str, float, float, float]]:
    """Every number of the effects of a sweep with its interval: name, value, low, high."""
    for effect in compute_effects(*sweep):
        if not math.isnan(effect.correlation):
            yield f"{effect.key}: correlation", effect.correlation, effect.low, effect.high
        for difference in effect.differences:
            name = f"{effect.key}: {difference.value} - {difference.against}"
            yield name, difference.median, difference.low, difference.high


def truths(make: Callable[[np.random.Generator, int, float], Sweep], effect: float) -> dict[str, float]:
    """The numbers of a sweep so large that chance has no part in them."""
    values, scores, design, members = make(np.random.default_rng(0), 4001, effect)
    compared = {
        c: {key: value for key, value in cell.items() if design.compares_within_units(key)}
        for c, cell in values.items()
    }
    values_by_name = {name: value for name, value, _, _ in numbers((compared, scores, design, members))}
    for key in {key for cell in values.values() for key in cell if not design.compares_within_units(key)}:
        sample = score_units({c: cell for c, cell in values.items() if key in cell}, scores, design)
        pairs = np.array([(values[config][key], score) for config, score in sample])
        values_by_name[f"{key}: correlation"] = float(compute_rank_correlations(pairs[None])[0])
    return values_by_name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n", "effect", "keys"),
    [
        (plain_random, 16, 0.0, 3),
        (grid_by_random, 20, 0.7, 4),
        (grid_alone, 6, 0.0, 5),
        (listed, 16, 0.7, 5),
    ],
)
def test_effects_of_sweeps(
    make: Callable[[np.random.Generator, int, float], Sweep], n: int, effect: float, keys: int
) -> None:
    rng, truth = np.random.default_rng(n), truths(make, effect)
    covered: dict[str, list[bool]] = {}
    for _ in range(SAMPLES):
        for name, _, low, high in numbers(make(rng, n, effect)):
            if not math.isnan(low):
                covered.setdefault(name, []).append(low <= truth[name] <= high)
    assert len(covered) == keys and covered.keys() == truth.keys()
    within_units = make is not plain_random
    order = find_order_statistic(n)
    for name, hits in covered.items():
        assert len(hits) > 0.9 * SAMPLES
        medians = within_units and ("-" in name or make is not grid_by_random)
        nominal = compute_coverage(n, order) if medians and order is not None else 0.95
        within_three_points(hits, nominal, or_more=medians and "correlation" in name)


def test_grid_points_of_a_draw_are_no_independent_configurations() -> None:
    """Without any effect of the drawn key, intervals over configurations exclude 0 in far more than 5 of 100 sweeps."""
    rng, clear = np.random.default_rng(0), {"draws": 0, "configurations": 0}
    for _ in range(25):
        rates, luck = rng.normal(size=(2, 20))
        scores = dict(enumerate((np.repeat(luck, 4) + 0.7 * rng.normal(size=80)).tolist()))
        values = {f"c{i}": {"rate": rates[i // 4], "norm": "abcd"[i % 4]} for i in scores}
        draw = {f"c{i}": i // 4 for i in scores}
        design = Design(kind="grid_by_random", draws=draw, grid=frozenset(["norm"]))
        for name, used_design in (("draws", design), ("configurations", None)):
            rate, _ = compute_effects(values, {f"c{i}": score for i, score in scores.items()}, used_design)
            clear[name] += rate.low > 0 or rate.high < 0
    assert clear["draws"] / 25 <= 0.1 and clear["configurations"] / 25 >= 0.2


@pytest.mark.parametrize(("n", "effect"), [(10, 0.0), (32, 0.7)])
def test_slopes_with_the_others_held(n: int, effect: float) -> None:
    def sample(n: int) -> Sweep:
        rate, other, noise = rng.normal(size=(3, n))
        norm = rng.choice(["a", "b", "c"], n)
        values = {f"c{i}": {"rate": rate[i], "other": other[i], "norm": norm[i]} for i in range(n)}
        return values, {f"c{i}": effect * (rate[i] + (norm[i] == "b")) + noise[i] for i in range(n)}, design, {}

    rng, design, covered = np.random.default_rng(n), Design(kind="random"), {}

    def slopes(sweep: Sweep) -> dict[tuple[str, str], Slope]:
        return {
            (key, slope.value): slope for key, of in compute_partial_effects(*sweep[:3]).items() for slope in of.slopes
        }

    truth = {column: slope.coefficient for column, slope in slopes(sample(20_000)).items()}
    for _ in range(SAMPLES // 2):
        for column, slope in slopes(sample(n)).items():
            if not math.isnan(slope.low):
                covered.setdefault(column, []).append(slope.low <= truth[column] <= slope.high)
    assert covered.keys() == truth.keys()
    for hits in covered.values():
        within_three_points(hits)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "labels"), [(3, "ab"), (6, "abcde"), (16, "ab")])
def test_tests_within_units_reject_nothing_in_five_of_a_hundred(n: int, labels: str) -> None:
    rng, rejected = np.random.default_rng(n), []
    for table in rng.normal(size=(240, n, len(labels))):
        units = [{(): {label: [score] for label, score in zip(labels, row, strict=True)}} for row in table]
        rejected.append(compare_within(units, labels, False, "seeds").p <= 0.05)
    assert np.mean(rejected) <= 0.05 + POINTS
    assert n > 5 or not any(rejected)


@pytest.mark.parametrize("n", [6, 24])
def test_a_test_of_drawn_categories_rejects_nothing_in_five_of_a_hundred(n: int) -> None:
    rng, rejected = np.random.default_rng(n), []
    values = {f"c{i}": {"norm": "aabbcc"[i] if i < 6 else "abc"[i % 3]} for i in range(n)}
    for scores in rng.normal(size=(120, n)):
        (norm,) = compute_effects(values, {f"c{i}": score for i, score in enumerate(scores.tolist())})
        rejected.append(norm.p <= 0.05)
    assert np.mean(rejected) <= 0.05 + POINTS


@pytest.mark.parametrize("design", [Design(kind="adaptive"), Design(kind="random", survivors=True)])
def test_an_adaptive_search_and_survivors_have_neither_interval_nor_test(design: Design) -> None:
    values, scores, _, _ = plain_random(np.random.default_rng(0), 40, 1.0)
    values = {name: {**cell, "norm": "ab"[i % 2]} for i, (name, cell) in enumerate(values.items())}
    alone = compute_effects(values, scores, design)
    slopes = [slope for effect in compute_partial_effects(values, scores, design).values() for slope in effect.slopes]
    assert slopes and all(
        math.isnan(number) for effect in (*alone, *slopes) for number in (effect.low, effect.high, effect.p)
    )
    assert not all(math.isnan(effect.correlation) for effect in alone)


def test_a_key_that_changes_speed_alone_has_no_interval_among_survivors_of_a_rung() -> None:
    """At the rung a fast configuration is ahead; the final score does not depend on the key at all."""
    rng, taken_for_random = np.random.default_rng(1), []
    for _ in range(25):
        speed, final = rng.normal(size=(2, 32))
        kept = np.argsort(final - speed)[:16]
        values = {f"c{i}": {"rate": speed[i]} for i in kept}
        scores = {f"c{i}": final[i] for i in kept}
        (naive,) = compute_effects(values, scores)
        (effect,) = compute_effects(values, scores, Design(kind="random", survivors=True))
        taken_for_random.append(naive.low > 0 or naive.high < 0)
        assert effect.correlation == naive.correlation and math.isnan(effect.low) and math.isnan(effect.high)
    assert np.mean(taken_for_random) > 0.2
