"""The JSON Schemas of sweep files and of claims files, with which editors complete and check them.

`lengthwise schema [--claims]` writes them; search_spaces/schema.json and claims-schema.json are these texts.
"""

import json
from typing import Any

from search_spaces.grammar.claims import ClaimsFile
from search_spaces.grammar.spec import SweepSpec

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a sweep file. It knows the shape; load_sweep knows more."""
    about = "One sweep of lengthwise: what is fixed, what is varied, how it is scored, what it may use."
    return {**_DRAFT, **SweepSpec.model_json_schema(), "title": "lengthwise sweep", "description": about}


def claims_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a claims file. It knows the shape; load_claims knows more."""
    about = "Claims of a paper, as questions that sweeps of lengthwise answer."
    return {**_DRAFT, **ClaimsFile.model_json_schema(), "title": "lengthwise claims", "description": about}


def schema_text(*, claims: bool = False) -> str:
    """The schema as the text of schema.json, or of claims-schema.json."""
    return json.dumps(claims_schema() if claims else json_schema(), indent=2, ensure_ascii=False) + "\n"
