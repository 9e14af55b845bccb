"""The settings classes named in the plain values of a configuration, visited without building any."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import Settings, settings_fields
from trainers.settings.nested import is_nested, read_nested


@dataclass(frozen=True)
class Part:
    """A settings class in a configuration: its dotted key and its plain values, including the name of the class."""

    key: str
    cls: type[Settings]
    values: dict[str, Any]
    name_key: str | None = None


def walk_parts(cls: type[Settings], values: Mapping[str, Any], problems: list[Problem]) -> Iterator[Part]:
    """Yield `cls` and the classes of its nested fields as parts, outermost first; append unknown names to `problems`.

    The caller may change the values of a part when it is yielded: they are copies, and the nested fields of a part are
    read afterwards.
    """
    return _walk(Part("", cls, dict(values)), problems)


def _walk(part: Part, problems: list[Problem]) -> Iterator[Part]:
    """Yield a part, then the parts of its nested fields."""
    yield part
    for item in settings_fields(part.cls):
        if not is_nested(item) or item.name not in part.values:
            continue
        entries, name_problems = read_nested(item, part.values[item.name])
        problems += [problem.under(part.key) for problem in name_problems]

        # Copies replace the values of this part, so that it sees what the caller changes in its nested parts.
        plain = {}
        for label, (cls, values, name_key) in entries.items():
            plain[label] = {**({name_key: cls.name} if name_key else {}), **values}
            key = ".".join(filter(None, (part.key, item.name, label)))
            yield from _walk(Part(key, cls, plain[label], name_key), problems)
        if plain:
            part.values[item.name] = plain if item.metadata["labelled"] else plain[""]
