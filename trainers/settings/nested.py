"""Nested fields: settings of a registered class, of a fixed class, or of several registered classes by label."""

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, NamedTuple

from trainers.errors import ConfigError, Problem
from trainers.settings import registry


class ClassValues(NamedTuple):
    """A settings class and plain values of its fields; name_key: the key that names the class, None without a name."""

    cls: type[Any]
    values: dict[str, Any]
    name_key: str | None


def is_nested(field: Field[Any]) -> bool:
    """Return whether a field holds settings rather than a plain value."""
    return field.metadata["kind"] is not None


def build_nested(field: Field[Any], value: Any) -> tuple[Any, list[Problem]]:
    """Build the settings of a nested field from plain values; return them and their problems."""
    entries, problems = read_nested(field, value)
    built: dict[str, Any] = {}
    for label, (cls, values, _) in entries.items():
        try:
            built[label] = cls.from_mapping(values)
        except ConfigError as error:
            problems += [problem.with_key_prefix(label).with_key_prefix(field.name) for problem in error.problems]
    return (built or None) if field.metadata["labelled"] else built.get(""), problems


def read_nested(field: Field[Any], value: Any) -> tuple[dict[str, ClassValues], list[Problem]]:
    """Return the classes and values of a nested field by label ("" for a field without labels), and its problems."""
    # YAML has three forms: one section, a label alone, or sections by label. Bring them to the last one.
    kind, labelled = field.metadata["kind"], field.metadata["labelled"]
    if value is None and field.default is None:
        return {}, []
    if not labelled:
        plain = {"": value}
    elif isinstance(value, str):
        plain = {value: {}}
    elif not isinstance(value, Mapping) or not value:
        message = "is empty" if isinstance(value, Mapping) else f"{value!r} is not a mapping of keys to values"
        allowed = f"label: {{kind: {', '.join(registry.list_names(kind))}, ...}}"
        return {}, [Problem(key=field.name, given=value, message=message, allowed=allowed)]
    else:
        plain = {str(label): {} if values is None else values for label, values in value.items()}

    # Problems of all labels are reported at once.
    entries, problems = dict[str, ClassValues](), list[Problem]()
    for label, values in plain.items():
        try:
            entries[label] = _read_entry(kind, label, values)
        except ConfigError as error:
            problems += [problem.with_key_prefix(label).with_key_prefix(field.name) for problem in error.problems]
    return entries, problems


def _read_entry(kind: str | type[Any], label: str, values: Any) -> ClassValues:
    """Return the class and the values of a label. Raises ConfigError."""
    # Settings of a fixed class have no key with a name.
    if isinstance(kind, type):
        if not isinstance(values, Mapping):
            message = f"{values!r} is not a mapping of keys to values"
            raise ConfigError([Problem(key="", given=values, message=message)])
        return ClassValues(kind, dict(values), None)

    # A plain name means the class with default settings.
    name_key = "kind" if label else "name"
    entry = {name_key: values} if isinstance(values, str) else values
    return ClassValues(*registry.resolve(kind, entry, default_name=label or None, name_key=name_key), name_key)
