"""--set and --name: what they change, and how they fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Choice, FileProblem, Grid, SweepFileError, Uniform, load_sweep

QUICKSTART = Path(__file__).parents[2] / "search_spaces" / "quickstart.yaml"
Refuse = Callable[..., tuple[FileProblem, ...]]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("training.steps=200", lambda spec: spec.training["steps"], 200),
        ("training.steps=2e2", lambda spec: spec.training["steps"], 200.0),
        ("training.steps=", lambda spec: spec.training["steps"], None),
        ("training.schedule.warmup=5", lambda spec: spec.training.get("schedule"), {"warmup": 5}),
        ("model.label=a=b", lambda spec: spec.model.get("label"), "a=b"),
        ("model.sites=[a, b]", lambda spec: spec.model.get("sites"), ["a", "b"]),
        ("training.averages={raw: {}, ema: {}}", lambda spec: spec.training["averages"], {"raw": {}, "ema": {}}),
        ("seeds=2", lambda spec: spec.seeds, (0, 1)),
        ("seeds=[5, 3]", lambda spec: spec.seeds, (5, 3)),
        ("search.configurations=1", lambda spec: spec.search.configurations, 1),
        ("tracking.uri=sqlite:////a #b.db", lambda spec: spec.tracking.uri, "sqlite:////a #b.db"),
        ("description= it's #1: a # b", lambda spec: spec.description, "it's #1: a # b"),
        ("description=#1", lambda spec: spec.description, "#1"),
        ("description='x' # y", lambda spec: spec.description, "x"),
        ("model.sites=[a, '#b'] # c", lambda spec: spec.model.get("sites"), ["a", "#b"]),
        ("description='x: y'", lambda spec: spec.description, "x: y"),
        ("name=other name", lambda spec: spec.name, "other name"),
        ("space.model.norm={choice: [none, pre]}", lambda spec: spec.space["model.norm"], Choice(("none", "pre"))),
        ("space.model.dropout={uniform: [0, 1]}", lambda spec: spec.space.get("model.dropout"), Uniform(0.0, 1.0)),
        ("space.model.norm=null", lambda spec: list(spec.space), ["training.learning_rate"]),
    ],
)
def test_an_override_changes_one_key(sweep_file: Write, override: str, read: Callable[..., Any], value: Any) -> None:
    plain, spec = load_sweep(sweep_file()), load_sweep(sweep_file(), [override])
    assert read(spec) == value and read(plain) != value
    changed = override.split("=")[0].split(".")[0]
    before, after = plain.resolved(), spec.resolved()
    assert {key for key in before if before[key] != after[key]} == {changed}


def test_later_overrides_win(sweep_file: Write) -> None:
    assert load_sweep(sweep_file(), ["seeds=2", "seeds=3", "seeds=1"]).seeds == (0,)


def test_where_names_the_override(sweep_file: Write) -> None:
    spec = load_sweep(sweep_file(), ["training.schedule={name: warmup, steps: 5}"], name="renamed")
    assert spec.format_location("training.schedule") == "--set training.schedule={name: warmup, steps: 5}"
    assert spec.format_location("training.schedule.steps") == "--set training.schedule={name: warmup, steps: 5}"
    assert spec.format_location("name") == "--name"
    assert spec.format_location("training.steps").endswith("sweep.yaml:9")


@pytest.mark.parametrize(
    ("override", "key", "message"),
    [
        ("training.steps", "", "an override is written dotted.key=value; given 'training.steps'"),
        ("=5", "", "an override is written dotted.key=value"),
        ("", "", "an override is written dotted.key=value"),
        ("training..steps=1", "", "an override is written dotted.key=value"),
        ("a" + ".a" * 5000 + "=1", "", "an override is written dotted.key=value"),
        ("trainng.steps=5", "trainng", "; allowed: name, study"),
        ("trainng.steps=5", "trainng", "did you mean training?"),
        ("objective.lenghts=[6]", "objective.lenghts", "did you mean lengths?"),
        ("description=x: y", "description", "must be text"),
        ("seeds=none", "seeds", "'none' is not a number; allowed: a number from 1"),
        ("seeds=.nan", "seeds", "must be a finite number"),
        ("seeds=[1", "seeds", "is not valid YAML"),
        ("seeds=&a 1", "seeds", "anchors (&a) are not allowed"),
        ("seeds=!!int 1", "seeds", "YAML tags"),
        ("seeds=1\n---\n2", "", "has more than one YAML document"),
        ("objective.lengths=[6, 8]", "objective.lengths[1]", "is not evaluated; given 8"),
        ("training.steps.more=1", "training.steps.more", "training.steps has no keys inside it; given 100"),
        ("seeds.more=1", "seeds.more", "seeds has no keys inside it; given 8"),
        ("training.learning_rate=0.1", "training.learning_rate",
         "remove it from the space by --set space.training.learning_rate=null"),
        ("space.model.width=null", "space.model.width", "is not in the space, so it cannot be removed"),
        ("space.model.width=3", "space.model.width", "did you mean {grid: [3]}?"),
        ("space.model.width={int_uniform: [1, 0]}", "space.model.width.int_uniform", "low must be below high"),
        ("space.width={int_uniform: [0, 1]}", "space.width", "a space key is a section (task, model"),
        ("space.training.learning_rate.log_uniform=[0.001, 0.1]", "space.training.learning_rate.log_uniform",
         "is inside training.learning_rate"),
        ("space.model.norm.x={choice: [1]}", "space.model.norm.x", "is inside model.norm"),
        ("name=../up", "name", "must not start with '.'"),
        ("model.wi\ndth=3", "", "an override is written dotted.key=value"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named(sweep_file: Write, problems: Refuse, override: str, key: str, message: str) -> None:
    [problem] = problems(sweep_file(), override)
    assert problem.where.startswith("--set ") and "\n" not in problem.where and len(problem.where) <= 130
    assert problem.where.startswith(f"--set {override[:20]}") or "\n" in override or not override or len(override) > 120
    assert problem.key == key
    assert message in str(problem)


def test_wrong_name_argument(sweep_file: Write, problems: Refuse) -> None:
    [problem] = problems(sweep_file(), name="a/b")
    assert str(problem).startswith("--name: name: must not contain '/' (U+002F); given 'a/b'; allowed: letters")


def test_overrides_and_file_are_judged_together(edited: Write, problems: Refuse) -> None:
    reported = problems(edited("seeds: 8", "seeds: 0"), "resources.cpus=0", "objective.reduce=men")
    assert [problem.key for problem in reported] == ["seeds", "objective.reduce", "resources.cpus"]


def test_an_override_repairs_a_wrong_value(edited: Write) -> None:
    assert load_sweep(edited("seeds: 8", "seeds: 0"), ["seeds=1"]).seeds == (0,)


def test_a_condition_keeps_an_override_of_its_fallback(edited: Write) -> None:
    path = edited("{log_uniform: [1.0e-4, 1.0e-2]}", "{log_uniform: [1.0e-4, 1.0e-2], when: {model.norm: pre}}")
    assert load_sweep(path, ["training.learning_rate=0.5"]).training["learning_rate"] == 0.5


def test_taking_a_key_out_frees_its_fixed_value(sweep_file: Write) -> None:
    spec = load_sweep(
        sweep_file(),
        ["space.training.learning_rate=null", "training.learning_rate=0.5", "search.configurations=null"],
    )
    assert spec.training["learning_rate"] == 0.5 and spec.space == {"model.norm": Grid(("none", "pre", "post"))}
    assert spec.format_location("training.learning_rate") == "--set training.learning_rate=0.5"


SUGGESTED = {
    "steps=100": "training.steps",
    "configurations=3": "search.configurations",
    "seed=3": "seeds",
    "optimizer.lr=abc": "training.learning_rate",
}


@pytest.mark.parametrize(("override", "key"), SUGGESTED.items(), ids=SUGGESTED)
def test_what_is_meant_is_suggested(override: str, key: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        load_sweep(QUICKSTART, [override])
    assert [problem.nearest for problem in caught.value.problems] == [key]


def test_a_suggestion_is_not_repeated() -> None:
    with pytest.raises(SweepFileError) as caught:
        load_sweep(QUICKSTART, ["search.sampler=tpe", "space.model.norm={grid: [none, pre]}"])
    assert str(caught.value).count("choice") == 1
