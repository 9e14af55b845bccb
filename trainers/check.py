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

import torch

from trainers.config import registry
from trainers.config.descriptions import describe_class
from trainers.config.settings import Settings
from trainers.errors import ConfigError
from trainers.random import Stream

DIRECTIONS = {"minimize", "maximize", "none"}


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
    if kind == "task" and not set(described.metrics.values()) <= DIRECTIONS:
        yield f"its metrics have directions other than {', '.join(sorted(DIRECTIONS))}"


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


def _task_problems(task: Any) -> Iterator[str]:
    """Samples are a function of the stream, and scores have what the task declares."""
    at, of = torch.tensor(1), torch.tensor([3, 5])
    batch, again = (task.sample(Stream(of, "data", at), 4) for _ in range(2))
    if not torch.equal(batch.tokens, again.tokens) or not torch.equal(batch.targets, again.targets):
        yield "the same stream gives another batch the second time: random numbers must come from the stream alone"
    alone = task.sample(Stream(of[1:], "data", at), 4)
    if not torch.equal(alone.tokens[0], batch.tokens[1]):
        yield "what a seed sees depends on the other seeds of the pack"
    if batch.tokens.shape[:2] != (2, 4):
        yield f"tokens of 2 seeds and 4 rows have shape {tuple(batch.tokens.shape)}"
    if int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0:
        yield f"tokens are not in 0..{task.inputs - 1}, which `inputs` says"
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline names {', '.join(sorted(unknown))}, which are no metrics"
    if absent := set(task.trained_lengths) - set(task.lengths):
        yield f"trained lengths {sorted(absent)} are not among its lengths"
    covered: list[int] = []
    for piece, lengths in task.evaluation_batches(Stream(of[:1], "eval", torch.tensor(0)), 8, task.lengths):
        scores = task.score(torch.randn(1, *piece.tokens.shape[1:], task.outputs), piece, lengths)
        derived = task.derived({name: value.numpy() for name, value in scores.items()}, lengths)
        if different := {*scores, *derived} ^ set(task.metrics):
            yield f"score and derived together do not give the metrics it declares: {', '.join(sorted(different))}"
        for name, value in {**scores, **derived}.items():
            if value.shape != (1, len(lengths)):
                yield f"{name} has shape {tuple(value.shape)}, not (1 member, {len(lengths)} lengths)"
        covered += lengths
    if sorted(covered) != sorted(task.lengths):
        yield "evaluation_batches do not measure each of its lengths once"


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
