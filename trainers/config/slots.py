"""Which field of which class a dotted key fills, and what is wrong with single values: nothing is built.

`MemberConfig.from_dict` also refuses values that do not fit together. What is said here of a value holds whatever the
others are, as long as they name the same classes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass
from typing import Any

from trainers.config.member import (
    NESTED,
    EvaluationConfig,
    Optimization,
    labelled,
    with_nested_names,
)
from trainers.errors import ConfigError, Problem
from trainers.optimization.criterion import Stop
from trainers.settings import registry
from trainers.settings.fields import allowed_values, field_problems, settings_fields, takes_type, value_problems
from trainers.settings.identity import ABSENT_AVERAGES, ABSENT_SCHEDULE


@dataclass(frozen=True)
class Slot:
    """One field of a settings class, as a place for a value."""

    cls: type[Any]
    item: Field[Any]

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with a value, empty if it can stand here."""
        return value_problems(self.cls, self.item, value)

    def takes(self, value: Any) -> bool:
        """Whether values of this type can stand here, whatever bounds and choices."""
        return takes_type(self.cls, self.item, value)

    @property
    def allowed(self) -> str:
        """What can stand here, in words."""
        return allowed_values(self.cls, self.item)

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """The values that can stand here, if they are listed."""
        choices: tuple[Any, ...] | None = self.item.metadata["choices"]
        return choices

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """`low` and `high`, inclusive, `above` and `below`, exclusive; None is no bound."""
        bounds: Mapping[str, float | None] = self.item.metadata["bounds"]
        return bounds


@dataclass(frozen=True)
class _Part:
    """The values of one settings class, at its dotted key."""

    key: str
    cls: type[Any]
    values: Mapping[str, Any]


def slot_of(sections: Mapping[str, Any], key: str) -> Slot | None:
    """The field that a dotted key fills; None if there is none, or if it holds a whole class.

    slot_of({"model": {"name": "encoder"}, ...}, "model.heads") -> the field `heads` of Encoder
    """
    above, _, name = key.rpartition(".")
    for part in _parts(sections, []):
        if part.key == above:
            for item in settings_fields(part.cls):
                if item.name == name and not item.metadata["kind"]:
                    return Slot(part.cls, item)
    return None


def single_problems(sections: Mapping[str, Any]) -> list[Problem]:
    """Unknown names and keys, missing keys and wrong values of plain sections, not what is wrong between them."""
    problems: list[Problem] = []
    for part in _parts(sections, problems):
        found = field_problems(part.cls, part.values, nested=False)
        found = list(map(with_nested_names, found)) if part.cls is Optimization else found
        problems += [problem.under(part.key) for problem in found]
    return problems


def _parts(sections: Mapping[str, Any], problems: list[Problem]) -> Iterator[_Part]:
    """Every settings class that plain sections name; to `problems` go those that cannot be told."""
    yield from _registered("task", "task", sections.get("task", {}), problems)
    yield from _registered("model", "model", sections.get("model", {}), problems)
    training = sections.get("training", {})
    if _is_mapping("training", training, problems):
        numbers = {key: value for key, value in training.items() if key not in NESTED}
        yield _Part("training", Optimization, numbers)
        yield from _registered("training.schedule", "schedule", training.get("schedule", ABSENT_SCHEDULE), problems)
        try:
            averages = labelled(training.get("averages", ABSENT_AVERAGES))
        except ConfigError as error:
            problems += [problem.under("training.averages") for problem in error.problems]
            averages = {}
        for label, values in averages.items():
            yield from _registered(f"training.averages.{label}", "average", values, problems, label, "kind")
        stop, curriculum = training.get("stop"), training.get("curriculum")
        if stop is not None and _is_mapping("training.stop", stop, problems):
            yield _Part("training.stop", Stop, stop)
        if curriculum is not None:
            named = {"name": curriculum} if isinstance(curriculum, str) else curriculum
            yield from _registered("training.curriculum", "curriculum", named, problems)
    evaluation = sections.get("evaluation", {})
    if _is_mapping("evaluation", evaluation, problems):
        yield _Part("evaluation", EvaluationConfig, evaluation)


def _registered(
    key: str, kind: str, data: Any, problems: list[Problem], default: str | None = None, name_key: str = "name"
) -> Iterator[_Part]:
    try:
        cls, values = registry.resolve(kind, data, default_name=default, name_key=name_key)
    except ConfigError as error:
        problems += [problem.under(key) for problem in error.problems]
        return
    yield _Part(key, cls, values)
    for item in settings_fields(cls):
        if item.metadata["kind"] and item.name in values:
            inner = values[item.name]
            named = {"name": inner} if isinstance(inner, str) else inner
            yield from _registered(f"{key}.{item.name}", item.metadata["kind"], named, problems)


def _is_mapping(key: str, data: Any, problems: list[Problem]) -> bool:
    if isinstance(data, Mapping):
        return True
    problems.append(Problem(key=key, given=data, message=f"{data!r} is not a mapping of keys to values"))
    return False
