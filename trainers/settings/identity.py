"""What names a configuration and what a pack shares: its values, without those equal to their field's `absent` value.

`absent` is the first default that a field ever had, for good. So a field that is added later changes no name, and
neither does a default that changes: what was computed keeps its name, and two computations never share one.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import Field
from typing import Any

from trainers.settings.fields import (
    NOTHING,
    Settings,
    absent_value,
    plain_value,
    revision_of,
    settings_fields,
)
from trainers.settings.nested import is_nested


def digest(value: Any) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of plain data; the order of keys does not matter."""
    return hashlib.sha256(_text(value).encode()).hexdigest()[:12]


def identity(settings: Settings) -> dict[str, Any]:
    """The values that enter the hash that names these settings, as plain data."""
    return _without_absent(settings, lambda item, value: plain_value(value), identity)


def structure(settings: Settings) -> dict[str, Any]:
    """The part of these settings that members of a pack must share; of member hyperparameters only their variants."""
    return _without_absent(settings, _shared, structure)


def absent_values(cls: type[Settings]) -> dict[str, Any]:
    """The `absent` value of every field that has one, as plain data."""
    values = {item.name: absent_value(cls, item) for item in settings_fields(cls)}
    return {name: plain_value(value) for name, value in values.items() if value is not NOTHING}


def _without_absent(
    settings: Settings, entry: Callable[[Field[Any], Any], Any], of: Callable[[Settings], dict[str, Any]]
) -> dict[str, Any]:
    """Return `entry` of every plain field and `of` nested settings, without those that equal their `absent` value."""
    cls = type(settings)
    kept: dict[str, Any] = {"name": settings.name} if settings.name else {}
    if (revision := revision_of(cls)) != 1:
        kept["revision"] = revision
    for item in settings_fields(cls):
        mine: Any
        value, absent = getattr(settings, item.name), absent_value(cls, item)
        if is_nested(item):
            mine, other = plain_value(value, of), _plain_absent(item)
        else:
            mine, other = entry(item, value), NOTHING if absent is NOTHING else entry(item, absent)
        if mine is not NOTHING and (absent is NOTHING or _text(mine) != _text(other)):
            kept[item.name] = mine
    return kept


def _plain_absent(item: Field[Any]) -> Any:
    """Return the `absent` value of a nested field as its settings enter a hash: without their own absent values."""
    absent = item.metadata["absent"]
    if not isinstance(absent, str):
        return absent
    return {absent: {"kind": absent}} if item.metadata["labelled"] else {"name": absent}


def _shared(item: Field[Any], value: Any) -> Any:
    variant = item.metadata["variant"]
    if item.metadata["member"]:
        return plain_value(variant(value)) if variant else NOTHING
    return plain_value(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
