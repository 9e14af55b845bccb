"""Checks of `training.stop` and `training.curriculum` against the task, the model and the averages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from trainers.errors import Problem, find_nearest
from trainers.optimization.criterion import Criterion
from trainers.optimization.curricula import Curriculum
from trainers.settings import registry

if TYPE_CHECKING:  # these modules import torch, which a configuration is read without
    from trainers.models.model import Model
    from trainers.tasks.task import Task


def find_criterion_problems(
    criteria: Mapping[str, Criterion], task: Task, model: Model, averages: Collection[str], interval: int | None
) -> Iterator[Problem]:
    """Yield problems of the criteria `stop` and `curriculum`, given by name, with keys dotted from the top of a member.

    averages: the labels of the weight averages. interval: steps between evaluations, None for a single one at the end.
    """
    for name, criterion in criteria.items():
        key = f"training.{name}"
        if interval is None:
            yield Problem(key="evaluation.every", message=_describe_late_evaluation(name), allowed="a number of steps")
        yield from (problem.with_key_prefix(key) for problem in _find_name_problems(criterion, task, model, averages))
        if not task.distributions[0].trained_lengths:
            message = f"the task {task.name} has no trained lengths to validate at"
            yield Problem(key=key, message=message, allowed="null")
        if not task.has_validation:
            message = f"the task {task.name} has no validation rows; test rows must not decide when training stops"
            yield Problem(key=key, message=message, allowed="null, or a file of validation rows in `task.validation`")

    # Both criteria are scored in one pass over the same rows.
    if len({criterion.samples for criterion in criteria.values()}) > 1:
        samples = criteria["curriculum"].samples
        stop_samples = criteria["stop"].samples
        message = f"{samples} samples, but training.stop has {stop_samples}; both use the same inputs"
        yield Problem(key="training.curriculum.samples", given=samples, message=message, allowed=str(stop_samples))


def find_late_evaluation_problems(criteria: Collection[str], interval: int | None, steps: int) -> Iterator[Problem]:
    """Yield a problem for each criterion without effect, because the first evaluation is after the last step."""
    for name in criteria if interval is not None and interval >= steps else ():
        allowed = f"less than training.steps ({steps})"
        yield Problem(key="evaluation.every", given=interval, message=_describe_late_evaluation(name), allowed=allowed)


def _describe_late_evaluation(name: str) -> str:
    """Return as text that a criterion has no evaluation before the last step."""
    return f"training.{name} needs evaluations during training; the only one is after the last step"


def find_stage_problems(curriculum: Curriculum, task: Task) -> Iterator[Problem]:
    """Yield problems of a task that cannot be trained in stages."""
    if not task.stages:
        # A task has stages if `stages` is defined anywhere below the base class of tasks.
        tasks = sorted(registry.get_classes("task").items())
        staged_tasks = [name for name, cls in tasks if sum("stages" in vars(base) for base in cls.__mro__) > 1]
        allowed = f"null, or a task with stages{': ' if staged_tasks else ''}{', '.join(staged_tasks)}"
        message = f"the task {task.name} has no stages"
        yield Problem(key="training.curriculum", given=curriculum.name, message=message, allowed=allowed)
    trained_lengths = task.distributions[0].trained_lengths
    if untrained_lengths := [length for length in task.stages if length not in trained_lengths]:
        message = f"the task {task.name} has stages of untrained lengths {untrained_lengths}"
        allowed = f"lengths {list(trained_lengths)}"
        yield Problem(key="training.curriculum", given=curriculum.name, message=message, allowed=allowed)


def find_ineffective_stage_problems(curriculum: Curriculum, task: Task) -> Iterator[Problem]:
    """Yield a problem if a curriculum has no effect, and one for each task setting that it would ignore."""
    if len(task.stages) == 1:
        message = (
            f"{curriculum.name} has no effect: the task {task.name} has a single stage, of length {task.stages[0]}"
        )
        allowed = "null, or task settings with two or more stages"
        yield Problem(key="training.curriculum", given=curriculum.name, message=message, allowed=allowed)
    yield from (problem.with_key_prefix("task") for problem in task.find_staged_problems())


def _find_name_problems(criterion: Criterion, task: Task, model: Model, averages: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of the metric and the average that a criterion names."""
    # A metric without a better direction cannot be judged, and a derived metric needs other evaluations, too.
    metrics = {**task.metrics, **model.metrics}
    derived = task.derived_metrics
    usable = [name for name, direction in metrics.items() if direction != "none" and name not in derived]
    if criterion.metric not in usable:
        message = f"there is no metric {criterion.metric!r}"
        if criterion.metric in metrics:
            message = f"{criterion.metric} has no better direction, or is computed from several evaluations"
        nearest = find_nearest(criterion.metric, usable)
        allowed = ", ".join(usable)
        yield Problem(key="metric", given=criterion.metric, message=message, allowed=allowed, nearest=nearest)

    labels = list(dict.fromkeys(["raw", *averages]))
    if criterion.average not in labels:
        message = f"there is no average {criterion.average!r}"
        allowed = ", ".join(labels)
        nearest = find_nearest(criterion.average, labels)
        yield Problem(key="average", given=criterion.average, message=message, allowed=allowed, nearest=nearest)
