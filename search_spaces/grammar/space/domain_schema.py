"""JSON Schema of the space section and of listed configurations, for editors."""

from typing import Any

from search_spaces.grammar.problems.findings import SECTION_KEY
from search_spaces.grammar.space.domains import (
    KINDS,
    Choice,
    Domain,
    Grid,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
)

_NUMBER = {"type": "number"}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_SHARE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_WHOLE = {"type": "integer"}
_WHEN = {
    "description": "Drawn only if each of these keys has the given value, or one of the given list; else the key keeps "
    "its fixed value. A key here is a choice, a grid or a fixed value.",
    "type": "object",
    "minProperties": 1,
}
_OPTIONS: dict[type[Domain], dict[str, Any]] = {
    IntUniform: {"step": {"description": "Distance between neighbouring values.", "type": "integer", "minimum": 1}},
    Normal: {
        "low": {"description": "Smaller values become this.", "type": ["number", "null"]},
        "high": {"description": "Larger values become this.", "type": ["number", "null"]},
    },
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
    properties = {kind.kind: described | _argument(kind), **_OPTIONS.get(kind, {}), "when": _WHEN}
    return {"type": "object", "properties": properties, "required": [kind.kind], "additionalProperties": False}


def _argument(kind: type[Domain]) -> dict[str, Any]:
    if issubclass(kind, (Choice, Grid)):
        return {"type": "array", "minItems": 1, "uniqueItems": True}
    pairs: dict[type[Domain], list[dict[str, Any]]] = {
        LogUniform: [_POSITIVE, _POSITIVE],
        OneMinusLogUniform: [_SHARE, _SHARE],
        IntUniform: [_WHOLE, _WHOLE],
        Normal: [_NUMBER, _POSITIVE],
    }
    return {"type": "array", "prefixItems": pairs.get(kind, [_NUMBER, _NUMBER]), "minItems": 2, "maxItems": 2}
