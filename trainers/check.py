"""Checks of registered classes: a few training steps and an evaluation of a small model.

`python -m trainers.check my_tasks` checks the classes that the module my_tasks (in the current folder, or installed)
registers, and runs the examples of their docstrings. `lengthwise validate` and `run` call `check_task`,
`check_model`, `check_optimizer` and `check_metrics` with the settings of a sweep.
"""

import contextlib
import doctest
import importlib
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import unwrap
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, locate_in_user_code
from trainers.evaluation.evaluate import check_lengths, evaluate
from trainers.optimization.curricula import Curriculum
from trainers.optimization.optimizer import Optimizer
from trainers.packs.batches import are_equal_batches
from trainers.packs.pack import Pack, TrainingState
from trainers.random import Stream
from trainers.settings import registry
from trainers.settings.fields import settings_fields
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.training.step import compute_gradients, sample_batches, train_next_step

GRADIENT_ROUNDING = 2**8  # tolerance for another order of sums, in units in the last place of a gradient's norm
ROWS = 4
_LARGE_CHANGE = 1e-3  # share of the norm of the weights; rounding moves them less in two steps
SMALL: dict[str, Any] = {  # the configuration in which a class is checked
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 4},
    "model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2},
    "training": {"steps": 2, "batch_size": ROWS, "learning_rate": 0.01},
}
METRIC_TASK: dict[str, Any] = {"name": "copy_string", "train_length": 4, "test_lengths": [8]}  # targets are token ids


def check_task(task: Task, lengths: Sequence[int] = ()) -> list[str]:
    """Return the problems of a task's batches; if there are none, those of a training step and an evaluation.

    lengths: the evaluated lengths, by default all. An exception of the task's code is a problem, too.
    """
    return _collect(_find_task_problems(task, tuple(sorted({*(lengths or task.lengths)}))))


def check_model(sections: Mapping[str, Any]) -> list[str]:
    """Return the problems that a small training step and an evaluation of a sweep file's model show.

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
    return [f"examples of its docstring that fail: {runner.failures}\n{output.getvalue().rstrip()}"] * bool(
        runner.failures
    )


def _collect(problems: Iterable[str]) -> list[str]:
    """Return problems without repetitions; an exception of the iteration is a problem, with its line of code."""
    collected: dict[str, None] = {}
    try:
        for problem in problems:
            collected[problem] = None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, which would end the check silently
        text = (str(error).strip().splitlines() or [""])[-1]
        collected[f"raises {type(error).__name__}: {text}{locate_in_user_code(error)}"] = None
    return list(collected)


# Checks of each kind --------------------------------------------------------------------------------------------------


def _find_task_problems(task: Task, lengths: tuple[int, ...]) -> Iterator[str]:
    """Yield problems of a task: its declarations, its batches, and a step and an evaluation of a small model."""
    # If the declarations contradict each other, further problems would only follow from that.
    if problems := list(_find_declaration_problems(task)):
        yield from problems
        return

    # Problems of batches are easier to read than the errors of a model that trains on them.
    evaluation_batches = list(
        task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), ROWS, lengths)
    )
    drawn_batches = [evaluation_batch.batch for evaluation_batch in evaluation_batches]
    problems = [*_find_missing_lengths(task, evaluation_batches, lengths), *_find_draw_problems(task, None)]
    problems += _find_draw_problems(task, [0, len(task.stages) - 1]) if task.stages else []
    problems += [] if problems else _find_row_problems(task, "training", _draw_training_batches(task, [3]))
    problems += _find_row_problems(task, "test", drawn_batches)
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
            yield from _find_step_problems(
                _shrink_member(replace(member, task=task, model=model, evaluation=evaluation))
            )
        except Exception:  # the error of a tensor operation does not name the targets that caused it
            if not (
                problems := list(_find_target_problems(task, [*_draw_training_batches(task, [3]), *drawn_batches]))
            ):
                raise
            yield problems[0]


def _find_model_problems(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of the member of these sections, in a step and an evaluation."""
    try:
        member = MemberConfig.from_dict(sections)
    except ConfigError as error:
        yield from (f"cannot be used with the task {sections['task']['name']}: {problem}" for problem in error.problems)
        return
    yield from _find_step_problems(_shrink_member(member))


