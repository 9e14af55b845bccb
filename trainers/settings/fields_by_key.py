"""Plain values of a configuration checked without building any: its classes, fields by dotted key, single values.

`walk_settings` visits the settings classes that the values name. Combinations of values are checked when a member is
built (`MemberConfig.from_dict`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import Settings, check_value, find_field_problems, read_type_hints, settings_fields
from trainers.settings.nested import is_nested, read_nested
from trainers.settings.value_checks import convert_value, describe_field_values, list_choices


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

        # This node gets the copies, so that it has the caller's changes of its nested nodes.
        plain = {}
        for label, (cls, values, name_key) in entries.items():
            plain[label] = {**({name_key: cls.name} if name_key else {}), **values}
            key = ".".join(filter(None, (node.key, field.name, label)))
            yield from _walk(SettingsNode(key, cls, plain[label], name_key), problems)
        if plain:
            node.values[field.name] = plain if field.metadata["labelled"] else plain[""]


@dataclass(frozen=True)
class FieldAtKey:
    """The field of a settings class that a dotted key sets."""

    cls: type[Any]
    field: Field[Any]

    def find_problems(self, value: Any) -> list[Problem]:
        """Return the problems of a value for this field."""
        return check_value(self.cls, self.field, value)[1]

    @property
    def hint(self) -> Any:
        """The type of the field."""
        return read_type_hints(self.cls)[self.field.name]

    def accepts(self, value: Any) -> bool:
        """Return whether the field accepts values of this type, ignoring bounds and choices."""
        try:
            convert_value(self.hint, value)
        except ValueError:
            return False
        return True

    @property
    def allowed(self) -> str:
        """The allowed values, as text."""
        return describe_field_values(self.field, self.hint)

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """The allowed values if they are a fixed set, else None."""
        return list_choices(self.field, self.hint)

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """The bounds `low` and `high` (inclusive), `above` and `below` (exclusive); None means no bound."""
        bounds: Mapping[str, float | None] = self.field.metadata["bounds"]
        return bounds


def find_field(sections: Mapping[str, Any], key: str, cls: type[Settings]) -> FieldAtKey | None:
    """Return the field that a dotted key sets in `cls`; None for an unknown key or a nested field.

    find_field({"model": {"name": "encoder"}, ...}, "model.heads", MemberConfig) -> the field `heads` of Encoder
    """
    parent, _, name = key.rpartition(".")
    for node in walk_settings(cls, sections, []):
        if node.key == parent != "":
            for field in settings_fields(node.cls):
                if field.name == name and not is_nested(field):
                    return FieldAtKey(node.cls, field)
    return None


def check_single_values(sections: Mapping[str, Any], cls: type[Settings]) -> list[Problem]:
    """Return unknown names and keys, missing keys and wrong values of plain sections; combinations are not checked."""
    problems, unknown = list[Problem](), list[Problem]()
    for node in walk_settings(cls, sections, unknown):
        values = {key: value for key, value in node.values.items() if key != node.name_key}
        problems += [
            problem.with_key_prefix(node.key) for problem in find_field_problems(node.cls, values, nested=False)
        ]
    return [*problems, *unknown]
