"""From drawn values to configurations and their members. Pure, no Ray, no files.

Configurations are built through the registries of `trainers`, so that a wrong name, type or bound is reported here, at
its line of the sweep file, and not by a worker an hour later.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.interface.trainer import Member, Trainer
from orchestrator.text.wording import spans
from orchestrator.trainer import trainer_of
from search_spaces import Problem, SweepFileError, SweepSpec
from search_spaces.grammar.domains import Choice, Grid
from search_spaces.grammar.problems import within
from trainers.errors import ConfigError, find_nearest
from trainers.files.data_folders import search_first
from trainers.tasks.metrics import RecordedMetric


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One assignment of hyperparameters. `duplicate_of` is its own config_id when an earlier number drew the same."""

    number: int
    config_id: str
    values: dict[str, Any]
    resolved: dict[str, Any]
    duplicate_of: str | None = None
    built: Any = field(default=None, compare=False, repr=False)  # the member of seed 0, where it was just built

    def member(self, seed: int) -> Any:
        """Return the member of this configuration with a seed."""
        if self.built:
            return replace(self.built, seed=seed)
        return trainer_of(self.resolved).rebuild(self.resolved, seed)


def configure(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], known: Mapping[str, str] | None = None
) -> list[Configuration]:
    """Build (number, values) draws into configurations.

    `known` maps the config_id computed by today's code to the recorded config_id.
    Raises SweepFileError with one problem per wrong key of the sweep file, whichever draws met it.
    """
    if spec.folder is not None:
        search_first(spec.folder)
    trainer, names = trainer_of(spec.sections), dict(known or {})
    configurations: list[Configuration] = []
    problems: dict[tuple[str, str], Problem] = {}
    fixed: dict[str, Any] = {}  # built sections without a drawn value, shared by all configurations
    for number, values in draws:
        drawn = {key.split(".")[0] for key in values}
        shared = {name: section for name, section in fixed.items() if name not in drawn}

        # Build the member; problems are located in the sweep file, once for all draws.
        try:
            member = trainer.build({**assign_values(spec, values), **shared}, recorded=spec.is_recorded)
        except ConfigError as error:
            for problem in _locate_problems(spec, values, error):
                problems.setdefault((problem.where, problem.key), problem)
            continue

        # Refuse what takes too much memory, or cannot start.
        large = trainer.find_oversized_parts(member)
        too_large = [_make_problem(spec, excess.key, excess.message, allowed=excess.allowed) for excess in large]
        unstarted = _find_start_problems(spec, member, values)
        for problem in too_large or (*_find_objective_problems(spec, trainer, member), *unstarted):
            problems.setdefault((problem.where, problem.key), problem)
        if too_large:
            continue  # counting its lengths may already take minutes

        # Record the configuration; one with values that were drawn before is a duplicate.
        fixed |= {name: getattr(member, name) for name in trainer.sections if name not in drawn}
        resolved = {key: value for key, value in member.to_dict().items() if key != "seed"}
        duplicate_of = names.get(member.config_id)
        configurations.append(
            Configuration(
                number=number,
                config_id=names.setdefault(member.config_id, member.config_id),
                values=dict(values),
                resolved=resolved,
                duplicate_of=duplicate_of,
                built=member,
            )
        )
    if problems:
        raise SweepFileError(tuple(problems.values()))
    return configurations


