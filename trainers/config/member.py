"""MemberConfig: all values that the result of a trained model depends on."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from trainers.config.criterion_checks import (
    find_criterion_problems,
    find_ineffective_stage_problems,
    find_late_evaluation_problems,
    find_stage_problems,
)
from trainers.config.initial_weights import InitialWeights
from trainers.errors import ConfigError, Problem, WeightsError, format_ranges
from trainers.metrics.recorded_metrics import list_recorded_metrics
from trainers.optimization.criterion import Criterion, Stop
from trainers.settings.fields import Settings, setting, settings_fields
from trainers.settings.identity import compute_digest, make_identity, make_structure

if TYPE_CHECKING:  # these modules import torch, which a configuration is read without
    from trainers.metrics.metric import Metric
    from trainers.models.model import Model
    from trainers.optimization.averaging import Average
    from trainers.optimization.curricula import Curriculum
    from trainers.optimization.loss import Loss
    from trainers.optimization.optimizer import Optimizer
    from trainers.optimization.schedules import Schedule
    from trainers.tasks.metric_descriptions import RecordedMetric
    from trainers.tasks.task import Task
    from trainers.tensors.parameters import Parameter

DIRECTIONS = ("minimize", "maximize", "none")  # the better directions of metrics


class TrainingConfig(Settings):
    """The settings of training."""

    steps: int = setting(low=1, below=2**32, help="optimizer steps")
    batch_size: int = setting(low=1, help="samples per step")
    optimizer: Optimizer = setting("adamw", kind="optimizer", bare=True, help="the update rule")
    loss: Loss | None = setting(
        None, kind="loss", bare=True, help="the loss that training minimizes; null: the loss of the task"
    )
    learning_rate: float = setting(low=0.0, member=True, help="learning rate before its schedule")
    weight_decay: float = setting(0.0, low=0.0, member=True, help="decoupled weight decay")
    betas: tuple[float, float] = setting((0.9, 0.99), low=0.0, below=1.0, member=True, help="AdamW moment decays")
    epsilon: float = setting(1e-8, above=0.0, member=True, help="AdamW denominator offset")
    clip: float | None = setting(
        None, above=0.0, member=True, variant=lambda clip: clip is not None, help="largest gradient norm of a member"
    )
    label_smoothing: float | None = setting(
        None,
        above=0.0,
        below=1.0,
        member=True,
        variant=lambda share: share is not None,
        help="share of a target that is spread over all tokens",
    )
    z_loss: float | None = setting(
        None,
        above=0.0,
        member=True,
        variant=lambda factor: factor is not None,
        help="factor of the squared logarithm of the softmax's normalizer, added to the loss (arXiv:2204.02311)",
    )
    accumulation: int = setting(1, low=1, help="slices of a batch that are computed one after the other to save memory")
    one_length_per_batch: bool = setting(
        False, help="whether all rows of a step have one length, drawn for each step, so that no row is padded"
    )
    dtype: str = setting("float32", choices=("float32", "float64"), help="type of weights and arithmetic")
    compute_dtype: str = setting(
        "float32",
        choices=("float32", "bfloat16"),
        help="type of matrix products in a forward pass; everything stored is float32",
    )
    compile: bool | str = setting("auto", choices=(True, False, "auto"), help="run the step through torch.compile")
    schedule: Schedule = setting("constant", kind="schedule", help="factor on the learning rate at each step")
    averages: Mapping[str, Average] = setting(
        "raw", kind="average", labelled=True, help="weights that are evaluated, by label"
    )
    stop: Stop | None = setting(None, kind=Stop, help="when a member stops early; null: never")
    curriculum: Curriculum | None = setting(None, kind="curriculum", help="when a member goes to the next stage")
    initial: InitialWeights | None = setting(
        None,
        kind=InitialWeights,
        member=True,
        help="weights to start from: those of a `file`, or that a `sweep` kept; null: drawn ones",
    )

    @property
    def itemsize(self) -> int:
        """The bytes of a weight."""
        return 8 if self.dtype == "float64" else 4

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems: more slices than rows, bfloat16 products with float64, an average with the label `raw`."""
        if self.accumulation > self.batch_size:
            allowed = f"<= batch_size ({self.batch_size})"
            message = f"a batch of {self.batch_size} rows cannot have {self.accumulation} slices"
            yield Problem(key="accumulation", given=self.accumulation, message=message, allowed=allowed)
        if self.dtype == "float64" and self.compute_dtype != "float32":
            message = "with dtype float64 everything is computed in float64"
            yield Problem(key="compute_dtype", given=self.compute_dtype, message=message, allowed="float32")
        if "raw" in self.averages and (kind := self.averages["raw"].name) != "raw":
            message = "the label raw is reserved for the training weights"
            allowed = f"raw, or another label for {kind}"
            yield Problem(key="averages.raw.kind", given=kind, message=message, allowed=allowed)

    def list_unused_keys(self) -> Iterator[str]:
        """Yield the keys of AdamW (betas, epsilon) that are set although the optimizer does not use them."""
        for field in settings_fields(type(self)):  # a value equal to the default cannot be told from an absent key
            is_set = field.name in ("betas", "epsilon") and getattr(self, field.name) != field.default
            if is_set and field.name not in self.optimizer.training_keys:
                yield field.name


