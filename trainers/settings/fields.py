"""Frozen keyword-only settings with typed, bounded fields.

Every task, model, average and schedule is a `Settings` dataclass whose fields are declared with `setting`:

    rate: float = setting(0.0, low=0.0, below=1.0, member=True, help="dropout probability")

`member=True` marks a member hyperparameter (HFTA, arXiv:2102.02344, calls it fusible), which may differ inside a pack:
its values become a tensor of shape (M,). `trainers.settings.identity` explains `absent` and `revision`.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from dataclasses import field as dataclass_field
from enum import Enum
from inspect import isfunction
from typing import Any, ClassVar, Final, Self, dataclass_transform

from trainers.errors import ConfigError, Problem, find_nearest
from trainers.settings.nested import build_nested, is_nested
from trainers.settings.value_checks import (
    check_bounds,
    convert_value,
    describe_field_values,
    guess_meant_value,
    list_choices,
)

NOTHING: Final = object()  # no value, as opposed to the value None
_SCALARS = (bool, int, float, str, type(None))


def setting(
    default: Any = MISSING,
    *,
    absent: Any = MISSING,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] | None = None,
    member: bool = False,
    variant: Callable[[Any], Any] | None = None,
    kind: str | type["Settings"] | None = None,
    labelled: bool = False,
    bare: bool = False,
    technical: bool = False,
    identifies: bool = True,
    pinned_by: str | None = None,
    help: str = "",
) -> Any:
    """Return a dataclass field that is an option of the YAML file. A field with few values may be a Literal or an Enum.

    default: the value of a missing key; without it the key is required.
    absent: the first default the field ever had, which never changes: a configuration with this value has the same
        `config_id` as a configuration without the field. By default it is `default`. Give it when the default changes,
        and `NOTHING` when a required field gets a default. For a nested field it is a name, {} or None, meaning
        settings with their own `absent` values.
    low, high: inclusive bounds, of every entry of a tuple.
    above, below: exclusive bounds, likewise.
    choices: the allowed values.
    member: the field is a member hyperparameter: members of a pack may differ in it.
    variant: a function of a member hyperparameter's value that members of a pack must share, because it changes the
        program, for example whether a dropout rate is zero.
    kind: makes the field nested. It holds settings of a registered kind (`kind="position"`), written as a name or
        `{name: ..., field: ...}`, or of one class (`kind=Stop`), written `{field: ...}`. With the default None it is
        optional.
    labelled: a nested field holds several settings, `{label: {kind: ..., field: ...}}`. The kind defaults to the label,
        and a plain name means the class of that name under the label of that name.
    bare: a nested field enters the identity as its name alone if all its other values are `absent` (for fields that
        were plain text in older versions).
    technical: the field changes no numbers, only how they are computed, such as the width that rows are padded to.
        Comparisons pair seeds across its values and tables have no column for it, but it is part of the `config_id`.
    identifies: False for a field that only adds recorded values, such as more metrics. It is not part of the
        `config_id` and cannot be searched.
    pinned_by: the field with the hash of the file that this field names. Once the hash is set, this field is not part
        of the `config_id`: the same file at another path is the same configuration.
    help: the meaning of the field, printed by `lengthwise list`.

    Raises TypeError for an invalid `absent` of a nested field.
    """
    # A field that was always required has no `absent`: a configuration without it never existed.
    absent = default if absent is MISSING else absent
    absent = NOTHING if absent is MISSING else absent
    if kind is not None and absent not in (NOTHING, None, {}) and not isinstance(absent, str):
        raise TypeError(f"`absent` of a {kind} field is {absent!r}; allowed: a registered name, {{}}, None or NOTHING")
    return dataclass_field(
        default=default,
        metadata={
            "bounds": {"low": low, "high": high, "above": above, "below": below},
            "choices": choices,
            "member": member,
            "variant": variant,
            "kind": kind,
            "labelled": labelled,
            "bare": bare,
            "technical": technical,
            "identifies": identifies,
            "pinned_by": pinned_by,
            "help": help,
            "absent": absent,
        },
    )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, dataclass_field))
class Settings:
    """Base of every settings class; subclasses become frozen keyword-only dataclasses that check their values.

    When a bug fix changes the numbers that a class computes, raise its `revision` by one: configurations then get a new
    `config_id`.
    """

    name: ClassVar[str] = ""
    revision: ClassVar[int] = 1
    former_names: ClassVar[dict[str, str]] = {"cross_checks": "find_combination_problems"}  # in version 2.0.0 -> now
    trial_settings: ClassVar[Mapping[str, Any]] = {}  # values of required settings for `trainers.check` and tests

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the subclass a frozen dataclass. Raises TypeError for a reserved field name or an invalid revision."""
        super().__init_subclass__(**kwargs)

        # Classes of users may override methods under their names in version 2.0.0, and call them in a base class.
        for old_name, new_name in cls.former_names.items():
            if isfunction(method := vars(cls).get(old_name)):
                setattr(cls, new_name, method)
            elif old_name not in vars(cls):  # a field may have the old name
                setattr(cls, old_name, getattr(cls, new_name))

        dataclass(frozen=True, kw_only=True)(cls)
        if reserved := {"name", "revision"} & {field.name for field in settings_fields(cls)}:
            raise TypeError(f"{cls.__name__} cannot have a field named {', '.join(sorted(reserved))}")
        if type(cls.revision) is not int or cls.revision < 1:
            raise TypeError(f"{cls.__name__}.revision is {cls.revision!r}; allowed: a whole number from 1")

    def __post_init__(self) -> None:
        """Convert and check each value, then combinations of values. Raises ConfigError with all problems."""
        problems: list[Problem] = []
        for field in settings_fields(type(self)):
            value, value_problems = check_value(type(self), field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)  # the dataclass is frozen
            problems += value_problems
        if not problems:  # checks of combinations may rely on valid values
            problems += self.find_combination_problems()
        if problems:
            raise ConfigError(problems)

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of combinations of fields that are each valid alone."""
        return iter(())

    cross_checks = find_combination_problems  # the name in version 2.0.0

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Build settings from plain values. Raises ConfigError with all unknown keys, missing keys and wrong values."""
        if "revision" in data and data["revision"] == sum_revisions(cls) != 1:  # `to_dict` writes it
            data = {key: value for key, value in data.items() if key != "revision"}

        # If all keys are valid, the constructor alone checks the values, so that each is checked once.
        is_required = {field.name: field.default is MISSING for field in settings_fields(cls)}
        if not data.keys() <= is_required.keys() or any(
            required and name not in data for name, required in is_required.items()
        ):
            raise ConfigError(find_field_problems(cls, data))
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the revision if it is not 1, and every field except nested Nones, as plain JSON values."""
        plain: dict[str, Any] = {"name": self.name} if self.name else {}
        if (revision := sum_revisions(type(self))) != 1:
            plain["revision"] = revision
        for field in settings_fields(type(self)):
            value = getattr(self, field.name)
            if value is not None or not is_nested(field):
                plain[field.name] = to_plain_value(value)
        return plain


def settings_fields(cls: type) -> tuple[Field[Any], ...]:
    """Return the fields of a settings class that were declared with `setting`."""
    declared: tuple[Field[Any], ...] = _cached_on_class(
        cls, "_settings", lambda: tuple(field for field in fields(cls) if "bounds" in field.metadata)
    )
    return declared


def list_technical_keys(settings: Settings, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of the technical fields, also inside nested settings."""
    for field in settings_fields(type(settings)):
        key = f"{prefix}{field.name}"
        value = getattr(settings, field.name)
        if field.metadata["technical"]:
            yield key
        for name, part in value.items() if isinstance(value, Mapping) else [("", value)]:
            if isinstance(part, Settings):
                yield from list_technical_keys(part, f"{key}.{name}." if name else f"{key}.")


