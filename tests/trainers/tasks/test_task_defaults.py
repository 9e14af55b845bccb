"""A task that says only what its rows are: loss, metrics and evaluation batches follow."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
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
from trainers.tasks.task import EvaluationBatch, Task
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


FORMS = "(2, 4, 3)", "(2, 4, 3, 7)"  # of ids and of distributions: two seeds, four rows, three tokens, seven outputs
FAULTS: dict[str, tuple[Callable[[Batch], dict[str, Any]], tuple[str, ...]]] = {
    "too few columns": (lambda batch: {"targets": batch.targets[..., :1]}, ("(2, 4, 1)", *FORMS)),
    "one column missing": (lambda batch: {"targets": batch.targets[..., 1:]}, ("(2, 4, 2)", *FORMS)),
    "too many columns": (lambda batch: {"targets": functional.pad(batch.targets, (0, 1))}, ("(2, 4, 4)", *FORMS)),
    "one row for all": (lambda batch: {"targets": batch.targets[:, :1]}, ("(2, 1, 3)", *FORMS)),
    "too few probabilities": (lambda batch: {"targets": one_hot(batch)[..., 1:]}, ("(2, 4, 3, 6)", *FORMS)),
    "floating ids": (lambda batch: {"targets": batch.targets.float()}, ("float32", "int64", FORMS[1])),
    "ids of 32 bits": (lambda batch: {"targets": batch.targets.int()}, ("int32", "int64")),
    "an id beyond the outputs": (lambda batch: {"targets": batch.targets + TOKENS}, ("0..6", "-100")),
    "another mask": (lambda batch: {"targets": batch.targets.clamp(min=-1)}, ("0..6", "-100")),
    "logits": (lambda batch: {"targets": -one_hot(batch)}, ("negative",)),
    "a weight of each row": (
        lambda batch: {"weight": torch.ones(len(batch.tokens), 4)},
        ("weight", "(2, 4)", FORMS[0]),
    ),
    "no tensor": (lambda batch: {"targets": batch.targets.cummax(-1)}, ("targets", "return_types.cummax", "a tensor")),
    "a list": (lambda batch: {"lengths": [3, 3, 3, 3]}, ("lengths", "list", "None")),
    "ids of one row": (lambda batch: {"ids": batch.tokens[:, :1]}, ("ids", "(2, 1, 3)", FORMS[0])),
}


def one_hot(batch: Batch) -> Tensor:
    return functional.one_hot(batch.targets.clamp(min=0), TOKENS).float()


@pytest.mark.parametrize("name", FAULTS)
def test_a_batch_that_does_not_fit_its_tokens_is_one_problem_with_the_line(name: str) -> None:
    change, words = FAULTS[name]

    class Faulty(Largest):
        def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
            batch = super().draw_rows(stream, rows, length)
            return replace(batch, **change(batch))

    Faulty.name = "faulty"
    (problem,) = check_task(Faulty())
    assert f"{__file__}:{Faulty.draw_rows.__code__.co_firstlineno}, draw_rows" in problem
    assert problem.startswith("training ") and all(word in problem for word in words)


def test_targets_of_test_rows_alone_are_located_in_their_method() -> None:
    class Faulty(Largest):
        def evaluation_batches(
            self, stream: Stream, samples: int, lengths: tuple[int, ...]
        ) -> Iterator[EvaluationBatch]:
            for test in super().evaluation_batches(stream, samples, lengths):
                yield replace(test, batch=replace(test.batch, targets=test.batch.targets[:, :1]))

    Faulty.name = "faulty"
    (problem,) = check_task(Faulty())
    assert problem.startswith("test ") and f":{Faulty.evaluation_batches.__code__.co_firstlineno}, evalu" in problem


FORMS_ALLOWED: dict[str, Callable[[Batch], dict[str, Tensor]]] = {
    "distributions": lambda batch: {"targets": one_hot(batch) * 0.5 + 0.5 / TOKENS},
    "one-hot integers": lambda batch: {"targets": one_hot(batch).long()},
    "no target": lambda batch: {"targets": torch.where(batch.tokens < 3, IGNORED, batch.targets)},
    "a weight for each row": lambda batch: {"weight": torch.ones(len(batch.tokens), 4, 1)},
    "any id without weight": lambda batch: {
        "targets": batch.targets.clamp(min=-1),
        "weight": (batch.targets >= 0).float(),
    },
}


@pytest.mark.parametrize("form", FORMS_ALLOWED)
def test_a_batch_may_have_distributions_masks_and_weights(form: str) -> None:
    class Allowed(Largest):
        def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
            batch = super().draw_rows(stream, rows, length)
            return replace(batch, **FORMS_ALLOWED[form](batch))

    Allowed.name = "allowed"
    assert check_task(Allowed()) == []


@pytest.mark.parametrize("given", [slice(None), slice(1)], ids=["every row", "one row"])
def test_a_loss_and_scores_of_their_own_read_targets_of_any_form_for_every_row(given: slice) -> None:
    class Regression(Largest):
        """The mean of a row, as a number for each row."""

        metrics: ClassVar[Mapping[str, str]] = {"error": "minimize"}

        def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
            tokens = super().draw_rows(stream, rows, length).tokens
            return Batch(tokens, tokens.float().mean(dim=-1, keepdim=True)[:, given])

        def errors(self, logits_MBTV: Tensor, batch: Batch) -> Tensor:
            return (logits_MBTV[:, :, -1, :1] - batch.targets).square()

        def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            errors = self.errors(logits_MBTV, batch).sum(dim=(1, 2))
            return errors, torch.full_like(errors, batch.tokens.shape[1])

        def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
            return {"error": self.errors(logits_MBTV, batch)}

    Regression.name = "regression"
    assert ["(2, 1, 1)" in problem for problem in check_task(Regression())] == ([True] if given.stop else [])
