"""Frozen keyword-only settings with typed, bounded fields.

Every task, model, average and schedule is a `Settings` dataclass whose fields are declared with `setting`:

    rate: float = setting(0.0, low=0.0, below=1.0, member=True, help="dropout probability")

`member=True` marks a member hyperparameter (HFTA's fusible hyperparameter), which may differ inside a pack: its values
become a tensor of shape (M,). `trainers.settings.identity` explains `absent` and `revision`.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, Final, Self, dataclass_transform

from trainers.errors import ConfigError, Problem, find_nearest
from trainers.settings.nested import build_nested, is_nested
from trainers.settings.values import check_bounds, convert_value, describe_values, field_choices, suggest_value

NOTHING: Final = object()  # no value, as opposed to the value None


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

    low, high: inclusive bounds; above, below: exclusive bounds; per element for tuples. variant: a function of a member
    hyperparameter's value that members of a pack must share, because it changes the program, for example whether a
    dropout rate is zero.

    kind: makes the field nested. It holds settings of a registered kind (`kind="position"`), written as a name or
    `{name: ..., field: ...}`, or of one class (`kind=Stop`), written `{field: ...}`. With the default None it is
    optional; with `member=True` members of a pack may differ in it. A `labelled` field holds several settings,
    `{label: {kind: ..., field: ...}}`; the kind defaults to the label, and a plain name means the class of that name
    under the label of that name. A `bare` field enters the identity as its name alone if all its other values are
    `absent`; it was a text before it was nested.

    technical: the field changes no numbers, only how they are computed, such as the width that rows are padded to.
    Comparisons pair seeds across its values and tables have no column for it, but it is part of the `config_id`.

    identifies: False for a field that only adds recorded values, such as more metrics. It is not part of the
    `config_id` and cannot be searched.

    pinned_by: the field with the hash of the file that this field names. Once the hash is set, this field is not part
    of the `config_id`: the same file at another path is the same configuration.

    absent: the first default the field ever had, which never changes: a configuration with this value has the same
    `config_id` as a configuration without the field. By default it is `default`. Give it when the default changes, and
    `NOTHING` when a required field gets a default. For a nested field it is a name, {} or None, meaning settings with
    their own `absent` values.

    Raises TypeError for an invalid `absent` of a nested field.
    """
    # Without a value and a default a required field has no `absent`.
    absent = default if absent is MISSING else absent
    absent = NOTHING if absent is MISSING else absent
    if kind is not None and absent not in (NOTHING, None, {}) and not isinstance(absent, str):
        raise TypeError(f"`absent` of a {kind} field is {absent!r}; allowed: a registered name, {{}}, None or NOTHING")
    return field(
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


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, field))
class Settings:
    """Base of every settings class; subclasses become frozen keyword-only dataclasses that check their values.

    When a bug fix changes the numbers that a class computes, raise its `revision` by one: configurations then get a new
    `config_id`.
    """

    name: ClassVar[str] = ""
    revision: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)
        if taken := {"name", "revision"} & {item.name for item in settings_fields(cls)}:
            raise TypeError(f"{cls.__name__} cannot have a field named {', '.join(sorted(taken))}")
        if type(cls.revision) is not int or cls.revision < 1:
            raise TypeError(f"{cls.__name__}.revision is {cls.revision!r}; allowed: a whole number from 1")

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for item in settings_fields(type(self)):
            value, misfits = check_value(type(self), item, getattr(self, item.name))
            object.__setattr__(self, item.name, value)
            problems += misfits
        if not problems:
            problems += self.cross_checks()
        if problems:
            raise ConfigError(problems)

    def cross_checks(self) -> Iterator[Problem]:
        """Yield problems of combinations of fields that are each valid alone."""
        return iter(())

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Build settings from plain values. Raises ConfigError with all unknown keys, missing keys and wrong values."""
        if "revision" in data and data["revision"] == revision_of(cls) != 1:  # `to_dict` writes it
            data = {key: value for key, value in data.items() if key != "revision"}
        is_required = {item.name: item.default is MISSING for item in settings_fields(cls)}
        if not data.keys() <= is_required.keys() or any(
            required and name not in data for name, required in is_required.items()
        ):
            raise ConfigError(field_problems(cls, data))
        return cls(**data)  # checks each value

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the revision if it is not 1, and every field except nested Nones, as plain JSON values."""
        plain: dict[str, Any] = {"name": self.name} if self.name else {}
        if (revision := revision_of(type(self))) != 1:
            plain["revision"] = revision
        for item in settings_fields(type(self)):
            value = getattr(self, item.name)
            if value is not None or not is_nested(item):
                plain[item.name] = plain_value(value)
        return plain


