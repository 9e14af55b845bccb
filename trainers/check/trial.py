"""Trying tasks, models and encodings before a run: a few batches, one step, one evaluation. Faults are sentences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, place_in_user_code
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack, State
from trainers.random import Stream
from trainers.settings import registry
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.training.step import gradients, sampled, step_once

ROUNDING = 2**8  # units in the last place, of the norm of a gradient: what the order of its sums may change
ROWS = 4
SMALL: dict[str, Any] = {  # what a task, model or encoding is tried in
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 4},
    "model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2},
    "training": {"steps": 2, "batch_size": 3, "learning_rate": 0.01, "compile": False},
    "evaluation": {"samples": 3},
}


def collect_problems(check: Callable[[], Iterable[str]]) -> list[str]:
    """Return the problems that `check` yields, each once; an exception of the class is one of them, with its place."""
    problems: dict[str, None] = {}
    try:
        for problem in check():
            problems[problem] = None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = (str(error).strip().splitlines() or [""])[-1]
        problems[f"{type(error).__name__} when it was tried: {text}{place_in_user_code(error)}"] = None
    return list(problems)


def check_task(task: Task) -> Iterator[str]:
    """Yield the faults of a task; if its batches have none, those of a step and an evaluation of a small model."""
    first, problems = task.distributions[0].name, list(_declaration_problems(task))
    if not problems:
        stream = Stream(torch.tensor([3]), "eval", torch.tensor(0))
        tests = list(task.evaluation_batches(stream, ROWS, task.lengths))
        problems += [*_length_problems(task, first, tests), *_draw_problems(task)]
        problems += [] if problems else _row_problems(task, "training", _train_batches(task, [3]))
        problems += _row_problems(task, "test", [test.batch for test in tests])
        problems += _stage_problems(task) if task.stages else []
    yield from problems
    if not problems:
        member = MemberConfig.from_dict(SMALL)
        model = registry.build("model", {**SMALL["model"], "name": "decoder" if task.causal else "encoder"})
        # Writing long texts takes seconds: a task that has models write them is evaluated at its shortest length.
        lengths = (min(task.lengths),) if task.passes > 1 else "all"
        member = replace(member, task=task, model=model, evaluation=replace(member.evaluation, lengths=lengths))
        yield from _step_problems([replace(member, seed=seed) for seed in (0, 1)])


def check_member(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of the model or encoding in plain sections, in a step and an evaluation.

    Nothing if no member can be built of these sections.
    """
    try:
        members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in (0, 1)]
    except ConfigError:
        return
    yield from _step_problems(members)


def _step_problems(members: Sequence[MemberConfig]) -> Iterator[str]:
    pack = Pack(members, torch.device("cpu"))
    state = State.initial(pack)
    step_once(pack, state)
    if int(state.failed_at.max()) >= 0:
        yield "its loss or its gradient is not finite in the first step"
    elif _mixes_members(pack, state):
        yield "what it learns depends on the other members of its pack"
    evaluate(pack, state)


def _mixes_members(pack: Pack, state: State) -> bool:
    """Whether initial weights, loss or gradient of a member alone differ from those in its pack by more than rounding.

    Both are computed in the dtype of the weights, with the weights of `state`. Updates of the optimizer are not
    compared: AdamW divides a gradient that is nothing but rounding, as that of a bias of keys, by its own size.
    """
    alone = Pack(pack.members[-1:], pack.device)
    results = list[tuple[Tensor, ...]]()
    for one in (alone, pack):
        one = copy(one)
        one.training = replace(one.training, compute_dtype="float32")
        theta, stage_M = state.theta[-len(one) :], state.stage[-len(one) :]
        batches = sampled(one, state.step + 1, one.training.batch_size, stage_M)
        gradient, loss_M = gradients(one, theta, batches, state.step + 1)
        results.append((State.initial(one).theta[-1], loss_M[-1], gradient[-1]))
    rounding = ROUNDING * torch.finfo(pack.dtype).eps
    return any(bool((mine - both).norm() > rounding * mine.norm()) for mine, both in zip(*results, strict=True))


