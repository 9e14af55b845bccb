"""Larger sweeps of the same draws: old configurations keep their numbers and values, whatever is added in any order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import UserError
from orchestrator.plan import optuna_draws
from orchestrator.plan.extension import Extension, find_extension, format_seeds, require_extension
from search_spaces import SweepSpec, parse_sweep

TEXT = """
name: extended
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, norm: none, dropout: 0.0}
training: {steps: 60, batch_size: 8, learning_rate: 0.01, averages: {raw: {}}}
space:
  model.norm: {grid: [none, pre, post]}
  model.width: {grid: [8, 16, 24], when: {model.norm: none}}
  model.dropout: {uniform: [0.0, 0.6], when: {model.norm: none}}
  training.learning_rate: {log_uniform: [1.0e-4, 1.0e-1]}
search: {configurations: 4, seed: 5}
seeds: 2
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
"""


def spec(*overrides: str) -> SweepSpec:
    return parse_sweep(TEXT, "extended.yaml", overrides)


def of_size(sampler: str, norms: int, widths: int, configurations: int) -> SweepSpec:
    listed = ["none", "pre", "post"][:norms], [8, 16, 24][:widths]
    return spec(
        f"search.sampler={sampler}",
        f"search.configurations={configurations}",
        f"space.model.norm={{grid: {listed[0]}}}",
        f"space.model.width={{grid: {listed[1]}, when: {{model.norm: none}}}}",
    )


sizes = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=3)


@settings(max_examples=20)
@given(sampler=st.sampled_from(["random", "qmc"]), steps=sizes, drawn=st.integers(0, 30))
def test_old_configurations_stay_and_all_of_the_larger_sweep_are_there(sampler, steps, drawn):
    """Sweeps are extended step by step; the first is interrupted when so many are drawn."""
    size, known = (0, 0, 0), dict[int, optuna_draws.Draw]()
    for step, more in enumerate(steps):
        size = tuple(map(max, size, more))
        spec = of_size(sampler, *size)
        draws = optuna_draws.draw_configurations(spec, range(optuna_draws.count_configurations(spec)), (), known)
        assert {n: (draws[n].values, draws[n].draw_index) for n in known} == {
            n: (d.values, d.draw_index) for n, d in known.items()
        }
        assert [draw.number for draw in draws] == list(range(len(draws)))
        known = {draw.number: draw for draw in (draws[:drawn] if step == 0 else draws)}
        whole = optuna_draws.draw_configurations(spec, range(optuna_draws.count_configurations(spec)))
        assert sorted(map(repr, ((d.draw_index, sorted(d.values.items())) for d in draws))) == sorted(
            map(repr, ((d.draw_index, sorted(d.values.items())) for d in whole))
        )
        if step == 0:
            assert draws == whole


def test_what_is_added_is_found_and_written_as_options():
    now = spec(
        "seeds=4", "search.configurations=6", "space.model.width={grid: [32, 24, 16, 8], when: {model.norm: none}}"
    )
    added = find_extension(spec(), now)
    assert added == require_extension(spec(), now, "it")
    assert added == Extension(
        seeds=(2, 3),
        configurations=6,
        grids={"model.width": {"grid": [32, 24, 16, 8], "when": {"model.norm": ["none"]}}},
    )
    assert added.options == (
        """--seeds 2-3 --configurations 6 --set """
        """'space.model.width={"grid": [32, 24, 16, 8], "when": {"model.norm": ["none"]}}'"""
    )
    assert find_extension(spec(), spec()) is None
    assert [format_seeds(seeds) for seeds in ((4,), (4, 5), (1, 4, 5))] == ["4-4", "4-5", "1,4-5"]


@pytest.mark.parametrize(
    "override",
    [
        "seeds=[0, 2]",
        "search.configurations=3",
        "search.seed=6",
        "space.model.norm={grid: [none, pre]}",
        "space.model.norm={choice: [none, pre, post]}",
        "space.model.dropout={uniform: [0.0, 0.7]}",
        "space.training.clip={grid: [1.0]}",
        "training.steps=61",
    ],
)
def test_nothing_else_is_an_extension(override):
    now = spec("seeds=[0, 1, 2]", override)
    assert find_extension(spec(), now) is None
    with pytest.raises(UserError, match="allowed: more seeds, configurations or grid values"):
        require_extension(spec(), now, "it")


def test_another_order_of_seeds_or_of_a_grid_adds_nothing():
    space = "space={model.norm: {grid: [none, post]}}"
    before, now = spec(space, "search={}"), spec(space.replace("none, post", "post, none"), "search={}")
    assert require_extension(before, now, "it") == Extension()


def test_tpe_grows_by_whole_generations():
    tpe = ("space={training.learning_rate: {log_uniform: [1.0e-4, 0.1]}}", "search.sampler=tpe", "search.generation=4")
    before = {count: spec(*tpe, f"search.configurations={count}") for count in (6, 8, 12)}
    assert require_extension(before[8], before[12], "it").configurations == 12
    with pytest.raises(UserError, match="generation is incomplete"):
        require_extension(before[6], before[12], "it")
