"""Fields by their dotted keys, and problems of single values, without building a configuration.

`MemberConfig.from_dict` checks combinations of values.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import Any

from trainers.config.member import MemberConfig
from trainers.errors import Problem
from trainers.settings.fields import (
    Settings,
    check_value,
    describe_allowed,
    field_problems,
    read_type_hints,
    settings_fields,
)
from trainers.settings.nested import is_nested
from trainers.settings.values import convert_value, list_choices
from trainers.settings.walk_settings import walk_settings


@dataclass(frozen=True)
class FieldAtKey:
    """The field of a settings class that a dotted key sets."""

    cls: type[Any]
    field: Field[Any]

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems of a value for this field."""
        return check_value(self.cls, self.field, value)[1]

    def accepts(self, value: Any) -> bool:
        """Return whether the field accepts values of this type, ignoring bounds and choices."""
        try:
            convert_value(read_type_hints(self.cls)[self.field.name], value)
        except ValueError:
            return False
        return True

    @property
    def allowed(self) -> str:
        """The allowed values, as text."""
        return describe_allowed(self.cls, self.field)

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """The allowed values if they are a fixed set, else None."""
        return list_choices(self.field, read_type_hints(self.cls)[self.field.name])

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """The bounds `low` and `high` (inclusive), `above` and `below` (exclusive); None means no bound."""
        bounds: Mapping[str, float | None] = self.field.metadata["bounds"]
        return bounds


def find_field(sections: Mapping[str, Any], key: str, cls: type[Settings] = MemberConfig) -> FieldAtKey | None:
    """Return the field that a dotted key sets in `cls`; None for an unknown key or a nested field.

    find_field({"model": {"name": "encoder"}, ...}, "model.heads") -> the field `heads` of Encoder
    """
    parent, _, name = key.rpartition(".")
    for node in walk_settings(cls, sections, []):
        if node.key == parent != "":
            for field in settings_fields(node.cls):
                if field.name == name and not is_nested(field):
                    return FieldAtKey(node.cls, field)
    return None


def check_single_values(sections: Mapping[str, Any], cls: type[Settings] = MemberConfig) -> list[Problem]:
    """Return unknown names and keys, missing keys and wrong values of plain sections; combinations are not checked."""
    problems, unknown = list[Problem](), list[Problem]()
    for node in walk_settings(cls, sections, unknown):
        values = {key: value for key, value in node.values.items() if key != node.name_key}
        problems += [problem.with_key_prefix(node.key) for problem in field_problems(node.cls, values, nested=False)]
    return [*problems, *unknown]
