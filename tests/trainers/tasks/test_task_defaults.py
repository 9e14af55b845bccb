"""A task that says only what its rows are: loss, metrics and evaluation batches follow."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainers.own_tasks import TOKENS, scores_of
from trainers.check import check_task
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks.supervised import IGNORED, score_accuracy
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch


class Largest(Task):
    """The largest token so far, at every position but the first."""

    train_length: int = setting(3, low=2)
    inputs = TOKENS
    lengths = (2, 3, 5)
    trained_lengths = (2, 3)

    def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
        tokens = stream.integers(0, (rows, length), TOKENS)
        targets = tokens.cummax(dim=-1).values
        targets[..., 0] = IGNORED
        return Batch(tokens, targets)


def logits_for(predicted: Tensor) -> Tensor:
    return 9.0 * functional.one_hot(predicted, TOKENS).float()


@pytest.fixture
def stream() -> Stream:
    return Stream(torch.tensor([3, 5]), "eval", torch.tensor(0))


def test_it_trains_on_the_longest_trained_length_and_is_evaluated_at_every_length(stream) -> None:
    task = Largest()
    assert task.outputs == TOKENS and list(task.metrics) == ["accuracy", "exact_match"]
    assert task.sample(stream, 4).tokens.shape == (2, 4, 3)
    tests = list(task.evaluation_batches(stream, 6, (2, 5)))
    assert [(test.lengths, test.batch.tokens.shape) for test in tests] == [((2,), (2, 6, 2)), ((5,), (2, 6, 5))]
    assert not list(check_task(task))


def test_lengths_that_are_a_setting_are_extended_within_its_bounds() -> None:
    class Chosen(Largest):
        lengths: tuple[int, ...] = setting((2, 3, 5), high=9)

    extended = Chosen().with_lengths((4, 9))
    assert (type(extended), extended.lengths) == (Chosen, (2, 3, 4, 5, 9))
    assert Chosen().with_lengths((10,)).lengths == (2, 3, 5)


def test_accuracy_and_exact_match_count_the_targets_that_are_not_masked(stream) -> None:
    task, batch = Largest(), Largest().draw_rows(stream, 4, 3)
    predicted = torch.where(batch.targets == IGNORED, 0, batch.targets)
    predicted[:, 0, 2] = (predicted[:, 0, 2] + 1) % TOKENS  # one of two targets of one of four rows
    scores = scores_of(task, logits_for(predicted), batch, (3,))
    np.testing.assert_allclose(scores["accuracy"], np.full((2, 1), 7 / 8))
    np.testing.assert_allclose(scores["exact_match"], np.full((2, 1), 3 / 4))


def test_a_row_without_a_target_is_right() -> None:
    tokens = torch.tensor([[[1, 2, 3], [1, 2, 3]]])
    batch = Batch(tokens, torch.tensor([[[IGNORED] * 3, [IGNORED, 2, 0]]]))
    scores = score_accuracy(logits_for(tokens), batch)
    assert scores["accuracy"].tolist() == [[[1.0], [0.5]]] and scores["exact_match"].tolist() == [[[1.0], [0.0]]]


def test_metrics_that_are_not_declared_are_left_out(stream) -> None:
    class Alone(Largest):
        metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize"}

    assert set(scores_of(Alone(), torch.zeros(2, 4, 3, TOKENS), Alone().draw_rows(stream, 4, 3), (3,))) == {"accuracy"}


def test_a_batch_of_several_lengths_needs_rows_of_its_own(stream) -> None:
    Largest.name = "largest"
    batch = Largest().draw_rows(stream, 4, 3)
    with pytest.raises(ValueError, match=r"largest: a batch measures .*\[2, 3\].*allowed: one length per batch"):
        Largest().score_rows(torch.zeros(2, 4, 3, TOKENS), batch, (2, 3))


@pytest.mark.parametrize("form", ["ids", "weighted", "distributions"])
def test_the_loss_is_the_cross_entropy_of_torch(stream, form: str) -> None:
    task, batch = Largest(), Largest().draw_rows(stream, 4, 3)
    logits = torch.randn(2, 4, 3, TOKENS, generator=torch.Generator().manual_seed(0))
    targets: Any = batch.targets
    weight = (targets != IGNORED).float()
    if form == "weighted":
        weight = weight * torch.tensor([1.0, 0.5, 2.0])
        batch = Batch(batch.tokens, targets, weight=torch.tensor([1.0, 0.5, 2.0]).expand(2, 4, 3))
    if form == "distributions":
        weight = torch.ones(2, 4, 3)
        targets = torch.softmax(logits.flip(0), dim=-1)
        batch = Batch(batch.tokens, targets)
    total, divisor = task.loss(logits, batch)
    for m in range(2):
        each = functional.cross_entropy(logits[m].flatten(0, 1), targets[m].flatten(0, 1), reduction="none")
        torch.testing.assert_close(total[m], (each * weight[m].flatten()).sum())
        torch.testing.assert_close(divisor[m], weight[m].sum())


@pytest.mark.parametrize("cut", ["short", "long"])
def test_targets_of_a_wrong_shape_are_one_problem_with_both_shapes_and_the_line(cut: str) -> None:
    class Cut(Largest):
        def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
            batch = super().draw_rows(stream, rows, length)
            targets = batch.targets[..., 1:] if cut == "short" else functional.pad(batch.targets, (0, 1))
            return Batch(batch.tokens, targets)

    Cut.name = "cut"
    (problem,) = check_task(Cut())
    line = Cut.draw_rows.__code__.co_firstlineno
    assert "(1, 4, 3)" in problem and f"(1, 4, {2 if cut == 'short' else 4})" in problem
    assert f"{__file__}:{line}, draw_rows" in problem
