"""Recorded specifications of any age: what a key meant before it existed, under the names that keys have today."""

from pathlib import Path

import pytest

from search_spaces import (
    SweepFileError,
    SweepSpec,
    differences,
    dump_yaml,
    load_recorded,
    load_sweep,
    migrated,
    parse_recorded,
    parse_sweep,
)
from search_spaces.grammar import migration
from search_spaces.grammar.spec import PASSIVE

FOLDER = Path(__file__).parents[2] / "search_spaces"
FILES = sorted(file for file in FOLDER.rglob("*.yaml") if file.name != "claims.yaml")


@pytest.fixture
def spec(sweep_file) -> SweepSpec:
    return load_sweep(sweep_file())


@pytest.fixture
def older_generation(monkeypatch) -> None:
    """As if search.generation were a new key, without which the code used to draw five at a time."""
    monkeypatch.setitem(migration.MEANT, "search.generation", 5)


def without(recorded: dict, section: str, key: str) -> dict:
    return {**recorded, section: {name: value for name, value in recorded[section].items() if name != key}}


def test_what_an_absent_key_meant_is_filled_in_and_nothing_else(older_generation) -> None:
    recorded = {"name": "a", "search": {"seed": 3}, "objective": {"metric": "m", "checkpoint": "best"}}
    read = migrated(recorded)
    assert read == {
        "name": "a",
        "search": {"seed": 3, "generation": 5},
        "objective": {"metric": "m", "evaluation": "best"},
    }
    assert recorded["search"] == {"seed": 3} and migrated(read) == read
    assert migrated({"objective": {"metric": "m"}})["objective"]["evaluation"] == "last"
    assert migrated({"name": "a"}) == {"name": "a"}


def test_what_keys_meant_is_something_the_grammar_takes(spec) -> None:
    for key, value in migration.MEANT.items():
        section, name = key.split(".")
        recorded = spec.resolved()
        assert getattr(getattr(parse_recorded(without(recorded, section, name), "it"), section), name) == value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_recorded_is_read_back_equal(file) -> None:
    found = load_sweep(file)
    again = parse_recorded(found.resolved(), "recorded")
    assert again == found and again.spec_hash == found.spec_hash and differences(again, found) == []


def test_a_recorded_file_means_what_it_meant_and_a_written_one_what_it_says_today(
    spec, tmp_path, older_generation
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(dump_yaml(without(spec.resolved(), "search", "generation")))
    assert load_sweep(path).search.generation == 8
    assert load_recorded(path).search.generation == 5
    assert load_recorded(path, ["search.generation=6"]).search.generation == 6


def test_problems_of_a_recorded_file_name_its_lines(spec, tmp_path, older_generation) -> None:
    path = tmp_path / "sweep.yaml"
    text = dump_yaml({**spec.resolved(), "objective": {**spec.resolved()["objective"], "reduce": "men"}})
    path.write_text(text)
    line = next(number for number, line in enumerate(text.split("\n"), 1) if "reduce: men" in line)
    with pytest.raises(SweepFileError) as caught:
        load_recorded(path)
    assert [problem.where for problem in caught.value.problems] == [f"{path}:{line}"]


def test_a_recorded_specification_that_is_none_names_where_it_stands(spec) -> None:
    with pytest.raises(SweepFileError, match=r"events\.jsonl"):
        parse_recorded({**spec.resolved(), "seeds": "many"}, "events.jsonl (its specification)")


def test_a_key_that_is_new_or_renamed_is_no_difference(spec, older_generation) -> None:
    recorded = without(spec.resolved(), "search", "generation")
    before = parse_recorded(recorded, "recorded")
    assert differences(before, parse_sweep(dump_yaml(recorded), "today")) == [("search.generation", 5, 8)]
    assert differences(before, parse_recorded(recorded, "again")) == []
    judged = {**recorded, "objective": {**recorded["objective"], "checkpoint": "best"}}
    now = {**recorded, "objective": {**recorded["objective"], "evaluation": "best"}}
    assert differences(parse_recorded(judged, "recorded"), parse_recorded(now, "now")) == []


def test_what_is_computed_differs_and_what_is_passive_does_not(spec) -> None:
    def changed(*overrides: str) -> list[tuple[str, object, object]]:
        return differences(spec, parse_sweep(dump_yaml(spec.resolved()), "now", overrides))

    assert changed("resources.cpus=7", "tracking.uri=sqlite:///x.db", "description=other", "name=other") == []
    assert set(PASSIVE) == {"name", "description", "claims", "resources", "tracking"}
    assert changed("objective.evaluation=best") == [("objective.evaluation", "last", "best")]
    ((key, before, now),) = changed("training.steps=7")
    assert key == "training.steps" and before != 7 and now == 7
    assert changed("seeds=[8, 9]") == [("seeds", list(spec.seeds), [8, 9])]
