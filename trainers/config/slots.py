"""Which field of which class a dotted key fills, and what is wrong with single values: nothing is built.

`MemberConfig.from_dict` also refuses values that do not fit together. What is said here of a value holds whatever the
others are, as long as they name the same classes.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import Any

from trainers.config.member import MemberConfig
from trainers.errors import Problem
from trainers.settings.fields import allowed_values, settings_fields, takes_type, value_problems
from trainers.settings.nested import is_nested
from trainers.settings.parts import walk_parts


@dataclass(frozen=True)
class Slot:
    """One field of a settings class, as a place for a value."""

    cls: type[Any]
    item: Field[Any]

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with a value, empty if it can stand here."""
        return value_problems(self.cls, self.item, value)

    def takes(self, value: Any) -> bool:
        """Whether values of this type can stand here, whatever bounds and choices."""
        return takes_type(self.cls, self.item, value)

    @property
    def allowed(self) -> str:
        """What can stand here, in words."""
        return allowed_values(self.cls, self.item)

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """The values that can stand here, if they are listed."""
        choices: tuple[Any, ...] | None = self.item.metadata["choices"]
        return choices

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """`low` and `high`, inclusive, `above` and `below`, exclusive; None is no bound."""
        bounds: Mapping[str, float | None] = self.item.metadata["bounds"]
        return bounds


def slot_of(sections: Mapping[str, Any], key: str) -> Slot | None:
    """The field that a dotted key fills; None if there is none, or if it holds a whole class.

    slot_of({"model": {"name": "encoder"}, ...}, "model.heads") -> the field `heads` of Encoder
    """
    above, _, name = key.rpartition(".")
    for part in walk_parts(MemberConfig, sections, []):
        if part.key == above != "":
            for item in settings_fields(part.cls):
                if item.name == name and not is_nested(item):
                    return Slot(part.cls, item)
    return None


def single_problems(sections: Mapping[str, Any]) -> list[Problem]:
    """Unknown names and keys, missing keys and wrong values of plain sections, not what is wrong between them."""
    problems: list[Problem] = []
    found = [problem for part in walk_parts(MemberConfig, sections, problems) for problem in part.problems()]
    return [*found, *problems]
