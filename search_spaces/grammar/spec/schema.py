"""The JSON Schema of sweep files, with which editors complete and check them.

`lengthwise schema` writes it; search_spaces/schema.json is that text.
"""

import json
from collections.abc import Mapping
from typing import Any

from search_spaces.grammar.spec.spec import SweepSpec

DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a sweep file. It knows the shape; load_sweep knows more."""
    about = "One sweep of lengthwise: what is fixed, what is varied, how it is scored, what it may use."
    return {**DRAFT, **SweepSpec.model_json_schema(), "title": "lengthwise sweep", "description": about}


def schema_text(schema: Mapping[str, Any] | None = None) -> str:
    """A schema as the text of its file: by default schema.json."""
    return json.dumps(json_schema() if schema is None else schema, indent=2, ensure_ascii=False) + "\n"
