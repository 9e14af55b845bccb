"""Check recorded configurations against the current code, and rebuild them under their recorded config_ids.

Two configurations are equal if the current code computes the same config_id from their resolved values. A default may
have changed since they were recorded, so their values are only rebuilt together with `set_recorded_defaults`. A class
with corrected numbers (`revision`) cannot reproduce its results, and is refused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from orchestrator.errors import UserError
from orchestrator.plan.configurations import assign_values
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec
from search_spaces.grammar.sections import read_key
from trainers.errors import ConfigError

T = TypeVar("T")


class RecordedConfiguration(Protocol):
    """A recorded configuration, with the fields that this module reads."""

    @property
    def number(self) -> int: ...  # noqa: D102
    @property
    def config_id(self) -> str: ...  # noqa: D102
    @property
    def values(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def resolved(self) -> Mapping[str, Any]: ...  # noqa: D102


def map_config_ids(recorded: Iterable[RecordedConfiguration]) -> dict[str, str]:
    """Return a mapping from config_ids of the current code to the recorded config_ids of the same configurations.

    Raises UserError for a configuration that the current code cannot build.
    """
    recorded_ids: dict[str, str] = {}
    for configuration in recorded:
        recorded_ids.setdefault(rebuild_member(configuration).config_id, configuration.config_id)
    return recorded_ids


def refuse_changed_results(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if a correction since the recording would change the results of a configuration.

    `subject` begins the message: "SWEEP cannot be resumed".
    """
    corrected = [
        sentence
        for configuration in recorded
        for sentence in _call_builder(
            configuration, partial(get_trainer(configuration.resolved).list_corrections, configuration.resolved)
        )
    ]
    if corrected:
        raise UserError(
            f"{subject}: a bug fixed since then would change its results\n  "
            + "\n  ".join(dict.fromkeys(corrected))
            + "\nrun it again under another name, or continue with the version that began it"
        )


def refuse_missing_data(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if training data of these configurations are missing or differ; `subject` begins the message."""
    recorded = list(recorded)
    problems = get_trainer(recorded[0].resolved).find_local_problems(map(rebuild_member, recorded)) if recorded else ()
    if missing := list(dict.fromkeys(problem.message for problem in problems)):
        raise UserError(f"{subject}:\n  " + "\n  ".join(missing))


def refuse_missing_initial_weights(
    recorded: Iterable[tuple[RecordedConfiguration, Collection[int]]], subject: str
) -> None:
    """Raise UserError if a configuration has no weights to start from for these seeds; `subject` begins the message."""
    problems = {
        f"{problem.key}: {problem.message}" + (f"; allowed: {problem.allowed}" if problem.allowed else "")
        for configuration, seeds in recorded
        if seeds
        for problem in get_trainer(configuration.resolved).find_initial_weight_problems(
            rebuild_member(configuration), seeds
        )
    }
    if problems:
        raise UserError(f"{subject}:\n  " + "\n  ".join(sorted(problems)))


def refuse_oversized_members(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if a seed takes more memory than `run` allows; `subject` begins the message."""
    for configuration in recorded:
        for problem in get_trainer(configuration.resolved).find_oversized_parts(rebuild_member(configuration)):
            raise UserError(f"{subject}: {problem.key}: {problem.message}; allowed: {problem.allowed}")


def find_changed_defaults(spec: SweepSpec, configuration: RecordedConfiguration) -> dict[str, Any]:
    """Return the recorded values, by `section.field`, that the current defaults would change.

    Raises UserError if the current code cannot build it.
    """
    recorded = rebuild_member(configuration)
    trainer = get_trainer(configuration.resolved)
    rebuilt = _call_builder(
        configuration, lambda: trainer.build(assign_values(spec, configuration.values), recorded=True)
    )
    if rebuilt.config_id == recorded.config_id:
        return {}
    old, new = recorded.to_dict(), rebuilt.to_dict()
    return {
        f"{section}.{field}": value
        for section in trainer.sections
        for field, value in old[section].items()
        if field != "revision" and new[section].get(field) != value
    }


def set_recorded_defaults(spec: SweepSpec, recorded: Sequence[RecordedConfiguration]) -> SweepSpec:
    """Return the specification with explicit values for defaults that have changed since the recording.

    Only values shared by all configurations are set; `list_recorded_values` has the others.
    """
    changed_defaults = {
        key: value for configuration in recorded for key, value in find_changed_defaults(spec, configuration).items()
    }
    members = [rebuild_member(configuration).to_dict() for configuration in recorded] if changed_defaults else []
    shared_defaults = {
        key: value
        for key, value in changed_defaults.items()
        if all(read_key(member, key) == value for member in members)
    }
    return spec.model_copy(update=assign_values(spec, shared_defaults)) if shared_defaults else spec


def refuse_changed_defaults(spec: SweepSpec, recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if changed defaults make the current code build other configurations from the recorded values."""
    keys = dict.fromkeys(key for configuration in recorded for key in find_changed_defaults(spec, configuration))
    if keys:
        raise UserError(
            f"{subject}: the default of {', '.join(keys)} has changed; continue with the version that began it"
        )


def list_recorded_values(spec: SweepSpec, recorded: Sequence[RecordedConfiguration]) -> list[dict[str, Any]]:
    """Return the values of recorded configurations, with explicit values for defaults that have changed."""
    recorded_values = []
    for configuration in recorded:
        # Defaults are set as a whole below, so leave out the drawn keys inside them.
        defaults = find_changed_defaults(spec, configuration)
        prefixes = tuple(f"{key}." for key in defaults)
        values = {key: value for key, value in configuration.values.items() if not key.startswith(prefixes)}

        # Put a default into a section that was drawn, as a name or a mapping, because keys below it would be refused.
        for key, value in defaults.items():
            section, _, field = key.partition(".")
            section_value = values.get(section)
            if section_value is None:
                values[key] = value
            else:
                values[section] = {
                    **({"name": section_value} if isinstance(section_value, str) else section_value),
                    field: value,
                }
        recorded_values.append(values)
    return recorded_values


def rebuild_member(configuration: RecordedConfiguration) -> Any:
    """Return the member of a recorded configuration. Raises UserError if the current code cannot build it."""
    return _call_builder(configuration, partial(get_trainer(configuration.resolved).rebuild, configuration.resolved, 0))


def _call_builder(configuration: RecordedConfiguration, build: Callable[[], T]) -> T:
    """Return the result of `build`. Raises UserError if the current code rejects the recorded values."""
    try:
        return build()
    except ConfigError as error:
        raise UserError(
            f"configuration {configuration.number} ({configuration.config_id}): written by a version that accepted a "
            "value this version rejects:\n  "
            + "\n  ".join(map(str, error.problems))
            + "\ncontinue with the version that began the sweep"
        ) from None