class EvaluationConfig(Settings):
    """The settings of evaluation: when, with how many samples and at which lengths curves are measured."""

    every: int | None = setting(None, low=1, help="steps between evaluations; null: only at the end")
    samples: int = setting(2000, low=1, help="inputs per length")
    lengths: str | tuple[int, ...] = setting("all", help="`all`, or a list of lengths")
    axis: str = setting("length", technical=True, help="the unit of lengths in figures, such as depth or digits")
    metrics: Mapping[str, Metric] | None = setting(
        None, kind="metric", labelled=True, identifies=False, help="metrics beside those of the task, by label"
    )

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of invalid labels, and of lengths that are neither `all` nor a list of distinct lengths."""
        # A label names the metric in YAML, tables and figures.
        for label in (label for label in self.added_metrics if not re.fullmatch(r"\w[\w-]*", label)):
            message = f"{label!r} cannot name a metric"
            yield Problem(key="metrics", given=label, message=message, allowed="letters, digits, _ and -")

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

    @property
    def added_metrics(self) -> Mapping[str, Metric]:
        """The metrics that are added to the metrics of the task, by label."""
        return self.metrics or {}


class MemberConfig(Settings):
    """A member: a configuration and a seed. Its result depends on these values alone."""

    task: Task = setting(kind="task")
    model: Model = setting(kind="model")
    training: TrainingConfig = setting(kind=TrainingConfig)
    evaluation: EvaluationConfig = setting(EvaluationConfig.from_mapping({}), absent={}, kind=EvaluationConfig)
    seed: int = setting(0, low=0, below=2**63, member=True, help="seed of initial weights, data and dropout")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, recorded: bool = False) -> Self:
        """Build a member from the plain sections `task model training evaluation seed`, as returned by `to_dict`.

        recorded: whether the configuration was trained before; then newer checks are skipped. Raises ConfigError with a
        problem for each fault, its key dotted from the top (`training.learning_rate`).
        """
        member = cls.from_mapping(data)
        problems = list(member._find_combination_problems())
        if not problems and not recorded:
            problems = list(member._find_new_member_problems())
        if problems:
            raise ConfigError(problems)
        return member

    def _find_new_member_problems(self) -> Iterator[Problem]:
        """Yield problems that reject a new member; recorded members were trained in spite of them."""
        yield from find_late_evaluation_problems(self.criteria, self.evaluation.every, self.training.steps)
        if self.training.curriculum is not None:
            yield from find_ineffective_stage_problems(self.training.curriculum, self.task)
        for problem in self.model.find_new_member_problems():
            yield problem.with_key_prefix("model")
        for problem in self.training.optimizer.find_new_member_problems(self._parameters):
            yield problem.with_key_prefix("training.optimizer")
        for label, average in self.training.averages.items():
            for problem in average.find_new_member_problems(
                lambda: [parameter.name for parameter in self._parameters()]
            ):
                yield problem.with_key_prefix(f"training.averages.{label}")

    def _parameters(self) -> Sequence[Parameter]:
        """Return the model's parameters; none if the user's code raises an error, which a trial reports later."""
        try:
            return self.model.parameters(self.task)
        except Exception:
            return ()

    def _find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of sections that are valid alone but not together."""
        yield from self._find_training_problems()
        yield from self._find_metric_problems()
        yield from self._find_length_problems()

    def _find_training_problems(self) -> Iterator[Problem]:
        """Yield problems of the training, with its steps, the task and the model."""
        for problem in self.training.schedule.find_step_problems(self.training.steps):
            yield problem.with_key_prefix("training.schedule")
        for name in ("label_smoothing", "z_loss") if self.task.has_own_loss else ():
            if (value := getattr(self.training, name)) is not None:
                message = f"the task {self.task.name} has a loss of its own"
                yield Problem(key=f"training.{name}", given=value, message=message, allowed="null")

        # A model declares what it supports; other combinations would fail during training or give wrong results.
        for problem in self.model.find_task_problems(self.task):
            yield problem.with_key_prefix("model")
        if self.task.has_groups and not self.model.supports_groups:
            message = f"{self.model.name} does not support the token groups of the task {self.task.name}"
            allowed = "a model that supports groups"
            yield Problem(key="model.name", given=self.model.name, message=message, allowed=allowed)
        if self.training.compile is True and self.model.compiling == "never":
            message = f"a step of {self.model.name} cannot be compiled"
            yield Problem(key="training.compile", given=True, message=message, allowed="false or auto")
        if self.training.compute_dtype != "float32" and not self.model.supports_bfloat16:
            dtype = self.training.compute_dtype
            message = f"{self.model.name} supports only float32"
            yield Problem(key="training.compute_dtype", given=dtype, message=message, allowed="float32")

    def _find_metric_problems(self) -> Iterator[Problem]:
        """Yield problems of the metrics of task, model and evaluation: unknown directions and equal names."""
        # Curves are recorded by the name of the metric alone, so a name may occur once.
        for name, direction in {**self.task.metrics, **self.model.metrics}.items():
            if direction not in DIRECTIONS:
                message = f"the better direction of the metric {name} is {direction!r}"
                key = "task.name" if name in self.task.metrics else "model.name"
                yield Problem(key=key, given=direction, message=message, allowed=", ".join(DIRECTIONS))
        if shared_names := sorted(self.task.metrics.keys() & self.model.metrics.keys()):
            message = (
                f"both {self.model.name} and the task {self.task.name} have metrics named {', '.join(shared_names)}"
            )
            yield Problem(key="model.name", given=self.model.name, message=message, allowed="other names")
        for label, metric in self.evaluation.added_metrics.items():
            for problem in self._find_added_metric_problems(label, metric):
                yield problem.with_key_prefix(label).with_key_prefix("evaluation.metrics")

    def _find_length_problems(self) -> Iterator[Problem]:
        """Yield problems of the lengths of batches, criteria, stages and evaluations."""
        # Criteria are judged at the trained lengths, so they and the stages depend on the lengths of the task.
        averages, curriculum = self.training.averages, self.training.curriculum
        if self.training.one_length_per_batch:
            yield from self._find_one_length_problems()
        yield from find_criterion_problems(self.criteria, self.task, self.model, averages, self.evaluation.every)
        if curriculum is not None:
            yield from find_stage_problems(curriculum, self.task)
        for length in self.evaluation.lengths if self.evaluation.lengths != "all" else ():
            if length not in self.task.lengths:
                message = f"the task has no length {length}"
                allowed = format_ranges(self.task.lengths)
                yield Problem(key="evaluation.lengths", given=length, message=message, allowed=allowed)

    def _find_one_length_problems(self) -> Iterator[Problem]:
        """Yield problems of `one_length_per_batch` with the task and with other settings."""
        key = "training.one_length_per_batch"
        task = self.task
        if not task.draws_rows:
            message = f"the task {task.name} does not draw rows of a given length"
            yield Problem(key=key, given=True, message=message, allowed="false, or a task with draw_rows")
        if self.training.curriculum is not None:
            yield Problem(key=key, given=True, message="a curriculum chooses the lengths", allowed="false")
        if self.training.compile is True:
            message = "a step whose batches differ in length cannot be compiled"
            yield Problem(key="training.compile", given=True, message=message, allowed="false or auto")

    def _find_added_metric_problems(self, label: str, metric: Metric) -> Iterator[Problem]:
        """Yield problems of an added metric: its label, its direction, and whether it fits the task."""
        if label in {**self.task.metrics, **self.model.metrics}:
            message = f"the task {self.task.name} or the model {self.model.name} has a metric named {label}"
            yield Problem(key="", given=label, message=message, allowed=f"another label: {{kind: {metric.name}}}")
        if (direction := getattr(metric, "direction", None)) not in DIRECTIONS:
            message = f"the better direction of the metric {metric.name} is {direction!r}"
            yield Problem(key="", given=direction, message=message, allowed=", ".join(DIRECTIONS))
        yield from metric.find_task_problems(self.task)

    @property
    def steps(self) -> int:
        """The training steps."""
        return self.training.steps

    @property
    def evaluation_interval(self) -> int | None:
        """The steps between evaluations; None for a single evaluation at the end."""
        return self.evaluation.every

    @property
    def evaluation_count(self) -> int:
        """The number of evaluations of a training to the last step."""
        interval = self.evaluation.every
        return math.ceil(self.training.steps / interval) if interval else 1

    @property
    def evaluation_passes(self) -> float:
        """The cost of an evaluation in passes over its rows, including answers sampled for metrics.

        Metrics with the same draws and temperature share their answers.
        """
        passes = self.task.passes_with(self.model)
        sampled = {
            (metric.draws, getattr(metric, "temperature", None)) for metric in self.evaluation.added_metrics.values()
        }
        generation = max(passes - 1.0, 0.0)  # without the pass over the true tokens
        return passes + generation * sum(draws for draws, _ in sampled)

    @property
    def criteria(self) -> dict[str, Criterion]:
        """The criteria `stop` and `curriculum` that are not null, by name."""
        criteria: dict[str, Criterion | None] = {"stop": self.training.stop, "curriculum": self.training.curriculum}
        return {name: criterion for name, criterion in criteria.items() if criterion is not None}

    def pin_data(self) -> Self:
        """Return this member with the hashes of its data files and initial weights in the settings.

        Settings of files that are missing on this machine stay unchanged.
        """
        member = replace(self, task=self.task.pin_data())
        initial = self.training.initial
        if initial is None or (pinned := initial.pin_data()) is initial:
            return member
        return replace(member, training=replace(self.training, initial=pinned))

    def find_initial_weight_problems(self, seeds: Collection[int]) -> Iterator[Problem]:
        """Yield problems of the stored weights that members with these seeds start from, on this machine."""
        if (initial := self.training.initial) is not None and self._parameters():
            for problem in initial.find_problems(self.model, self.task, seeds):
                yield problem.with_key_prefix("training.initial")

    def describe_partial_initial_weights(self) -> str | None:
        """Return as text which parameters are not read from stored weights; None if all or none are, or unknown."""
        if (initial := self.training.initial) is None or not self._parameters():
            return None
        try:
            return initial.describe_partial(self.model, self.task, self.seed)
        except WeightsError:  # `find_initial_weight_problems` reports it
            return None

    def with_evaluated_lengths(self, lengths: Sequence[int]) -> Self:
        """Return this member evaluated at other lengths, also beyond `lengths` of a task whose `draw_rows` draws them.

        Raises ConfigError if the task or the model does not allow them.
        """
        try:
            evaluation = replace(self.evaluation, lengths=tuple(lengths))
        except ConfigError as error:
            raise ConfigError(problem.with_key_prefix("evaluation") for problem in error.problems) from error
        member = replace(self, task=self.task.with_lengths(lengths), evaluation=evaluation)
        if problems := list(member._find_combination_problems()):
            raise ConfigError(problems)
        return member

    @cached_property
    def config_id(self) -> str:
        """The hash of all values except the seed and `absent` values, 12 hexadecimal digits."""
        return compute_digest({key: value for key, value in make_identity(self).items() if key != "seed"})

    @cached_property
    def structural_key(self) -> str:
        """The hash of the values that members of a pack must share, 12 hexadecimal digits."""
        return compute_digest(make_structure(self))

    @cached_property
    def metrics(self) -> dict[str, RecordedMetric]:
        """Every recorded metric, by name."""
        return list_recorded_metrics(
            self.task, self.model.metrics, self.evaluation.added_metrics, self.evaluated_lengths
        )

    @property
    def evaluated_lengths(self) -> tuple[int, ...]:
        """The lengths at which curves are measured, ascending."""
        lengths = self.evaluation.lengths
        return tuple(sorted(self.task.lengths if isinstance(lengths, str) else lengths))
