"""Configurations that a ledger has recorded, checked against today's code: the same ones, under the names they have.

Two configurations are the same when today's code names their resolved values alike. A default may have changed since
they were recorded, so their values are built anew only together with `with_recorded_defaults`. A class whose numbers
were corrected since (`revision`) cannot give the same again: that is refused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from orchestrator.errors import UserError
from orchestrator.plan.configurations import assign_values
from orchestrator.trainer import trainer_of
from search_spaces import SweepSpec
from search_spaces.grammar.problems import lookup
from trainers.errors import ConfigError

Built = TypeVar("Built")


class RecordedConfiguration(Protocol):
    """The part of a recorded configuration that is read here."""

    @property
    def number(self) -> int: ...  # noqa: D102
    @property
    def config_id(self) -> str: ...  # noqa: D102
    @property
    def values(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def resolved(self) -> Mapping[str, Any]: ...  # noqa: D102


def map_config_ids(recorded: Iterable[RecordedConfiguration]) -> dict[str, str]:
    """Return the recorded config_ids, by the config_id that today's code gives the same configuration.

    Raises UserError for a configuration that today's code cannot build.
    """
    names: dict[str, str] = {}
    for configuration in recorded:
        names.setdefault(rebuild_member(configuration).config_id, configuration.config_id)
    return names


def refuse_corrected(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if training the configurations again would give other results.

    `subject` begins the message: "SWEEP cannot be resumed".
    """
    corrected = [
        sentence
        for configuration in recorded
        for sentence in _build(
            configuration, partial(trainer_of(configuration.resolved).list_corrections, configuration.resolved)
        )
    ]
    if corrected:
        raise UserError(
            f"{subject}: a bug that was fixed since would change its results\n  "
            + "\n  ".join(dict.fromkeys(corrected))
            + "\nrun the sweep anew under another name, or continue with the version that it was begun with"
        )


def refuse_without_data(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if training data of these configurations are missing or differ; `subject` begins the message."""
    recorded = list(recorded)
    problems = trainer_of(recorded[0].resolved).find_local_problems(map(rebuild_member, recorded)) if recorded else ()
    if missing := list(dict.fromkeys(problem.message for problem in problems)):
        raise UserError(f"{subject}:\n  " + "\n  ".join(missing))


def refuse_without_start(recorded: Iterable[tuple[RecordedConfiguration, Collection[int]]], subject: str) -> None:
    """Raise UserError if a configuration has no weights to start from for these seeds; `subject` begins the message."""
    problems = {
        f"{problem.key}: {problem.message}" + (f"; allowed: {problem.allowed}" if problem.allowed else "")
        for configuration, seeds in recorded
        if seeds
        for problem in trainer_of(configuration.resolved).find_start_problems(rebuild_member(configuration), seeds)
    }
    if problems:
        raise UserError(f"{subject}:\n  " + "\n  ".join(sorted(problems)))


def refuse_too_large(recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if a seed takes more memory than `run` allows; `subject` begins the message."""
    for configuration in recorded:
        for problem in trainer_of(configuration.resolved).find_oversized_parts(rebuild_member(configuration)):
            raise UserError(f"{subject}: {problem.key}: {problem.message}; allowed: {problem.allowed}")


def find_changed_defaults(spec: SweepSpec, configuration: RecordedConfiguration) -> dict[str, Any]:
    """Return fields that today's defaults would change in a recorded configuration: `section.field` -> recorded value.

    Raises UserError when today's code does not build it any more.
    """
    then, trainer = rebuild_member(configuration), trainer_of(configuration.resolved)
    rebuilt = _build(configuration, lambda: trainer.build(assign_values(spec, configuration.values), recorded=True))
    if rebuilt.config_id == then.config_id:
        return {}
    before, today = then.to_dict(), rebuilt.to_dict()
    return {
        f"{section}.{field}": value
        for section in trainer.sections
        for field, value in before[section].items()
        if field != "revision" and today[section].get(field) != value
    }


def with_recorded_defaults(spec: SweepSpec, recorded: Sequence[RecordedConfiguration]) -> SweepSpec:
    """Return the specification with fixed values written out if their defaults have changed since the recording.

    Those are the values that are the same in all of them; where that is not enough, see `list_recorded_values`.
    """
    changed = {
        key: value for configuration in recorded for key, value in find_changed_defaults(spec, configuration).items()
    }
    then = [rebuild_member(configuration).to_dict() for configuration in recorded] if changed else []
    shared = {key: value for key, value in changed.items() if all(lookup(member, key) == value for member in then)}
    return spec.model_copy(update=assign_values(spec, shared)) if shared else spec


def refuse_changed(spec: SweepSpec, recorded: Iterable[RecordedConfiguration], subject: str) -> None:
    """Raise UserError if a changed default makes today's code build other configurations from the recorded values."""
    keys = dict.fromkeys(key for configuration in recorded for key in find_changed_defaults(spec, configuration))
    if keys:
        raise UserError(
            f"{subject}: the default of {', '.join(keys)} has changed since; continue with the version of lengthwise "
            "that began it"
        )


def list_recorded_values(spec: SweepSpec, recorded: Sequence[RecordedConfiguration]) -> list[dict[str, Any]]:
    """Return the values of recorded configurations, with those written out that today's defaults would change."""
    listed = []
    for configuration in recorded:
        defaults = find_changed_defaults(spec, configuration)
        within = tuple(f"{key}." for key in defaults)
        values = {key: value for key, value in configuration.values.items() if not key.startswith(within)}
        for key, value in defaults.items():
            section, _, field = key.partition(".")
            written = values.get(section)
            if written is None:
                values[key] = value
            else:
                values[section] = {**({"name": written} if isinstance(written, str) else written), field: value}
        listed.append(values)
    return listed


def rebuild_member(configuration: RecordedConfiguration) -> Any:
    """Return a member of a recorded configuration; raises UserError if today's code cannot build it."""
    return _build(configuration, partial(trainer_of(configuration.resolved).rebuild, configuration.resolved, 0))


def _build(configuration: RecordedConfiguration, build: Callable[[], Built]) -> Built:
    """Return the member of a recorded configuration; raises UserError if today's code cannot build it."""
    try:
        return build()
    except ConfigError as error:
        raise UserError(
            f"configuration {configuration.number} ({configuration.config_id}) was written by a version that accepted "
            "a value which this one rejects:\n  "
            + "\n  ".join(map(str, error.problems))
            + "\ncontinue with the version that its sweep was begun with"
        ) from None
