"""Convert Python values of a caller, also numpy arrays and paths, to JSON."""

import json
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError


def to_json(key: str, value: Any) -> str:
    """Return a value as JSON, which is also YAML. Raises UserError, with `key`, unless it is plain data."""
    try:
        return json.dumps(value, default=_convert_to_plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        allowed = "finite numbers, text, true, false, None, lists and dictionaries"
        raise UserError(f"{key}: {error}; allowed: {allowed}") from None


def _convert_to_plain(value: Any) -> Any:
    """Return numpy numbers and arrays, ranges and paths as plain data. Raises TypeError for other values."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, range):
        return list(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain data")
