"""JSON Schema of the space section and of listed configurations, for editors."""

from typing import Any

from search_spaces.grammar.problems.findings import SECTION_KEY
from search_spaces.grammar.space.domains import KINDS, Domain

_WHEN = {
    "description": "Drawn only if each of these keys has the given value, or one of the given list; else the key keeps "
    "its fixed value. A key here is a choice, a grid or a fixed value.",
    "type": "object",
    "minProperties": 1,
}


def space_schema() -> dict[str, Any]:
    """Return the schema of `space`: dotted keys of the open sections, each a mapping with one kind of domain."""
    domain = {"anyOf": [_domain(kind) for kind in KINDS.values()]}
    return {"type": "object", "patternProperties": {f"^{SECTION_KEY.pattern}$": domain}, "additionalProperties": False}


def listed_schema() -> dict[str, Any]:
    """Return the schema of a configuration of `search.listed`: dotted keys of the open sections with any value."""
    return {"type": "object", "patternProperties": {f"^{SECTION_KEY.pattern}$": {}}, "additionalProperties": False}


def _domain(kind: type[Domain]) -> dict[str, Any]:
    described = {"description": (kind.__doc__ or "").strip()}
    properties = {kind.kind: described | kind.schema, **kind.options, "when": _WHEN}
    return {"type": "object", "properties": properties, "required": [kind.kind], "additionalProperties": False}
