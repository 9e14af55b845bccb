"""A domain against one field: what each kind is refused for, and the verdict of drawing everything there is to draw."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.plan.checks.bounds import find_domain_problems
from orchestrator.plan.optuna_distributions import convert_from_optuna, find_range, make_distribution
from search_spaces import Choice, Domain, Grid, IntUniform, LogUniform, Normal, OneMinusLogUniform, Uniform
from trainers.errors import ConfigError
from trainers.settings.fields import Settings, setting, settings_fields
from trainers.settings.fields_by_key import FieldAtKey


def make_field(hint: Any, **limits: Any) -> FieldAtKey:
    cls = type("Made", (Settings,), {"__annotations__": {"value": hint}, "value": setting(**limits)})
    return FieldAtKey(cls, settings_fields(cls)[0])


RATE = make_field(float, low=0.0, below=1.0)
POSITIVE = make_field(float | None, above=0.0)
SHARE = make_field(float, low=0.0, high=1.0)
COUNT = make_field(int, low=1, below=100)
BOARD = make_field(int, choices=(4, 6, 8))
NAME = make_field(str, choices=("none", "pre", "post"))
PAIR = make_field(tuple[float, float], low=0.0, below=1.0)
FLAG = make_field(bool | str, choices=(True, False, "auto"))


@pytest.mark.parametrize(
    ("domain", "where"),
    [
        (Uniform(0.0, 0.999999), RATE),
        (Uniform(1e-9, 5.0), POSITIVE),
        (LogUniform(1e-300, 1e300), POSITIVE),
        (OneMinusLogUniform(0.9, 0.9999999), RATE),
        (IntUniform(1, 99), COUNT),
        (IntUniform(4, 8, 2), BOARD),
        (IntUniform(1, 3), POSITIVE),
        (Normal(0.5, 0.1), RATE),
        (Normal(0.5, 1.0, 0.0, 1.0), SHARE),
        (Choice((0.5, None, 3)), POSITIVE),
        (Grid(("none", "post")), NAME),
        (Choice(((0.9, 0.99), (0.5, 0.5))), PAIR),
        (Grid((True, "auto")), FLAG),
    ],
)
def test_a_domain_inside_its_field_is_let_pass(domain: Domain, where: FieldAtKey) -> None:
    assert list(find_domain_problems(domain, where)) == []


@pytest.mark.parametrize(
    ("domain", "where", "below", "given", "nearest"),
    [
        (Uniform(0.0, 1.5), RATE, ".uniform[1]", 1.5, "0.99999"),
        (Uniform(-0.5, 0.5), RATE, ".uniform[0]", -0.5, "0"),
        (Uniform(0.0, 1.0), RATE, ".uniform[1]", 1.0, "0.99999"),
        (Uniform(0.0, 1.0), POSITIVE, ".uniform[0]", 0.0, None),
        (Uniform(1.0, 2.0), make_field(float, above=1.0), ".uniform[0]", 1.0, "1.00001"),
        (LogUniform(0.1, 2.0), RATE, ".log_uniform[1]", 2.0, "0.99999"),
        (OneMinusLogUniform(0.5, 0.9), make_field(float, high=0.8), ".one_minus_log_uniform[1]", 0.9, "0.8"),
        (IntUniform(0, 64, 8), COUNT, ".int_uniform[0]", 0, "1"),
        (IntUniform(4, 100, 8), COUNT, ".int_uniform[1]", 100, "99"),
        (IntUniform(4, 8), BOARD, ".int_uniform", [4, 8], "choice"),
        (Uniform(8.0, 16.0), COUNT, ".uniform", [8.0, 16.0], "int_uniform"),
        (Uniform(0.0, 1.0), NAME, ".uniform", [0.0, 1.0], "choice"),
        (IntUniform(0, 2), NAME, ".int_uniform", [0, 2], "choice"),
        (Uniform(0.0, 1.0), make_field(float, choices=(0.0, 0.5, 1.0)), ".uniform", [0.0, 1.0], "choice"),
        (Normal(0.01, 0.1), make_field(float, low=0.0), ".normal", [0.01, 0.1], "low: 0"),
        (Normal(0.9, 0.1, 0.5), RATE, ".normal", [0.9, 0.1], "high: 0.99999"),
        (Normal(0.5, 1.0, 0.0, 1.0), RATE, ".high", 1.0, "0.99999"),
        (Normal(0.0, 0.1, -0.1, 0.9), RATE, ".low", -0.1, "0"),
        (Normal(2.0, 0.1), RATE, ".normal[0]", 2.0, "0.99999"),
        (Normal(8.0, 2.0, 1.0, 50.0), COUNT, ".normal", [8.0, 2.0], "int_uniform"),
        (Choice((8, 0)), COUNT, ".choice[1]", 0, "1"),
        (Grid(("none", "prre")), NAME, ".grid[1]", "prre", "pre"),
        (Choice((0.5, [0.5, 1.0])), PAIR, ".choice[0]", 0.5, None),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_allowed(
    domain: Domain, where: FieldAtKey, below: str, given: Any, nearest: str | None
) -> None:
    problem = next(find_domain_problems(domain, where))
    assert (problem.key, problem.given, problem.allowed, problem.nearest) == (below, given, where.allowed, nearest)


def test_allowed_values_of_a_field_are_described_in_words() -> None:
    assert {where.allowed for where in (RATE, POSITIVE, SHARE, COUNT, BOARD, NAME, PAIR)} == {
        "a number >= 0 and < 1",
        "a number or null > 0",
        "a number >= 0 and <= 1",
        "an integer >= 1 and < 100",
        "4, 6, 8",
        "none, pre, post",
        "a list of numbers >= 0 and < 1",
    }


def test_both_ends_and_every_value_are_named() -> None:
    assert [problem.key for problem in find_domain_problems(Uniform(-1.0, 2.0), RATE)] == [".uniform[0]", ".uniform[1]"]
    assert [problem.key for problem in find_domain_problems(Normal(0.5, 1.0), RATE)] == [".normal", ".normal"]
    assert [problem.key for problem in find_domain_problems(Normal(2.0, 1.0), RATE)] == [".normal", ".normal[0]"]
    assert [problem.given for problem in find_domain_problems(Choice((0.5, 1.5, "x")), RATE)] == [1.5, "x"]


# Against drawing ------------------------------------------------------------------------------------------------------


numbers = st.floats(-100, 100).map(lambda value: float(f"{value:.3g}")) | st.sampled_from([-1.0, 0.0, 1.0, 2.0])


@st.composite
def fields(draw: st.DrawFn) -> FieldAtKey:
    hint = draw(st.sampled_from([int, float, float | None, int | None, str, bool | str]))
    kind = draw(st.sampled_from(["bounds", "choices", "none"]))
    if hint in (str, bool | str) or kind == "none":
        return make_field(hint)
    if kind == "choices":
        item = st.integers(-5, 5) if hint in (int, int | None) else numbers
        return make_field(hint, choices=tuple(draw(st.lists(item, min_size=1, max_size=4))))
    names = [draw(st.sampled_from([None, "low", "above"])), draw(st.sampled_from([None, "high", "below"]))]
    return make_field(hint, **{name: draw(st.integers(-5, 5) | numbers) for name in names if name})


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    kind = draw(st.sampled_from(["choice", "grid", "uniform", "log", "decay", "int", "normal"]))
    if kind in ("choice", "grid"):
        values = draw(st.lists(numbers | st.integers(-9, 9) | st.sampled_from(["a", None, True]), min_size=1))
        return (Choice if kind == "choice" else Grid)(tuple(values))
    if kind == "uniform":
        return Uniform(low, high)
    if kind == "log":
        return LogUniform(10.0 ** (low / 50), 10.0 ** (high / 50) * 1.001)
    if kind == "decay":
        return OneMinusLogUniform(*sorted(draw(st.lists(st.floats(0.01, 0.9999), min_size=2, max_size=2, unique=True))))
    if kind == "int":
        first, steps, step = draw(st.integers(-9, 9)), draw(st.integers(1, 8)), draw(st.integers(1, 4))
        return IntUniform(first, first + steps * step, step)
    clips = [draw(st.none() | st.floats(0.0, 9.0)) for _ in range(2)]
    bounds = [None if clip is None else low + sign * clip for clip, sign in zip(clips, (-1, 1), strict=True)]
    return Normal(low, draw(st.floats(0.01, 9.0)), *bounds)


def everything(domain: Domain) -> list[Any]:
    """What search makes of the whole range of what Optuna may draw: the ends, and so many numbers between."""
    if isinstance(domain, (Choice, Grid)):
        return list(domain.values)
    distribution = make_distribution(domain)
    if isinstance(domain, IntUniform):
        return [convert_from_optuna(domain, inner) for inner in range(domain.low, domain.high + 1, domain.step)]
    inner = np.linspace(distribution.low, distribution.high, 211)
    inner = np.clip(inner, distribution.low, distribution.high)
    return [convert_from_optuna(domain, float(value)) for value in inner]


def built(where: FieldAtKey, value: Any) -> bool:
    try:
        where.cls(value=value)
    except ConfigError:
        return False
    return True


@settings(max_examples=120, derandomize=True)
@given(domains(), fields())
def test_the_verdict_is_that_of_drawing_everything(domain: Domain, where: FieldAtKey) -> None:
    assert (not list(find_domain_problems(domain, where))) == all(built(where, value) for value in everything(domain))


@settings(max_examples=100, derandomize=True)
@given(domains(), fields())
def test_a_nearest_number_fits_and_the_given_one_does_not(domain: Domain, where: FieldAtKey) -> None:
    for problem in find_domain_problems(domain, where):
        bare = (problem.nearest or "").removeprefix("low: ").removeprefix("high: ")
        if bare and bare not in ("choice", "int_uniform"):
            assert built(where, int(bare) if where.accepts(0) and not where.accepts(0.5) else float(bare))
        if not problem.key.removeprefix(".").isidentifier() or problem.key in (".low", ".high"):
            assert not built(where, problem.given)


@settings(max_examples=60, derandomize=True)
@given(domains())
def test_the_value_range_of_a_domain_holds_everything_drawn(domain: Domain) -> None:
    if not isinstance(domain, (Choice, Grid)):
        low, high = find_range(domain)
        drawn = everything(domain)
        assert (min(drawn), max(drawn)) == (low, high)
