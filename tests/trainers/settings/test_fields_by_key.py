"""The field of a dotted key, and the same verdict on single values as the building of a member gives."""

import copy
from typing import Any

import pytest

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.settings import registry
from trainers.settings.fields import settings_fields
from trainers.settings.fields_by_key import check_single_values, find_field

SECTIONS: dict[str, Any] = {
    "task": {"name": "padded_addition", "width": 8, "train_digits": 3},
    "model": {
        "name": "encoder",
        "layers": 1,
        "width": 8,
        "heads": 2,
        "position": {"name": "t5", "buckets": 8, "max_distance": 16},
    },
    "training": {
        "steps": 10,
        "batch_size": 4,
        "learning_rate": 0.1,
        "schedule": {"name": "cosine", "warmup": 2},
        "averages": {"raw": None, "slow": {"kind": "ema", "decay": 0.9}},
    },
    "evaluation": {"every": 5},
}


def changed(key: str, value: Any) -> dict[str, Any]:
    sections = copy.deepcopy(SECTIONS)
    *parents, last = key.split(".")
    section = sections
    for parent in parents:
        section = section[parent]
    section[last] = value
    return sections


def built(sections: dict[str, Any]) -> list[Any]:
    try:
        MemberConfig.from_dict({**sections, "seed": 0})
    except ConfigError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task.width", 0),
        ("task.widht", 3),
        ("task.name", "padded_additoin"),
        ("model.heads", 2.5),
        ("model.position.buckets", 3),
        ("model.position.bucket", 8),
        ("model.position.name", "t6"),
        ("model.position", "t6"),
        ("model.position", 7),
        ("training.steps", "ten"),
        ("training.scedule", {}),
        ("training.schedule.final", 2.0),
        ("training.schedule.name", "cosin"),
        ("training.schedule", "cosin"),
        ("training.averages", {}),
        ("training.averages", [1]),
        ("training.averages.raw", 3),
        ("training.averages.slow.decay", -1.0),
        ("training.averages.slow.kind", "emma"),
        ("evaluation.samples", 0),
        ("evaluation", [1]),
        ("training", 3),
        ("model", {"name": "decoder", "layers": "x"}),
        ("task", {}),
    ],
)
def test_what_is_wrong_with_one_value_is_what_building_says(key: str, value: Any) -> None:
    sections = changed(key, value)
    assert not check_single_values(SECTIONS, MemberConfig) and not built(SECTIONS)
    problems, expected = check_single_values(sections, MemberConfig), built(sections)
    assert problems
    assert set(map(str, problems)) == set(map(str, expected))


@pytest.mark.parametrize(("key", "value"), [("model.heads", 3), ("model.position.buckets", 6), ("task.width", 2)])
def test_what_is_wrong_between_values_is_left_to_building(key: str, value: Any) -> None:
    sections = changed(key, value)
    assert not check_single_values(sections, MemberConfig) and built(sections)


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("task.width", "padded_addition"),
        ("model.heads", "encoder"),
        ("model.position.buckets", "t5"),
        ("training.steps", ""),
        ("training.schedule.warmup", "cosine"),
        ("training.averages.slow.decay", "ema"),
        ("evaluation.every", ""),
    ],
)
def test_a_key_fills_the_field_of_the_class_that_is_named(key: str, owner: str) -> None:
    field = find_field(SECTIONS, key, MemberConfig)
    assert field is not None and field.field.name == key.rpartition(".")[2] and field.cls.name == owner


@pytest.mark.parametrize(
    "key", ["model.name", "model.position", "model.foo", "training.schedule", "training.averages.slow", "seed", "task"]
)
def test_a_key_that_holds_no_single_field_has_none(key: str) -> None:
    assert find_field(SECTIONS, key, MemberConfig) is None


@pytest.mark.parametrize("kind", ["task", "model"])
def test_every_field_of_every_registered_class_is_found(kind: str) -> None:
    for name, cls in registry.get_classes(kind).items():
        for item in settings_fields(cls):
            field = find_field({**SECTIONS, kind: {"name": name}}, f"{kind}.{item.name}", MemberConfig)
            assert (field is None) == bool(item.metadata["kind"])
            assert field is None or (field.cls is cls and field.find_problems(object()))
