"""The JSON Schema of sweep files for editors: `lengthwise schema` prints it; search_spaces/schema.json is a copy."""

import json
from collections.abc import Mapping
from typing import Any

from search_spaces.grammar.sections import SECTIONS
from search_spaces.grammar.spec import SweepSpec

DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def make_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a sweep file; `load_sweep` checks more."""
    description = "One sweep of lengthwise: fixed and searched values, objective and resources."
    schema = SweepSpec.model_json_schema()
    required = [key for key in schema["required"] if key not in SECTIONS]  # the space may set a whole section
    return {**DRAFT, **schema, "required": required, "title": "lengthwise sweep", "description": description}


def format_schema(schema: Mapping[str, Any] | None = None) -> str:
    """Return a schema as text, by default the schema in schema.json."""
    return json.dumps(make_json_schema() if schema is None else schema, indent=2, ensure_ascii=False) + "\n"
