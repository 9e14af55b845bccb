"""Draws: what they depend on, how domains map to Optuna and back, and what tpe draws under conditions."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.plan import optuna_draws
from orchestrator.plan.optuna_distributions import convert_from_optuna, convert_to_optuna, make_distribution
from search_spaces import (
    Choice,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    SweepSpec,
    Uniform,
    load_sweep,
)

BASE = """
name: drawn
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, norm: none, dropout: 0.0}
training: {steps: 60, batch_size: 8, learning_rate: 0.01, averages: {raw: {}, ema: {decay: 0.9}}}
seeds: 2
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
"""
SPACE = """
space:
  training.learning_rate: {log_uniform: [1.0e-4, 1.0e-1]}
  training.batch_size: {choice: [8, 16, 32]}
  model.dropout: {uniform: [0.0, 0.6]}
  training.averages.ema.decay: {one_minus_log_uniform: [0.9, 0.9999]}
  model.width: {int_uniform: [8, 32], step: 8}
  training.clip: {normal: [1.0, 0.5], low: 0.1}
"""


@pytest.fixture
def spec(tmp_path: Path):
    def build(space: str = SPACE, *overrides: str, search: str = "{configurations: 12}") -> SweepSpec:
        path = tmp_path / "drawn.yaml"
        path.write_text(f"{BASE}{space}\nsearch: {search}\n")
        return load_sweep(path, overrides)

    return build


def test_the_size_names_draws_and_grid_points_where_both_count(spec) -> None:
    drawn, grid = "space: {model.dropout: {uniform: [0, 1]}", "model.width: {grid: [8, 16, 32]}}"
    assert (
        optuna_draws.describe_size(spec(f"{drawn}, {grid}")) == "36 configurations (12 draws x 3 grid points) x 2 seeds"
    )
    assert optuna_draws.describe_size(spec(f"{drawn}}}")) == "12 configurations x 2 seeds"
    assert (
        optuna_draws.describe_size(spec(f"{drawn}}}"), 2) == "10 configurations (2 of 12 were drawn before) x 2 seeds"
    )
    assert optuna_draws.describe_size(spec(f"space: {{{grid}", search="{}")) == "3 configurations x 2 seeds"


def every_draw(spec: SweepSpec) -> list[dict]:
    """All configurations, with a made-up score for each generation of tpe."""
    results: list[optuna_draws.EarlierResult] = []
    values = []
    for numbers in optuna_draws.list_generations(spec):
        for drawn in optuna_draws.draw_configurations(spec, numbers, results):
            values.append(drawn.values)
        if spec.search.sampler == "tpe":
            results += [
                optuna_draws.EarlierResult(values=values[number], score=score(values[number])) for number in numbers
            ]
    return values


def score(values: dict) -> float:
    return abs(np.log10(values["training.learning_rate"]) + 2.0)


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
def test_the_same_spec_draws_the_same_values(spec, sampler):
    parsed = spec(SPACE, f"search.sampler={sampler}", "search.generation=4")
    assert every_draw(parsed) == every_draw(parsed)
    other = spec(SPACE, f"search.sampler={sampler}", "search.generation=4", "search.seed=1")
    assert every_draw(parsed) != every_draw(other)


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
def test_more_configurations_leave_the_first_ones_alone(spec, sampler):
    few = spec(SPACE, f"search.sampler={sampler}", "search.generation=4")
    many = spec(SPACE, f"search.sampler={sampler}", "search.generation=4", "search.configurations=20")
    assert every_draw(many)[:12] == every_draw(few)


def test_every_value_lies_in_its_domain(spec):
    for values in every_draw(spec(SPACE, "search.configurations=200")):
        assert 1e-4 <= values["training.learning_rate"] <= 1e-1
        assert values["training.batch_size"] in (8, 16, 32)
        assert 0.0 <= values["model.dropout"] <= 0.6
        assert 0.9 <= values["training.averages.ema.decay"] <= 0.9999
        assert values["model.width"] in (8, 16, 24, 32) and type(values["model.width"]) is int
        assert values["training.clip"] >= 0.1


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_values_follow_the_distribution_of_their_domain(spec, sampler):
    drawn = every_draw(spec(SPACE, f"search.sampler={sampler}", "search.configurations=400"))
    rate = np.log10([values["training.learning_rate"] for values in drawn])
    assert stats.kstest(rate, stats.uniform(-4, 3).cdf).pvalue > 0.01
    decay = np.log10([1.0 - values["training.averages.ema.decay"] for values in drawn])
    assert stats.kstest(decay, stats.uniform(-4, 3).cdf).pvalue > 0.01
    clip = np.array([values["training.clip"] for values in drawn])
    unclipped = clip[clip > 0.1]
    assert stats.kstest(unclipped, stats.truncnorm(-1.8, np.inf, 1.0, 0.5).cdf).pvalue > 0.01
    counts = np.unique([values["training.batch_size"] for values in drawn], return_counts=True)[1]
    assert stats.chisquare(counts).pvalue > 0.01


def test_qmc_spreads_better_than_chance(spec):
    space = "space:\n  model.dropout: {uniform: [0.0, 0.6]}\n  training.learning_rate: {uniform: [0.0, 1.0]}\n"

    def discrepancy(sampler: str) -> float:
        drawn = every_draw(spec(space, f"search.sampler={sampler}", "search.configurations=64"))
        points = [[values["model.dropout"] / 0.6, values["training.learning_rate"]] for values in drawn]
        return float(stats.qmc.discrepancy(np.array(points)))

    assert discrepancy("qmc") < 0.2 * discrepancy("random")


def test_numbers_are_short_and_decays_are_clean(spec):
    for values in every_draw(spec(SPACE, "search.configurations=50")):
        assert values["training.learning_rate"] == float(f"{values['training.learning_rate']:.6g}")
        assert len(repr(values["training.averages.ema.decay"])) <= 12  # 0.9 + at most nine digits more


def test_a_narrow_domain_has_many_values(spec):
    narrow = """
