"""Check a class of each kind: in itself, and in a few training steps and an evaluation of a small model."""

import contextlib
import doctest
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trainers.check.small_members import ROWS, SMALL, find_step_problems, shrink_member
from trainers.check.task_batches import (
    draw_training_batches,
    find_declaration_problems,
    find_draw_problems,
    find_missing_lengths,
    find_row_problems,
    find_target_problems,
    find_type_problems,
)
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, describe_briefly, locate_in_user_code
from trainers.evaluation.evaluate import check_lengths, evaluate
from trainers.optimization.curricula import Curriculum
from trainers.optimization.optimizer import Optimizer
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings import registry
from trainers.settings.fields import settings_fields
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.training.step import train_next_step

_LARGE_CHANGE = 1e-3  # share of the norm of the weights; rounding moves them less in two steps
METRIC_TASK: dict[str, Any] = {"name": "copy_string", "train_length": 4, "test_lengths": [8]}  # targets are token ids


def check_task(task: Task, lengths: Sequence[int] = ()) -> list[str]:
    """Return the problems of a task's batches; without any, the problems of a training step and an evaluation.

    lengths: the evaluated lengths, by default all. An exception of the task's code is a problem, too.
    """
    return _collect(_find_task_problems(task, tuple(sorted({*(lengths or task.lengths)}))))


def check_model(sections: Mapping[str, Any]) -> list[str]:
    """Return the problems of a sweep file's model, found in a training step and an evaluation of a small copy.

    A member that cannot be built from the sections is a problem, and so is an exception of the model's code.
    """
    return _collect(_find_model_problems(sections))


def check_optimizer(optimizer: Optimizer) -> list[str]:
    """Return the problems of an optimizer in two steps of a small model; an exception of its code is a problem, too."""
    return _collect(_find_optimizer_problems(optimizer))


def check_metrics(member: MemberConfig) -> list[tuple[str, str]]:
    """Return the (label, problem) pairs of `evaluation.metrics`, each metric evaluated at its two shortest lengths.

    An exception of a metric's code is a problem, too.
    """
    return [
        (label, problem)
        for label in member.evaluation.added_metrics
        for problem in _collect(_find_metric_problems(member, label))
    ]


def check_class(kind: str, name: str) -> list[str]:
    """Return the problems of a registered class, a sentence for each."""
    try:
        cls = registry.get_class(kind, name)
    except ConfigError as error:
        return [problem.message for problem in error.problems]
    problems = _find_failed_examples(cls)

    # A class with required settings is tested only with its trial_settings.
    settings = {"name": name, **cls.trial_settings}
    if kind in ("model", "position"):
        settings |= {
            field.name: SMALL["model"][field.name] for field in settings_fields(cls) if field.name in SMALL["model"]
        }
    try:
        built = registry.build(kind, settings)
    except ConfigError as error:
        return [*problems, f"has required settings without trial_settings, so it was not tested: {error}"]
    return problems + _check_built(kind, built)


def _check_built(kind: str, built: Any) -> list[str]:
    """Return the problems of a built class: of itself, or of a small model that trains with it."""
    if kind == "task":
        return check_task(built)
    if kind == "optimizer":
        return check_optimizer(built)
    if kind == "curriculum":
        return _collect(_find_curriculum_problems(built))

    # The other kinds are tested as a sweep file names them.
    named = built.to_dict()
    entry = {"kind": built.name, **{key: value for key, value in named.items() if key != "name"}}
    if kind == "metric":
        sections = {
            **SMALL,
            "task": built.trial_task or METRIC_TASK,
            "evaluation": {"metrics": {f"{built.name}_": entry}},
        }
        return [problem for _, problem in check_metrics(MemberConfig.from_dict(sections))]
    if kind in ("model", "position"):
        model = named if kind == "model" else {**SMALL["model"], "position": named}
        return check_model({**SMALL, "task": built.trial_task or SMALL["task"], "model": model})
    setting = {"averages": {"raw": {}, built.name: entry}} if kind == "average" else {kind: named}
    return check_model({**SMALL, "training": {**SMALL["training"], **setting}})


def _find_failed_examples(cls: type[Any]) -> list[str]:
    """Return a problem with the output of doctest if examples of the docstring fail, else an empty list."""
    # Examples may use everything in the module of the class.
    variables = {**vars(sys.modules[cls.__module__]), "torch": torch}
    runner = doctest.DocTestRunner(verbose=False)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        for test in doctest.DocTestFinder(recurse=False).find(cls, globs=variables):
            runner.run(test)
    if not runner.failures:
        return []
    return [f"examples of its docstring that fail: {runner.failures}\n{output.getvalue().rstrip()}"]


def _collect(problems: Iterable[str]) -> list[str]:
    """Return problems without repetitions; an exception of the iteration is a problem, with its line of code."""
    collected: dict[str, None] = {}
    try:
        for problem in problems:
            collected[problem] = None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, which would end the check silently
        collected[f"raises {describe_briefly(error, line=-1)}{locate_in_user_code(error)}"] = None
    return list(collected)


# Checks of each kind --------------------------------------------------------------------------------------------------