def sum_revisions(cls: type[Settings]) -> int:
    """Return the revision of a class with the fixes of its base classes: 1 plus all fixes so far."""
    fixes: list[int] = [base.__dict__.get("revision", 1) - 1 for base in cls.__mro__]
    return 1 + sum(fixes)


def read_absent_value(cls: type, field: Field[Any]) -> Any:
    """Return the `absent` value of a field in its declared type, or NOTHING."""
    absent = field.metadata["absent"]
    if absent is NOTHING or is_nested(field):
        return absent
    name = field.name
    return _cached_on_class(cls, f"_absent_{name}", lambda: convert_value(read_type_hints(cls)[name], absent))


def to_plain_value(
    value: Any, convert: Callable[[Settings], dict[str, Any]] = lambda settings: settings.to_dict()
) -> Any:
    """Return the value of a field as plain JSON types; `convert` turns nested settings into a dictionary."""
    if type(value) in _SCALARS:  # most are, and looking for a Mapping is slow
        return value
    if isinstance(value, Settings):
        return convert(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {
            label: _name_kind(convert(entry)) if isinstance(entry, Settings) else to_plain_value(entry)
            for label, entry in value.items()
        }
    return [to_plain_value(entry) for entry in value] if isinstance(value, tuple) else value


def _name_kind(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain settings with the key `kind` in place of `name`, in the same order, as YAML writes labelled ones."""
    return {"kind" if key == "name" else key: value for key, value in plain.items()}


def find_field_problems(cls: type, data: Mapping[str, Any], *, nested: bool = True) -> list[Problem]:
    """Return problems of unknown keys, missing keys and single wrong values; of nested fields only if `nested`."""
    fields_by_name = {field.name: field for field in settings_fields(cls)}
    problems = [
        Problem(
            key=str(key),
            given=value,
            message="unknown key",
            allowed=", ".join(fields_by_name),
            nearest=find_nearest(key, fields_by_name),
        )
        for key, value in data.items()
        if key not in fields_by_name
    ]

    # A misspelt key is a single mistake: do not also report the correct key as missing.
    misspelt = {problem.nearest for problem in problems}
    for name, field in fields_by_name.items():
        if name not in data:
            if field.default is MISSING and name not in misspelt:
                allowed = describe_field_values(field, read_type_hints(cls).get(name))
                problems.append(Problem(key=name, message="is required", allowed=allowed))
        elif nested or not is_nested(field):
            problems += check_value(cls, field, data[name])[1]
    return problems


def read_type_hints(cls: type) -> dict[str, Any]:
    """Return the types of the plain fields by name. Types of nested fields may be imported for type checking only."""

    def resolve() -> dict[str, Any]:
        # Annotations are evaluated in the module of their class, and a class and its base may be in different modules.
        nested = {field.name for field in settings_fields(cls) if is_nested(field)}
        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            annotations = {
                name: hint for name, hint in vars(base).get("__annotations__", {}).items() if name not in nested
            }
            hints |= typing.get_type_hints(
                type("", (), {"__annotations__": annotations, "__module__": base.__module__})
            )
        return hints

    return _cached_on_class(cls, "_resolved_hints", resolve)  # type: ignore[no-any-return]


def _cached_on_class(cls: type, name: str, make: Callable[[], Any]) -> Any:
    """Return `make()`, cached as an attribute of the class, because thousands of configurations need it."""
    if name not in cls.__dict__:
        setattr(cls, name, make())
    return cls.__dict__[name]


def check_value(cls: type, field: Field[Any], value: Any) -> tuple[Any, list[Problem]]:
    """Return the value in its declared type, and its problems."""
    # Settings were checked when they were built.
    if isinstance(value, Settings):
        return value, []
    if is_nested(field):
        is_built = isinstance(value, Mapping) and value and all(isinstance(entry, Settings) for entry in value.values())
        return (value, []) if is_built else build_nested(field, value)

    # Bounds only make sense for a value of the right type.
    hint = read_type_hints(cls)[field.name]
    try:
        converted = convert_value(hint, value)
        check_bounds(field.metadata, converted)
    except ValueError as error:
        choices = list_choices(field, hint)
        nearest = find_nearest(value, [str(choice) for choice in choices]) if choices else None
        nearest = f"[{nearest}]" if nearest is not None and nearest == value else nearest  # an entry without its list
        nearest = nearest or guess_meant_value(hint, field.metadata, value)
        message = f"{value!r} {error}"
        allowed = describe_field_values(field, hint)
        return value, [Problem(key=field.name, given=value, message=message, allowed=allowed, nearest=nearest)]
    return converted, []
