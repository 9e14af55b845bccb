"""The settings classes named in the plain values of a configuration, visited without building any."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import Settings, settings_fields
from trainers.settings.nested import is_nested, read_nested


@dataclass(frozen=True)
class SettingsNode:
    """A settings class in a configuration: its dotted key and its plain values, including the name of the class."""

    key: str
    cls: type[Settings]
    values: dict[str, Any]
    name_key: str | None = None


def walk_settings(cls: type[Settings], values: Mapping[str, Any], problems: list[Problem]) -> Iterator[SettingsNode]:
    """Yield `cls` and the classes of its nested fields as nodes, outermost first; append unknown names to `problems`.

    The caller may change the values of a node when it is yielded: they are copies, and the nested fields of a node are
    read afterwards.
    """
    return _walk(SettingsNode("", cls, dict(values)), problems)


def _walk(node: SettingsNode, problems: list[Problem]) -> Iterator[SettingsNode]:
    """Yield a node, then the nodes of its nested fields."""
    yield node
    for field in settings_fields(node.cls):
        if not is_nested(field) or field.name not in node.values:
            continue
        entries, name_problems = read_nested(field, node.values[field.name])
        problems += [problem.with_key_prefix(node.key) for problem in name_problems]

        # Copies replace the values of this node, so that it sees what the caller changes in its nested nodes.
        plain = {}
        for label, (cls, values, name_key) in entries.items():
            plain[label] = {**({name_key: cls.name} if name_key else {}), **values}
            key = ".".join(filter(None, (node.key, field.name, label)))
            yield from _walk(SettingsNode(key, cls, plain[label], name_key), problems)
        if plain:
            node.values[field.name] = plain if field.metadata["labelled"] else plain[""]
