"""From drawn values to configurations and their members. Pure, no Ray, no files.

Configurations are built through the registries of `trainers`, so that a wrong name, type or bound is reported here, at
its line of the sweep file, and not by a worker an hour later.
"""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.plan.start_shares import describe_start_shares
from orchestrator.wording import spans
from search_spaces import Problem, SweepFileError, SweepSpec
from search_spaces.grammar.problems.findings import SECTIONS
from trainers.config.member import MemberConfig
from trainers.config.recorded import recorded_member
from trainers.errors import ConfigError, nearest
from trainers.tasks.metrics import Metric

if TYPE_CHECKING:
    from trainers.models.model import Model
    from trainers.tasks.task import Task

LARGEST_MEMBER = 64 * 2**30  # bytes; several times what a small transformer takes


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One assignment of hyperparameters. `duplicate_of` is its own config_id when an earlier number drew the same."""

    number: int
    config_id: str
    values: dict[str, Any]
    resolved: dict[str, Any]
    duplicate_of: str | None = None
    built: MemberConfig | None = field(default=None, compare=False, repr=False)  # of seed 0, where it was just built

    def member(self, seed: int) -> MemberConfig:
        """Return the member of this configuration with a seed."""
        return replace(self.built, seed=seed) if self.built else recorded_member(self.resolved, seed)


def configure(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], known: Mapping[str, str] | None = None
) -> list[Configuration]:
    """Build (number, values) draws into configurations.

    `known` are earlier ones: the config_id that each has, by the one that today's code gives its values.
    Raises SweepFileError with one problem per wrong key of the sweep file, whichever draws met it.
    """
    names = dict(known or {})
    configurations: list[Configuration] = []
    problems: dict[tuple[str, str], Problem] = {}
    fixed: dict[str, Any] = {}  # built sections without a drawn value, shared by all configurations
    for number, values in draws:
        drawn = {key.split(".")[0] for key in values}
        shared = {name: section for name, section in fixed.items() if name not in drawn}
        try:
            sections = {**assigned(spec, values), **shared, "seed": 0}
            member = MemberConfig.from_dict(sections, recorded=spec.is_recorded).pin_data()
        except ConfigError as error:
            for problem in _locate_problems(spec, values, error):
                problems.setdefault((problem.where, problem.key), problem)
            continue
        too_large = _size_problem(spec, member)
        for problem in too_large or _objective_problems(spec, member):
            problems.setdefault((problem.where, problem.key), problem)
        if too_large:
            continue  # counting its lengths may already take minutes
        fixed |= {name: getattr(member, name) for name in SECTIONS if name not in drawn}
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


def assigned(spec: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of the sweep file with `values` at their dotted keys; missing mappings are created."""
    sections = {name: copy.deepcopy(getattr(spec, name)) for name in SECTIONS}
    for key, value in values.items():
        *parents, last = key.split(".")
        place: Any = sections
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return sections


def _locate_problems(spec: SweepSpec, values: Mapping[str, Any], error: ConfigError) -> list[Problem]:
    """Return the problems of a configuration at their lines of the sweep file, with the domain of a drawn value."""
    located = []
    for problem in error.problems:
        domain = next((key for key in values if problem.key == key or problem.key.startswith(f"{key}.")), None)
        source = f"drawn from space.{domain}" if domain in spec.space else "given by search.listed"
        message = problem.message if domain is None else f"{problem.message} ({source})"
        details = {"given": problem.given, "allowed": problem.allowed, "nearest": problem.nearest}
        located.append(_problem(spec, problem.key, message, **details))
    return located


def _problem(spec: SweepSpec, key: str, message: str, **details: Any) -> Problem:
    """Return a problem of a key, at its line of the sweep file."""
    return Problem(spec.where(key), key, message, **details)


def unmeasured(
    spec: SweepSpec, metrics: Mapping[str, Metric], averages: Iterable[str], lengths: Sequence[int]
) -> list[Problem]:
    """Return problems for metrics, averages and lengths of the objective that a configuration does not measure."""
    objective = spec.objective
    measured: list[tuple[str, Any, tuple[str, ...], str]] = [
        ("metric", objective.metric, tuple(metrics), "metric of this task"),
        ("average", objective.average, tuple(averages), "label in training.averages"),
    ]
    problems = [
        _problem(
            spec,
            f"objective.{key}",
            f"is not a {what}",
            given=given,
            allowed=", ".join(allowed),
            nearest=nearest(given, allowed),
        )
        for key, given, allowed, what in measured
        if given not in allowed
    ]
    own = metrics[objective.metric].lengths if objective.metric in metrics else tuple(lengths)
    absent = [length for length in objective.lengths if length not in own]
    if absent:
        of = f" for {objective.metric}" if len(own) < len(lengths) else ""
        verb = "is" if len(absent) == 1 else "are"
        message = f"{spans(absent)} {verb} not among the lengths that are evaluated{of}"
        allowed = spans(own) if own else "none is"
        given = list(objective.lengths)
        problems.append(_problem(spec, "objective.lengths", message, given=given, allowed=allowed))
    return problems


