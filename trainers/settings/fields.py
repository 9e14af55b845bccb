"""Frozen keyword-only settings: typed, bounded fields that say which of them may differ inside a pack.

Every task, model, average and schedule is a `Settings` dataclass whose fields are declared with `setting`:

    rate: float = setting(0.0, low=0.0, below=1.0, member=True, help="dropout probability")

`member=True` marks a member hyperparameter (HFTA's fusible hyperparameter): its values become a tensor of shape (M,).

`trainers.settings.identity` says how values and revisions name a configuration, and what `absent` is.
"""

import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Final, Self, dataclass_transform

from trainers.errors import ConfigError, Problem, nearest
from trainers.settings import registry


class Nothing:
    """No value at all, where None would be one."""


NOTHING: Final = Nothing()


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
    kind: str | None = None,
    help: str = "",
) -> Any:
    """A settings field. `low`/`high` are inclusive bounds, `above`/`below` exclusive ones, per element for tuples.

    `variant` of a member hyperparameter names what of its value changes the program (for example whether a dropout
    rate is zero); members of a pack share it. A field of a registered `kind` holds one of its classes, given by name
    or as `{name: ..., field: ...}`.

    `absent` is the first default the field ever had, for good: a configuration with this value is named as one without
    the field. Left out it is `default`; give it when the default changes, and `NOTHING` when a field that was required
    gets a default. For a registered `kind` it is a name, which stands for that class with all of its `absent` values.
    """
    absent = default if absent is MISSING else absent
    absent = NOTHING if absent is MISSING else absent
    if kind is not None and absent is not NOTHING and not isinstance(absent, str):
        raise TypeError(f"`absent` of a {kind} is {absent!r}; allowed: the name of one, or NOTHING")
    bounds = {"low": low, "high": high, "above": above, "below": below}
    metadata = {"bounds": bounds, "choices": choices, "member": member, "variant": variant, "kind": kind, "help": help}
    return field(default=default, metadata={**metadata, "absent": absent})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, field))
class Settings:
    """Base of every settings class; subclasses become frozen keyword-only dataclasses that check themselves.

    A class whose numbers change, because a fault in it is mended, raises its `revision` by one: what it computes from
    then on has other names than what it computed before.
    """

    name: ClassVar[str] = ""
    revision: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)
        if taken := {"name", "revision"} & {item.name for item in settings_fields(cls)}:
            raise TypeError(f"{cls.__name__} cannot have a field called {', '.join(sorted(taken))}")
        if type(cls.revision) is not int or cls.revision < 1:
            raise TypeError(f"{cls.__name__}.revision is {cls.revision!r}; allowed: a whole number from 1")

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for item in settings_fields(type(self)):
            value, found = _checked(item, _hints(type(self))[item.name], getattr(self, item.name))
            object.__setattr__(self, item.name, value)
            problems += found
        if not problems:
            problems += self.cross_checks()
        if problems:
            raise ConfigError(problems)

    def cross_checks(self) -> Iterator[Problem]:
        """Problems with fields that are right alone but do not go together."""
        return iter(())

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Build from plain values. Raises ConfigError naming unknown keys, missing keys and wrong values at once."""
        if "revision" in data and data["revision"] == revision_of(cls) != 1:  # as `to_dict` writes it
            data = {key: value for key, value in data.items() if key != "revision"}
        named = {item.name: item.default is MISSING for item in settings_fields(cls)}
        if not data.keys() <= named.keys() or any(required and name not in data for name, required in named.items()):
            raise ConfigError(field_problems(cls, data))
        return cls(**data)  # looks at each value

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values of every field; first the registered name, and the revision if it is not 1."""
        plain: dict[str, Any] = {"name": self.name} if self.name else {}
        if (revision := revision_of(type(self))) != 1:
            plain["revision"] = revision
        plain.update({item.name: plain_value(getattr(self, item.name)) for item in settings_fields(type(self))})
        return plain


def settings_fields(cls: type) -> tuple[Field[Any], ...]:
    """The fields of a settings class that were declared with `setting`."""
    found: tuple[Field[Any], ...] = _once(
        cls, "_settings", lambda: tuple(item for item in fields(cls) if "bounds" in item.metadata)
    )
    return found


def revision_of(cls: type[Settings]) -> int:
    """1, and one more for each time that this class or one it derives from was revised."""
    revised: list[int] = [base.__dict__.get("revision", 1) - 1 for base in cls.__mro__]
    return 1 + sum(revised)


def absent_value(cls: type, item: Field[Any]) -> Any:
    """The `absent` value of a field in its declared type, or NOTHING."""
    absent = item.metadata["absent"]
    if absent is NOTHING or item.metadata["kind"]:
        return absent
    return _once(cls, f"_absent_{item.name}", lambda: _converted(_hints(cls)[item.name], absent))


