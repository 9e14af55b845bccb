"""The values that identify a configuration, and the values that a pack shares, without values equal to `absent`.

`absent` is the first default that a field ever had and never changes. So neither a new field nor a changed default
changes the id of an existing configuration, and two different computations never have the same id.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import Field
from typing import Any

from trainers.settings.fields import (
    NOTHING,
    Settings,
    read_absent_value,
    settings_fields,
    sum_revisions,
    to_plain_value,
)
from trainers.settings.nested import is_nested

_EXACT_SCALARS = (bool, int, str, type(None))  # without floats: -0.0 equals 0.0, and their JSON differs


def compute_digest(value: Any) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of plain data, independent of the order of keys."""
    return hashlib.sha256(_encode_json(value).encode()).hexdigest()[:12]


def make_identity(settings: Settings) -> dict[str, Any]:
    """Return the values that the `config_id` is computed from, as plain data."""
    return _select_present_values(
        settings,
        lambda field, value: to_plain_value(value),
        make_identity,
        lambda field: bool(field.metadata["identifies"]),
    )


def make_structure(settings: Settings) -> dict[str, Any]:
    """Return the values that members of a pack must share, as plain data; of member hyperparameters their variants."""
    return _select_present_values(settings, _convert_structural, make_structure, lambda field: True)


def read_absent_values(cls: type[Settings]) -> dict[str, Any]:
    """Return the `absent` value of every field that has one, as plain data."""
    values = {field.name: read_absent_value(cls, field) for field in settings_fields(cls)}
    return {name: to_plain_value(value) for name, value in values.items() if value is not NOTHING}


def _select_present_values(
    settings: Settings,
    convert_field: Callable[[Field[Any], Any], Any],
    convert_nested: Callable[[Settings], dict[str, Any]],
    is_included: Callable[[Field[Any]], bool],
) -> dict[str, Any]:
    """Return the included fields whose values are not `absent`, as plain data.

    convert_field: a field and its value -> plain data, or NOTHING to leave it out. convert_nested: nested settings ->
    plain data.
    """
    # A revision of 1 is left out, like every value equal to `absent`.
    cls = type(settings)
    plain: dict[str, Any] = {"name": settings.name} if settings.name else {}
    if (revision := sum_revisions(cls)) != 1:
        plain["revision"] = revision

    # A field with its absent value is left out, so that a new field changes no identity.
    for field in filter(is_included, settings_fields(cls)):
        converted: Any
        value = getattr(settings, field.name)
        absent = read_absent_value(cls, field)

        # The path of a file whose hash is recorded does not identify anything.
        if (pin := field.metadata["pinned_by"]) is not None and getattr(settings, pin) is not None:
            continue

        # Compare value and `absent` in the same plain form.
        if is_nested(field):
            if field.metadata["member"] and convert_field(field, None) is NOTHING:
                continue
            converted = to_plain_value(value, convert_nested)
            plain_absent = _make_plain_absent(field)
            if field.metadata["bare"] and converted is not None and converted.keys() == {"name"}:
                converted = converted["name"]
        else:
            converted = convert_field(field, value)
            plain_absent = NOTHING if absent is NOTHING else convert_field(field, absent)
        if converted is not NOTHING and (absent is NOTHING or not _are_equal(converted, plain_absent)):
            plain[field.name] = converted
    return plain


def _make_plain_absent(field: Field[Any]) -> Any:
    """Return the `absent` value of a nested field as plain data: the name of its class alone."""
    absent = field.metadata["absent"]
    if not isinstance(absent, str) or field.metadata["bare"]:
        return absent
    return {absent: {"kind": absent}} if field.metadata["labelled"] else {"name": absent}


def _convert_structural(field: Field[Any], value: Any) -> Any:
    """Return the part of a field that all members of a pack share, its value or its variant; NOTHING if none."""
    variant = field.metadata["variant"]
    if field.metadata["member"]:
        return to_plain_value(variant(value)) if variant else NOTHING
    return to_plain_value(value)


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether plain data are equal as JSON, where 1, 1.0 and true differ."""
    if type(first) in _EXACT_SCALARS and type(second) in _EXACT_SCALARS:
        return type(first) is type(second) and bool(first == second)
    return _encode_json(first) == _encode_json(second)


def _encode_json(value: Any) -> str:
    """Return plain data as JSON that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
