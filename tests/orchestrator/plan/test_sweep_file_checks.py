"""One round: grammar, single values and what is wrong between them, each once, in the order of lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import search_spaces
from orchestrator.plan.checks.sweep_file_checks import (
    UNBUILT,
    UNIMPORTED,
    build_configurations,
    build_first_generation,
    summarize_sample,
)
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from search_spaces import SweepFileError, dump_yaml, load_sweep, parse_sweep
from search_spaces.grammar.load import UNCHECKED_REST
from tests.sweep_files import load_checked

FILE = """name: whole
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3}
model:
  name: decoder
  layers: 1
  width: 8
  heads: 2
training:
  steps: 60
  batch_size: 8
  learning_rate: 0.01
  averages: {raw: {}, ema: {decay: 0.9}}
evaluation: {every: 20}
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
seeds: 1
search: {configurations: 4}
space:
  model.dropout: {uniform: [0.0, 0.5]}
  model.norm: {choice: [pre, post]}
"""
Refused = Callable[..., SweepFileError]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """The refusal of the file with texts replaced; its problems are named by their lines and keys."""

    def check(*changes: tuple[str, str]) -> SweepFileError:
        text = FILE
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / "whole.yaml").write_text(text)
        with pytest.raises(SweepFileError) as caught:
            spec = load_checked(tmp_path / "whole.yaml")
            build_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 50)])
        return caught.value

    return check


def lines(error: SweepFileError) -> list[tuple[int, str]]:
    return [(int(problem.where.rpartition(":")[2]), problem.key) for problem in error.problems]


def test_a_file_without_problems_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "whole.yaml"
    path.write_text(FILE)
    assert load_checked(path, ["seeds=3"], "other") == load_sweep(path, ["seeds=3"], "other")


def test_grammar_values_and_what_is_between_them_come_in_one_round(refused: Refused) -> None:
    error = refused(
        ("study: tests", "study: .hidden"),
        ("  width: 8", "  width: 9"),  # between values: two heads do not divide it
        ("batch_size: 8", "batch_size: 0\n  bach_size: 8"),
        ("total_variation", "totl_variation"),
        ("minimize", "down"),
        ("[0.0, 0.5]", "[0.0, 1.5]"),
        ("{choice: [pre, post]}", "{choice: [pre, post, pots]}"),
    )
    assert lines(error) == [
        (2, "study"),
        (8, "model.heads"),
        (11, "training.batch_size"),
        (12, "training.bach_size"),
        (16, "objective.direction"),
        (16, "objective.metric"),
        (20, "space.model.dropout.uniform[1]"),
        (21, "space.model.norm.choice[2]"),
    ]
    assert error.unchecked == ""
    assert lines(refused(("  width: 8", "  width: 9"), ("minimize", "down"))) == [
        (8, "model.heads"),
        (15, "objective.direction"),
    ]


def test_a_sound_grammar_gives_all_the_rest_in_one_round(refused: Refused) -> None:
    error = refused(("steps: 60", "steps: 0"), ("[0.0, 0.5]", "[0.0, 1.5]"), ("average: ema", "average: emma"))
    assert lines(error)[0] == (10, "training.steps")
    error = refused(("steps: 60", "steps: 0"), ("[0.0, 0.5]", "[0.0, 1.5]"), ("total_variation", "totl_variation"))
    assert lines(error) == [(10, "training.steps"), (15, "objective.metric"), (19, "space.model.dropout.uniform[1]")]


def test_what_is_damaged_says_nothing_more(refused: Refused) -> None:
    """No problem follows from a stand-in, an item that cannot be read, or a domain that was dropped."""
    error = refused(
        ("objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}", "objectiv: {}"),
        ("vocabulary: 6", "vocabulary: .nan"),
        ("  layers: 1\n", "  layers: 0\n"),
        ("{choice: [pre, post]}", "{choice: []}"),
        ("  learning_rate: 0.01\n", ""),
        ("model.dropout: {", "training.learning_rate: {when: {model.norm: pre}, "),
    )
    assert lines(error) == [
        (3, "task.vocabulary"),
        (6, "model.layers"),
        (14, "objectiv"),
        (19, "space.model.norm.choice"),
    ]
    assert error.unchecked == UNBUILT


def test_a_stand_in_and_an_alias_are_not_looked_at(refused: Refused) -> None:
    assert lines(refused(("metric: total_variation", "metric: 3"))) == [(15, "objective.metric")]
    assert lines(refused(("lengths: [4]", "lengths: [4, x]"))) == [(15, "objective.lengths")]
    error = refused(("layers: 1", "layers: &one 1"), ("steps: 60", "steps: *one"), ("batch_size: 8", "batch_size: 0"))
    assert lines(error) == [(6, "model.layers"), (11, "training.batch_size")]


def test_the_class_of_a_damaged_name_is_not_guessed(refused: Refused) -> None:
    error = refused(("name: decoder", "name: !!str attention_only"), ("steps: 60", "steps: 0"))
    assert lines(error) == [(5, "model.name"), (10, "training.steps")]
    error = refused(("model.norm: {choice: [pre, post]}", "model.name: {choice: []}"), ("steps: 60", "steps: 0"))
    assert lines(error) == [(10, "training.steps"), (20, "space.model.name.choice")]


@pytest.mark.parametrize(
    "change",
    [
        ("name: whole", "nam: whole"),
        ("seeds: 1", "seeds: 0"),
        ("seeds: 1", "seeds: 1\ntracking: 3"),
        ("seeds: 1", "seeds: 1\nresources: {pack: 0, cpu: 3}"),
        ("search: {configurations: 4}", "search: {}"),
        ("search: {configurations: 4}", "search: {sampler: Random, configurations: 4}"),
        ("search: {configurations: 4}", "search: {sampler: listed, configurations: 4}"),
        ("minimize", "minimise"),
        ("study: tests\n", ""),
    ],
)
def test_one_fault_of_the_grammar_alone_brings_no_other(refused: Refused, change: tuple[str, str]) -> None:
    error = refused(change)
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(FILE.replace(*change), error.problems[0].where.rpartition(":")[0])
    assert error.problems == caught.value.problems and error.unchecked == ""


def test_a_direction_that_the_task_knows_is_not_missed_beside_another_fault(refused: Refused) -> None:
    assert lines(refused((", direction: minimize", ""), ("seeds: 1", "seeds: 0"))) == [(16, "seeds")]


def test_a_section_that_is_missing_or_misspelt_is_one_problem(refused: Refused) -> None:
    assert lines(refused(("training:\n", "trainin:\n"))) == [(9, "trainin")]
    misspelt = refused(("space:\n", "spac:\n"), ("  steps: 60\n", ""), ("search: {configurations: 4}\n", ""))
    assert lines(misspelt) == [(16, "spac")]
    assert misspelt.unchecked == UNBUILT


def test_a_text_that_is_no_yaml_says_that_nothing_else_was_checked(refused: Refused, tmp_path: Path) -> None:
    error = refused(("seeds: 1", "seeds: [1"), ("steps: 60", "steps: 0"))
    assert len(error.problems) == 1 and error.unchecked == UNCHECKED_REST
    with pytest.raises(SweepFileError) as caught:
        load_checked(tmp_path / "absent.yaml")
    assert caught.value.unchecked == ""


def test_where_own_modules_cannot_be_imported_names_are_not_looked_at(refused: Refused) -> None:
    error = refused(
        ("seeds: 1", "seeds: 0"), ("name: decoder", "name: mine"), ("task:", "imports: [no_such_module]\ntask:")
    )
    assert lines(error) == [(3, "imports[0]"), (17, "seeds")] and error.unchecked == UNIMPORTED
    error = refused(("name: decoder", "name: mine"), ("task:", "imports: [3]\ntask:"))
    assert lines(error) == [(3, "imports")] and error.unchecked == UNIMPORTED


def test_more_grid_points_than_can_be_are_not_multiplied_out(refused: Refused) -> None:
    sizes = str(list(range(1, 2000)))
    grids = f"model.heads: {{grid: {sizes}}}\n  training.batch_size: {{grid: {sizes}}}\n  training.steps: {{grid: [0]}}"
    error = refused(("model.norm: {choice: [pre, post]}", grids))
    assert lines(error) == [(18, "space"), (22, "space.training.steps.grid[0]")]


def test_overrides_come_after_the_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "whole.yaml"
    path.write_text(FILE.replace("steps: 60", "steps: 0"))
    with pytest.raises(SweepFileError) as caught:
        load_checked(path, ["model.layers=0", "seeds=0", "space.model.dropout={uniform: [0, 2]}"])
    assert [problem.where for problem in caught.value.problems] == [
        f"{path}:10",
        "--set seeds=0",
        "--set model.layers=0",
        "--set space.model.dropout={uniform: [0, 2]}",
    ]


# Properties -----------------------------------------------------------------------------------------------------------

QUICKSTART = (Path(search_spaces.__file__).parent / "quickstart.yaml").read_text(encoding="utf-8")
scalars = st.none() | st.booleans() | st.integers(-9, 99) | st.floats(-9, 9) | st.sampled_from(["pre", "ema", "x", ""])
odd = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choice", "grid", "uniform", "when", "name", "kind", "ema"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
KEYS = [
    *("task", "task.name", "task.vocabulary", "model", "model.name", "model.width", "model.position", "training"),
    *("training.averages", "training.averages.ema", "training.schedule", "evaluation", "evaluation.lengths", "space"),
    *("search", "search.sampler", "search.listed", "seeds", "objective", "objective.metric", "resources", "name"),
    *("space.model.dropout", "space.model.name", "space.model.norm", "space.training.averages.ema.kind"),
]


@settings(
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.sampled_from(KEYS), odd), min_size=1, max_size=3))
def test_any_value_anywhere_is_a_refusal_or_a_sweep(tmp_path: Path, changes: list[tuple[str, Any]]) -> None:
    (tmp_path / "sweep.yaml").write_text(QUICKSTART, encoding="utf-8")
    overrides = [f"{key}={dump_yaml({'x': value}).removeprefix('x:').strip()}" for key, value in changes]
    try:
        spec = load_checked(tmp_path / "sweep.yaml", overrides)
        build_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 3)])
    except SweepFileError as error:
        assert error.problems and len(str(error).splitlines()) == len(error.problems)
        try:
            load_sweep(tmp_path / "sweep.yaml", overrides)
        except SweepFileError as grammar:
            assert set(map(str, grammar.problems)) <= set(map(str, error.problems))


numbers = st.sampled_from([-1.0, 0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 4.0])
pairs = st.lists(numbers, min_size=2, max_size=2, unique=True).map(sorted)
drawable = st.one_of(
    pairs.map(lambda pair: {"uniform": pair}),
    pairs.map(lambda pair: {"normal": [pair[0], 0.2], "high": pair[1]}),
    st.tuples(st.integers(-2, 3), st.integers(1, 4)).map(lambda pair: {"int_uniform": [pair[0], pair[0] + pair[1]]}),
    st.lists(st.sampled_from([0, 1, 2, 0.5, -1, "pre", "post", None]), min_size=1, max_size=3, unique_by=repr).map(
        lambda values: {"choice": values}
    ),
)
conditional = st.tuples(drawable, st.none() | st.sampled_from(["decoder", "attention_only"]))
fields = [
    "model.dropout",
    "model.layers",
    "model.init_std",
    "training.clip",
    "training.averages.ema.decay",
    "model.norm",
]


@settings(max_examples=60, derandomize=True)
@given(st.dictionaries(st.sampled_from(fields), conditional, min_size=1, max_size=3))
def test_what_is_let_pass_is_built_whatever_is_drawn(space: dict[str, Any]) -> None:
    """And what is refused here has a draw, or an end of a domain, that cannot be built."""
    domains: dict[str, Any] = {"model.name": {"choice": ["decoder", "attention_only"]}}
    for key, (domain, name) in space.items():
        domains[key] = {**domain, **({"when": {"model.name": name}} if name else {})}
    text = FILE[: FILE.index("space:")].replace("  layers: 1\n", "").replace("  heads: 2\n", "")
    try:
        spec = parse_sweep(text.replace("configurations: 4", "configurations: 30") + dump_yaml({"space": domains}), "a")
    except SweepFileError:
        return  # equal numbers in a choice
    draws = [(draw.number, draw.values) for draw in draw_sample(spec, 30)]
    try:
        make_configurations(spec, draws)
        drawn_well = True
    except SweepFileError:
        drawn_well = False
    try:
        build_configurations(spec, draws[:1])
    except SweepFileError as error:
        assert all(problem.key.startswith(("space.", "model.width")) for problem in error.problems)
    else:
        assert drawn_well


SHIPPED = Path(search_spaces.__file__).parent / "quickstart.yaml"


def test_a_problem_of_the_objective_is_reported_once():
    with pytest.raises(SweepFileError) as caught:
        load_checked(SHIPPED, ["objective.average=bema", "objective.metric=kll"])
    assert [problem.key for problem in caught.value.problems] == ["objective.average", "objective.metric"]


def test_a_usual_abbreviation_has_the_key_it_means():
    with pytest.raises(SweepFileError, match=r"training\.lr: .*did you mean learning_rate\?"):
        summarize_sample(load_checked(SHIPPED, ["training.lr=0.1"]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("space.model.width={choice: [8, 16], when: {model.width: 8}}", "cycle: model.width -> model.width"),
        ("space.evaluation={grid: [null, {samples: 5}]}", r"space.evaluation.grid\[0\]: None is not a mapping"),
        ("space={training: {grid: [fast]}}", r"space.training.grid\[0\]: 'fast' is not a mapping"),
    ],
)
def test_a_circle_and_a_section_that_is_no_mapping_are_refused_in_words(override: str, message: str) -> None:
    with pytest.raises(SweepFileError, match=message):
        summarize_sample(load_checked(SHIPPED, [override]))


def test_a_task_that_is_drawn_by_its_name_says_the_direction(tmp_path: Path) -> None:
    file = tmp_path / "named.yaml"
    file.write_text(FILE.replace(", direction: minimize", ""))
    changes = ["space={task: {grid: [set_complement]}}", "search={}", "objective.lengths=[6]"]
    assert load_checked(file, changes).objective.direction == "minimize"


def test_without_any_configuration_nothing_is_said_of_the_direction(tmp_path: Path) -> None:
    file = tmp_path / "listed.yaml"
    file.write_text(FILE.replace(", direction: minimize", ""))
    with pytest.raises(SweepFileError) as caught:
        load_checked(file, ["space={}", "search={sampler: listed}"])
    assert [problem.key for problem in caught.value.problems] == ["search.listed"]


def test_what_tpe_can_draw_later_is_built_before_anything_is_written(tmp_path: Path) -> None:
    """Three heads do not divide 16, which the first generation does not happen to draw."""
    file = tmp_path / "later.yaml"
    file.write_text(FILE)
    space = "space={model.width: {choice: [12, 16]}, model.heads: {choice: [1, 2, 3]}}"
    for seed in range(8):
        search = f"search={{sampler: tpe, configurations: 8, generation: 2, seed: {seed}}}"
        with pytest.raises(SweepFileError, match="3 does not divide width 16"):
            build_first_generation(load_checked(file, [space, search]))


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "meant"),
    [
        ("steps: 60", "steps: 1e3", 10, "training.steps", "1000"),
        ("steps: 60", "steps: 1_000", 10, "training.steps", "1000"),
        ("steps: 60", 'steps: "60"', 10, "training.steps", "60 without quotes"),
        ("learning_rate: 0.01", 'learning_rate: "1e-4"', 12, "training.learning_rate", "0.0001 without quotes"),
        ("decay: 0.9", 'decay: "0.9"', 13, "training.averages.ema.decay", "0.9 without quotes"),
        ("steps: 60", "steps: 1,000", 10, "training.steps", None),
        ("steps: 60", "steps: [60]", 10, "training.steps", None),
        ("batch_size: 8", "batch_size: 8\n  clip: None", 12, "training.clip", "null"),
        ("decay: 0.9", 'decay: "1.5"', 13, "training.averages.ema.decay", None),
        ("batch_size: 8", 'batch_size: 8\n  betas: ["0.9", 0.99]', 12, "training.betas", "[0.9, 0.99]"),
        ("{uniform: [0.0, 0.5]}", '{choice: [0.0, "1e-1"]}', 19, "space.model.dropout.choice[1]", "0.1 without quotes"),
        ("width: 8", "width: [8, 16]", 7, "model.width", "space: {model.width: {choice: [8, 16]}}"),
        ("steps: 60", "steps: {grid: [1, 9]}", 10, "training.steps", "space: {training.steps: {grid: [1, 9]}}"),
        ("batch_size: 8", "batch_size: 8\n  betas: [0.9]", 12, "training.betas", None),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_hinted(
    refused: Refused, old: str, new: str, line: int, key: str, meant: str | None
) -> None:
    [problem] = (error := refused((old, new))).problems
    assert lines(error) == [(line, key)] and problem.nearest == meant


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("{name: set_complement, vocabulary: 6, train_length: 3}", "[set_complement]", 3, "task"),
        ("{name: set_complement, vocabulary: 6, train_length: 3}", "true", 3, "task"),
        ("name: set_complement", "name: [set_complement]", 3, "task.name"),
        ("vocabulary: 6", "vocabulary: {min: 1, max: 6}", 3, "task.vocabulary"),
        ("layers: 1", "layers: one", 6, "model.layers"),
        ("heads: 2", "heads:", 8, "model.heads"),
        ("steps: 60", "steps: {a: 1}", 10, "training.steps"),
        ("steps: 60", "steps: -1e3", 10, "training.steps"),
        ("steps: 60", "steps: 40k", 10, "training.steps"),
        ("{raw: {}, ema: {decay: 0.9}}", "3", 13, "training.averages"),
        ("{decay: 0.9}", "[0.9]", 13, "training.averages.ema"),
        ("decay: 0.9", "decay: {half: life}", 13, "training.averages.ema.decay"),
        ("evaluation: {every: 20}", "evaluation: 20", 14, "evaluation"),
        ("every: 20", "every: epoch", 14, "evaluation.every"),
        ("lengths: [4]", "lengths: 4", 15, "objective.lengths"),
        ("lengths: [4]", "lengths: {min: 4, max: 5}", 15, "objective.lengths"),
        ("seeds: 1", "seeds: {count: 2}", 16, "seeds"),
        ("seeds: 1", "seeds: 0-3", 16, "seeds"),
        ("seeds: 1", "seeds: [[0, 1]]", 16, "seeds"),
        ("{configurations: 4}", "[4]", 17, "search"),
        ("configurations: 4", "configurations: all", 17, "search.configurations"),
        ("{uniform: [0.0, 0.5]}", "${dropout}", 19, "space.model.dropout"),
        ("{uniform: [0.0, 0.5]}", "{uniform: 0-1}", 19, "space.model.dropout.uniform"),
        ("{uniform: [0.0, 0.5]}", "{choice: {a: 0.1}}", 19, "space.model.dropout.choice"),
        ("{uniform: [0.0, 0.5]}", "{uniform: [0.0, 0.5], when: [model.norm]}", 19, "space.model.dropout.when"),
    ],
)
def test_a_wrong_type_at_any_level_is_one_problem(refused: Refused, old: str, new: str, line: int, key: str) -> None:
    error = refused((old, new))
    assert lines(error) == [(line, key)] and len(str(error).splitlines()) == 1