def _find_optimizer_problems(optimizer: Optimizer) -> Iterator[str]:
    """Yield problems of the state and the updates of an optimizer."""
    # The second member is trained in a pack and alone, which must give the same weights.
    member = _shrink_member(MemberConfig.from_dict(SMALL))
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
    """Yield problems of the stages after an evaluation of three members, the first of them failed, in two stages."""
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

    pack = Pack([replace(_shrink_member(member), seed=seed) for seed in (0, 1)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    (names, pack_values) = evaluate(pack, state)
    (_, single_values) = evaluate(pack.select([1]), state.select([1]))
    # The metric may be the user's code, whose sums may round differently in a pack.
    k = names.index(label)
    if not np.allclose(pack_values[1:, :, k], single_values[:, :, k], rtol=1e-3, atol=1e-5, equal_nan=True):
        yield "its value depends on the other members of the pack"


def _shrink_member(member: MemberConfig) -> MemberConfig:
    """Return a member with few training rows, few samples at two evaluated lengths, and no compilation."""
    rows = min(ROWS, member.training.batch_size)
    ends = (member.evaluated_lengths[0], member.evaluated_lengths[-1])
    accumulation = min(member.training.accumulation, rows)
    training = replace(member.training, batch_size=rows, accumulation=accumulation, compile=False)
    evaluation = replace(member.evaluation, samples=ROWS, lengths=tuple(dict.fromkeys(ends)))
    return replace(member, training=training, evaluation=evaluation)


def _find_step_problems(member: MemberConfig) -> Iterator[str]:
    """Yield problems of a training step of two members, then evaluate them, which may raise an error."""
    pack = Pack([replace(member, seed=seed) for seed in (0, 1)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    train_next_step(pack, state)
    if int(state.failed_at.max()) >= 0:
        yield "its loss or its gradient is not finite in the first step"
    elif _mixes_members(pack, state):
        yield "its training depends on the other members of its pack"
    evaluate(pack, state)


def _mixes_members(pack: Pack, state: TrainingState) -> bool:
    """Return whether a member's initial weights, loss or gradient differ from those in its pack by more than rounding.

    Loss and gradient are computed in the dtype of the weights, at the weights of `state`. Optimizer updates are not
    compared, because AdamW amplifies gradients that are only rounding errors, such as the gradient of the key bias.
    """
    alone = Pack(pack.members[-1:], pack.device)
    results = list[tuple[Tensor, ...]]()
    for compared_pack in (alone, pack):
        # bfloat16 would round by more than the compared difference.
        compared_pack = copy(compared_pack)
        compared_pack.training = replace(compared_pack.training, compute_dtype="float32")
        theta = state.theta[-len(compared_pack) :]
        stage_M = state.stage[-len(compared_pack) :]
        batches = sample_batches(compared_pack, state.step + 1, compared_pack.training.batch_size, stage_M)
        gradient, loss_M = compute_gradients(compared_pack, theta, batches, state.step + 1)
        results.append((TrainingState.make_initial(compared_pack).theta[-1], loss_M[-1], gradient[-1]))
    rounding = GRADIENT_ROUNDING * torch.finfo(pack.dtype).eps
    return any(
        bool((single_value - pack_value).norm() > rounding * single_value.norm())
        for single_value, pack_value in zip(*results, strict=True)
    )


def _find_declaration_problems(task: Task) -> Iterator[str]:
    """Yield contradictions between the declarations of a task."""
    # Metrics and answers.
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline: {', '.join(sorted(unknown))} is not a metric; allowed: {', '.join(task.metrics)}"
    if task.samples_answers and task.passes <= 1:
        yield f"passes is {task.passes:g}, but sample_answers generates texts; allowed: more than 1"

    # Lengths of training, of distributions and of stages.
    if mismatched := set(task.trained_lengths) - set(task.lengths):
        yield f"trained_lengths: {sorted(mismatched)} are not among `lengths`"
    lengths = {length for distribution in task.distributions for length in distribution.lengths}
    if mismatched := lengths ^ set(task.lengths):
        yield f"lengths: {sorted(mismatched)} are either in `lengths` or in a distribution; allowed: in both"
    if mismatched := set(task.stages) - set(task.distributions[0].trained_lengths):
        yield f"stages: {sorted(mismatched)} are not among the trained lengths"

    # Names of distributions.
    names = [distribution.name for distribution in task.distributions]
    if len({*names}) < len(names):
        yield f"distributions: names repeat: {', '.join(map(repr, names))}"


def _find_missing_lengths(
    task: Task, evaluation_batches: Sequence[EvaluationBatch], lengths: Sequence[int]
) -> Iterator[str]:
    """Yield a problem for each distribution with lengths that no evaluation batch measures."""
    first_name = task.distributions[0].name
    for distribution in task.distributions:
        measured_lengths = {
            length
            for evaluation_batch in evaluation_batches
            if (evaluation_batch.distribution or first_name) == distribution.name
            for length in evaluation_batch.lengths
        }
        if missing := {*lengths}.intersection(distribution.lengths) - measured_lengths:
            source = f" of {distribution.name!r}" if distribution.name else ""
            yield f"evaluation_batches does not measure lengths {sorted(missing)}{source}"


@dataclass(frozen=True)
class _RecordingStream(Stream):
    """A stream that records the site of every draw."""

    sites: list[int] = field(default_factory=list)

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        self.sites.append(site)
        return super().bits(site, shape, rows)


def _find_draw_problems(task: Task, stages: Sequence[int] | None) -> Iterator[str]:
    """Yield problems of training batches that depend on more than the stream (and the stage) of a seed."""
    # Two draws at the same site are equal, which is easily overlooked.
    recording = _RecordingStream(torch.tensor([3]), "data", torch.tensor(1))
    task.training_batches(recording, ROWS, None if stages is None else torch.tensor(stages[:1]))
    for site, count in sorted(Counter(recording.sites).items()):
        if count > 1:
            yield (
                f"a training batch makes {count} draws at site {site}, which return the same numbers; allowed: a "
                "different site, the first argument, for each draw"
            )

    # A batch that depends on more than the stream of its seed would differ between packs and after a restart.
    two_seeds = _draw_training_batches(task, [3, 5], stages)
    alone = _draw_training_batches(task, [5], stages and stages[1:])
    if not are_equal_batches(two_seeds, _draw_training_batches(task, [3, 5], stages)):
        yield "the same stream gives another batch in a second call; allowed: random numbers from the stream alone"
    if not are_equal_batches([batch.slice_seeds(1, 2) for batch in two_seeds], alone):
        yield f"the batch of a seed depends on the other seeds {'and stages ' if stages else ''}of the pack"

    if sum(batch.tokens.shape[1] for batch in two_seeds) != ROWS or any(len(batch.tokens) != 2 for batch in two_seeds):
        shapes = ", ".join(str(tuple(batch.tokens.shape)) for batch in two_seeds)
        method = "sample_staged" if stages else "draw_rows" if task.draws_rows else "sample"
        yield f"{method}: {ROWS} rows of 2 seeds have tokens of shape {shapes}; allowed: {ROWS} rows in all"


def _draw_training_batches(task: Task, seeds: Sequence[int], stages: Sequence[int] | None = None) -> tuple[Batch, ...]:
    """Return the training batches of some seeds in the first step."""
    stream = Stream(torch.tensor(seeds), "data", torch.tensor(1))
    return task.training_batches(stream, ROWS, None if stages is None else torch.tensor(stages))


def _find_row_problems(task: Task, kind: str, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield problems of rows whose tokens, widths, lengths or groups contradict the task's declarations."""
    if any(int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0 for batch in batches):
        yield f"{kind} tokens are not in 0..{task.inputs - 1}; `inputs` is {task.inputs}"
    if (widest := max((batch.tokens.shape[2] for batch in batches), default=0)) > task.positions:
        yield f"{kind} rows have up to {widest} tokens, but `positions` is {task.positions}"

    # Lengths and groups.
    for batch in batches:
        rows = batch.tokens.shape[:2]
        width = batch.tokens.shape[2]
        lengths = batch.lengths
        if lengths is not None and lengths.shape != rows:
            yield f"{kind} batches have lengths of shape {tuple(lengths.shape)}; allowed: {tuple(rows)}"
        elif lengths is not None and (int(lengths.min()) < 1 or int(lengths.max()) > width):
            yield f"{kind} rows have lengths {int(lengths.min())}..{int(lengths.max())}; allowed: 1..{width}"
    if not task.has_groups and any(batch.groups is not None for batch in batches):
        yield f"{kind} rows have groups, but `has_groups` is false"


def _find_target_problems(task: Task, batches: Iterable[Batch]) -> Iterator[str]:
    """Yield a problem for each batch whose targets do not have the shape that the default loss and metrics read."""
    for batch in batches:
        tokens, targets = tuple(batch.tokens.shape), tuple(batch.targets.shape)
        distributions = (*tokens, task.outputs)
        if targets not in (tokens, distributions):
            yield (
                f"targets of shape {targets} for tokens of shape {tokens}{_locate_rows(task)}; allowed: {tokens}, "
                f"with {IGNORED} at positions without a target, or {distributions}, a distribution at each position"
            )


def _locate_rows(task: Task) -> str:
    """Return the method of a task that makes its rows, as " (FILE:LINE, METHOD)"."""
    method = unwrap(type(task).draw_rows if task.draws_rows else type(task).sample)
    code = getattr(method, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno}, {method.__name__})" if code else ""


# Command line ---------------------------------------------------------------------------------------------------------


def main(modules: Sequence[str]) -> int:
    """Check the classes that these modules register; return 0 if all are good, 1 if not, 2 for bad input."""
    if not modules or any(module.startswith("-") for module in modules):
        print("usage: python -m trainers.check MODULE ...", file=sys.stderr)
        return 2
    # The classes of the modules are those that were not registered before.
    names_before = {kind: set(registry.get_classes(kind)) for kind in registry.KINDS}
    for module in modules:
        if module.endswith(".py"):
            print(f"{module} is a file; check the module by its name: {module.removesuffix('.py')}", file=sys.stderr)
            return 2
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            print(f"{module} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            return 2
    new_classes = [
        (kind, name) for kind in registry.KINDS for name in sorted(set(registry.get_classes(kind)) - names_before[kind])
    ]
    if not new_classes:
        print(f"{', '.join(modules)}: registers no class", file=sys.stderr)
        return 2

    problems_by_class = {(kind, name): check_class(kind, name) for kind, name in new_classes}
    for (kind, name), problems in problems_by_class.items():
        print(f"{kind} {name}: " + ("\n  ".join(["", *problems]) if problems else "good"))
    return 1 if any(problems_by_class.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
