"""Descriptions of registered classes, printed by `lengthwise list`."""

from collections.abc import Mapping
from dataclasses import MISSING
from enum import Enum
from typing import Any, NamedTuple

from trainers.settings import registry
from trainers.settings.fields import Settings, allowed_values, settings_fields

MARKS = {"member": "per member", "technical": "changes no numbers"}


class Description(NamedTuple):
    """A registered class: its name, the first line of its docstring, its fields as text, and its metrics.

    metrics: metric -> better direction, at the default settings; other settings may add metrics.
    """

    name: str
    summary: str
    fields: dict[str, str]
    metrics: dict[str, str]


def describe(kind: str) -> list[Description]:
    """Return a description of every registered class of a kind, in alphabetical order."""
    return [describe_class(cls) for _, cls in sorted(registry.classes(kind).items())]


def describe_class(cls: type[Settings]) -> Description:
    """Return the description of a registered class; each field has its meaning, allowed values and default."""
    # The fields.
    described = {}
    for item in settings_fields(cls):
        default = "required" if item.default is MISSING else f"default {as_yaml(item.default)}"
        mark = "".join(f", {mark}" for flag, mark in MARKS.items() if item.metadata[flag])
        described[item.name] = f"{item.metadata['help']} ({allowed_values(cls, item)}; {default}{mark})".strip()

    # The metrics at default settings, or at trial settings if some are required.
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    required = {item.name for item in settings_fields(cls) if item.default is MISSING}
    trial = getattr(cls, "trial_settings", {}) if required else {}  # values for fields without a default
    metrics = dict(getattr(cls(**trial), "metrics", None) or {}) if required <= {*trial} else {}
    if isinstance(direction := getattr(cls, "direction", None), str):  # of a metric apart from tasks
        metrics = {cls.name: direction}
    return Description(cls.name, summary, described, metrics)


def as_yaml(value: Any) -> str:
    """Return the value of a field as YAML text.

    >>> as_yaml({"name": "rope", "scales": (0.5, 2.0), "bias": None, "shared": True})
    '{name: rope, scales: [0.5, 2.0], bias: null, shared: true}'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum):
        return as_yaml(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return str(value)