def _find_task_problems(task: Task, lengths: tuple[int, ...]) -> Iterator[str]:
    """Yield problems of a task: its declarations, its batches, and a step and an evaluation of a small model."""
    # If the declarations contradict each other, further problems would only follow from that.
    if problems := list(find_declaration_problems(task)):
        yield from problems
        return

    # Problems of batches are easier to read than the errors of a model that trains on them.
    evaluation_batches = list(
        task.evaluation_batches(Stream(torch.tensor([3, 5]), "eval", torch.tensor(0)), ROWS, lengths)
    )
    if problems := list(find_type_problems(task, evaluation_batches)):
        yield from problems
        return
    test_batches = [evaluation_batch.batch for evaluation_batch in evaluation_batches]
    stages = [0, len(task.stages) - 1]
    problems = [*find_missing_lengths(task, evaluation_batches, lengths), *find_draw_problems(task, None)]
    if task.stages:
        problems += find_draw_problems(task, stages)

    # Of wrong draws only these are reported, and of wrong tokens only those.
    training_batches = list[Batch]()
    if not problems:
        training_batches += draw_training_batches(task, [3, 5])
        if task.stages:
            training_batches += draw_training_batches(task, [3, 5], stages)
    problems += find_row_problems(task, "training", training_batches)
    problems += find_row_problems(task, "test", test_batches)
    if not problems:
        problems += find_target_problems(task, training_batches, test_batches)
    yield from problems
    for evaluation_batch in evaluation_batches:
        check_lengths(task, evaluation_batch, lengths)

    # Generating long texts takes seconds, so such a task is evaluated at its shortest length only.
    if not problems:
        lengths = (min(lengths),) if task.passes > 1 else lengths
        model = registry.build("model", {**SMALL["model"], "name": "decoder" if task.causal else "encoder"})
        member = MemberConfig.from_dict(SMALL)
        evaluation = replace(member.evaluation, lengths=lengths)
        try:
            yield from find_step_problems(shrink_member(replace(member, task=task, model=model, evaluation=evaluation)))
        except Exception:  # the error of a tensor operation does not name the targets that caused it
            if not (problems := [*find_target_problems(task, training_batches, test_batches, include_own=True)]):
                raise
            yield problems[0]


def _find_model_problems(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of the member of these sections, in a step and an evaluation."""
    try:
        member = MemberConfig.from_dict(sections)
    except ConfigError as error:
        yield from (f"cannot be used with the task {sections['task']['name']}: {problem}" for problem in error.problems)
        return
    yield from find_step_problems(shrink_member(member))


def _find_optimizer_problems(optimizer: Optimizer) -> Iterator[str]:
    """Yield problems of the state and the updates of an optimizer."""
    # The second member is trained in a pack and alone, which must give the same weights.
    member = shrink_member(MemberConfig.from_dict(SMALL))
    member = replace(member, training=replace(member.training, optimizer=optimizer))
    pack = Pack([replace(member, seed=seed) for seed in (0, 1)], torch.device("cpu"))
    single = pack.select([1])
    pack_state = TrainingState.make_initial(pack)
    single_state = TrainingState.make_initial(single)

    for name, buffer in pack_state.optimizer.items():
        if len(buffer) != len(pack):
            yield f"its state {name} has shape {tuple(buffer.shape)}; allowed: (members, ...)"
            return

    for _ in range(2):
        train_next_step(pack, pack_state)
        train_next_step(single, single_state)
    if int(pack_state.failed_at.max()) >= 0:
        yield "its weights or its state are not finite after two steps"
    elif bool((pack_state.theta[1] - single_state.theta[0]).norm() > _LARGE_CHANGE * pack_state.theta[1].norm()):
        yield "its update depends on the other members of its pack"


def _find_curriculum_problems(curriculum: Curriculum) -> Iterator[str]:
    """Yield problems of the stages that `advance_stages` returns for three members, of which the first has failed."""
    stage_M = np.array([0, 0, 1])
    scores_MN = np.array([[np.nan, np.nan], [0.1, 0.2], [0.9, 1.0]], dtype=np.float32)
    for direction in ("minimize", "maximize"):
        stages = curriculum.advance_stages(stage_M.copy(), scores_MN.copy(), direction)
        if stages.shape != (3,) or stages.dtype.kind != "i" or not set(stages.tolist()) <= {0, 1}:
            yield f"advance_stages returns {stages!r} for three members; allowed: int64 (3,), stages from 0 to 1"
        elif any(
            curriculum.advance_stages(stage_M[m : m + 1], scores_MN[m : m + 1], direction)[0] != stages[m]
            for m in range(3)
        ):
            yield "its stages depend on the other members of the pack"


def _find_metric_problems(member: MemberConfig, label: str) -> Iterator[str]:
    """Yield a problem if a member's value depends on its pack."""
    # At few lengths, because this runs for each metric before every sweep.
    only_metric = {label: member.evaluation.added_metrics[label]}
    shortest = {length for metric in member.metrics.values() if metric.base == label for length in metric.lengths[:2]}
    lengths = tuple(sorted(shortest or member.evaluated_lengths[:1]))
    member = replace(member, evaluation=replace(member.evaluation, lengths=lengths, metrics=only_metric))

    pack = Pack([replace(shrink_member(member), seed=seed) for seed in (0, 1)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    (names, pack_values) = evaluate(pack, state)
    (_, single_values) = evaluate(pack.select([1]), state.select([1]))
    # The metric may be the user's code, whose sums may round differently in a pack.
    k = names.index(label)
    if not np.allclose(pack_values[1:, :, k], single_values[:, :, k], rtol=1e-3, atol=1e-5, equal_nan=True):
        yield "its value depends on the other members of the pack"
