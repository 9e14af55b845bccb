"""Trials of tasks, models and encodings before a run: a few batches, one step, one evaluation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, place_in_user_code
from trainers.evaluation.evaluate import evaluate
from trainers.packs.batches import same_batches
from trainers.packs.pack import Pack, State
from trainers.random import Stream
from trainers.settings import registry
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.training.step import compute_gradients, sample_batches, step_once

ROUNDING = 2**8  # tolerance for another order of sums, in units in the last place of a gradient's norm
ROWS = 4
SMALL: dict[str, Any] = {  # the configuration of a trial
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 4},
    "model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2},
    "training": {"steps": 2, "batch_size": 3, "learning_rate": 0.01, "compile": False},
    "evaluation": {"samples": 3},
}


def collect_problems(check: Callable[[], Iterable[str]]) -> list[str]:
    """Return the problems that `check` yields, without repetitions; an exception of the class is a problem, too."""
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


def check_task(task: Task, lengths: Sequence[int] = ()) -> Iterator[str]:
    """Yield the problems of a task; if its batches have none, those of a step and an evaluation of a small model.

    lengths: those that are evaluated, by default all.
    """
    lengths = tuple(sorted({*(lengths or task.lengths)}))
    first, problems = task.distributions[0].name, list(_declaration_problems(task))
    if not problems:
        stream = Stream(torch.tensor([3]), "eval", torch.tensor(0))
        tests = list(task.evaluation_batches(stream, ROWS, lengths))
        problems += [*_length_problems(task, first, tests, {*lengths}), *_draw_problems(task)]
        problems += [] if problems else _row_problems(task, "training", _train_batches(task, [3]))
        problems += _row_problems(task, "test", [test.batch for test in tests])
        problems += _stage_problems(task) if task.stages else []
    yield from problems
    if not problems:
        member = MemberConfig.from_dict(SMALL)
        model = registry.build("model", {**SMALL["model"], "name": "decoder" if task.causal else "encoder"})
        # Generating long texts takes seconds, so such a task is evaluated at its shortest length.
        lengths = (min(lengths),) if task.passes > 1 else lengths
        member = replace(member, task=task, model=model, evaluation=replace(member.evaluation, lengths=lengths))
        yield from _step_problems([replace(member, seed=seed) for seed in (0, 1)])


def check_member(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the model or encoding in plain sections, in a step and an evaluation.

    A member that cannot be built from these sections is a problem, too.
    """
    try:
        members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in (0, 1)]
    except ConfigError as error:
        yield from (f"cannot be used with the task {sections['task']['name']}: {problem}" for problem in error.problems)
        return
    yield from _step_problems(members)


def _step_problems(members: Sequence[MemberConfig]) -> Iterator[str]:
    pack = Pack(members, torch.device("cpu"))
    state = State.initial(pack)
    step_once(pack, state)
    if int(state.failed_at.max()) >= 0:
        yield "its loss or its gradient is not finite in the first step"
    elif _mixes_members(pack, state):
        yield "its training depends on the other members of its pack"
    evaluate(pack, state)


def _mixes_members(pack: Pack, state: State) -> bool:
    """Whether initial weights, loss or gradient of a member alone differ from those in its pack by more than rounding.

    Both are computed in the dtype of the weights, with the weights of `state`. Optimizer updates are not compared,
    because AdamW amplifies gradients that are only rounding errors, such as that of the key bias.
    """
    alone = Pack(pack.members[-1:], pack.device)
    results = list[tuple[Tensor, ...]]()
    for one in (alone, pack):
        one = copy(one)
        one.training = replace(one.training, compute_dtype="float32")
        theta, stage_M = state.theta[-len(one) :], state.stage[-len(one) :]
        batches = sample_batches(one, state.step + 1, one.training.batch_size, stage_M)
        gradient, loss_M = compute_gradients(one, theta, batches, state.step + 1)
        results.append((State.initial(one).theta[-1], loss_M[-1], gradient[-1]))
    rounding = ROUNDING * torch.finfo(pack.dtype).eps
    return any(bool((mine - both).norm() > rounding * mine.norm()) for mine, both in zip(*results, strict=True))


