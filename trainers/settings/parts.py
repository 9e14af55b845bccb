"""The classes that plain values of a configuration name, one after the other, without building any."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import Settings, field_problems, settings_fields
from trainers.settings.nested import is_nested, read_nested


@dataclass(frozen=True)
class Part:
    """One settings class of a configuration: its dotted key, and its values, the name of the class among them."""

    key: str
    cls: type[Settings]
    values: dict[str, Any]
    name_key: str | None = None

    def problems(self) -> list[Problem]:
        """Return what is wrong with single values of this class, keys dotted from the top; nested ones left out."""
        values = {key: value for key, value in self.values.items() if key != self.name_key}
        return [problem.under(self.key) for problem in field_problems(self.cls, values, nested=False)]


def walk_parts(cls: type[Settings], values: Mapping[str, Any], problems: list[Problem]) -> Iterator[Part]:
    """Yield the part of `cls` and those of its nested fields, outermost first; `problems` gets what names no class.

    The values are copies, a part's inside those of the part around it, and nested ones are read after their part was
    yielded: what the caller changes in a part is walked and kept.
    """
    return _walk(Part("", cls, dict(values)), problems)


def _walk(part: Part, problems: list[Problem]) -> Iterator[Part]:
    yield part
    for item in settings_fields(part.cls):
        if not is_nested(item) or item.name not in part.values:
            continue
        entries, found = read_nested(item, part.values[item.name])
        problems += [problem.under(part.key) for problem in found]
        plain = {}
        for label, (cls, values, name_key) in entries.items():
            plain[label] = {**({name_key: cls.name} if name_key else {}), **values}
            key = ".".join(filter(None, (part.key, item.name, label)))
            yield from _walk(Part(key, cls, plain[label], name_key), problems)
        if plain:
            part.values[item.name] = plain if item.metadata["labelled"] else plain[""]
