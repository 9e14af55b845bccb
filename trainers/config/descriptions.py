"""Registered names in words: what `lengthwise list` prints."""

from dataclasses import MISSING
from typing import NamedTuple

from trainers.config import registry
from trainers.config.settings import allowed_values, settings_fields


class Description(NamedTuple):
    """A registered name: the first line of its docstring, each field in words, a task's metrics and their directions.

    `metrics` are those with default settings; more settings may add some.
    """

    name: str
    summary: str
    fields: dict[str, str]
    metrics: dict[str, str]


def describe(kind: str) -> list[Description]:
    """Every registered name of a kind; fields with their meaning, what they may be, and their default."""
    rows = []
    for name, cls in sorted(registry.classes(kind).items()):
        described = {}
        for item in settings_fields(cls):
            default = "required" if item.default is MISSING else f"default {item.default!r}"
            mark = ", per member" if item.metadata["member"] else ""
            described[item.name] = f"{item.metadata['help']} ({allowed_values(cls, item)}; {default}{mark})".strip()
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        required = any(item.default is MISSING for item in settings_fields(cls))
        metrics = {} if required else dict(getattr(cls(), "metrics", {}))
        rows.append(Description(name, summary, described, metrics))
    return rows
