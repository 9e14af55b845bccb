"""When a score of the validation stream is good enough: what stopping and curricula go by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainers.errors import Problem, nearest
from trainers.settings import registry
from trainers.settings.fields import Settings, setting

if TYPE_CHECKING:
    from trainers.config.member import MemberConfig


def reached(values: NDArray[Any], threshold: float, direction: str) -> NDArray[np.bool_]:
    """Where values, any shape, are at a threshold or better; NaN never is. `direction`: minimize or maximize."""
    return values >= threshold if direction == "maximize" else values <= threshold


class Criterion(Settings):
    """A metric on inputs of the validation stream, and where it is good enough."""

    metric: str = setting(help="metric that decides, one of the task's or model's")
    threshold: float = setting(help="value from which on it is good enough")
    average: str = setting("raw", help="weight average that is scored: one of `averages`, or `raw`")
    samples: int = setting(500, low=1, help="validation inputs per trained length")


class Stop(Criterion):
    """A member stops when its metric, the mean over the trained lengths, is at the threshold or better."""


def criterion_problems(member: MemberConfig, *, recorded: bool = False) -> Iterator[Problem]:
    """What of `training.stop` and `training.curriculum` does not fit the rest of a member; keys dotted from the top.

    What is `recorded` was trained: a curriculum is allowed there that has nothing to go on to, or ignored a setting.
    """
    chosen = {f"training.{name}": one for name, one in criteria(member).items()}
    for key, one in chosen.items():
        if member.evaluation.every is None:
            message = f"{key} is decided at evaluations, and there is none before the end"
            yield Problem(key="evaluation.every", given=None, message=message, allowed="a number of steps")
        yield from (problem.under(key) for problem in _name_problems(member, one))
        if not member.task.distributions[0].trained_lengths:
            message = f"the task {member.task.name} has no trained lengths to validate at"
            yield Problem(key=key, message=message, allowed="null")
    if len({one.samples for one in chosen.values()}) > 1:
        given, other = (one.samples for one in reversed(chosen.values()))
        message = f"{given} samples, and training.stop has {other}: both go by the same inputs"
        yield Problem(key="training.curriculum.samples", given=given, message=message, allowed=str(other))
    if member.training.curriculum is not None:
        yield from _stage_problems(member)
        yield from () if recorded else _ignored(member)


def criteria(member: MemberConfig) -> dict[str, Criterion]:
    """What a member is validated for: its `stop` and its `curriculum`, those of them that there are."""
    both: dict[str, Criterion | None] = {"stop": member.training.stop, "curriculum": member.training.curriculum}
    return {name: one for name, one in both.items() if one is not None}


def _name_problems(member: MemberConfig, one: Criterion) -> Iterator[Problem]:
    metrics = {**member.task.metrics, **member.model.metrics}
    derived = member.task.derived_metrics
    known = [name for name, direction in metrics.items() if direction != "none" and name not in derived]
    if one.metric not in known:
        message = f"there is no metric {one.metric!r}"
        if one.metric in metrics:
            message = f"{one.metric} has no better direction, or follows from evaluations"
        close = nearest(one.metric, known)
        yield Problem(key="metric", given=one.metric, message=message, allowed=", ".join(known), nearest=close)
    labels = list(dict.fromkeys(["raw", *member.training.averages]))
    if one.average not in labels:
        message, close = f"there is no average {one.average!r}", nearest(one.average, labels)
        yield Problem(key="average", given=one.average, message=message, allowed=", ".join(labels), nearest=close)


def _stage_problems(member: MemberConfig) -> Iterator[Problem]:
    """Why a task cannot be trained in stages."""
    task, given = member.task, member.training.curriculum and member.training.curriculum.name
    if not task.stages:
        known = sorted(registry.classes("task").items())
        staged = [name for name, cls in known if sum("stages" in vars(one) for one in cls.__mro__) > 1]
        allowed = f"null, or a task with stages{': ' if staged else ''}{', '.join(staged)}"
        message = f"the task {task.name} has no stages"
        yield Problem(key="training.curriculum", given=given, message=message, allowed=allowed)
    trained = task.distributions[0].trained_lengths
    if strange := [length for length in task.stages if length not in trained]:
        message = f"the task {task.name} has stages of lengths {strange}, which it is not trained on"
        yield Problem(key="training.curriculum", given=given, message=message, allowed=f"lengths {list(trained)}")


def _ignored(member: MemberConfig) -> Iterator[Problem]:
    """What a curriculum would be without, or what of the task it would not heed, so that it seems to do something."""
    task, given = member.task, member.training.curriculum and member.training.curriculum.name
    if len(task.stages) == 1:
        message = f"{given} has nowhere to go: the task {task.name} has one stage alone, of length {task.stages[0]}"
        allowed = "null, or settings of the task that give it two stages or more"
        yield Problem(key="training.curriculum", given=given, message=message, allowed=allowed)
    yield from (problem.under("task") for problem in task.staged_problems())
