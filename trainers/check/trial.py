"""Trying what is registered: a task with its settings, an encoding or a model on a small task. Nothing is trained.

What is said are faults of the class, a sentence each, so that they are known before a run.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack, State
from trainers.random import Stream
from trainers.tasks.metrics import Evaluated
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.training.step import gradients, sampled, step_once

ROUNDING = 2**8  # units in the last place, of the norm of a gradient: what the order of its sums may change


def told(found: Callable[[], Iterable[str]]) -> list[str]:
    """What `found` says, each thing once; an exception of the class is one of them, with its place."""
    said: dict[str, None] = {}
    try:
        for one in found():
            said[one] = None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said[in_words(error)] = None
    return list(said)


def in_words(error: BaseException) -> str:
    """An exception when something was tried, with the last line of code outside of libraries and of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [
        frame
        for frame in frames
        if "/lib/python" not in frame.filename and not Path(frame.filename).is_relative_to(Path(__file__).parents[1])
    ]
    where = f" ({here[-1].filename}:{here[-1].lineno}, {here[-1].name})" if here else ""
    text = (str(error).strip().splitlines() or [""])[-1]
    return f"{type(error).__name__} when it was tried: {text}{where}"


def member_problems(sections: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a model or encoding that is named in plain sections, tried for a step and an evaluation.

    One that cannot be built of these sections is not tried.
    """
    try:
        members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in (0, 1)]
    except ConfigError:
        return
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

    Both are computed in the dtype of the weights, with the weights of `state`. What an optimizer makes of a gradient is
    not compared: AdamW divides a gradient that is nothing but rounding, as that of a bias of keys, by its own size.
    """
    alone = Pack(pack.members[-1:], pack.device)
    found = list[tuple[Tensor, ...]]()
    for one in (alone, pack):
        one = copy(one)
        one.training = replace(one.training, compute_dtype="float32")
        theta, stage_M = state.theta[-len(one) :], state.stage[-len(one) :]
        batches = sampled(one, state.step + 1, one.training.batch_size, stage_M)
        gradient, loss_M = gradients(one, theta, batches, state.step + 1)
        found.append((State.initial(one).theta[-1], loss_M[-1], gradient[-1]))
    rounding = ROUNDING * torch.finfo(pack.dtype).eps
    return any(bool((mine - both).norm() > rounding * mine.norm()) for mine, both in zip(*found, strict=True))


def task_problems(task: Task) -> Iterator[str]:
    """Samples are a function of the stream, and scores have what the task declares."""
    yield from _sample_problems(task)
    if task.stages:
        yield from _stage_problems(task)
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline names {', '.join(sorted(unknown))}, which are no metrics"
    if absent := set(task.trained_lengths) - set(task.lengths):
        yield f"trained lengths {sorted(absent)} are not among its lengths"
    if absent := {length for one in task.distributions for length in one.lengths} ^ set(task.lengths):
        yield f"lengths {sorted(absent)} are not those of its distributions together"
    if len({one.name for one in task.distributions}) < len(task.distributions):
        yield f"distributions share a name: {', '.join(repr(one.name) for one in task.distributions)}"
        return
    yield from _evaluation_problems(task)


def _sample_problems(task: Task) -> Iterator[str]:
    at, of = torch.tensor(1), torch.tensor([3, 5])
    drawn, again = (task.training_batches(Stream(of, "data", at), 4) for _ in range(2))
    alone = task.training_batches(Stream(of[1:], "data", at), 4)
    if any(not torch.equal(*two) for one in zip(drawn, again, strict=True) for two in _tensors(*one)):
        yield "the same stream gives another batch the second time: random numbers must come from the stream alone"
    if any(
        not torch.equal(both[1], lone[0]) for one in zip(drawn, alone, strict=True) for both, lone in _tensors(*one)
    ):
        yield "what a seed sees depends on the other seeds of the pack"
    if sum(batch.tokens.shape[1] for batch in drawn) != 4 or any(len(batch.tokens) != 2 for batch in drawn):
        shapes = ", ".join(str(tuple(batch.tokens.shape)) for batch in drawn)
        yield f"asked for 4 rows of 2 seeds, sample gives tokens of shape {shapes}: rows must add up to 4"
        return
    for batch in drawn:
        if int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0:
            yield f"tokens are not in 0..{task.inputs - 1}, which `inputs` says"
            return
        if batch.tokens.shape[2] > task.positions:
            yield f"training rows have {batch.tokens.shape[2]} tokens, and `positions` says {task.positions} at most"
        if batch.groups is not None and not task.grouped:
            yield "training rows have groups, and `grouped` says that batches have none"
        given = task.loss(torch.zeros(*batch.tokens.shape, task.outputs), batch)
        if not isinstance(given, tuple) or [tuple(one.shape) for one in given] != [(2,), (2,)]:
            yield "loss does not give a sum and its weight, each of shape (members,)"


def _stage_problems(task: Task) -> Iterator[str]:
    """Batches of a curriculum are of the same shapes at all stages, and a seed's own."""
    if absent := set(task.stages) - set(task.distributions[0].trained_lengths):
        yield f"stages add lengths {sorted(absent)}, which are not among its trained lengths"
    at, seed, last = torch.tensor(1), torch.tensor([5]), len(task.stages) - 1
    every = [task.training_batches(Stream(seed, "data", at), 4, torch.tensor([k])) for k in range(last + 1)]
    shapes = [[tuple(batch.tokens.shape) for batch in one] for one in every]
    if any(one != shapes[0] for one in shapes):
        yield f"batches of stages have shapes of their own: {', '.join(map(str, shapes))}"
        return
    if sum(shape[1] for shape in shapes[0]) != 4:
        yield f"asked for 4 rows, sample_staged gives tokens of shape {shapes[0]}: rows must add up to 4"
    both = task.training_batches(Stream(seed.repeat(2), "data", at), 4, torch.tensor([0, last]))
    for row, alone in ((0, every[0]), (1, every[last])):
        if any(
            not torch.equal(one[row], lone[0]) for two in zip(both, alone, strict=True) for one, lone in _tensors(*two)
        ):
            yield "what a seed sees at its stage depends on the other seeds and stages of the pack"
            return


def _tensors(one: Batch, two: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of two batches, side by side."""
    yield from ((a, b) for a, b in zip(vars(one).values(), vars(two).values(), strict=True) if isinstance(a, Tensor))


def _evaluation_problems(task: Task) -> Iterator[str]:
    names = {one.name: set(one.lengths) for one in task.distributions}
    first, found = task.distributions[0].name, set[tuple[str, str, int]]()
    elsewhere, twice, widest = dict[str, set[int]](), dict[str, set[int]](), 0
    ungrouped = True
    generates = type(task).scored is not Task.scored  # it asks a model to go on, which no random numbers can do
    for test in task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), 8, task.lengths):
        name = test.distribution or first
        if strange := set(test.lengths) - names.get(name, set()):
            elsewhere.setdefault(name, set()).update(strange)
        widest = max(widest, test.batch.tokens.shape[2])
        ungrouped = ungrouped and (task.grouped or test.batch.groups is None)
        if generates:
            continue
        logits = torch.randn(1, *test.batch.tokens.shape[1:], task.outputs)
        for metric, value in scores_of(task, logits, test.batch, test.lengths).items():
            if metric not in task.metrics:
                yield f"reduce gives {metric}, which is not among its metrics"
            if value.shape != (1, len(test.lengths)):
                yield f"{metric} has shape {tuple(value.shape)}, not (1 member, {len(test.lengths)} lengths)"
            mine = {(name, metric, length) for length in test.lengths}
            if mine & found:
                twice.setdefault(metric, set()).update(test.lengths)
            found |= mine
    if not ungrouped:
        yield "test rows have groups, and `grouped` says that batches have none"
    if widest > task.positions:
        yield f"test rows have up to {widest} tokens, and `positions` says {task.positions}"
    for name, lengths in elsewhere.items():
        yield f"evaluation_batches measures lengths {sorted(lengths)} of {name!r}, which it does not have"
    for metric, lengths in twice.items():
        yield f"{metric} at lengths {sorted(lengths)} comes of two batches; one holds all rows of a length"
    for name, lengths in names.items() if not generates else ():
        measured = {metric for of, metric, _ in found if of == name}
        if any({at for of, named, at in found if (of, named) == (name, metric)} != lengths for metric in measured):
            yield "evaluation_batches do not measure each of its lengths"
        curves = {metric: np.zeros((1, 1, len(lengths)), np.float32) for metric in task.metrics}
        derived = task.derived([Evaluated(0, curves)], tuple(sorted(lengths)))
        if different := {*measured, *derived} ^ set(task.metrics):
            of = f" of {name!r}" if name else ""
            said = ", ".join(sorted(different))
            yield f"reduce and derived together do not give the metrics{of} that it declares: {said}"


def scores_of(task: Task, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Each metric, (M, L), of the logits of a whole batch."""
    return task.reduce(task.rows(logits_MBTV, batch, lengths), batch, lengths)


def mean_loss(task: Task, logits_MBTV: Tensor, batch: Batch) -> Tensor:
    """What training on a whole batch minimises, (M,)."""
    total, weight = task.loss(logits_MBTV, batch)
    return total / weight
