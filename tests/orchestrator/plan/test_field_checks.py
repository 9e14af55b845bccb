"""Every value a file gives or can draw against its field: at its line, whatever is drawn, under every name it meets."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.plan.checks.field_checks import check_fields, list_cases
from orchestrator.plan.checks.sweep_file_checks import build_configurations
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from search_spaces import SweepFileError, SweepSpec, parse_sweep
from trainers.settings import registry

FILE = """name: checked
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3}
model:
  name: attention_only
  width: 8
training:
  steps: 60
  batch_size: 8
  learning_rate: 0.01
  averages: {raw: {}, ema: {decay: 0.9}}
evaluation: {every: 20}
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
seeds: 1
search: {configurations: 1}
space:
"""

FindProblems = Callable[..., list[str]]


@pytest.fixture
def find_problems() -> FindProblems:
    """The problems of the file with these lines in its space, and with texts replaced, though one draw is built."""

    def check(*lines: str, change: tuple[str, str] = ("", "")) -> list[str]:
        try:
            spec = spec_of(*lines, change=change)
            drawn = draw_sample(spec, 1)
            build_configurations(spec, [(draw.number, draw.values) for draw in drawn])
        except SweepFileError as error:
            return str(error).splitlines()
        return []

    return check


def spec_of(*lines: str, change: tuple[str, str] = ("", "")) -> SweepSpec:
    assert not change[0] or FILE.count(change[0]) == 1
    text = FILE.replace(*change) if change[0] else FILE
    return parse_sweep(text + "".join(f"  {line}\n" for line in lines), "a.yaml")


RATE = "a number >= 0 and < 1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "model.dropout: {uniform: [0.0, 1.5]}",
            f"model.dropout.uniform[1]: is out of bounds (did you mean 0.99999?); given 1.5; allowed: {RATE}",
        ),
        (
            "training.averages.ema.decai: {choice: [0.5, 0.9]}",
            "training.averages.ema.decai: unknown key (did you mean decay?); allowed: decay, burn_in, update_period",
        ),
        (
            "training.averages: {choice: [{raw: {}, ema: {decay: 2.0}}]}",
            "training.averages.choice[0].ema.decay: 2.0 is out of bounds; allowed: a number >= 0 and <= 1",
        ),
        (
            "training.schedule: {choice: [{name: constant}, {name: cosine, final: 7}]}",
            "training.schedule.choice[1].final: 7 is out of bounds; allowed: a number >= 0 and <= 1",
        ),
        (
            "evaluation.samples: {int_uniform: [0, 10]}",
            "evaluation.samples.int_uniform[0]: is out of bounds (did you mean 1?); given 0; allowed: an integer >= 1",
        ),
        (
            "task.train_length: {choice: [3, 0]}",
            "task.train_length.choice[1]: 0 is out of bounds (did you mean 1?); allowed: an integer >= 1",
        ),
        ("model.width.foo: {choice: [3]}", "model.width.foo: model.width is fixed to 8, which has no keys inside"),
    ],
)
def test_what_a_domain_can_draw_is_held_against_its_field(
    find_problems: FindProblems, line: str, expected: str
) -> None:
    """`test_bounds` has every kind of domain."""
    assert find_problems(line) == [f"a.yaml:17: space.{expected}"]


def test_a_key_inside_a_nested_class_is_held_against_the_class_that_is_named(find_problems: FindProblems) -> None:
    assert (
        find_problems("training.averages.ema.decay: {one_minus_log_uniform: [0.9, 0.999], when: {model.width: 8}}")
        == []
    )
    [only] = find_problems("training.averages.slow.decay: {choice: [0.5, 0.9]}")
    assert "training.averages.slow: no average is called 'slow'" in only
    assert find_problems("training.schedule.warmup: {uniform: [0, 5]}")[0].startswith(
        "a.yaml:7: training.schedule.name: is req"
    )


def test_items_of_a_long_list_have_lines_of_their_own(find_problems: FindProblems) -> None:
    lines = ["training.batch_size:", "  grid:", *(f"    - {size}" for size in (1, 2, 0, 4, 2.5))]
    assert find_problems(*lines, change=("{configurations: 1}", "{sampler: grid}")) == [
        "a.yaml:21: space.training.batch_size.grid[2]: 0 is out of bounds (did you mean 1?); allowed: an integer >= 1",
        "a.yaml:23: space.training.batch_size.grid[4]: 2.5 is not an integer; allowed: an integer >= 1",
    ]


def test_a_list_of_wrong_values_is_counted(find_problems: FindProblems) -> None:
    problems = find_problems(f"training.batch_size: {{choice: {[-n for n in range(1, 2000)]}}}")
    assert len(problems) == 11
    assert problems[-1] == "a.yaml:17: and 1,989 more like it: -11 is out of bounds"


# Fixed values ---------------------------------------------------------------------------------------------------------


def test_a_fixed_value_that_is_always_drawn_is_looked_at(find_problems: FindProblems) -> None:
    assert find_problems("model.width: {choice: [4, 8]}", change=("width: 8", "width: -8")) == [
        "a.yaml:6: model.width: -8 is out of bounds; never used, because the space draws model.width; "
        "correct or remove it; allowed: an integer >= 1"
    ]
    assert find_problems("model.width: {choice: [4, 8]}", change=("  width: 8\n", "")) == []


def test_a_fixed_value_inside_what_is_drawn_as_a_whole_is_looked_at(find_problems: FindProblems) -> None:
    [only] = find_problems(
        "training.averages: {choice: [{raw: {}, ema: {decay: 0.5}}]}", change=("decay: 0.9", "decay: 9")
    )
    assert only.startswith("a.yaml:11: training.averages.ema.decay: 9 is out of bounds; never used, because the space")


def test_a_fixed_name_that_is_always_drawn_is_looked_at(find_problems: FindProblems) -> None:
    [only] = find_problems(
        "model.name: {choice: [attention_only]}", change=("name: attention_only", "name: attention_olny")
    )
    assert only.startswith("a.yaml:5: model.name: no model is called 'attention_olny'; never used, because the space")
    assert "did you mean attention_only?" in only


@pytest.mark.parametrize(
    ("line", "change", "start"),
    [
        ("training.batch_size: {choice: [4]}", ("name: attention_only", "name: counts"), "a.yaml:5: model.name: "),
        ("model.name: {choice: [attention_only, counts]}", ("", ""), "a.yaml:17: space.model.name.choice[1]: "),
    ],
    ids=["fixed", "drawn"],
)
def test_a_name_that_a_file_beside_registers_points_to_its_import(
    line: str, change: tuple[str, str], start: str, tmp_path: Path
) -> None:
    (tmp_path / "others.py").write_text('@register("task", "counts")\n@register("model", "counts_")\n')
    (tmp_path / "mine.py").write_text("@trainers.register(\n    'model', 'counts'\n)\n")
    spec = spec_of(line, change=change).set_folder(tmp_path)

    def find_problems(imports: tuple[str, ...]) -> list[str]:
        findings = spec.copy_findings()
        check_fields(spec.model_copy(update={"imports": imports}), findings)
        return [text for text in map(str, findings.problems) if text.startswith(start)]

    [only] = find_problems(("first",))
    assert "mine.py" in only and "imports: [first, mine]" in only and "linear_attention" not in only
    [only] = find_problems(("mine",))  # imported, but does not register it when it runs
    assert "mine.py" not in only and "linear_attention" in only


def test_an_error_of_a_module_is_shown_without_the_value_of_its_key(find_problems: FindProblems) -> None:
    module_section = ("  name: attention_only\n  width: 8", "  name: vmapped\n  module: torch.nn.Linear")
    [only] = find_problems("training.batch_size: {choice: [4]}", change=module_section)
    assert only.startswith("a.yaml:6: model.module: Linear: ") and "torch.nn.Linear" not in only


def test_a_fixed_value_used_under_a_condition_is_only_wrong(find_problems: FindProblems) -> None:
    lines = ["model.norm: {choice: [none, pre]}", "model.width: {choice: [4, 8], when: {model.norm: pre}}"]
    assert find_problems(*lines, change=("width: 8", "width: -8")) == [
        "a.yaml:6: model.width: -8 is out of bounds; allowed: an integer >= 1"
    ]


def test_a_required_value_may_come_from_the_space(find_problems: FindProblems) -> None:
    assert find_problems("training.steps: {choice: [20, 60]}", change=("  steps: 60\n", "")) == []
    [only] = find_problems("model.norm: {choice: [none, pre]}", change=("  steps: 60\n", ""))
    assert only == "a.yaml:7: training.steps: is required; allowed: an integer >= 1 and < 4294967296"


@pytest.mark.parametrize(
    ("written", "instead", "where"),
    [("  steps: 60", "  stepps: 60", "a.yaml:8: training.stepps"), ("name: set_comp", "nam: set_comp", "task.nam")],
)
def test_a_misspelt_required_key_is_one_problem(
    find_problems: FindProblems, written: str, instead: str, where: str
) -> None:
    [only] = find_problems("model.norm: {choice: [none, pre]}", change=(written, instead))
    meant = "steps" if "stepps" in where else "name"
    assert f"{where}: unknown key (did you mean {meant}?)" in only


# Names that are drawn -------------------------------------------------------------------------------------------------


ARMS = "model.name: {choice: [attention_only, decoder]}"


def test_a_value_must_fit_every_class_it_can_meet(find_problems: FindProblems) -> None:
    [only] = find_problems(ARMS, "model.layers: {choice: [1, 2]}")
    assert only.startswith("a.yaml:18: space.model.layers: unknown key") and "attention_only" in only
    assert find_problems(ARMS, "model.layers: {choice: [1, 2], when: {model.name: decoder}}") == []
    [only] = find_problems(ARMS, "model.layers: {choice: [1, 0], when: {model.name: decoder}}")
    assert only.startswith("a.yaml:18: space.model.layers.choice[1]: 0 is out of bounds")


def test_a_condition_may_lie_further_off(find_problems: FindProblems) -> None:
    size = "training.batch_size: {choice: [8, 16], when: {model.name: decoder}}"
    layers = "model.layers: {choice: [1, 2], when: {training.batch_size: 16}}"
    assert find_problems(ARMS, size, layers) == []  # 16 is drawn for the encoder alone
    [only] = find_problems(ARMS, size.replace("[8, 16]", "[4, 16]"), layers.replace("16}", "[16, 8]}"))
    assert "space.model.layers: unknown key (with model.name: 'attention_only')" in only  # 8 is fixed for the other


def test_a_fixed_key_that_one_class_lacks_is_said_with_its_name(find_problems: FindProblems) -> None:
    [only] = find_problems(ARMS, change=("width: 8", "width: 8\n  value_width: 8"))
    assert only.startswith("a.yaml:7: model.value_width: unknown key") and "decoder" in only
    assert "{name: ..., value_width: ...}" in only


def test_a_nested_class_is_found_through_its_name(find_problems: FindProblems) -> None:
    decoder = ("name: attention_only", "name: decoder\n  layers: 1\n  heads: 2")
    position = ["model.position.name: {choice: [t5, fire]}"]
    hidden = "model.position.hidden: {int_uniform: [0, 4]%s}"
    [only] = find_problems(*position, hidden % ", when: {model.position.name: fire}", change=decoder)
    assert only.startswith("a.yaml:20: space.model.position.hidden.int_uniform[0]: is out of bounds")
    assert "given 0" in only
    problems = find_problems(*position, hidden % "", change=decoder)
    assert [re.split(r"; | \(did", line)[0] for line in problems] == [
        "a.yaml:20: space.model.position.hidden: unknown key (with model.position.name: 't5')",
        "a.yaml:20: space.model.position.hidden.int_uniform[0]: is out of bounds (with model.position.name: 'fire')",
    ]


def test_whole_positions_in_a_grid_are_looked_into(find_problems: FindProblems) -> None:
    decoder = ("name: attention_only", "name: decoder\n  layers: 1\n  heads: 2")
    problems = find_problems(
        "model.position: {choice: [nope, rpee, {name: fire, threshold: -1}, {name: fire, hiden: 3}]}", change=decoder
    )
    assert problems == [
        "a.yaml:19: space.model.position.choice[1]: no position is called 'rpee' (did you mean rpe?); allowed: "
        f"{', '.join(registry.list_names('position'))}",
        "a.yaml:19: space.model.position.choice[2].threshold: -1 is out of bounds; allowed: a number > 0",
        "a.yaml:19: space.model.position.choice[3].hiden: unknown key (did you mean hidden?); given 3; allowed: "
        "threshold, hidden",
    ]


def test_situations_are_those_of_the_conditions() -> None:
    spec = spec_of(
        "model.name: {choice: [attention_only, encoder, decoder]}",
        "model.norm: {grid: [none, pre, post]}",
        "training.batch_size: {choice: [8, 16, 32], when: {model.name: [encoder, decoder], model.norm: pre}}",
        "model.layers: {choice: [1, 2], when: {training.batch_size: [16, 32]}}",
    )
    names = [{"model.name": name} for name in ("attention_only", "encoder", "decoder")]
    assert list_cases(spec, ["model.name"]) == names
    assert list_cases(spec, ["model.name"], active="training.batch_size") == names[1:]
    assert list_cases(spec, ["model.name"], active="model.layers") == names[1:]
    assert list_cases(spec, [], active="model.layers") == [{}] == list_cases(spec, [])
    spec = spec_of("model.layers: {choice: [1, 2], when: {model.name: decoder}}")
    assert list_cases(spec, [], active="model.layers") == []  # the name is fixed to another


# Listed configurations ------------------------------------------------------------------------------------------------


LISTED = (
    "{configurations: 1}\nspace:\n",
    """
  sampler: listed
  listed:
    - {model.dropout: 0.1}
    - {model.dropout: 1.5, model.widht: 4}
    - model.width: 4
      model.norm: past