def _declaration_problems(task: Task) -> Iterator[str]:
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline names {', '.join(sorted(unknown))}, which are no metrics"
    if absent := set(task.trained_lengths) - set(task.lengths):
        yield f"trained lengths {sorted(absent)} are not among its lengths"
    if absent := {length for one in task.distributions for length in one.lengths} ^ set(task.lengths):
        yield f"lengths {sorted(absent)} are not those of its distributions together"
    if absent := set(task.stages) - set(task.distributions[0].trained_lengths):
        yield f"stages add lengths {sorted(absent)}, which are not among its trained lengths"
    if len({one.name for one in task.distributions}) < len(task.distributions):
        yield f"distributions share a name: {', '.join(repr(one.name) for one in task.distributions)}"


def _length_problems(task: Task, first: str, tests: Sequence[EvaluationBatch]) -> Iterator[str]:
    for one in task.distributions:
        measured = {n for test in tests if (test.distribution or first) == one.name for n in test.lengths}
        for verb, wrong in (("does not measure", {*one.lengths} - measured), ("measures", measured - {*one.lengths})):
            if wrong:
                where = f" of {one.name!r}" if one.name else ""
                yield f"evaluation_batches {verb} lengths {sorted(wrong)}{where}; allowed: {sorted(one.lengths)}"


def _draw_problems(task: Task) -> Iterator[str]:
    """Yield why training batches are not a function of the stream of one seed."""
    both, alone = _train_batches(task, [3, 5]), _train_batches(task, [5])
    if not _equal(both, _train_batches(task, [3, 5])):
        yield "the same stream gives another batch the second time: random numbers must come from the stream alone"
    if not _equal([batch.seeds(1, 2) for batch in both], alone):
        yield "what a seed sees depends on the other seeds of the pack"
    if sum(batch.tokens.shape[1] for batch in both) != ROWS or any(len(batch.tokens) != 2 for batch in both):
        shapes = ", ".join(str(tuple(batch.tokens.shape)) for batch in both)
        yield f"asked for {ROWS} rows of 2 seeds, sample gives tokens of shape {shapes}: rows must add up to {ROWS}"


def _row_problems(task: Task, kind: str, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield what of the tokens, width or groups of rows the task does not declare."""
    if any(int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0 for batch in batches):
        yield f"{kind} tokens are not in 0..{task.inputs - 1}, which `inputs` says"
    if (widest := max((batch.tokens.shape[2] for batch in batches), default=0)) > task.positions:
        yield f"{kind} rows have up to {widest} tokens, and `positions` says {task.positions}"
    if not task.grouped and any(batch.groups is not None for batch in batches):
        yield f"{kind} rows have groups, and `grouped` says that batches have none"


def _stage_problems(task: Task) -> Iterator[str]:
    """Yield why the stages of a curriculum cannot be batches of one pack."""
    last = len(task.stages) - 1
    stages = [_train_batches(task, [5], [stage]) for stage in range(last + 1)]
    shapes = [[tuple(batch.tokens.shape) for batch in batches] for batches in stages]
    if any(shape != shapes[0] for shape in shapes) or sum(shape[1] for shape in shapes[0]) != ROWS:
        yield f"sample_staged gives tokens of shapes {shapes}; allowed: the same at all stages, {ROWS} rows in all"
        return
    both = _train_batches(task, [5, 5], [0, last])
    if any(not _equal([batch.seeds(m, m + 1) for batch in both], stages[k]) for m, k in ((0, 0), (1, last))):
        yield "what a seed sees at its stage depends on the other seeds and stages of the pack"


def _train_batches(task: Task, seeds: Sequence[int], stages: Sequence[int] | None = None) -> tuple[Batch, ...]:
    stream = Stream(torch.tensor(seeds), "data", torch.tensor(1))
    return task.training_batches(stream, ROWS, None if stages is None else torch.tensor(stages))


def _equal(one: Sequence[Batch], other: Sequence[Batch]) -> bool:
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x.tensors(), y.tensors(), strict=True)]
    return all(torch.equal(a, b) for a, b in pairs)
