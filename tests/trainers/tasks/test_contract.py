"""Every registered task, model, average and schedule keeps the contract that the loop relies on."""

import doctest
import importlib

import pytest
import torch

from trainers.config import registry
from trainers.config.descriptions import describe
from trainers.random import Stream

TASKS = registry.names("task")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_runs_the_examples_of_its_docstring(name: str) -> None:
    cls = registry.lookup("task", name)
    module = importlib.import_module(cls.__module__)
    finder = doctest.DocTestFinder(recurse=False)
    examples = [example for test in finder.find(cls, globs=vars(module)) for example in test.examples]
    assert len(examples) >= 2, "a task shows two worked examples"
    runner = doctest.DocTestRunner()
    for test in finder.find(cls, globs={**vars(module), "torch": torch}):
        runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", TASKS)
def test_a_task_samples_and_scores_what_it_declares(name: str) -> None:
    task = registry.build("task", {"name": name})
    stream = Stream(torch.tensor([3, 5]), "data", torch.tensor(1))
    batch = task.sample(stream, 4)
    again = task.sample(stream, 4)
    assert torch.equal(batch.tokens, again.tokens) and torch.equal(batch.targets, again.targets)
    alone = task.sample(Stream(torch.tensor([5]), "data", torch.tensor(1)), 4)
    assert torch.equal(alone.tokens[0], batch.tokens[1])
    assert batch.tokens.shape[:2] == (2, 4) and int(batch.tokens.max()) < task.inputs
    assert set(task.headline) <= set(task.metrics) and set(task.metrics.values()) <= {"minimize", "maximize", "none"}
    assert set(task.trained_lengths) <= set(task.lengths)
    covered: list[int] = []
    for piece, lengths in task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), 8, task.lengths):
        scores = task.score(torch.randn(1, *piece.tokens.shape[1:], task.outputs), piece, lengths)
        derived = task.derived({name: value.numpy() for name, value in scores.items()}, lengths)
        assert {*scores, *derived} == set(task.metrics)
        assert all(value.shape == (1, len(lengths)) for value in [*scores.values(), *derived.values()])
        covered += lengths
    assert sorted(covered) == sorted(task.lengths)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_registered_class_describes_itself(kind: str) -> None:
    for name, line, fields, metrics in describe(kind):
        assert bool(metrics) == (kind == "task") and set(metrics.values()) <= {"minimize", "maximize", "none"}
        assert line.endswith("."), f"{kind} {name} needs a first docstring line"
        assert all(text.split(" (")[0] for text in fields.values()), f"{kind} {name} has a field without help"