def plain_value(value: Any) -> Any:
    """A value of a field as plain JSON types."""
    if isinstance(value, Settings):
        return value.to_dict()
    return [plain_value(item) for item in value] if isinstance(value, tuple) else value


def field_problems(cls: type, data: Mapping[str, Any], *, nested: bool = True) -> list[Problem]:
    """Unknown keys, missing keys and wrong values, each looked at by itself.

    Without `nested` the fields that hold a registered class are left out.
    """
    known = {item.name: item for item in settings_fields(cls)}
    problems = [
        Problem(key=str(key), given=value, message="unknown key", allowed=", ".join(known), nearest=nearest(key, known))
        for key, value in data.items()
        if key not in known
    ]
    for name, item in known.items():
        if name not in data:
            if item.default is MISSING:
                problems.append(Problem(key=name, message="is required", allowed=_allowed(item, _hints(cls)[name])))
        elif nested or not item.metadata["kind"]:
            problems += value_problems(cls, item, data[name])
    return problems


def value_problems(cls: type, item: Field[Any], value: Any) -> list[Problem]:
    """What is wrong with a value for one field of a settings class."""
    return _checked(item, _hints(cls)[item.name], value)[1]


def takes_type(cls: type, item: Field[Any], value: Any) -> bool:
    """Whether a field takes values of this type, whatever its bounds and choices."""
    try:
        _converted(_hints(cls)[item.name], value)
    except ValueError:
        return False
    return True


def allowed_values(cls: type, item: Field[Any]) -> str:
    """What a field of a settings class may be, in words: its choices, or its type and bounds."""
    return _allowed(item, _hints(cls)[item.name])


def _hints(cls: type) -> dict[str, Any]:
    return _once(cls, "_resolved_hints", lambda: typing.get_type_hints(cls))  # type: ignore[no-any-return]


def _once(cls: type, name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, kept in the class under a name: thousands of configurations ask for it."""
    if name not in cls.__dict__:
        setattr(cls, name, make())
    return cls.__dict__[name]


def _checked(item: Field[Any], hint: Any, value: Any) -> tuple[Any, list[Problem]]:
    """The value in its declared type, or problems that say what is allowed."""
    if item.metadata["kind"]:
        return _registered(item, value)
    try:
        converted = _converted(hint, value)
        _bounded(item.metadata, converted)
    except ValueError as error:
        choices = item.metadata["choices"]
        close = nearest(value, [str(choice) for choice in choices]) if choices else None
        message, allowed = f"{value!r} {error}", _allowed(item, hint)
        return value, [Problem(key=item.name, given=value, message=message, allowed=allowed, nearest=close)]
    return converted, []


def _registered(item: Field[Any], value: Any) -> tuple[Any, list[Problem]]:
    """The registered class that a name or a mapping stands for."""
    if isinstance(value, Settings):
        return value, []
    try:
        return registry.build(item.metadata["kind"], {"name": value} if isinstance(value, str) else value), []
    except ConfigError as error:
        return value, [problem.under(item.name) for problem in error.problems]


def _converted(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        for option in arguments:
            try:
                return _converted(option, value)
            except ValueError:
                continue
        raise ValueError("has the wrong type")
    if hint is type(None):
        if value is not None:
            raise ValueError("is not null")
        return None
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError("is not a list")
        if arguments[-1] is Ellipsis:
            return tuple(_converted(arguments[0], entry) for entry in value)
        if len(value) != len(arguments):
            raise ValueError(f"does not have {len(arguments)} entries")
        return tuple(_converted(kind, entry) for kind, entry in zip(arguments, value, strict=True))
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError("is not finite")
        return float(value)
    if type(value) is not hint:
        raise ValueError(f"is not {_type_name(hint)}")
    return value


def _bounded(metadata: Mapping[str, Any], value: Any) -> None:
    for entry in value if isinstance(value, tuple) else (value,):
        if entry is None:
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


def _allowed(item: Field[Any], hint: Any) -> str:
    if item.metadata["kind"]:
        return f"a {item.metadata['kind']}"
    if item.metadata["choices"] is not None:
        names = ", ".join(str(choice) for choice in item.metadata["choices"])
        return f"a list of {names}" if typing.get_origin(hint) is tuple else names
    signs = {"low": ">=", "above": ">", "high": "<=", "below": "<"}
    limits = [
        f"{sign} {item.metadata['bounds'][key]:g}"
        for key, sign in signs.items()
        if item.metadata["bounds"][key] is not None
    ]
    return _type_name(hint) + (" " + " and ".join(limits) if limits else "")


def _type_name(hint: Any) -> str:
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string", type(None): "null"}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type_name(option) for option in arguments)
    if origin is tuple:
        named = _type_name(arguments[0])
        return "a list of " + (f"{named.split()[-1]}s" if " or " not in named else f"{named} values")
    return names.get(hint, str(hint))
