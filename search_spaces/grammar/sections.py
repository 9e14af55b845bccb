"""The open sections of a sweep file, and values of nested mappings by dotted keys."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

ENGINE_SECTIONS = ("task", "model", "training", "evaluation")
PROGRAM_SECTIONS = ("program", "config", "training", "evaluation")
SECTIONS = tuple(dict.fromkeys((*ENGINE_SECTIONS, *PROGRAM_SECTIONS)))
"""The open sections, whose keys the trainer checks; a key of the space is a section, or a dotted key inside it."""

KEY_PART = re.compile(r"[\w-]+")
SECTION_KEY = re.compile(rf"({'|'.join(SECTIONS)})(\.[\w-]+)*")


class Absent:
    """The type of ABSENT: no value, as opposed to null."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """Pickle by name, so that every process has a single instance."""
        return "ABSENT"


ABSENT: Final = Absent()


def list_sections(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the open sections of a sweep file, which depend on whether it has a `program`."""
    return PROGRAM_SECTIONS if "program" in data else ENGINE_SECTIONS


def read_key(mapping: Any, dotted: str) -> Any:
    """Return the value at a dotted key of nested mappings, ABSENT if the key is missing."""
    for part in dotted.split("."):
        if not isinstance(mapping, dict) or part not in mapping:
            return ABSENT
        mapping = mapping[part]
    return mapping


def list_dotted_keys(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Yield every dotted key of nested mappings, also of the inner mappings themselves."""
    for key, value in mapping.items():
        dotted = f"{prefix}.{key}" if prefix else key
        yield dotted
        if isinstance(value, dict):
            yield from list_dotted_keys(value, dotted)