space:
  model.dropout: {uniform: [0.1, 0.1000001]}
  training.averages.ema.decay: {uniform: [0.999999, 0.9999999]}
  training.clip: {normal: [1.0, 1.0e-6]}
"""
    drawn = every_draw(spec(narrow, search="{configurations: 50}"))
    for key in ("model.dropout", "training.averages.ema.decay", "training.clip"):
        assert len({values[key] for values in drawn}) > 35


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_a_part_of_the_draws_is_that_part_of_all_of_them(spec, sampler):
    parsed = spec(SPACE, f"search.sampler={sampler}")
    whole = optuna_draws.draw_configurations(parsed, range(12))
    assert optuna_draws.draw_configurations(parsed, range(5, 9)) == whole[5:9]


def test_bounds_of_a_decay_stay_what_was_written():
    distribution = make_distribution(OneMinusLogUniform(0.9, 0.9999))
    assert (distribution.low, distribution.high) == (0.0001, 0.1)


def test_arms_of_a_grid_share_their_draws(spec):
    grid = "space:\n  model.norm: {grid: [none, pre]}\n  training.learning_rate: {log_uniform: [1.0e-4, 0.1]}\n"
    values = every_draw(spec(grid, "search.configurations=3"))
    assert [draw["model.norm"] for draw in values] == ["none", "pre"] * 3
    rates = [draw["training.learning_rate"] for draw in values]
    assert rates[0::2] == rates[1::2] and len(set(rates)) == 3


def test_a_condition_on_one_arm_leaves_the_other_arm_paired(spec):
    space = """
space:
  model.norm: {grid: [none, pre]}
  training.clip: {normal: [1.0, 0.1], when: {model.norm: pre}}
  training.learning_rate: {log_uniform: [1.0e-4, 0.1]}
"""
    values = every_draw(spec(space, "search.configurations=4"))
    assert ["training.clip" in draw for draw in values] == [False, True] * 4
    rates = [draw["training.learning_rate"] for draw in values]
    assert rates[0::2] == rates[1::2]


def test_only_grids_are_one_draw(spec):
    space = "space:\n  model.norm: {grid: [none, pre]}\n  model.width: {grid: [8, 16, 32]}\n"
    parsed = spec(space, search="{sampler: grid}")
    assert optuna_draws.count_configurations(parsed) == 6
    assert [tuple(values.values()) for values in every_draw(parsed)] == [
        (norm, width) for norm in ("none", "pre") for width in (8, 16, 32)
    ]


def test_no_space_is_one_configuration(spec):
    parsed = spec("", search="{}")
    assert optuna_draws.count_configurations(parsed) == 1 and every_draw(parsed) == [{}]


def test_tpe_draws_a_condition_only_where_it_holds(spec):
    space = """
space:
  model.norm: {choice: [none, pre]}
  training.clip: {normal: [1.0, 0.1], when: {model.norm: pre}}
  training.learning_rate: {log_uniform: [1.0e-4, 0.1]}
"""
    values = every_draw(spec(space, "search.sampler=tpe", "search.configurations=24"))
    assert {draw["model.norm"] for draw in values} == {"none", "pre"}
    assert all(("training.clip" in draw) == (draw["model.norm"] == "pre") for draw in values)


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(range(12))))
def test_told_values_go_back_to_what_optuna_drew(seed, index):
    """A replayed study holds the same parameters as the one that asked, whatever the domain."""
    generator = random.Random(seed)
    domains = [
        Choice((1, "a", None, 2.5, True)),
        Uniform(-1.0, 1.0),
        LogUniform(1e-6, 1e2),
        OneMinusLogUniform(0.9, 0.99999),
        IntUniform(2, 20, 3),
        Normal(0.0, 2.0, -3.0, 5.0),
    ]
    domain = domains[index % len(domains)]
    distribution = make_distribution(domain)
    if isinstance(domain, Choice):
        inner = generator.randrange(5)
    elif isinstance(domain, IntUniform):
        inner = generator.randrange(2, 21, 3)
    else:
        inner = generator.uniform(distribution.low, distribution.high)
    value = convert_from_optuna(domain, inner)
    again = convert_to_optuna(domain, value)
    assert distribution._contains(distribution.to_internal_repr(again))
    expected = pytest.approx(value, rel=1e-5) if type(value) is float else value
    assert convert_from_optuna(domain, again) == expected and type(convert_from_optuna(domain, again)) is type(value)
