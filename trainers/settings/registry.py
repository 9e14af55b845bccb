"""Names to classes: tasks, models, averages, schedules and curricula register beside their implementation."""

import importlib
import pkgutil
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from trainers.errors import ConfigError, Problem, nearest
from trainers.settings.contract import missing

KINDS = ("task", "model", "position", "average", "schedule", "curriculum")
_classes: dict[str, dict[str, type[Any]]] = {kind: {} for kind in KINDS}
_homes = {  # of the classes of each kind, and of their base
    "task": ("trainers.tasks", "trainers.tasks.task", "Task"),
    "model": ("trainers.models", "trainers.models.model", "Model"),
    "position": ("trainers.positions", "trainers.positions.position", "Position"),
    "average": ("trainers.optimization.averaging", "trainers.optimization.averaging", "Average"),
    "schedule": ("trainers.optimization.schedules", "trainers.optimization.schedules", "Schedule"),
    "curriculum": ("trainers.optimization.curricula", "trainers.optimization.curricula", "Curriculum"),
}

S = TypeVar("S", bound=type[Any])


def register(kind: str, name: str) -> Callable[[S], S]:
    """Class decorator: `@register("task", "set_complement")`. A second class of that name is a ValueError."""

    if kind not in _classes:
        raise ValueError(f"nothing is registered as {kind!r}; allowed: {', '.join(KINDS)}")

    def add(cls: S) -> S:
        if (known := _classes[kind].get(name)) is not None:
            raise ValueError(f"{kind} {name!r} is registered twice: {known.__module__} has one of this name")
        _classes[kind][name] = cls
        cls.name = name
        return cls

    return add


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """What is registered inside stays registered unless an exception ends it; every shipped class is there before."""
    before = {kind: dict(classes(kind)) for kind in KINDS}
    try:
        yield
    except BaseException:
        for kind, known in before.items():
            _classes[kind].clear()
            _classes[kind].update(known)
        raise


def names(kind: str) -> tuple[str, ...]:
    """The registered names of a kind, in alphabetical order."""
    return tuple(sorted(classes(kind)))


def lookup(kind: str, name: Any, key: str = "name") -> type[Any]:
    """The class registered under `name`. Raises ConfigError with the nearest name, or with what the class lacks."""
    known = classes(kind)
    if not isinstance(name, str) or name not in known:
        allowed = ", ".join(sorted(known))
        raise ConfigError(
            [
                Problem(
                    key=key,
                    given=name,
                    message=f"no {kind} is called {name!r}",
                    allowed=allowed,
                    nearest=nearest(name, known),
                )
            ]
        )
    if lacking := lacking_of(kind, cast(Hashable, known[name])):
        module = known[name].__module__
        raise ConfigError(
            Problem(key=key, given=name, message=f"{kind} {name!r} of {module}: {one}") for one in lacking
        )
    return known[name]


@cache
def lacking_of(kind: str, cls: type[Any]) -> tuple[str, ...]:
    """What keeps a class from being of a kind, one sentence each."""
    _, module, name = _homes[kind]
    base: type[Any] = getattr(importlib.import_module(module), name)
    return tuple(missing(kind, cls, base, get_type_hints(cls)))


def build(kind: str, data: Any, *, default_name: str | None = None, name_key: str = "name") -> Any:
    """Build a registered class from `{name: ..., field: ...}`. Raises ConfigError with keys relative to `data`."""
    cls, values = resolve(kind, data, default_name=default_name, name_key=name_key)
    return cls.from_mapping(values)


def resolve(
    kind: str, data: Any, *, default_name: str | None = None, name_key: str = "name"
) -> tuple[type[Any], dict[str, Any]]:
    """The class that `{name: ..., field: ...}` names, and the values of its fields. Raises as `build` does."""
    if not isinstance(data, Mapping):
        raise ConfigError([Problem(key="", given=data, message=f"{data!r} is not a mapping of keys to values")])
    values = dict(data)
    name = values.pop(name_key, default_name)
    if name is None:
        raise ConfigError([Problem(key=name_key, message="is required", allowed=", ".join(names(kind)))])
    return lookup(kind, name, name_key), values


def classes(kind: str) -> dict[str, type[Any]]:
    """The classes of a kind, importing every module of its home and of the folders in it once."""
    _import_home(_homes[kind][0])
    return _classes[kind]


@cache
def _import_home(name: str) -> None:
    home = importlib.import_module(name)
    if hasattr(home, "__path__"):
        for module in pkgutil.walk_packages(home.__path__, f"{name}."):
            importlib.import_module(module.name)
