"""Domains, conditions, grid points, and which drawn values apply."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from search_spaces import (
    Choice,
    Domain,
    FileProblem,
    Grid,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    SweepFileError,
    SweepSpec,
    Uniform,
    list_grid_points,
    load_sweep,
    parse_recorded,
    read_sweep,
    select_active_values,
)
from search_spaces.grammar.domains import DOMAINS

Refuse = Callable[..., tuple[FileProblem, ...]]
SPACE = """\
  training.learning_rate: {log_uniform: [1.0e-4, 1.0e-2]}
  model.norm: {grid: [none, pre, post]}"""


@pytest.fixture
def with_space(edited: Callable[..., Path]) -> Callable[[str], Path]:
    """The valid file with these lines for a space."""
    return lambda lines: edited(SPACE, lines)


def load_domain(path: Path) -> Domain:
    [domain] = load_sweep(path).space.values()
    return domain


@pytest.mark.parametrize(
    ("written", "domain"),
    [
        ("{choice: [64, 128]}", Choice((64, 128))),
        (
            "{choice: [[attention], [attention, residual], null, {a: 1}]}",
            Choice((["attention"], ["attention", "residual"], None, {"a": 1})),
        ),
        ("{choice: [1, true, '1']}", Choice((1, True, "1"))),
        ("{uniform: [0, 0.6]}", Uniform(0.0, 0.6)),
        ("{uniform: [-2, -1]}", Uniform(-2.0, -1.0)),
        ("{log_uniform: [1e-4, 1]}", LogUniform(1e-4, 1.0)),
        ("{one_minus_log_uniform: [0.9, 0.9999]}", OneMinusLogUniform(0.9, 0.9999)),
        ("{int_uniform: [16, 64], step: 16}", IntUniform(16, 64, 16)),
        ("{int_uniform: [-3, 4]}", IntUniform(-3, 4, 1)),
        ("{normal: [1, 0.1]}", Normal(1.0, 0.1)),
        ("{normal: [1, 0.1], low: 0, high: null}", Normal(1.0, 0.1, 0.0, None)),
        ("{normal: [1, 0.1], low: 0.5, high: 1}", Normal(1.0, 0.1, 0.5, 1.0)),
        ("{uniform: [0, 1], when: {model.norm: pre}}", Uniform(0.0, 1.0, when={"model.norm": ("pre",)})),
        ("{uniform: [0, 1], when: {model.norm: [pre, 3]}}", Uniform(0.0, 1.0, when={"model.norm": ("pre", 3)})),
    ],
)
def test_domains_are_read(with_space: Callable[[str], Path], written: str, domain: Domain) -> None:
    assert load_domain(with_space(f"  model.width: {written}")) == domain


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[0.1, 0.01]", Choice((0.1, 0.01))),
        ("pre", Grid(("pre",))),
        ("{values: [0.1, 0.01]}", Choice((0.1, 0.01))),
        ("{min: 0.1, max: 0.2}", Uniform(0.1, 0.2)),
        ("{distribution: log_uniform_values, min: 0.1, max: 0.2}", LogUniform(0.1, 0.2)),
        ("loguniform(1.0e-4, 0.1)", LogUniform(1e-4, 0.1)),
    ],
)
def test_what_is_no_domain_is_answered_by_the_one_that_is_meant(
    with_space: Callable[[str], Path], problems: Refuse, written: str, meant: Domain
) -> None:
    drawn = "  model.dropout: {uniform: [0, 1]}\n  model.width:"
    [problem] = problems(with_space(f"{drawn} {written}"))
    assert load_sweep(with_space(f"{drawn} {problem.nearest}")).space["model.width"] == meant
    assert problem.allowed is not None and all(f"{{{kind}: [" in problem.allowed for kind in DOMAINS)


def test_a_list_without_random_domains_beside_it_means_a_grid(with_space, problems) -> None:
    [problem] = problems(with_space("  model.dropout: {grid: [0.0, 0.1]}\n  model.width: [8, 16]"))
    assert problem.nearest == "{grid: [8, 16]}"


def test_bounds_become_floats(with_space: Callable[[str], Path]) -> None:
    domain = load_domain(with_space("  model.width: {uniform: [0, 1]}"))
    assert isinstance(domain, Uniform)
    assert (type(domain.low), type(domain.high)) == (float, float)


@pytest.mark.parametrize(
    ("lines", "line", "key", "meant"),
    [
        ("{uniform: [0, 1], when: {model.nom: pre}}", 15, "a.when.model.nom", "model.norm"),
        ("{uniform: [0, 1], when: {model.b: [x, yess]}}\n  model.b: {choice: [x, yes]}", 15, "a.when.model.b", "yes"),
        ("{uniform: [0, 1], when: {model.b: true}}\n  model.b: {choice: [1, 2]}", 15, "a.when.model.b", None),
        ("{uniform: [0, 1], when: {model.b: 1}}\n  model.b: {uniform: [1, 2]}", 15, "a.when.model.b", None),
        ("{choice: [1, 2], when: {model.a: 1}}", 15, "a.when", None),
        ("{choice: [1, 2], when: {model.b: 1}}\n  model.b: {choice: [1], when: {model.a: 1}}", 15, "a.when", None),
        ("{choice: [1], when: {}}", 15, "a.when", None),
        ("{choice: [1], when: pre}", 15, "a.when", None),
        ("{choice: [1], when: }", 15, "a.when", None),
        ("{choice: [1], when: {model.norm: []}}", 15, "a.when.model.norm", None),
        ("{choice: [1]}\n  model.a.b: {choice: [1]}", 16, "a.b", None),
        ("{choice: [1]}\n" + "".join(f"  model.k{n}: {{grid: {[*range(10)]}}}\n" for n in range(6)), 14, None, None),
    ],
)
def test_conditions_that_cannot_be_decided(
    with_space: Callable[[str], Path], problems: Refuse, lines: str, line: int, key: str | None, meant: str | None
) -> None:
    path = with_space(f"  model.a: {lines}".rstrip())
    [problem] = problems(path)
    expected = (f"{path}:{line}", f"space.model.{key}" if key else "space", meant)
    assert (problem.where, problem.key, problem.nearest) == expected


def test_every_circle_is_reported_and_what_merely_leads_to_it_is_not(
    with_space: Callable[[str], Path], problems: Refuse
) -> None:
    domains = [("lead", "a"), ("a", "b"), ("b", "a"), ("c", "d"), ("d", "e"), ("e", "c")]
    path = with_space(
        "\n".join(f"  model.{key}: {{choice: [1, 2], when: {{model.{other}: 1}}}}" for key, other in domains)
    )
    assert sorted(problem.key for problem in problems(path)) == ["space.model.a.when", "space.model.c.when"]


def test_dense_conditions_take_no_time(with_space: Callable[[str], Path]) -> None:
    lines = [
        f"  model.k{n}: {{choice: [1, 2]"
        + (f", when: {{{', '.join(f'model.k{other}: 1' for other in range(n))}}}}}" if n else "}")
        for n in range(60)
    ]
    spec = load_sweep(with_space("\n".join(lines)))
    assert len(select_active_values(spec, {f"model.k{n}": 1 for n in range(60)})) == 60


def test_value_of_a_conditional_key_may_be_its_fixed_one(with_space: Callable[[str], Path]) -> None:
    spec = load_sweep(
        with_space(
            "  model.kind: {choice: [x, y]}\n"
            "  model.norm: {choice: [pre, post], when: {model.kind: x}}\n"
            "  model.eps: {uniform: [0, 1], when: {model.norm: none}}"
        )
    )
    drawn = {"model.kind": "y", "model.norm": "pre", "model.eps": 0.5}
    assert select_active_values(spec, drawn) == {"model.kind": "y", "model.eps": 0.5}
    assert select_active_values(spec, drawn | {"model.kind": "x"}) == {"model.kind": "x", "model.norm": "pre"}


def conditional(with_space: Callable[[str], Path]) -> SweepSpec:
    return load_sweep(
        with_space(
            "  training.rate: {uniform: [0, 1], when: {model.norm: [pre, post], training.steps: 100}}\n"
            "  training.clip: {normal: [1, 0.1], when: {training.steps: 99}}\n"
            "  model.norm: {grid: [none, pre, post]}\n"
            "  model.size: {grid: [1, 2]}"
        )
    )


def test_value_of_a_key_that_is_always_drawn_is_never_its_fixed_one(
    with_space: Callable[[str], Path], problems: Refuse
) -> None:
    path = with_space(
        "  model.norm: {choice: [pre, post]}\n  model.eps: {choice: [1], when: {model.norm: [pre, none]}}"
    )
    [problem] = problems(path)
    assert (problem.given, problem.allowed) == ("none", "'pre', 'post'")


def test_grid_points_are_the_product_in_file_order(with_space: Callable[[str], Path]) -> None:
    assert list_grid_points(conditional(with_space)) == [
        {"model.norm": norm, "model.size": size} for norm in ("none", "pre", "post") for size in (1, 2)
    ]


def test_no_grid_is_one_empty_point(with_space: Callable[[str], Path]) -> None:
    assert list_grid_points(load_sweep(with_space("  model.a: {choice: [1, 2]}"))) == [{}]


def test_grid_points_share_nothing_with_the_spec(with_space: Callable[[str], Path]) -> None:
    spec = load_sweep(with_space("  model.sites: {grid: [[a], [b]]}\n  model.p: {uniform: [0, 1]}"))
    list_grid_points(spec)[0]["model.sites"].append("x")
    assert list_grid_points(spec) == [{"model.sites": ["a"]}, {"model.sites": ["b"]}]


def test_every_condition_must_hold(with_space: Callable[[str], Path]) -> None:
    spec = conditional(with_space)
    drawn = {"training.rate": 0.5, "training.clip": 1.0, "model.norm": "pre", "model.size": 1}
    assert select_active_values(spec, drawn) == {"training.rate": 0.5, "model.norm": "pre", "model.size": 1}
    assert select_active_values(spec, drawn | {"model.norm": "none"}) == {"model.norm": "none", "model.size": 1}


def test_the_space_may_be_empty(with_space: Callable[[str], Path], valid_text: str, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(valid_text.replace(f"space:\n{SPACE}\nsearch: {{configurations: 6}}\n", ""))
    spec = load_sweep(path)
    assert spec.space == {} and spec.search.configurations is None and list_grid_points(spec) == [{}]


def test_grid_alone_needs_no_draws(with_space: Callable[[str], Path]) -> None:
    path = with_space("  model.norm: {grid: [none, pre]}")
    path.write_text(path.read_text().replace("search: {configurations: 6}\n", "search: {sampler: grid}\n"))
    assert load_sweep(path).search.sampler == "grid"


WHOLE = "  model: {choice: [{name: lstm, width: 4}, {name: attention_only, width: 4}]}"


@pytest.mark.parametrize(
    ("space", "key", "outer"),
    [
        (WHOLE + "\n  training.steps: {choice: [1], when: {model.name: lstm}}",
         "training.steps.when.model.name", "model"),
        ("  model.norm: {choice: [pre]}\n  training.steps: {choice: [1], when: {model: {name: lstm}}}",
         "training.steps.when.model", "model.norm"),
    ],
)  # fmt: skip
def test_a_condition_on_a_part_of_what_is_drawn_is_refused_in_a_file(sweep_file, valid_text, space, key, outer):
    """It would be judged by the fixed section. A recorded specification may have it, and stays what it was."""
    start, end = valid_text.index("space:"), valid_text.index("search:")
    text = f"{valid_text[:start]}space:\n{space}\n{valid_text[end:]}"
    with pytest.raises(SweepFileError) as refused:
        load_sweep(sweep_file(text))
    (problem,) = refused.value.problems
    assert problem.key == f"space.{key}" and f"overlaps with {outer}, which the space draws" in str(problem)
    assert parse_recorded(yaml.safe_load(text), "the specification").space
    assert load_sweep(sweep_file(text), recorded=True).is_recorded


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("model.norm: [none, pre]", None),
        ("model.norm: prre", 'model.norm is "none", so training.steps is never drawn'),
        (
            "model.sites: [attention]",
            'model.sites is ["attention"], so training.steps is never drawn; for a list write [[',
        ),
        ("model.sites: [[attention]]", None),
    ],
)
def test_a_key_that_is_never_drawn_is_noted(sweep_file, valid_text, when, message):
    start, end = valid_text.index("space:"), valid_text.index("search:")
    text = f"{valid_text[:start]}space:\n  training.steps: {{choice: [1], when: {{{when}}}}}\n{valid_text[end:]}"
    notes = read_sweep(sweep_file(text.replace("  norm: none", "  norm: none\n  sites: [attention]"))).findings.notes
    assert len(notes) == (message is not None) and (
        message is None or message.replace('"', "'") in notes[0].replace('"', "'")
    )
