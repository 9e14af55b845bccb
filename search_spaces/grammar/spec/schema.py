"""The JSON Schema of sweep files, with which editors complete and check them.

`lengthwise schema` writes it; search_spaces/schema.json is that text.
"""

import json
from typing import Any

from search_spaces.grammar.spec.spec import SweepSpec


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a sweep file. It knows the shape; load_sweep knows more."""
    schema = SweepSpec.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "lengthwise sweep",
        "description": "One sweep of lengthwise: what is fixed, what is varied, how it is scored, what it may use.",
    }


def schema_text() -> str:
    """The schema as the text of schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