""",
)


def test_every_listed_configuration_is_looked_at_in_its_own_line(find_problems: FindProblems) -> None:
    places = [
        "19: search.listed[1].model.widht",
        "19: search.listed[1].model.dropout",
        "21: search.listed[2].model.norm",
    ]
    for line, location, nearest in zip(find_problems(change=LISTED), places, ["width?", "", "post?"], strict=True):
        assert line.startswith(f"a.yaml:{location}: ") and nearest in line


def test_a_fixed_value_that_every_listed_configuration_gives_may_be_anything(find_problems: FindProblems) -> None:
    """A confirmation of an older sweep has such a value, and nobody can mend it there."""
    listed = (LISTED[0] + "", "{sampler: listed, listed: [{model.width: 4}, {model.width: 8}]}\n")
    assert find_problems(change=listed) == []
    text = FILE.replace("width: 8", "width: -8").replace(*listed)
    spec = parse_sweep(text, "a.yaml")
    assert len(build_configurations(spec, enumerate(spec.search.listed or ()))) == 2


# Nothing depends on the draws -----------------------------------------------------------------------------------------


def test_one_good_draw_does_not_hide_what_could_be_drawn() -> None:
    spec = spec_of("model.dropout: {uniform: [0.0, 1.5]}")
    assert len(make_configurations(spec, [(0, {"model.dropout": 0.5})])) == 1
    with pytest.raises(SweepFileError, match="is out of bounds"):
        build_configurations(spec, [(0, {"model.dropout": 0.5})])


def test_a_space_of_many_points_is_looked_through_key_by_key(tmp_path: Path) -> None:
    sizes = [*range(1, 400), 0]
    spec = spec_of(
        f"training.batch_size: {{grid: {sizes}}}", f"model.width: {{grid: {list(range(1, 250))}}}",
        change=("{configurations: 1}", "{sampler: grid}"),
    )  # fmt: skip
    with pytest.raises(SweepFileError) as caught:
        build_configurations(spec, [(0, {"training.batch_size": 1, "model.width": 1})])
    assert [problem.key for problem in caught.value.problems] == ["space.training.batch_size.grid[399]"]


def test_a_class_given_by_its_name_lacks_its_field_not_itself(find_problems: FindProblems) -> None:
    assert find_problems("training.averages.ema: {choice: [ema, bema]}") == [
        "a.yaml:17: space.training.averages.ema.choice[0].decay: is required; allowed: a number >= 0 and <= 1"
    ]


def test_averages_are_named_by_their_kind(find_problems: FindProblems) -> None:
    (line,) = find_problems("training.averages.ema.kind: {choice: [ema, bema]}")
    assert "space: {training.averages.ema: {grid: [{kind: ..., decay: ...}, {kind: ...}]}}" in line
