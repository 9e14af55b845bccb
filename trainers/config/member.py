"""MemberConfig: everything one trained model depends on, and what members of a pack must share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from trainers.config.criterion_checks import criterion_problems, ineffective_stage_problems, stage_problems
from trainers.errors import ConfigError, Problem, nearest
from trainers.optimization.criterion import Criterion, Stop
from trainers.settings import registry
from trainers.settings.fields import Settings, setting
from trainers.settings.identity import ABSENT_AVERAGES, ABSENT_SCHEDULE, digest, identity, structure

if TYPE_CHECKING:
    from trainers.models.model import Model
    from trainers.optimization.averaging import Average
    from trainers.optimization.curricula import Curriculum
    from trainers.optimization.schedules import Schedule
    from trainers.tasks.metrics import Metric
    from trainers.tasks.task import Task

SECTIONS = ("task", "model", "training", "evaluation", "seed")
DIRECTIONS = ("minimize", "maximize", "none")  # of metrics
NESTED = ("schedule", "averages", "stop", "curriculum")  # the parts of `training` that are no plain numbers


class Optimization(Settings):
    """The part of `training` that is plain numbers."""

    steps: int = setting(low=1, below=2**32, help="optimiser steps")
    batch_size: int = setting(low=1, help="samples per step")
    optimizer: str = setting("adamw", choices=("adamw", "gradient_descent"), help="how a gradient becomes a step")
    learning_rate: float = setting(low=0.0, member=True, help="learning rate before its schedule")
    weight_decay: float = setting(0.0, low=0.0, member=True, help="decoupled weight decay")
    betas: tuple[float, float] = setting((0.9, 0.99), low=0.0, below=1.0, member=True, help="AdamW moment decays")
    epsilon: float = setting(1e-8, above=0.0, member=True, help="AdamW denominator offset")
    clip: float | None = setting(
        None, above=0.0, member=True, variant=lambda clip: clip is not None, help="largest gradient norm of a member"
    )
    accumulation: int = setting(1, low=1, help="slices of a batch that are computed one after the other, for memory")
    dtype: str = setting("float32", choices=("float32", "float64"), help="type of weights and arithmetic")
    compute_dtype: str = setting(
        "float32",
        choices=("float32", "bfloat16"),
        help="type of matrix products in a pass; all that is kept is float32",
    )
    compile: bool | str = setting("auto", choices=(True, False, "auto"), help="run the step through torch.compile")

    def cross_checks(self) -> Iterator[Problem]:
        """Problems if a batch has fewer rows than slices, and for narrow products of float64."""
        if self.accumulation > self.batch_size:
            allowed = f"<= batch_size ({self.batch_size})"
            message = f"a batch of {self.batch_size} has no {self.accumulation} slices"
            yield Problem(key="accumulation", given=self.accumulation, message=message, allowed=allowed)
        if self.dtype == "float64" and self.compute_dtype != "float32":
            message = "dtype is float64, and all is computed in it"
            yield Problem(key="compute_dtype", given=self.compute_dtype, message=message, allowed="float32")


class EvaluationConfig(Settings):
    """When, on how many samples and at which lengths the curves are measured."""

    every: int | None = setting(None, low=1, help="steps between evaluations; null: only at the end")
    samples: int = setting(2000, low=1, help="inputs per length")
    lengths: str | tuple[int, ...] = setting("all", help="`all`, or a list of lengths")

    def cross_checks(self) -> Iterator[Problem]:
        """Problems unless the lengths are `all` or distinct."""
        if isinstance(self.lengths, str):
            if self.lengths != "all":
                yield Problem(
                    key="lengths",
                    given=self.lengths,
                    message=f"{self.lengths!r} is not `all`",
                    allowed="all, or a list of lengths",
                )
        elif not self.lengths or len(set(self.lengths)) != len(self.lengths):
            yield Problem(
                key="lengths",
                given=list(self.lengths),
                message="must be distinct and not empty",
                allowed="a list of lengths",
            )


@dataclass(frozen=True, kw_only=True)
class MemberConfig:
    """One member: a configuration and a seed. A member's result depends on these values and on nothing else."""

    task: Task
    model: Model
    optimization: Optimization
    schedule: Schedule
    averages: Mapping[str, Average]
    evaluation: EvaluationConfig
    seed: int
    stop: Stop | None = None
    curriculum: Curriculum | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, recorded: bool = False) -> Self:
        """Build from plain sections `task model training evaluation seed`; `recorded`: they were trained before.

        Raises ConfigError with one problem per fault, its key dotted from the top (`training.learning_rate`).
        """
        problems = [
            Problem(
                key=str(key),
                given=data[key],
                message="unknown section",
                allowed=", ".join(SECTIONS),
                nearest=nearest(key, SECTIONS),
            )
            for key in data
            if key not in SECTIONS
        ]
        training = data.get("training", {})
        if not isinstance(training, Mapping):
            raise ConfigError([*problems, Problem(key="training", given=training, message="is not a mapping")])
        numbers = {key: value for key, value in training.items() if key not in NESTED}
        built: dict[str, Any] = {}

        def collect(key: str, make: Any) -> None:
            try:
                built[key] = make()
            except ConfigError as error:
                problems.extend(problem.under(key) for problem in error.problems)

        collect("task", lambda: registry.build("task", data.get("task", {})))
        collect("model", lambda: registry.build("model", data.get("model", {})))
        collect("training", lambda: _optimization(numbers))
        collect("training.schedule", lambda: registry.build("schedule", training.get("schedule", ABSENT_SCHEDULE)))
        collect("training.averages", lambda: _averages(training.get("averages", ABSENT_AVERAGES)))
        if (stop := training.get("stop")) is not None:
            collect("training.stop", lambda: Stop.from_mapping(_mapping(stop)))
        if (curriculum := training.get("curriculum")) is not None:
            named = {"name": curriculum} if isinstance(curriculum, str) else curriculum
            collect("training.curriculum", lambda: registry.build("curriculum", named))
        collect("evaluation", lambda: EvaluationConfig.from_mapping(_mapping(data.get("evaluation", {}))))
        seed = data.get("seed", 0)
        if type(seed) is not int or not 0 <= seed < 2**63:
            problems.append(
                Problem(key="seed", given=seed, message=f"{seed!r} is not a seed", allowed="an integer >= 0 and < 2^63")
            )
        if problems:
            raise ConfigError(problems)
        member = cls(
            task=built["task"],
            model=built["model"],
            optimization=built["training"],
            schedule=built["training.schedule"],
            averages=built["training.averages"],
            evaluation=built["evaluation"],
            seed=seed,
            stop=built.get("training.stop"),
            curriculum=built.get("training.curriculum"),
        )
        if found := list(member._cross_checks(recorded)):
            raise ConfigError(found)
        return member

    def _cross_checks(self, recorded: bool) -> Iterator[Problem]:
        for problem in self.schedule.step_problems(self.optimization.steps):
            yield problem.under("training.schedule")
        for problem in self.model.task_problems(self.task):
            yield problem.under("model")
        if self.task.grouped and not self.model.keeps_groups:
            message = f"{self.model.name} cannot tell the groups of tokens that the task {self.task.name} has"
            allowed = "a model whose tokens can be hidden from each other"
            yield Problem(key="model.name", given=self.model.name, message=message, allowed=allowed)
        if self.optimization.compile is True and self.model.compiling == "never":
            message = f"a step of {self.model.name} cannot be compiled"
            yield Problem(key="training.compile", given=True, message=message, allowed="false or auto")
        if self.optimization.compute_dtype != "float32" and not self.model.narrow:
            given, message = self.optimization.compute_dtype, f"{self.model.name} is computed in float32 alone"
            yield Problem(key="training.compute_dtype", given=given, message=message, allowed="float32")
        for name, direction in {**self.task.metrics, **self.model.metrics}.items():
            if direction not in DIRECTIONS:
                message = f"the better direction of {name} is {direction!r}"
                key = "task.name" if name in self.task.metrics else "model.name"
                yield Problem(key=key, given=direction, message=message, allowed=", ".join(DIRECTIONS))
        if both := sorted(self.task.metrics.keys() & self.model.metrics.keys()):
            message = f"{self.model.name} measures {', '.join(both)} of itself, and so does the task {self.task.name}"
            yield Problem(key="model.name", given=self.model.name, message=message, allowed="names of its own")
        yield from criterion_problems(self.criteria, self.task, self.model, self.averages, self.evaluation.every)
        if self.curriculum is not None:
            yield from stage_problems(self.curriculum, self.task)
            if not recorded:  # a recorded curriculum was trained, with or without an effect
                yield from ineffective_stage_problems(self.curriculum, self.task)
        for length in self.evaluation.lengths if self.evaluation.lengths != "all" else ():
            if length not in self.task.lengths:
                allowed = f"{min(self.task.lengths)} to {max(self.task.lengths)}"
                yield Problem(
                    key="evaluation.lengths",
                    given=length,
                    message=f"length {length} does not exist in this task",
                    allowed=allowed,
                )

    @property
    def criteria(self) -> dict[str, Criterion]:
        """The criteria to validate: `stop` and `curriculum`, without null ones."""
        both: dict[str, Criterion | None] = {"stop": self.stop, "curriculum": self.curriculum}
        return {name: criterion for name, criterion in both.items() if criterion is not None}

    def planned(self) -> Self:
        """This member with the data that its task depends on named by hash, where they are on this machine."""
        return replace(self, task=self.task.planned())

    def to_dict(self) -> dict[str, Any]:
        """Every value resolved, as plain JSON types, without stop and curriculum where they are null.

        `from_dict` reads it back equal.
        """
        averages = {label: _by_kind(average.to_dict()) for label, average in self.averages.items()}
        training = {**self.optimization.to_dict(), "schedule": self.schedule.to_dict(), "averages": averages}
        training |= {name: one.to_dict() for name, one in self.criteria.items()}
        return {
            "task": self.task.to_dict(),
            "model": self.model.to_dict(),
            "training": training,
            "evaluation": self.evaluation.to_dict(),
            "seed": self.seed,
        }

    @cached_property
    def config_id(self) -> str:
        """Hash of every value but the seed that is not `absent`, 12 hexadecimal digits."""
        return digest(self._sections(identity))

    @cached_property
    def structural_key(self) -> str:
        """Hash of what the members of a pack must share, 12 hexadecimal digits."""
        return digest(self._sections(structure))

    def _sections(self, of: Callable[[Settings], dict[str, Any]]) -> dict[str, Any]:
        """`of` every section, absent ones left out."""
        training = of(self.optimization)
        if (schedule := of(self.schedule)) != ABSENT_SCHEDULE:
            training["schedule"] = schedule
        averages = {label: _by_kind(of(average)) for label, average in self.averages.items()}
        if averages != ABSENT_AVERAGES:
            training["averages"] = averages
        training |= {name: of(one) for name, one in self.criteria.items()}
        sections = {"task": of(self.task), "model": of(self.model), "training": training}
        return sections | ({"evaluation": found} if (found := of(self.evaluation)) else {})

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Every metric that is recorded, by name."""
        return self.task.recorded_metrics(self.model.metrics, self.evaluated_lengths)

    @property
    def evaluated_lengths(self) -> tuple[int, ...]:
        """The lengths at which curves are measured, ascending."""
        chosen = self.evaluation.lengths
        return tuple(sorted(self.task.lengths if isinstance(chosen, str) else chosen))


def _optimization(numbers: Mapping[str, Any]) -> Optimization:
    """`training` without its nested parts; their names are allowed keys in messages."""
    try:
        return Optimization.from_mapping(numbers)
    except ConfigError as error:
        raise ConfigError(map(with_nested_names, error.problems)) from None


def with_nested_names(problem: Problem) -> Problem:
    """A problem of `training`, where an unknown key could also have been one of its nested parts."""
    if problem.message != "unknown key":
        return problem
    close = problem.nearest or nearest(problem.key, NESTED)
    return replace(problem, allowed=f"{problem.allowed}, {', '.join(NESTED)}", nearest=close)


def _averages(data: Any) -> dict[str, Any]:
    built, problems = {}, []
    for label, values in labelled(data).items():
        try:
            built[label] = registry.build("average", values, default_name=label, name_key="kind")
        except ConfigError as error:
            problems += [problem.under(label) for problem in error.problems]
    if "raw" in built and (kind := built["raw"].name) != "raw":
        message = "the label raw is reserved for the training weights, and this is another average"
        problems.append(
            Problem(key="raw.kind", given=kind, message=message, allowed=f"raw; or another label for {kind}")
        )
    if problems:
        raise ConfigError(problems)
    return built


def labelled(data: Any) -> dict[str, Any]:
    """The weight averages `{label: {kind, ...}}`; the kind is the label where it is not given. Raises ConfigError."""
    if not _mapping(data):
        raise ConfigError(
            [Problem(key="", given=data, message="is empty", allowed="label: {kind: raw, ema or bema, ...}")]
        )
    return {str(label): {} if values is None else values for label, values in data.items()}


def _mapping(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError([Problem(key="", given=data, message=f"{data!r} is not a mapping of keys to values")])
    return data


def _by_kind(average: dict[str, Any]) -> dict[str, Any]:
    """The values of an average with its registered name as `kind`: beside it stands its label."""
    return {"kind": average["name"], **{key: value for key, value in average.items() if key != "name"}}