def assign_values(spec: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of the sweep file with `values` at their dotted keys; missing mappings are created."""
    sections = {name: copy.deepcopy(getattr(spec, name)) for name in spec.sections}
    for key, value in values.items():
        *parents, last = key.split(".")
        section: Any = sections
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return sections


def _locate_problems(spec: SweepSpec, values: Mapping[str, Any], error: ConfigError) -> list[Problem]:
    """Return the problems of a configuration at their lines of the sweep file, with the domain of a drawn value."""
    located = []
    for problem in error.problems:
        domain = next((key for key in values if problem.key == key or problem.key.startswith(f"{key}.")), None)
        source = f"drawn from space.{domain}" if domain in spec.space else "given by search.listed"
        message = problem.message if domain is None else f"{problem.message} ({source})"
        details = {"given": problem.given, "allowed": problem.allowed, "nearest": problem.nearest}
        located.append(_make_problem(spec, problem.key, message, **details))
    return located


def _make_problem(spec: SweepSpec, key: str, message: str, **details: Any) -> Problem:
    """Return a problem of a key, at its line of the sweep file."""
    return Problem(spec.where(key), key, message, **details)


def find_unmeasured(
    spec: SweepSpec, metrics: Mapping[str, RecordedMetric], averages: Iterable[str], lengths: Sequence[int]
) -> list[Problem]:
    """Return problems for metrics, averages and lengths of the objective that a configuration does not measure."""
    objective = spec.objective
    measured: list[tuple[str, Any, tuple[str, ...], str]] = [
        ("metric", objective.metric, tuple(metrics), "metric that is evaluated"),
        ("average", objective.average, tuple(averages), "weight average that is evaluated"),
    ]
    problems = [
        _make_problem(
            spec,
            f"objective.{key}",
            f"is not a {kind}",
            given=name,
            allowed=", ".join(allowed),
            nearest=find_nearest(name, allowed),
        )
        for key, name, allowed, kind in measured
        if name not in allowed
    ]

    # Lengths; a metric may have fewer than the others.
    where_measured = metrics[objective.metric].lengths if objective.metric in metrics else tuple(lengths)
    absent = [length for length in objective.lengths if length not in where_measured]
    if absent:
        of_metric = f" for {objective.metric}" if len(where_measured) < len(lengths) else ""
        verb = "is" if len(absent) == 1 else "are"
        message = f"{spans(absent)} {verb} not among the lengths that are evaluated{of_metric}"
        allowed = spans(where_measured) if where_measured else "none is"
        name = list(objective.lengths)
        problems.append(_make_problem(spec, "objective.lengths", message, given=name, allowed=allowed))
    return problems


def _find_objective_problems(spec: SweepSpec, trainer: Trainer, member: Member) -> list[Problem]:
    """Return problems of metrics, averages and lengths in the objective that this configuration does not have."""
    objective, measured = spec.objective, trainer.list_measurements(member)
    problems = find_unmeasured(spec, measured.metrics, measured.averages, measured.lengths)
    every, steps = member.every, member.steps
    if objective.evaluation == "best" and (every is None or every >= steps):
        cause = "is not given" if every is None else f"is {every}"
        message = f"there is one evaluation to choose from, at step {steps}, because evaluation.every {cause}"
        allowed = f"last, or an evaluation.every below training.steps ({steps})"
        problems.append(_make_problem(spec, "objective.evaluation", message, given="best", allowed=allowed))
    return problems


def _find_start_problems(spec: SweepSpec, member: Member, values: Mapping[str, Any]) -> list[Problem]:
    """Return why seeds of a new sweep have no weights to start from, at the item of a grid that names the weights.

    A recorded sweep is checked when it is resumed.
    """
    problems = [] if spec.is_recorded else trainer_of(spec.sections).find_start_problems(member, spec.seeds)
    return [
        _make_problem(spec, _find_drawn_item(spec, problem.key, values), problem.message, allowed=problem.allowed)
        for problem in problems
    ]


def _find_drawn_item(spec: SweepSpec, key: str, values: Mapping[str, Any]) -> str:
    """Return the address of the item of a grid or choice that was drawn for a key; other keys as they are."""
    drawn = next((name for name in spec.space if within(key, name)), None)
    if drawn is None or not isinstance(domain := spec.space[drawn], Choice | Grid) or drawn not in values:
        return key
    index = next((index for index, item in enumerate(domain.values) if item == values[drawn]), None)
    return key if index is None else f"space.{drawn}.{domain.kind}[{index}]{key.removeprefix(drawn)}"


def list_warnings(spec: SweepSpec, members: Sequence[Member]) -> list[str]:
    """Return warnings of settings that are seldom meant, in members and in the objective (by the first member)."""
    objective, trainer = spec.objective, trainer_of(spec.sections)
    warnings = list_trainer_warnings(spec, members)
    judged = trainer.list_measurements(members[0]).metrics[objective.metric]
    trained = [length for length in objective.lengths if length in judged.trained_lengths]
    if trained:
        included = f"objective.lengths includes trained lengths ({spans(trained)})"
        warnings.append(f"{spec.where('objective.lengths')}: {included}")
    better = judged.direction
    if better != objective.direction:
        which = "has no better direction" if better == "none" else f"is better when it is {better}d"
        warnings.append(
            f"{spec.where('objective.direction')}: {objective.metric} {which}, "
            f"and objective.direction is {objective.direction}"
        )
    return warnings


def list_trainer_warnings(spec: SweepSpec, members: Iterable[Member]) -> list[str]:
    """Return the warnings of the trainer about these members, each at its line of the sweep file."""
    warnings = trainer_of(spec.sections).find_warnings(members, spec.folder)
    return list(dict.fromkeys(f"{spec.where(key)}: {message}" for key, message in warnings))
