"""Build configurations and their members from drawn values, without Ray and files.

Configurations are built through the registries of `trainers`, so that a wrong name, type or bound is reported before
training, with its line of the sweep file.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.code.user_code import locate_in_spec_modules
from orchestrator.interface.trainer import Member, Trainer
from orchestrator.text.wording import format_ranges
from orchestrator.trainer_choice import get_trainer
from search_spaces import ABSENT, FileProblem, SweepFileError, SweepSpec
from search_spaces.grammar.domains import Choice, Grid
from search_spaces.grammar.problems import is_within
from search_spaces.grammar.sections import read_key
from trainers.errors import ConfigError, describe_briefly, find_nearest
from trainers.files.data_folders import add_search_folder
from trainers.tasks.metric_descriptions import RecordedMetric


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """An assignment of hyperparameters; `duplicate_of` is its config_id if an earlier number drew the same values."""

    number: int
    config_id: str
    values: dict[str, Any]
    resolved: dict[str, Any]
    duplicate_of: str | None = None
    built: Any = field(default=None, compare=False, repr=False)  # the member of seed 0, if already built

    def build_member(self, seed: int) -> Any:
        """Return the member of this configuration with a seed."""
        if self.built:
            return replace(self.built, seed=seed)
        return get_trainer(self.resolved).rebuild(self.resolved, seed)


def make_configurations(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], recorded_ids: Mapping[str, str] | None = None
) -> list[Configuration]:
    """Return the configurations of (number, values) draws.

    `recorded_ids` maps config_ids computed by the current code to recorded config_ids. Raises SweepFileError with a
    problem for each invalid key of the sweep file.
    """
    # The problems of all draws are collected, and sections without drawn values are built only once.
    if spec.folder is not None:
        add_search_folder(spec.folder)
    trainer, config_ids = get_trainer(spec.sections), dict(recorded_ids or {})
    configurations: list[Configuration] = []
    problems: dict[tuple[str, str], FileProblem] = {}
    shared_sections: dict[str, Any] = {}  # built sections without a drawn value, shared by all configurations
    for number, values in draws:
        drawn_sections = {key.split(".")[0] for key in values}
        undrawn_sections = {name: section for name, section in shared_sections.items() if name not in drawn_sections}

        # Many draws have the same problem, which has a single line of the sweep file.
        try:
            member = trainer.build({**assign_values(spec, values), **undrawn_sections}, recorded=spec.is_recorded)
            member_problems = _find_member_problems(spec, trainer, member, values)
        except ConfigError as error:
            member_problems = list(_locate_problems(spec, values, error))
        except Exception as error:
            # Properties of a task or model, such as its lengths, are the user's code.
            if not (where := locate_in_spec_modules(error, spec)):
                raise
            member_problems = [_make_file_problem(spec, "imports", f"raises {describe_briefly(error, line=-1)}{where}")]
        if member_problems:
            for problem in member_problems:
                problems.setdefault((problem.where, problem.key), problem)
            continue

        # Equal values may be drawn twice; a duplicate is recorded, but not trained.
        shared_sections |= {name: getattr(member, name) for name in trainer.sections if name not in drawn_sections}
        resolved = {key: value for key, value in member.to_dict().items() if key != "seed"}
        duplicate_of = config_ids.get(member.config_id)
        configurations.append(
            Configuration(
                number=number,
                config_id=config_ids.setdefault(member.config_id, member.config_id),
                values=dict(values),
                resolved=resolved,
                duplicate_of=duplicate_of,
                built=member,
            )
        )
    if problems:
        raise SweepFileError(tuple(problems.values()))
    return configurations


def _find_member_problems(
    spec: SweepSpec, trainer: Trainer, member: Member, values: Mapping[str, Any]
) -> list[FileProblem]:
    """Return the problems of a built member: too much memory, an unmeasured objective, no initial weights."""
    oversized = trainer.find_oversized_parts(member)
    if oversized:  # nothing else is checked, because counting the lengths of such a task may take minutes
        return [
            _make_file_problem(spec, problem.key, problem.message, allowed=problem.allowed) for problem in oversized
        ]
    return [*_find_objective_problems(spec, trainer, member), *_find_initial_weight_problems(spec, member, values)]


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


def _locate_problems(spec: SweepSpec, values: Mapping[str, Any], error: ConfigError) -> list[FileProblem]:
    """Return the problems of a configuration with their lines of the sweep file; a drawn value names its domain."""
    located = []
    for problem in error.problems:
        domain = next((key for key in values if problem.key == key or problem.key.startswith(f"{key}.")), None)
        source = f"drawn from space.{domain}" if domain in spec.space else "given by search.listed"
        message = problem.message if domain is None else f"{problem.message} ({source})"
        # A problem without a value, such as an error of the user's code, must not show the value null.
        has_value = problem.given is not None or read_key(assign_values(spec, values), problem.key) is None
        details = {
            "given": problem.given if has_value else ABSENT,
            "allowed": problem.allowed,
            "nearest": problem.nearest,
        }
        located.append(_make_file_problem(spec, problem.key, message, **details))
    return located


def _make_file_problem(spec: SweepSpec, key: str, message: str, **details: Any) -> FileProblem:
    """Return a problem of a key, at its line of the sweep file."""
    return FileProblem(spec.format_location(key), key, message, **details)


def find_unmeasured_parts(
    spec: SweepSpec, metrics: Mapping[str, RecordedMetric], averages: Iterable[str], lengths: Sequence[int]
) -> list[FileProblem]:
    """Return a problem for each part of the objective (metric, average, lengths) that is not measured."""
    objective = spec.objective

    # Names can be misspelt, so the nearest one is suggested.
    named_parts: list[tuple[str, Any, tuple[str, ...], str]] = [
        ("metric", objective.metric, tuple(metrics), "metric that is evaluated"),
        ("average", objective.average, tuple(averages), "weight average that is evaluated"),
    ]
    problems = [
        _make_file_problem(
            spec,
            f"objective.{key}",
            f"is not a {kind}",
            given=name,
            allowed=", ".join(allowed),
            nearest=find_nearest(name, allowed),
        )
        for key, name, allowed, kind in named_parts
        if name not in allowed
    ]

    # A metric may be evaluated at fewer lengths than others.
    metric_lengths = metrics[objective.metric].lengths if objective.metric in metrics else tuple(lengths)
    missing_lengths = [length for length in objective.lengths if length not in metric_lengths]
    if missing_lengths:
        context = f" for {objective.metric}" if len(metric_lengths) < len(lengths) else ""
        verb = "is" if len(missing_lengths) == 1 else "are"
        message = f"{format_ranges(missing_lengths)} {verb} not among the lengths that are evaluated{context}"
        allowed = format_ranges(metric_lengths) if metric_lengths else "none"
        details = {"given": list(objective.lengths), "allowed": allowed}
        problems.append(_make_file_problem(spec, "objective.lengths", message, **details))
    return problems


def _find_objective_problems(spec: SweepSpec, trainer: Trainer, member: Member) -> list[FileProblem]:
    """Return the problems of the objective for a member: unmeasured parts, and `best` of a single evaluation."""
    objective, measurements = spec.objective, trainer.list_measurements(member)
    problems = find_unmeasured_parts(spec, measurements.metrics, measurements.averages, measurements.lengths)
    interval, steps = member.evaluation_interval, member.steps
    if objective.evaluation == "best" and (interval is None or interval >= steps):
        cause = "is not set" if interval is None else f"is {interval}"
        message = f"there is only one evaluation, at step {steps}, because evaluation.every {cause}"
        allowed = f"last, or an evaluation.every below training.steps ({steps})"
        problems.append(_make_file_problem(spec, "objective.evaluation", message, given="best", allowed=allowed))
    return problems


def _find_initial_weight_problems(spec: SweepSpec, member: Member, values: Mapping[str, Any]) -> list[FileProblem]:
    """Return a problem for each seed without initial weights, at the grid item that names the weights.

    Recorded sweeps are checked when they are resumed.
    """
    problems = [] if spec.is_recorded else get_trainer(spec.sections).find_initial_weight_problems(member, spec.seeds)
    return [
        _make_file_problem(spec, _find_drawn_item(spec, problem.key, values), problem.message, allowed=problem.allowed)
        for problem in problems
    ]


def _find_drawn_item(spec: SweepSpec, key: str, values: Mapping[str, Any]) -> str:
    """Return the key of the grid or choice item that was drawn for a key; other keys unchanged."""
    drawn_key = next((name for name in spec.space if is_within(key, name)), None)
    if drawn_key is None or not isinstance(domain := spec.space[drawn_key], Choice | Grid) or drawn_key not in values:
        return key
    index = next((index for index, item in enumerate(domain.values) if item == values[drawn_key]), None)
    return key if index is None else f"space.{drawn_key}.{domain.kind}[{index}]{key.removeprefix(drawn_key)}"


def list_warnings(spec: SweepSpec, members: Sequence[Member]) -> list[str]:
    """Return warnings about unusual settings of members, and of the objective (for the first member)."""
    # The objective is the same for all members, so the first member shows what it measures.
    objective, trainer = spec.objective, get_trainer(spec.sections)
    warnings = list_trainer_warnings(spec, members)
    measurements = trainer.list_measurements(members[0])
    metric = measurements.metrics[objective.metric]

    # A score at trained lengths says nothing about generalization.
    trained = [length for length in objective.lengths if length in metric.trained_lengths]
    if trained:
        partly = "partly " if len(trained) < len(objective.lengths) else ""
        included = f"objective.lengths includes trained lengths ({format_ranges(trained)})"
        included += f": the best is then chosen {partly}inside the trained range"
        warnings.append(f"{spec.format_location('objective.lengths')}: {included}")

    # If the selection uses every length beyond the trained ones, no length is left as a test. A metric with one length
    # has no alternative, and a selection that includes trained lengths has its own warning above.
    longest = measurements.longest_trained.get(metric.distribution)
    longer = [length for length in metric.lengths if longest is None or length > longest]
    if not trained and len(metric.lengths) > 1 and longer and set(longer) <= set(objective.lengths):
        beyond = "" if longest is None else " beyond the trained ones"
        included = f"objective.lengths includes every evaluated length{beyond} ({format_ranges(longer)})"
        warnings.append(f"{spec.format_location('objective.lengths')}: {included}, so none is left as a test")

    # The objective may rank a metric in another direction than its task declares.
    if metric.direction != objective.direction:
        mismatch = (
            "has no better direction" if metric.direction == "none" else f"is better when it is {metric.direction}d"
        )
        warnings.append(
            f"{spec.format_location('objective.direction')}: {objective.metric} {mismatch}, "
            f"and objective.direction is {objective.direction}"
        )
    return warnings


def list_trainer_warnings(spec: SweepSpec, members: Iterable[Member]) -> list[str]:
    """Return warnings of the trainer, and of an `evaluation.every` above the steps, with lines of the sweep file."""
    members = list(members)
    warnings = [
        (
            "evaluation.every",
            f"evaluation.every: {member.evaluation_interval} is larger than training.steps ({member.steps}), so the "
            "only evaluation is at the end",
        )
        for member in members
        if member.evaluation_interval is not None and member.evaluation_interval > member.steps
    ]
    warnings += get_trainer(spec.sections).find_warnings(members, spec.folder)
    return list(dict.fromkeys(f"{spec.format_location(key)}: {message}" for key, message in warnings))
