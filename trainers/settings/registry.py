"""Registry of tasks, metrics, models, positions, optimizers, losses, averages, schedules and curricula by name."""

import importlib
import pkgutil
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from trainers.errors import ConfigError, Problem, find_nearest
from trainers.settings.contract import find_contract_problems

KINDS = ("task", "metric", "model", "position", "optimizer", "loss", "average", "schedule", "curriculum")
_classes: dict[str, dict[str, type[Any]]] = {kind: {} for kind in KINDS}
_HOMES = {  # kind -> package of its classes, module and name of their base class
    "task": ("trainers.tasks", "trainers.tasks.task", "Task"),
    "metric": ("trainers.metrics", "trainers.metrics.metric", "Metric"),
    "model": ("trainers.models", "trainers.models.model", "Model"),
    "position": ("trainers.positions", "trainers.positions.position", "Position"),
    "optimizer": ("trainers.optimization.optimizers", "trainers.optimization.optimizer", "Optimizer"),
    "loss": ("trainers.optimization.losses", "trainers.optimization.loss", "Loss"),
    "average": ("trainers.optimization.averaging", "trainers.optimization.averaging", "Average"),
    "schedule": ("trainers.optimization.schedules", "trainers.optimization.schedules", "Schedule"),
    "curriculum": ("trainers.optimization.curricula", "trainers.optimization.curricula", "Curriculum"),
}

S = TypeVar("S", bound=type[Any])


def register(kind: str, name: str) -> Callable[[S], S]:
    """Return a class decorator, used as `@register("task", "set_complement")`.

    Raises ValueError for an unknown kind, and if the name is registered already.
    """
    if kind not in _classes:
        raise ValueError(f"cannot register a class of kind {kind!r}; allowed: {', '.join(KINDS)}")

    # Two classes of one name would make the id of a configuration ambiguous.
    def add(cls: S) -> S:
        if (other_class := _classes[kind].get(name)) is not None:
            raise ValueError(f"{kind} {name!r} is registered twice: {other_class.__module__} has registered it already")
        _classes[kind][name] = cls
        cls.name = name
        return cls

    return add


@contextmanager
def rollback_on_error() -> Iterator[None]:
    """Undo all registrations inside the context if it raises."""
    classes_before = {kind: dict(get_classes(kind)) for kind in KINDS}
    try:
        yield
    except BaseException:
        for kind, classes in classes_before.items():
            _classes[kind].clear()
            _classes[kind].update(classes)
        raise


def list_names(kind: str) -> tuple[str, ...]:
    """Return the registered names of a kind, in alphabetical order."""
    return tuple(sorted(get_classes(kind)))


def get_class(kind: str, name: Any, key: str = "name") -> type[Any]:
    """Return the class registered under `name`. Raises ConfigError for an unknown name or an invalid class."""
    classes = get_classes(kind)
    if not isinstance(name, str) or name not in classes:
        allowed = ", ".join(sorted(classes))
        raise ConfigError(
            [
                Problem(
                    key=key,
                    given=name,
                    message=f"no {kind} is called {name!r}",
                    allowed=allowed,
                    nearest=find_nearest(name, classes),
                    missing_class=(kind, name) if isinstance(name, str) else None,
                )
            ]
        )

    # Classes are checked on use, not on registration, so an invalid class breaks only the sweeps that name it.
    if problems := find_class_problems(kind, cast(Hashable, classes[name])):
        module = classes[name].__module__
        raise ConfigError(
            Problem(key=key, given=name, message=f"{kind} {name!r} of {module}: {problem}") for problem in problems
        )
    return classes[name]


@cache
def find_class_problems(kind: str, cls: type[Any]) -> tuple[str, ...]:
    """Return a sentence for each reason why a class is not a valid class of a kind."""
    _, module, name = _HOMES[kind]
    base: type[Any] = getattr(importlib.import_module(module), name)
    return tuple(find_contract_problems(kind, cls, base, get_type_hints(cls)))


def build(kind: str, data: Any) -> Any:
    """Build the settings `{name: ..., field: ...}` of a registered class. Raises ConfigError."""
    cls, values = resolve(kind, data)
    return cls.from_mapping(values)


def resolve(
    kind: str, data: Any, *, default_name: str | None = None, name_key: str = "name"
) -> tuple[type[Any], dict[str, Any]]:
    """Return the class named by `{name: ..., field: ...}` and its field values. Raises ConfigError.

    A problem of the default name has the key "", because `data` does not contain `name_key`.
    """
    if not isinstance(data, Mapping):
        raise ConfigError([Problem(key="", given=data, message=f"{data!r} is not a mapping of keys to values")])

    # If a key close to `name_key` holds a registered name, it is misspelt rather than missing.
    values = dict(data)
    name = values.pop(name_key, default_name)
    if name is None:
        allowed = list_names(kind)
        misspelt = next((key for key in values if find_nearest(key, [name_key]) and values[key] in allowed), None)
        if misspelt is not None:
            message = "unknown key"
            given = values[misspelt]
            raise ConfigError([Problem(key=misspelt, given=given, message=message, allowed=name_key, nearest=name_key)])
        raise ConfigError([Problem(key=name_key, message="is required", allowed=", ".join(allowed))])
    return get_class(kind, name, name_key if name_key in data else ""), values


def get_classes(kind: str) -> dict[str, type[Any]]:
    """Return the classes of a kind by name. The first call imports every module of its package."""
    _import_modules(_HOMES[kind][0])
    return _classes[kind]


@cache
def _import_modules(name: str) -> None:
    """Import a module, and all modules below it if it is a package."""
    package = importlib.import_module(name)
    if hasattr(package, "__path__"):
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
