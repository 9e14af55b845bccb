"""Configurations that were resolved and recorded earlier, perhaps by older code.

Fields that are newer than a record have their `absent` values, whatever their default is today. What cannot be the
same any more is a class whose numbers were mended since: `corrections` says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainers.config.member import EvaluationConfig, MemberConfig, Optimization
from trainers.errors import ConfigError, Problem
from trainers.optimization.criterion import Stop
from trainers.settings import registry
from trainers.settings.fields import Settings, revision_of, settings_fields
from trainers.settings.identity import ABSENT_AVERAGES, ABSENT_SCHEDULE, absent_values

Part = tuple[str, type[Settings], Mapping[str, Any]]


def recorded_member(resolved: Mapping[str, Any], seed: int) -> MemberConfig:
    """The member of a recorded configuration, all sections but the seed, with a seed.

    Raises ConfigError where today's code does not take a name or a value any more.
    """
    training = dict(resolved.get("training", {}))
    schedule, averages = training.pop("schedule", ABSENT_SCHEDULE), training.pop("averages", ABSENT_AVERAGES)
    stop, curriculum = training.pop("stop", None), training.pop("curriculum", None)
    labelled = {
        label: _named(f"training.averages.{label}", "average", {"kind": label, **values}, "kind")
        for label, values in averages.items()
    }
    return MemberConfig.from_dict(
        {
            "task": _named("task", "task", resolved.get("task")),
            "model": _named("model", "model", resolved.get("model")),
            "training": {
                **_filled("training", Optimization, training),
                "schedule": _named("training.schedule", "schedule", schedule),
                "averages": labelled,
                "stop": None if stop is None else _filled("training.stop", Stop, stop),
                "curriculum": None if curriculum is None else _named("training.curriculum", "curriculum", curriculum),
            },
            "evaluation": _filled("evaluation", EvaluationConfig, resolved.get("evaluation", {})),
            "seed": seed,
        },
        recorded=True,
    )


def corrections(resolved: Mapping[str, Any]) -> list[str]:
    """What of a recorded configuration has another revision today, one sentence each: it would give other numbers."""
    found = []
    for key, cls, data in _parts(resolved):
        then, now = data.get("revision", 1), revision_of(cls)
        if then != now:
            found.append(f"{key}: {cls.name or cls.__name__} was revision {then} and is revision {now} today")
    return found


def _filled(key: str, cls: type[Settings], data: Mapping[str, Any]) -> dict[str, Any]:
    filled = {**absent_values(cls), **{name: value for name, value in data.items() if name != "revision"}}
    for name, kind in _registered(cls):
        if name in filled:
            filled[name] = _named(f"{key}.{name}", kind, filled[name])
    return filled


def _named(key: str, kind: str, data: Any, name_key: str = "name") -> dict[str, Any]:
    cls, values = _looked_up(key, kind, data, name_key)
    return {name_key: values.pop(name_key), **_filled(key, cls, values)}


def _parts(resolved: Mapping[str, Any]) -> Iterator[Part]:
    """Every class that a recorded configuration is made of: dotted key, class, its values."""
    training = resolved.get("training", {})
    yield "training", Optimization, training
    yield "evaluation", EvaluationConfig, resolved.get("evaluation", {})
    yield from _within("task", "task", resolved.get("task"))
    yield from _within("model", "model", resolved.get("model"))
    yield from _within("training.schedule", "schedule", training.get("schedule", ABSENT_SCHEDULE))
    for label, values in training.get("averages", ABSENT_AVERAGES).items():
        yield from _within(f"training.averages.{label}", "average", {"kind": label, **values}, "kind")
    if (stop := training.get("stop")) is not None:
        yield "training.stop", Stop, stop
    if (curriculum := training.get("curriculum")) is not None:
        yield from _within("training.curriculum", "curriculum", curriculum)


def _within(key: str, kind: str, data: Any, name_key: str = "name") -> Iterator[Part]:
    cls, values = _looked_up(key, kind, data, name_key)
    yield key, cls, values
    for name, nested in _registered(cls):
        value = values.get(name, absent_values(cls).get(name))
        if value is not None:
            yield from _within(f"{key}.{name}", nested, value)


def _looked_up(key: str, kind: str, data: Any, name_key: str) -> tuple[type[Settings], dict[str, Any]]:
    """The class of registered values, which a name alone may stand for, and the values."""
    if not isinstance(data, str | Mapping):
        allowed = f"a name, or a mapping with {name_key}"
        raise ConfigError([Problem(key=key, message=f"{data!r} is not one", given=data, allowed=allowed)])
    values = {name_key: data} if isinstance(data, str) else dict(data)
    try:
        return registry.lookup(kind, values.get(name_key), name_key), values
    except ConfigError as error:
        raise ConfigError(problem.under(key) for problem in error.problems) from None


def _registered(cls: type[Settings]) -> list[tuple[str, str]]:
    """The fields that hold a registered class, with its kind."""
    return [(item.name, item.metadata["kind"]) for item in settings_fields(cls) if item.metadata["kind"]]
