"""Checks of plain values against the type, bounds and choices of a field."""

import json
import sys
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field
from enum import Enum
from typing import Any, Literal

_YAML_NAMES = {"True": "true", "False": "false", "None": "null"}  # Python's name of a value -> its name in YAML


def convert_value(hint: Any, value: Any) -> Any:
    """Return a plain value converted to the type `hint`. Raises ValueError with the reason if it does not fit."""
    if type(value) is hint and hint is not float:  # a float may be infinite
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)

    # The order of a union matters: the first type that fits wins, so `int | float` keeps integers.
    if origin in (types.UnionType, typing.Union):
        for option in arguments:
            try:
                return convert_value(option, value)
            except ValueError:
                continue
        raise ValueError("has the wrong type")
    if hint is type(None):
        if value is not None:
            raise ValueError("is not null")
        return None

    # Lists, choices and mappings have parts, which are converted in turn.
    if origin is tuple:
        return _convert_list(arguments, value)
    if origin is Literal or _is_enum(hint):
        return _convert_choice(hint, value)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ValueError("is not a mapping of keys to values")
        return {str(key): convert_value(arguments[1], entry) for key, entry in value.items()}

    # An integer is a valid number, but a bool is neither, although Python counts it as an int.
    if hint is Any:
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) <= sys.float_info.max:  # nan, infinite, or an integer too large for a float
            raise ValueError("is not finite")
        return float(value)
    if type(value) is not hint:
        raise ValueError(f"is not {_describe_type(hint)}")
    return value


def _convert_list(entry_types: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return a list as a tuple with entries of these types; `(int, ...)` means any number of integers."""
    if not isinstance(value, (list, tuple)):
        raise ValueError("is not a list")
    if entry_types[-1] is Ellipsis:
        return tuple(convert_value(entry_types[0], entry) for entry in value)
    if len(value) != len(entry_types):
        raise ValueError(f"does not have {len(entry_types)} entries")
    return tuple(convert_value(entry_type, entry) for entry_type, entry in zip(entry_types, value, strict=True))


def _convert_choice(hint: Any, value: Any) -> Any:
    """Return a value of a Literal unchanged, and a value of an Enum as its member."""
    # Choices are looked up with their type, because True == 1 == 1.0.
    choices = {(type(choice), choice): choice for choice in typing.get_args(hint)}
    choices |= {(type(member.value), member.value): member for member in (hint if _is_enum(hint) else ())}
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(value, (list, dict)) or (type(plain), plain) not in choices:
        raise ValueError("is not one of the choices")
    return choices[type(plain), plain]


def list_type_choices(hint: Any) -> tuple[Any, ...] | None:
    """Return the plain values that a type allows if they are a fixed set (Literal, Enum), else None.

    For a tuple type: the values that its entries allow. For an optional type None is among them.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return arguments
    if _is_enum(hint):
        return tuple(member.value for member in hint)

    # A union has a fixed set only if each of its types has.
    if origin is tuple:
        entries = {argument for argument in arguments if argument is not Ellipsis}
        return list_type_choices(arguments[0]) if len(entries) == 1 else None
    if origin in (types.UnionType, typing.Union):
        options = [(None,) if option is type(None) else list_type_choices(option) for option in arguments]
        return None if None in options else tuple(choice for option in options for choice in option or ())
    return None


def _is_enum(hint: Any) -> bool:
    """Return whether a type is an Enum class."""
    return isinstance(hint, type) and issubclass(hint, Enum)


def check_bounds(metadata: Mapping[str, Any], value: Any) -> None:
    """Raise ValueError if a value, or an entry of a tuple, is outside the choices or bounds of its field."""
    for entry in value if isinstance(value, tuple) else (value,):
        if entry is None:  # the type says whether null is allowed
            continue
        if metadata["choices"] is not None and entry not in metadata["choices"]:
            raise ValueError("is not one of the choices")
        if isinstance(entry, (int, float)) and not isinstance(entry, bool):
            bounds = metadata["bounds"]
            if (
                (bounds["low"] is not None and entry < bounds["low"])
                or (bounds["high"] is not None and entry > bounds["high"])
                or (bounds["above"] is not None and entry <= bounds["above"])
                or (bounds["below"] is not None and entry >= bounds["below"])
            ):
                raise ValueError("is out of bounds")


def guess_meant_value(hint: Any, metadata: Mapping[str, Any], value: Any) -> str | None:
    """Return the YAML text of a valid value that was probably meant by a value of the wrong type; None if unclear.

    For an integer field: 1e3 and "1_000" -> "1000". For a number: "1e-4" -> "0.0001 without quotes". For a field that
    may be null: "None" -> "null".
    """
    suggestion = None if value in ("none", "None") else _parse_numbers(value)
    try:
        check_bounds(metadata, convert_value(hint, suggestion))
    except ValueError:
        return None
    is_quoted = isinstance(value, str) and isinstance(suggestion, (int, float)) and "_" not in value
    return json.dumps(suggestion) + (" without quotes" if is_quoted else "")


def _parse_numbers(value: Any) -> Any:
    """Return texts that are numbers as numbers, and whole floats as ints, also inside lists; other values unchanged."""
    if isinstance(value, list):
        return [_parse_numbers(entry) for entry in value]
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            value = kind(value)
            break
    return int(value) if isinstance(value, float) and value.is_integer() else value


def list_choices(field: Field[Any], hint: Any) -> tuple[Any, ...] | None:
    """Return the allowed values of a field if its choices or its type make them a fixed set, else None."""
    choices: tuple[Any, ...] | None = field.metadata["choices"]
    return list_type_choices(hint) if choices is None else choices


def describe_field_values(field: Field[Any], hint: Any) -> str:
    """Return the allowed values of a field as text: its choices, or its type and bounds."""
    if (kind := field.metadata["kind"]) is not None:
        article = "an" if str(kind)[0] in "aeiou" else "a"
        return f"{article} {kind}" if isinstance(kind, str) else "a mapping of keys to values"
    if (choices := list_choices(field, hint)) is not None:
        names = ", ".join(_YAML_NAMES.get(str(choice), str(choice)) for choice in choices)
        return f"a list of {names}" if typing.get_origin(hint) is tuple else names

    # Without choices: the type and its bounds, "an integer >= 1".
    signs = {"low": ">=", "above": ">", "high": "<=", "below": "<"}
    limits = [
        f"{sign} {field.metadata['bounds'][key]:.10g}"
        for key, sign in signs.items()
        if field.metadata["bounds"][key] is not None
    ]
    return _describe_type(hint) + (" " + " and ".join(limits) if limits else "")


def _describe_type(hint: Any) -> str:
    """Return a type as text for messages: "an integer", "a list of numbers"."""
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string", type(None): "null"}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if (choices := list_type_choices(hint)) is not None and origin is not tuple:
        return ", ".join(map(str, choices))

    # Types made of others are described by them.
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_describe_type(option) for option in arguments)
    if origin is dict:
        return "a mapping of keys to values"
    if origin is tuple:
        entry = _describe_type(arguments[0])  # "an integer" becomes "integers"
        return "a list of " + (f"{entry.split()[-1]}s" if " or " not in entry else f"{entry} values")
    return names.get(hint, str(hint))
