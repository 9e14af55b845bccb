"""Checks of registered tasks, models, positions, averages and schedules.

`python -m trainers.check my_tasks` checks the classes that the module my_tasks (in the current folder, or installed)
registers: their members, the worked examples of their docstrings, and that they do what they declare, in a step and an
evaluation of a small model, averages and schedules if all their settings have defaults. `check_class` checks one class.
"""

import contextlib
import doctest
import importlib
import io
import sys
from collections.abc import Iterator
from typing import Any

import torch

from trainers.check.trial import SMALL, check_member, check_task, collect_problems
from trainers.config.member import DIRECTIONS
from trainers.errors import ConfigError
from trainers.settings import registry
from trainers.settings.descriptions import describe_class
from trainers.settings.fields import Settings, settings_fields


def check_class(kind: str, name: str) -> Iterator[str]:
    """Yield the problems of one registered class, one sentence each."""
    try:
        cls = registry.lookup(kind, name)
    except ConfigError as error:
        yield from (problem.message for problem in error.problems)
        return
    yield from _description_problems(kind, cls)
    yield from _example_problems(kind, cls)
    if kind == "task":
        try:
            task = registry.build("task", {"name": name, **cls.trial_settings})
        except ConfigError as error:
            yield f"has required settings without trial_settings, so it was not tested: {error}"
            return
        yield from collect_problems(lambda: check_task(task))
    elif kind in ("model", "position"):
        sizes = {item.name for item in settings_fields(cls)} & SMALL["model"].keys()
        own = {**{size: SMALL["model"][size] for size in sizes}, "name": name}
        model = own if kind == "model" else {**SMALL["model"], "position": name}
        task = cls.trial_task or SMALL["task"]
        yield from collect_problems(lambda: check_member({**SMALL, "task": task, "model": model}))
    elif kind in ("average", "schedule") and _has_defaults(kind, name):
        own = {"averages": {"raw": {}, name: {"kind": name}}} if kind == "average" else {"schedule": name}
        training = {**SMALL["training"], **own}
        yield from collect_problems(lambda: check_member({**SMALL, "training": training}))


def _has_defaults(kind: str, name: str) -> bool:
    """Whether a class can be built without settings."""
    try:
        registry.build(kind, {"name": name})
    except ConfigError:
        return False
    return True


def _description_problems(kind: str, cls: type[Settings]) -> Iterator[str]:
    described = describe_class(cls)
    if not described.summary.endswith("."):
        yield "the first line of its docstring is not one sentence"
    yield from (f"field {field} has no help" for field, text in described.fields.items() if not text.split(" (")[0])
    if kind == "task" and not set(described.metrics.values()) <= set(DIRECTIONS):
        yield f"its metrics have directions other than {', '.join(DIRECTIONS)}"


def _example_problems(kind: str, cls: type[Any]) -> Iterator[str]:
    """Yield failed examples of its docstring; a task needs two examples."""
    variables = {**vars(sys.modules[cls.__module__]), "torch": torch}
    tests = doctest.DocTestFinder(recurse=False).find(cls, globs=variables)
    count = sum(len(test.examples) for test in tests)
    if kind == "task" and count < 2:
        yield f"its docstring has {count} worked examples; a task needs two"
    runner = doctest.DocTestRunner(verbose=False)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        for test in tests:
            runner.run(test)
    if runner.failures:
        yield f"{runner.failures} of the {count} examples of its docstring fail:\n{output.getvalue().rstrip()}"


def main(modules: list[str]) -> int:
    """Check the classes that these modules register; return 0 if all are good, 1 if not, 2 for bad input."""
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
        problems = list(check_class(kind, name))
        wrong += bool(problems)
        print(f"{kind} {name}: " + ("good" if not problems else "\n  ".join(["", *problems]).rstrip()))
    return 1 if wrong else 0