@dataclass(frozen=True)
class _RecordingStream(Stream):
    """A stream that records the site of every draw."""

    sites: list[int] = field(default_factory=list)

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        self.sites.append(site)
        return super().bits(site, shape, rows)


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


def _length_problems(task: Task, first: str, tests: Sequence[EvaluationBatch], lengths: set[int]) -> Iterator[str]:
    for one in task.distributions:
        allowed = lengths.intersection(one.lengths)
        measured = {n for test in tests if (test.distribution or first) == one.name for n in test.lengths}
        for verb, wrong in (("does not measure", allowed - measured), ("measures", measured - allowed)):
            if wrong:
                where = f" of {one.name!r}" if one.name else ""
                yield f"evaluation_batches {verb} lengths {sorted(wrong)}{where}; allowed: {sorted(allowed)}"


def _draw_problems(task: Task) -> Iterator[str]:
    """Yield problems of training batches that are not a function of the stream of one seed."""
    recording = _RecordingStream(torch.tensor([3]), "data", torch.tensor(1))
    task.training_batches(recording, ROWS, torch.zeros(1, dtype=torch.int64) if task.stages else None)
    for site in sorted(site for site, count in Counter(recording.sites).items() if count > 1):
        yield (
            f"a training batch is drawn with {recording.sites.count(site)} draws at site {site}, which return the same "
            "random numbers; give each draw its own site, the first argument"
        )
    both, alone = _train_batches(task, [3, 5]), _train_batches(task, [5])
    if not same_batches(both, _train_batches(task, [3, 5])):
        yield "the same stream gives another batch the second time: random numbers must come from the stream alone"
    if not same_batches([batch.slice_seeds(1, 2) for batch in both], alone):
        yield "the batch of a seed depends on the other seeds of the pack"
    if sum(batch.tokens.shape[1] for batch in both) != ROWS or any(len(batch.tokens) != 2 for batch in both):
        shapes = ", ".join(str(tuple(batch.tokens.shape)) for batch in both)
        yield f"asked for {ROWS} rows of 2 seeds, sample gives tokens of shape {shapes}: rows must add up to {ROWS}"


def _row_problems(task: Task, kind: str, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield problems of rows whose tokens, widths or groups contradict the task's declarations."""
    if any(int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0 for batch in batches):
        yield f"{kind} tokens are not in 0..{task.inputs - 1}, as declared by `inputs`"
    if (widest := max((batch.tokens.shape[2] for batch in batches), default=0)) > task.positions:
        yield f"{kind} rows have up to {widest} tokens, but `positions` is {task.positions}"
    if not task.has_groups and any(batch.groups is not None for batch in batches):
        yield f"{kind} rows have groups, but `has_groups` is false"


def _stage_problems(task: Task) -> Iterator[str]:
    """Yield problems of the stages of a curriculum in one pack."""
    last = len(task.stages) - 1
    stages = [_train_batches(task, [5], [stage]) for stage in range(last + 1)]
    shapes = [[tuple(batch.tokens.shape) for batch in batches] for batches in stages]
    if any(shape != shapes[0] for shape in shapes) or sum(shape[1] for shape in shapes[0]) != ROWS:
        yield f"sample_staged gives tokens of shapes {shapes}; allowed: equal at all stages, with {ROWS} rows in total"
        return
    both = _train_batches(task, [5, 5], [0, last])
    own = [[batch.slice_seeds(m, m + 1) for batch in both] for m in range(2)]
    if not all(map(same_batches, own, (stages[0], stages[last]))):
        yield "the batch of a seed at its stage depends on the other seeds and stages of the pack"


def _train_batches(task: Task, seeds: Sequence[int], stages: Sequence[int] | None = None) -> tuple[Batch, ...]:
    stream = Stream(torch.tensor(seeds), "data", torch.tensor(1))
    return task.training_batches(stream, ROWS, None if stages is None else torch.tensor(stages))
