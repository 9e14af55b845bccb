"""What a loaded sweep says: defaults, locations, the resolved form and its hash."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from search_spaces import ABSENT, FileProblem, SweepSpec, dump_yaml, load_sweep, make_json_schema

Write = Callable[..., Path]


def reload(spec: SweepSpec, folder: Path) -> SweepSpec:
    (folder / "resolved.yaml").write_text(dump_yaml(spec.resolved()), encoding="utf-8")
    return load_sweep(folder / "resolved.yaml")


def test_defaults(sweep_file: Write, valid_text: str) -> None:
    text = valid_text.replace("resources: {pack: auto}\ntracking: {enabled: false}\n", "")
    spec = load_sweep(sweep_file(text))
    resolved = spec.resolved()
    assert resolved["resources"] == {
        "cpus": 1,
        "gpus": 0.0,
        "scheduler": "auto",
        "pack": "auto",
        "checkpoint_seconds": 30.0,
        "checkpoint_steps": None,
        "keep_weights": "auto",
        "retries": 2,
        "watchdog_seconds": 600.0,
        "workers": None,
    }
    assert resolved["tracking"] == {"enabled": True, "uri": None, "experiment": None}
    assert resolved["search"] == {"sampler": "random", "configurations": 6, "seed": 0, "generation": 8}
    assert (spec.objective.reduce, spec.objective.failed_seeds, spec.objective.threshold) == ("mean", "worst", None)
    assert spec.description == "" and spec.seeds == tuple(range(8))


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("name", 1),
        ("task.vocabulary", 3),
        ("model", 4),
        ("model.dropout", 7),
        ("model.width", 4),  # absent: the section
        ("training.averages.ema.decay", 13),
        ("training.averages.ema.decay.x.y", 13),
        ("training.learning_rate", 15),  # drawn: its domain, not the fixed value on line 10
        ("model.norm", 16),
        ("space.model.norm", 16),
        ("space.model.norm.grid[1]", 16),
        ("objective.lengths", 25),
        ("objective.lengths[1]", 25),
        ("nowhere", 1),
    ],
)
def test_where_names_the_line(sweep_file: Write, key: str, line: int) -> None:
    path = sweep_file()
    assert load_sweep(path).format_location(key) == f"{path}:{line}"


def test_where_finds_items_of_block_lists(edited: Write) -> None:
    path = edited("  lengths: [6, 7]", "  lengths:\n    - 6\n\n    - 7")
    assert load_sweep(path).format_location("objective.lengths[1]") == f"{path}:28"


def test_seeds_left_out_are_five_and_written_out(edited: Write) -> None:
    named = load_sweep(edited("seeds: 8", "seeds: 5"))
    spec = load_sweep(edited("seeds: 8\n", ""))
    assert spec.seeds == (0, 1, 2, 3, 4) and spec.resolved()["seeds"] == [0, 1, 2, 3, 4]
    assert spec == named and spec.spec_hash == named.spec_hash
    assert make_json_schema()["properties"]["seeds"]["default"] == 5 and "seeds" not in make_json_schema()["required"]


def test_resolved_form_reads_back_equal(sweep_file: Write, tmp_path: Path) -> None:
    spec = load_sweep(sweep_file(), ["name=Ünï 1", "description='1e-4'", "tracking.uri=http://host:5000"])
    again = reload(spec, tmp_path)
    assert again == spec and hash(again) == hash(spec) and again.spec_hash == spec.spec_hash
    assert json.loads(json.dumps(spec.resolved())) == spec.resolved()
    assert list(again.space) == list(spec.space)


def test_resolved_form_survives_a_plain_yaml_dump(sweep_file: Write, tmp_path: Path) -> None:
    spec = load_sweep(sweep_file())
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(spec.resolved()), encoding="utf-8")
    assert load_sweep(tmp_path / "plain.yaml") == spec


TEXTS = [
    "1e-4", "0o17", "0x1F", "010", "1.", ".inf", "on", "null", "~", "2026-01-01", "12:30", "<<", "a\n", "\x85",
    "a\u2028b",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text(sweep_file: Write, tmp_path: Path, text: str) -> None:
    spec = load_sweep(sweep_file(), [f"model.text={json.dumps(text)}"])
    assert spec.model["text"] == text
    assert reload(spec, tmp_path).model["text"] == text


def test_resolved_form_is_a_copy(sweep_file: Write) -> None:
    spec = load_sweep(sweep_file())
    before = spec.spec_hash
    resolved = spec.resolved()
    resolved["training"]["averages"]["ema"]["decay"] = 0
    resolved["space"]["model.norm"]["grid"].append("x")
    assert spec.spec_hash == before


def test_spec_hash_is_stable(sweep_file: Write) -> None:
    assert load_sweep(sweep_file()).spec_hash == "ee725b897c931ef9"


PASSIVE = [
    "name=other", "description=other", "resources.cpus=2", "tracking.enabled=true", "seeds=[0,1,2,3,4,5,6,7]",
    "objective.evaluation=last", "objective.seeds=median",
]  # fmt: skip
EFFECTIVE = [
    "study=other", "task.vocabulary=21", "model.dropout=0.1", "training.steps=101",
    "space.model.norm={grid: [pre, none, post]}", "search.seed=1", "seeds=9", "evaluation.every=51",
    "objective.lengths=[7, 6]", "objective.threshold=0.1", "objective.evaluation=best", "objective.seeds=mean",
    "objective.seeds={quantile: 0.25}",
]  # fmt: skip


@pytest.mark.parametrize("override", [*PASSIVE, *EFFECTIVE])
def test_spec_hash_sees_what_changes_a_result(sweep_file: Write, override: str) -> None:
    same = load_sweep(sweep_file(), [override]).spec_hash == load_sweep(sweep_file()).spec_hash
    assert same == (override in PASSIVE)


def test_a_spec_cannot_be_changed(sweep_file: Write) -> None:
    with pytest.raises(ValidationError):
        load_sweep(sweep_file()).objective.reduce = "max"  # type: ignore[misc]


def test_a_problem_prints_what_it_has() -> None:
    assert str(FileProblem("a.yaml:1", "k", "is missing")) == "a.yaml:1: k: is missing"
    assert str(FileProblem("a.yaml", "", "is empty")) == "a.yaml: is empty"
    assert str(FileProblem("a", "k", "m", None, "x", "y")) == "a: k: m (did you mean y?); given null; allowed: x"
    assert str(FileProblem("a", "k", "3.5 is not an integer", 3.5)) == "a: k: 3.5 is not an integer"
    assert FileProblem("a", "k", "m").given is ABSENT
    assert (
        str(FileProblem("a", "k", "m", "x\n" * 500)).count("\n") == 0
        and len(str(FileProblem("a", "k", "m", "x" * 500))) < 120
    )