def settings_fields(cls: type) -> tuple[Field[Any], ...]:
    """Return the fields of a settings class that were declared with `setting`."""
    declared: tuple[Field[Any], ...] = _cached_on_class(
        cls, "_settings", lambda: tuple(item for item in fields(cls) if "bounds" in item.metadata)
    )
    return declared


def technical_keys(settings: Settings, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of the technical fields, also inside nested settings."""
    for item in settings_fields(type(settings)):
        key, value = f"{prefix}{item.name}", getattr(settings, item.name)
        if item.metadata["technical"]:
            yield key
        for name, part in value.items() if isinstance(value, Mapping) else [("", value)]:
            if isinstance(part, Settings):
                yield from technical_keys(part, f"{key}.{name}." if name else f"{key}.")


def revision_of(cls: type[Settings]) -> int:
    """Return 1 plus the revisions (each counted from 0) of this class and all its base classes."""
    revised: list[int] = [base.__dict__.get("revision", 1) - 1 for base in cls.__mro__]
    return 1 + sum(revised)


def absent_value(cls: type, item: Field[Any]) -> Any:
    """Return the `absent` value of a field in its declared type, or NOTHING."""
    absent = item.metadata["absent"]
    if absent is NOTHING or is_nested(item):
        return absent
    return _cached_on_class(cls, f"_absent_{item.name}", lambda: convert_value(type_hints(cls)[item.name], absent))


def plain_value(value: Any, convert: Callable[[Settings], dict[str, Any]] = lambda settings: settings.to_dict()) -> Any:
    """Return the value of a field as plain JSON types; `convert` turns nested settings into a dictionary."""
    if isinstance(value, Settings):
        return convert(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):  # labelled settings: beside a label, the registered name is called kind
        return {
            label: _rename_key(convert(item), "name", "kind") if isinstance(item, Settings) else plain_value(item)
            for label, item in value.items()
        }
    return [plain_value(item) for item in value] if isinstance(value, tuple) else value


def _rename_key(plain: Mapping[str, Any], before: str, after: str) -> dict[str, Any]:
    """Return a dictionary with another name for a key, in the same order."""
    return {after if key == before else key: value for key, value in plain.items()}


def field_problems(cls: type, data: Mapping[str, Any], *, nested: bool = True) -> list[Problem]:
    """Return problems of unknown keys, missing keys and single wrong values; of nested fields only if `nested`."""
    # Unknown keys.
    known = {item.name: item for item in settings_fields(cls)}
    problems = [
        Problem(
            key=str(key), given=value, message="unknown key", allowed=", ".join(known), nearest=find_nearest(key, known)
        )
        for key, value in data.items()
        if key not in known
    ]

    # Missing keys, unless an unknown key is probably meant for them, and wrong values.
    misspelt = {problem.nearest for problem in problems}
    for name, item in known.items():
        if name not in data:
            if item.default is MISSING and name not in misspelt:
                problems.append(Problem(key=name, message="is required", allowed=allowed_values(cls, item)))
        elif nested or not is_nested(item):
            problems += check_value(cls, item, data[name])[1]
    return problems


def allowed_values(cls: type, item: Field[Any]) -> str:
    """Return the allowed values of a field as text: its choices, or its type and bounds."""
    return describe_values(item, type_hints(cls).get(item.name))


def type_hints(cls: type) -> dict[str, Any]:
    """Return the types of the plain fields by name. Types of nested fields may be imported for type checking only."""

    def resolve() -> dict[str, Any]:
        # Class by class, because annotations are evaluated in the module of their class.
        nested = {item.name for item in settings_fields(cls) if is_nested(item)}
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


def check_value(cls: type, item: Field[Any], value: Any) -> tuple[Any, list[Problem]]:
    """Return the value in its declared type, and its problems."""
    # Settings that are built already, and nested settings.
    if isinstance(value, Settings):
        return value, []
    if is_nested(item):
        is_built = isinstance(value, Mapping) and value and all(isinstance(item, Settings) for item in value.values())
        return (value, []) if is_built else build_nested(item, value)

    # A plain value: its type, then its bounds; a wrong value gets a suggestion if one is close.
    try:
        converted = convert_value(type_hints(cls)[item.name], value)
        check_bounds(item.metadata, converted)
    except ValueError as error:
        choices = field_choices(item, type_hints(cls)[item.name])
        close = find_nearest(value, [str(choice) for choice in choices]) if choices else None
        close = f"[{close}]" if close is not None and close == value else close  # a valid entry without its list
        close = close or suggest_value(type_hints(cls)[item.name], item.metadata, value)
        message, allowed = f"{value!r} {error}", allowed_values(cls, item)
        return value, [Problem(key=item.name, given=value, message=message, allowed=allowed, nearest=close)]
    return converted, []
