"""A sweep in another tool's shape is refused with the same domains in our words as the hint."""

from collections.abc import Callable
from pathlib import Path

import pytest

from search_spaces import Problem, load_sweep

Refuse = Callable[..., tuple[Problem, ...]]
KEY, RATE = "model.width", "training.learning_rate"  # without a fixed value, and with one that is a real number

DOMAINS = {
    # W&B
    "{values: [0.0, 0.1]}": {"choice": [0.0, 0.1]},
    "{values: [pre, post], when: {model.norm: none}}": {"choice": ["pre", "post"], "when": {"model.norm": "none"}},
    "{min: 0.0, max: 0.1}": {"uniform": [0.0, 0.1]},
    "{min: 0, max: 1}": {"uniform": [0, 1]},
    "{min: 1, max: 8}": {"int_uniform": [1, 8]},
    "{distribution: log_uniform_values, min: 1e-5, max: 0.1}": {"log_uniform": [1e-5, 0.1]},
    "{distribution: log_uniform, min: -9.2103, max: 0}": {"log_uniform": [1e-4, 1.0]},
    "{distribution: int_uniform, min: 1, max: 8}": {"int_uniform": [1, 8]},
    "{distribution: normal, mu: 0.5, sigma: 0.1}": {"normal": [0.5, 0.1]},
    # Optuna
    "{type: float, log: true, low: 1e-4, high: 1}": {"log_uniform": [1e-4, 1]},
    "{type: float, log: false, low: 0, high: 4}": {"uniform": [0, 4]},
    "{type: float, low: 0, high: 1, step: 0.5}": {"choice": [0.0, 0.5, 1.0]},
    "{type: int, low: 16, high: 70, step: 16}": {"int_uniform": [16, 64], "step": 16},
    "{type: int, low: 8, high: 64, log: true}": {"choice": [8, 16, 32, 64]},
    "{type: categorical, choices: [pre, none]}": {"choice": ["pre", "none"]},
    "'suggest_float(\"x\", 1e-5, 1e-1, log=True)'": {"log_uniform": [1e-5, 0.1]},
    # Ax, NNI, Katib
    "{type: range, bounds: [1e-4, 1], log_scale: true}": {"log_uniform": [1e-4, 1]},
    "{_type: loguniform, _value: [1e-4, 1]}": {"log_uniform": [1e-4, 1]},
    "{_type: choice, _value: [1, 2]}": {"choice": [1, 2]},
    '{parameterType: double, feasibleSpace: {min: "0.01", max: "0.5"}}': {"uniform": [0.01, 0.5]},
    # Hydra, Ray
    "choice(0.0, 0.1)": {"choice": [0.0, 0.1]},
    "choice(pre, post)": {"choice": ["pre", "post"]},
    "interval(0.0, 0.1)": {"uniform": [0.0, 0.1]},
    "tag(log, interval(1e-4, 1))": {"log_uniform": [1e-4, 1]},
    "int(interval(1, 8))": {"int_uniform": [1, 8]},
    "range(1, 10)": {"int_uniform": [1, 9]},
    "0.0, 0.1": {"choice": [0.0, 0.1]},
    "tune.loguniform(1e-4, 1e-1)": {"log_uniform": [1e-4, 0.1]},
    "tune.choice([16, 32])": {"choice": [16, 32]},
    "tune.grid_search([1, 2])": {"grid": [1, 2]},
    "[16, 32]": {"choice": [16, 32]},
    "[{uniform: [0.0, 0.1]}]": {"uniform": [0.0, 0.1]},
}
SPACE = "  model.norm: {grid: [none, pre, post]}"


def hint(problem: Problem) -> str:
    assert problem.nearest is not None, problem
    return problem.nearest