def _size_problem(spec: SweepSpec, member: MemberConfig) -> list[Problem]:
    """Return a problem if a model or a batch is too large for any machine."""
    return [
        _problem(spec, key, message, allowed=f"at most {LARGEST_MEMBER / 2**30:.0f} GiB")
        for key, message in describe_too_large(member).items()
    ]


def describe_too_large(member: MemberConfig) -> dict[str, str]:
    """Return by key what of one member takes more than LARGEST_MEMBER bytes: its model with AdamW's state, its batch.

    Of a row of a batch one token is counted: counting them all may take minutes.
    """
    rows = math.ceil(member.training.batch_size / member.training.accumulation)
    sizes = {
        "model": (4 * weights_bytes(member), "with this task, the weights, gradient and moments of one seed take"),
        "training.batch_size": (8 * rows, "the inputs of one batch take at least"),
    }
    return {
        key: f"{what} {size / 2**30:,.0f} GiB of memory" for key, (size, what) in sizes.items() if size > LARGEST_MEMBER
    }


def weights_bytes(member: MemberConfig) -> int:
    """Return the bytes of one member's weights."""
    width = 8 if member.training.dtype == "float64" else 4
    return width * _count_parameters(member.model, member.task)


@lru_cache(maxsize=1024)
def _count_parameters(model: "Model", task: "Task") -> int:
    """Return the number of parameters of a model; 0 if the user's own code raises, which the trial will report."""
    try:
        return sum(math.prod(parameter.shape) for parameter in model.parameters(task))
    except Exception:
        return 0


def _objective_problems(spec: SweepSpec, member: MemberConfig) -> list[Problem]:
    """Return problems for what the objective names and this configuration lacks."""
    objective = spec.objective
    problems = unmeasured(spec, member.metrics, member.training.averages, member.evaluated_lengths)
    every, steps = member.evaluation.every, member.training.steps
    if objective.evaluation == "best" and (every is None or every >= steps):
        cause = "is not given" if every is None else f"is {every}"
        message = f"there is one evaluation to choose from, at step {steps}, because evaluation.every {cause}"
        allowed = f"last, or an evaluation.every below training.steps ({steps})"
        problems.append(_problem(spec, "objective.evaluation", message, given="best", allowed=allowed))
    return problems


def warnings_for(spec: SweepSpec, members: Sequence[MemberConfig]) -> list[str]:
    """Return what is allowed but seldom meant, in the objective (judged by the first member) and in the models."""
    objective = spec.objective
    found = [*loop_warnings(spec, members), *average_warnings(spec, members)]
    judged = members[0].metrics[objective.metric]
    trained = [length for length in objective.lengths if length in judged.trained_lengths]
    if trained:
        included = f"objective.lengths includes trained lengths ({spans(trained)})"
        found.append(f"{spec.where('objective.lengths')}: {included}")
    better = judged.direction
    if better != objective.direction:
        which = "has no better direction" if better == "none" else f"is better when it is {better}d"
        found.append(
            f"{spec.where('objective.direction')}: {objective.metric} {which}, "
            f"and objective.direction is {objective.direction}"
        )
    return found


def average_warnings(spec: SweepSpec, members: Iterable[MemberConfig]) -> list[str]:
    """Return a warning for each average that still is largely the weights it started from after training."""
    sentences = describe_start_shares((one.training.steps, one.training.averages) for one in members)
    return [f"{spec.where(f'training.averages.{label}')}: {sentence}" for label, sentence in sentences.items()]


def loop_warnings(spec: SweepSpec, members: Iterable[MemberConfig]) -> list[str]:
    """Return a warning for each model whose members are trained one after another within a pack, with the reason."""
    both = dict.fromkeys((member.model, member.task) for member in members)
    reasons = ((model, model.explain_loop(task)) for model, task in both)
    return list(
        dict.fromkeys(
            f"{spec.where('model')}: model {getattr(model, 'module', model.name)}: {reason}: members of a pack are "
            "trained one after another, so a pack of N members takes about N times as long as one"
            for model, reason in reasons
            if reason is not None
        )
    )
