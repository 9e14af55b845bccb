"""Registered names in words: what `lengthwise list` prints."""

from dataclasses import MISSING
from typing import NamedTuple

from trainers.config import registry
from trainers.config.settings import Settings, allowed_values, settings_fields


class Description(NamedTuple):
    """A registered name: the first line of its docstring, each field in words, a task's metrics and their directions.

    `metrics` are those with default settings; more settings may add some.
    """

    name: str
    summary: str
    fields: dict[str, str]
    metrics: dict[str, str]


def describe(kind: str) -> list[Description]:
    """Every registered name of a kind, in alphabetical order."""
    return [describe_class(cls) for _, cls in sorted(registry.classes(kind).items())]


def describe_class(cls: type[Settings]) -> Description:
    """A registered class; fields with their meaning, what they may be, and their default."""
    described = {}
    for item in settings_fields(cls):
        default = "required" if item.default is MISSING else f"default {item.default!r}"
        mark = ", per member" if item.metadata["member"] else ""
        described[item.name] = f"{item.metadata['help']} ({allowed_values(cls, item)}; {default}{mark})".strip()
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    required = any(item.default is MISSING for item in settings_fields(cls))
    metrics = {} if required else dict(getattr(cls(), "metrics", {}))
    return Description(cls.name, summary, described, metrics)
