"""Descriptions of registered classes, printed by `lengthwise list`."""

from collections.abc import Mapping
from dataclasses import MISSING
from enum import Enum
from typing import Any, NamedTuple

from trainers.settings import registry
from trainers.settings.fields import Settings, read_type_hints, settings_fields
from trainers.settings.value_checks import describe_field_values

_MARKS = {"member": "per member", "technical": "changes no numbers"}


class Description(NamedTuple):
    """A registered class: its name, the first line of its docstring, its fields as text, and its metrics.

    metrics: metric -> better direction, at the default settings; other settings may add metrics.
    """

    name: str
    summary: str
    fields: dict[str, str]
    metrics: dict[str, str]


def describe_kind(kind: str) -> list[Description]:
    """Return a description of every registered class of a kind, in alphabetical order."""
    return [describe_class(cls) for _, cls in sorted(registry.get_classes(kind).items())]


def describe_class(cls: type[Settings]) -> Description:
    """Return the description of a registered class; each field has its meaning, allowed values and default."""
    field_texts = {}
    for field in settings_fields(cls):
        default = "required" if field.default is MISSING else f"default {format_yaml(field.default)}"
        mark = "".join(f", {mark}" for flag, mark in _MARKS.items() if field.metadata[flag])
        allowed = describe_field_values(field, read_type_hints(cls).get(field.name))
        field_texts[field.name] = f"{field.metadata['help']} ({allowed}; {default}{mark})".strip()

    # Metrics depend on the settings, so a class without defaults is built with the settings of its trial.
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    required = {field.name for field in settings_fields(cls) if field.default is MISSING}
    values = cls.trial_settings if required else {}
    metrics = dict(getattr(cls(**values), "metrics", None) or {}) if required <= {*values} else {}
    if isinstance(direction := getattr(cls, "direction", None), str):  # a metric apart from tasks is its only metric
        metrics = {cls.name: direction}
    return Description(cls.name, summary, field_texts, metrics)


def format_yaml(value: Any) -> str:
    """Return the value of a field as YAML text.

    >>> format_yaml({"name": "rope", "scales": (0.5, 2.0), "bias": None, "shared": True})
    '{name: rope, scales: [0.5, 2.0], bias: null, shared: true}'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum):
        return format_yaml(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {format_yaml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_yaml, value)) + "]"
    return str(value)