@pytest.mark.parametrize(("written", "domain"), DOMAINS.items(), ids=DOMAINS.keys())
def test_a_domain_of_another_tool_is_hinted_in_our_words(
    edited: Callable[..., Path], problems: Refuse, written: str, domain: dict[str, object]
) -> None:
    [problem] = problems(path := edited(SPACE, f"{SPACE}\n  {KEY}: {written}"))
    assert (problem.where, problem.key) == (f"{path}:17", f"space.{KEY}")
    spec = load_sweep(edited(SPACE, f"{SPACE}\n  {KEY}: {hint(problem)}"))
    assert spec.space[KEY].written() == {"step": 1} | domain if "int_uniform" in domain else domain


@pytest.mark.parametrize(
    "written",
    [
        *("{value: 3}", "{values: []}", "{min: 3, max: 1}", "{min: a, max: 1}", "{log: true, low: 0, high: 1}"),
        *("pre", "3", "'1,000'", "null", "[]", "'choice('", "'choice()'", "'log_normal(0, 1)'"),
        *("'logspace(-4, -1, 5)'", f"'{'[' * 400}'"),
    ],
)  # fmt: skip
def test_what_means_no_valid_domain_has_no_hint(edited: Callable[..., Path], problems: Refuse, written: str) -> None:
    [problem] = problems(edited(SPACE, f"{SPACE}\n  {KEY}: {written}"))
    assert (problem.key, problem.nearest) == (f"space.{KEY}", None)


def test_whole_ends_are_real_numbers_where_the_fixed_value_is_one(
    edited: Callable[..., Path], problems: Refuse
) -> None:
    rate = f"  {RATE}: {{log_uniform: [1.0e-4, 1.0e-2]}}"
    [problem] = problems(edited(rate, f"  {RATE}: {{min: 1, max: 8}}"))
    assert hint(problem) == "{uniform: [1, 8]}"
    [problem] = problems(edited(rate, "  training.steps: {min: 1, max: 8}"))
    assert hint(problem) == "{int_uniform: [1, 8]}"


def test_ends_with_names_are_hinted_as_a_list(edited: Callable[..., Path], problems: Refuse) -> None:
    [problem] = problems(edited(SPACE, f"{SPACE}\n  {KEY}: {{uniform: {{min: 0, max: 2}}}}"))
    assert (problem.key, problem.nearest) == (f"space.{KEY}.uniform", "[0, 2]")


@pytest.mark.parametrize("key", ["log_uniform: [1, 2]", "parameters: {lr: {min: 0, max: 1}}"])
def test_what_is_neither_a_key_nor_a_domain_is_one_problem(
    edited: Callable[..., Path], problems: Refuse, key: str
) -> None:
    [problem] = problems(edited(SPACE, f"{SPACE}\n  {key}"))
    assert problem.key == f"space.{key.partition(':')[0]}"


@pytest.mark.parametrize(
    ("nested", "dotted"),
    [
        ("model: {norm: {values: [pre, none]}}", 'model.norm: {choice: ["pre", "none"]}'),
        ("training: {weight_decay: {loguniform: [0.1, 1]}}", "training.weight_decay: {log_uniform: [0.1, 1]}"),
    ],
)
def test_a_nested_domain_is_told_from_a_nested_key(
    edited: Callable[..., Path], problems: Refuse, nested: str, dotted: str
) -> None:
    [problem] = problems(edited(SPACE, f"  {nested}"))
    assert hint(problem) == dotted


def test_nested_keys_are_hinted_with_their_dots(edited: Callable[..., Path], problems: Refuse) -> None:
    nested = "  training: {weight_decay: {min: 0.0, max: 0.1}, averages: {ema: {decay: {uniform: [0.8, 0.9]}}}}"
    path = edited(SPACE, f"{SPACE}\n{nested}")
    [problem] = problems(path)
    assert (problem.where, problem.key) == (f"{path}:17", "space.training")
    dotted = hint(problem).replace("}, ", "}\n  ")
    spec = load_sweep(edited(SPACE, f"{SPACE}\n  {dotted}"))
    assert spec.space["training.weight_decay"].written() == {"uniform": [0.0, 0.1]}
    assert spec.space["training.averages.ema.decay"].written() == {"uniform": [0.8, 0.9]}
