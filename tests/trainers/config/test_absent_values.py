"""The `absent` value of every field of every registered class and section, frozen in absent_values.json.

A configuration is named by its values without those equal to `absent`, so what stands there may never change.
"""

import json
from pathlib import Path
from typing import Any

from trainers.config.initial_weights import InitialWeights
from trainers.config.member import EvaluationConfig, TrainingConfig
from trainers.optimization.criterion import Stop
from trainers.settings import registry
from trainers.settings.fields import Settings, settings_fields
from trainers.settings.identity import read_absent_values

GOLDEN = Path(__file__).with_name("absent_values.json")
NEVER = "(always written)"


def fields_of(cls: type[Settings]) -> dict[str, Any]:
    """Every field with its `absent` value; fields without one are in every name."""
    absent = read_absent_values(cls)
    return {item.name: absent.get(item.name, NEVER) for item in settings_fields(cls)}


def all_absent_values() -> dict[str, dict[str, Any]]:
    """By class: the sections, and everything registered here."""
    absent_values = {
        "training": fields_of(TrainingConfig),
        "training.stop": fields_of(Stop),
        "training.initial": fields_of(InitialWeights),
        "evaluation": fields_of(EvaluationConfig),
    }
    for kind in registry.KINDS:
        for name in registry.list_names(kind):
            cls = registry.get_class(kind, name)
            if cls.__module__.startswith("trainers."):
                absent_values[f"{kind} {name}"] = fields_of(cls)
    return json.loads(json.dumps(absent_values))


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What to do about each field that is not as it was."""
    changes = []
    for name in sorted({*then, *now}):
        before, today = then.get(name, {}), now.get(name, {})
        for field in sorted({*before, *today}):
            line = f"{name}: {field}"
            if field not in before:
                written = json.dumps(today[field])
                changes.append(f'{line} is new: add "{field}": {written} under "{name}" in {GOLDEN.name}')
            elif field not in today:
                changes.append(f"{line} is gone: sweeps that name it cannot be resumed; keep it, or say what it meant")
            elif json.dumps(before[field]) != json.dumps(today[field]):
                value = "NOTHING" if before[field] == NEVER else repr(before[field])
                changes.append(f"{line} had {before[field]!r}, which holds for good: setting(..., absent={value})")
    return changes


def test_no_absent_value_has_changed() -> None:
    changes = differences(json.loads(GOLDEN.read_text()), all_absent_values())
    assert not changes, "\n".join(["absent values are not as they were:", *changes])
