"""Values of a caller in Python, with numbers and arrays of numpy and paths, as plain data."""

import json
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError


def to_json(key: str, value: Any) -> str:
    """Return a value as JSON, which is YAML too; raises UserError for anything that is not plain data."""
    try:
        return json.dumps(value, default=_as_plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"{key}: {error}; allowed: numbers, text, true, false, None, lists and dictionaries") from None


def _as_plain(value: Any) -> Any:
    """Return numbers and arrays of numpy, ranges and paths as plain data."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, range):
        return list(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain data")
