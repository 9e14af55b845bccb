"""The contract of tasks, models, positions, averages and schedules, checked on their classes.

`python -m trainers.check my_tasks` checks what the module my_tasks (in the current folder, or installed) registers:
what each class must have, the worked examples of its docstring, and that it does what it declares. Needs torch and
numpy alone. `contract_problems` is the same as a function.
"""

import contextlib
import doctest
import importlib
import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainers.batch import Batch
from trainers.config import registry
from trainers.config.descriptions import describe_class
from trainers.config.member import DIRECTIONS
from trainers.config.settings import Settings
from trainers.errors import ConfigError
from trainers.random import Stream
from trainers.tasks.task import Evaluated, Task


def contract_problems(kind: str, name: str) -> Iterator[str]:
    """What is wrong with one registered class, a sentence each; nothing where it keeps the contract."""
    try:
        cls = registry.lookup(kind, name)
    except ConfigError as error:
        yield from (problem.message for problem in error.problems)
        return
    yield from _description_problems(kind, cls)
    yield from _example_problems(kind, cls)
    if kind == "task":
        try:
            yield from _task_problems(registry.build("task", {"name": name}))
        except ConfigError as error:
            yield f"needs settings to be built, so it was not tried: {error}"
        except Exception as error:
            yield f"{type(error).__name__} when it was tried: {error}"


def _description_problems(kind: str, cls: type[Settings]) -> Iterator[str]:
    described = describe_class(cls)
    if not described.summary.endswith("."):
        yield "its docstring does not begin with a sentence on one line"
    yield from (f"field {field} has no help" for field, text in described.fields.items() if not text.split(" (")[0])
    if kind == "task" and not set(described.metrics.values()) <= set(DIRECTIONS):
        yield f"its metrics have directions other than {', '.join(DIRECTIONS)}"


def _example_problems(kind: str, cls: type[Any]) -> Iterator[str]:
    """The examples of its docstring run; a task shows two."""
    variables = {**vars(sys.modules[cls.__module__]), "torch": torch}
    tests = doctest.DocTestFinder(recurse=False).find(cls, globs=variables)
    count = sum(len(test.examples) for test in tests)
    if kind == "task" and count < 2:
        yield f"a task shows two worked examples in its docstring, and this one shows {count}"
    runner = doctest.DocTestRunner(verbose=False)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for test in tests:
            runner.run(test)
    if runner.failures:
        yield f"{runner.failures} of the {count} examples of its docstring fail:\n{said.getvalue().rstrip()}"


def _task_problems(task: Task) -> Iterator[str]:
    """Samples are a function of the stream, and scores have what the task declares."""
    yield from _sample_problems(task)
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
        yield f"tokens of 2 seeds and 4 rows have shape {', '.join(str(tuple(b.tokens.shape)) for b in drawn)}"
        return
    for batch in drawn:
        if int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0:
            yield f"tokens are not in 0..{task.inputs - 1}, which `inputs` says"
            return
        if batch.tokens.shape[2] > task.positions:
            yield f"training rows have {batch.tokens.shape[2]} tokens, and `positions` says {task.positions} at most"
        given = task.loss(torch.zeros(*batch.tokens.shape, task.outputs), batch)
        if not isinstance(given, tuple) or [tuple(one.shape) for one in given] != [(2,), (2,)]:
            yield "loss does not give a sum and its weight, each of shape (members,)"


def _tensors(one: Batch, two: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of two batches, side by side."""
    yield from ((a, b) for a, b in zip(vars(one).values(), vars(two).values(), strict=True) if isinstance(a, Tensor))


def _evaluation_problems(task: Task) -> Iterator[str]:
    names = {one.name: set(one.lengths) for one in task.distributions}
    first, found = task.distributions[0].name, set[tuple[str, str, int]]()
    for test in task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), 8, task.lengths):
        name = test.distribution or first
        if not set(test.lengths) <= names.get(name, set()):
            yield f"evaluation_batches measures lengths {list(test.lengths)} of {name!r}, which it does not have"
        if test.batch.tokens.shape[2] > task.positions:
            yield f"test rows have {test.batch.tokens.shape[2]} tokens, and `positions` says {task.positions} at most"
        try:
            logits = torch.randn(1, *test.batch.tokens.shape[1:], task.outputs)
            scores = scores_of(task, logits, test.batch, test.lengths)
        except NotImplementedError:  # it asks the model to go on token by token, which no random numbers can do
            return
        for metric, value in scores.items():
            if metric not in task.metrics:
                yield f"reduce gives {metric}, which is not among its metrics"
            if value.shape != (1, len(test.lengths)):
                yield f"{metric} has shape {tuple(value.shape)}, not (1 member, {len(test.lengths)} lengths)"
            mine = {(name, metric, length) for length in test.lengths}
            if mine & found:
                yield f"{metric} at lengths {list(test.lengths)} comes of two batches; one holds all rows of a length"
            found |= mine
    for name, lengths in names.items():
        measured = {metric for of, metric, _ in found if of == name}
        if any({at for of, named, at in found if (of, named) == (name, metric)} != lengths for metric in measured):
            yield "evaluation_batches do not measure each of its lengths"
        curves = {metric: np.zeros((1, 1, len(lengths)), np.float32) for metric in task.metrics}
        derived = task.derived([Evaluated(0, curves)], tuple(sorted(lengths)))
        if different := {*measured, *derived} ^ set(task.metrics):
            yield f"reduce and derived together do not give the metrics it declares: {', '.join(sorted(different))}"


def scores_of(task: Task, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Each metric, (M, L), of the logits of a whole batch."""
    return task.reduce(task.rows(logits_MBTV, batch, lengths), batch, lengths)


def mean_loss(task: Task, logits_MBTV: Tensor, batch: Batch) -> Tensor:
    """What training on a whole batch minimises, (M,)."""
    total, weight = task.loss(logits_MBTV, batch)
    return total / weight


def main(modules: list[str]) -> int:
    """Check what these modules register; 0 where all of it keeps the contract, 1 where not, 2 for bad input."""
    if not modules or any(module.startswith("-") for module in modules):
        print("usage: python -m trainers.check MODULE ...", file=sys.stderr)
        return 2
    before = {kind: set(registry.classes(kind)) for kind in registry.KINDS}
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            print(f"{module} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            return 2
    new = [(kind, name) for kind in registry.KINDS for name in sorted(set(registry.classes(kind)) - before[kind])]
    if not new:
        print(f"{', '.join(modules)}: registers nothing", file=sys.stderr)
        return 2
    wrong = 0
    for kind, name in new:
        problems = list(contract_problems(kind, name))
        wrong += bool(problems)
        print(f"{kind} {name}: " + ("good" if not problems else "\n  ".join(["", *problems]).rstrip()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
