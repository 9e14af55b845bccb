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
from collections.abc import Callable, Iterator
from typing import Any

import torch

from trainers.check.trial import member_problems, task_problems, told
from trainers.config.member import DIRECTIONS
from trainers.errors import ConfigError
from trainers.settings import registry
from trainers.settings.descriptions import describe_class
from trainers.settings.fields import Settings, settings_fields

TINY = {"name": "set_complement", "vocabulary": 6, "train_length": 4}
SIZES = {"layers": 2, "width": 8, "heads": 2}
TRAINING = {"steps": 2, "batch_size": 3, "learning_rate": 0.01, "compile": False}
SMALL: dict[str, Callable[[str], dict[str, Any]]] = {  # what a class of a kind is tried in
    "model": lambda name: {
        "task": TINY,
        "model": {"name": name, **_few(registry.lookup("model", name))},
        "training": TRAINING,
        "evaluation": {"samples": 3},
    },
    "position": lambda name: {
        "task": TINY,
        "model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2, "position": name},
        "training": TRAINING,
        "evaluation": {"samples": 3},
    },
}


def _few(cls: type[Any]) -> dict[str, int]:
    """Sizes to try a model in, of those that it has."""
    return {item.name: SIZES[item.name] for item in settings_fields(cls) if item.name in SIZES}


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
            task = registry.build("task", {"name": name, **cls.tried_with})
        except ConfigError as error:
            yield f"needs settings to be built, so it was not tried: {error}"
            return
        yield from told(lambda: task_problems(task))
    elif kind in SMALL:
        yield from told(lambda: member_problems(SMALL[kind](name)))


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


def main(modules: list[str]) -> int:
    """Check what these modules register; 0 where all of it keeps the contract, 1 where not, 2 for bad input."""
    if not modules or any(module.startswith("-") for module in modules):
        print("usage: python -m trainers.check MODULE ...", file=sys.stderr)
        return 2
    before = {kind: set(registry.classes(kind)) for kind in registry.KINDS}
    for module in modules:
        if module.endswith(".py"):
            print(f"{module} is a file; check the module by its name: {module.removesuffix('.py')}", file=sys.stderr)
            return 2
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
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
