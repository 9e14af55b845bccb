"""Scores of padded addition and multiplication: right and wrong digits, groups of inputs, and their metrics."""

import math

import pytest
import torch

from tests.trainers.own_tasks import mean_loss, scores_of
from tests.trainers.tasks.arithmetic.padded_numbers import (
    Task,
    evaluated,
    perfect,
    stream,
)
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tensors.numerals import PLUS


@pytest.mark.parametrize(
    "task",
    [
        PaddedAddition(
            width=6,
            train_digits=2,
            zero_shift=True,
            measured_digits=7,
            measured_cascades=(0, 1, 4, 6),
            measured_runs=(0, 2, 5),
            measured_samples=30,
        ),
        PaddedAddition(width=6, train_digits=2, text_tokens=3, measured_digits=6, measured_cascades=(0, 3)),
        PaddedMultiplication(
            number_digits=5, train_digits=2, zero_shift=True, measured_digits=6, measured_rounds=(1, 2, 9)
        ),
    ],
    ids=["addition", "text", "product"],
)
def test_right_answers_score_one_and_impossible_groups_are_nan(task: Task) -> None:
    for length, batch in evaluated(task, 60).items():
        assert float(mean_loss(task, perfect(batch), batch)) < 0.01
        scores = scores_of(task, perfect(batch), batch, (length,))
        assert list(scores) == list(task.metrics)
        for name, score in scores.items():
            assert score.shape == (1, 1)
            kind, _, number = name.rpartition("_")
            impossible = (kind.endswith(("cascade", "run")) and int(number) > length) or (
                name.endswith("shifted") and length < task.train_digits
            )
            if kind.endswith("rounds"):
                rounds = task.measure_difficulty(batch.tokens[:, :60])["rounds"]
                impossible = not bool((rounds == int(number)).any())
            assert math.isnan(float(score)) if impossible else float(score) == 1.0, name


def test_groups_have_the_chain_in_their_name_and_are_scored_apart() -> None:
    task = PaddedAddition(width=5, train_digits=2, measured_cascades=(2, 0), measured_runs=(3,), measured_samples=40)
    batch = evaluated(task, 60, (4,))[4]
    assert batch.parts == (
        ("exact_match", 60),
        ("exact_match_cascade_2", 40),
        ("exact_match_cascade_0", 40),
        ("exact_match_run_3", 40),
    )
    measures = task.measure_difficulty(batch.tokens)
    assert (measures["cascade"][0, 60:100] == 2).all() and (measures["cascade"][0, 100:140] == 0).all()
    assert (measures["run"][0, 140:] == 3).all()
    logits = perfect(batch)
    logits[:, 60:70, -1] = -logits[:, 60:70, -1]
    scores = scores_of(task, logits, batch, (4,))
    assert float(scores["exact_match_cascade_2"]) == 0.75
    assert all(float(score) == 1.0 for name, score in scores.items() if name != "exact_match_cascade_2")


def test_one_wrong_digit_costs_its_position_and_the_match() -> None:
    task = PaddedAddition(width=4, train_digits=2, measured_digits=5)
    batch = evaluated(task, 50, (3,))[3]
    logits = perfect(batch)
    wrong = (batch.targets[:, :20, -3] + 1) % 11  # the third digit, units first
    logits[:, :20, -3] = 9.0 * torch.nn.functional.one_hot(wrong, 11)
    logits[:, :10, 2] = 50.0 * torch.nn.functional.one_hot(torch.tensor(3), 11)  # ignored: changes nothing
    scores = {name: float(score) for name, score in scores_of(task, logits, batch, (3,)).items()}
    assert scores == pytest.approx(
        {"exact_match": 0.6, "digit_accuracy": 1 - 0.4 / 5, "accuracy_digit_3": 0.6}
        | {f"accuracy_digit_{k}": 1.0 for k in (1, 2, 4, 5)}
    )


def test_groups_follow_members_that_share_a_seed() -> None:
    task = PaddedAddition(width=4, train_digits=2, measured_cascades=(1,), measured_samples=10)
    batch = next(iter(task.evaluation_batches(stream(1, 2, name="eval", step=0), 20, (3,)))).batch
    members = batch.for_members(torch.tensor([1, 0, 1]))
    assert torch.equal(members.tokens, batch.tokens[[1, 0, 1]]) and members.parts == batch.parts
    assert scores_of(task, perfect(members), members, (3,))["exact_match_cascade_1"].shape == (3, 1)


def test_a_length_is_measured_on_the_same_inputs_whatever_else_is_measured() -> None:
    task = PaddedAddition(width=6, train_digits=2, measured_cascades=(1, 3), zero_shift=True)
    every, alone = evaluated(task, 20), evaluated(task, 20, (5,))
    assert torch.equal(every[5].tokens, alone[5].tokens)
    product = PaddedMultiplication(number_digits=6, train_digits=2, zero_shift=True)
    products = evaluated(product, 20)
    assert torch.equal(products[5].tokens, evaluated(product, 20, (5,))[5].tokens)
    assert not torch.equal(products[5].tokens[..., 0], products[4].tokens[..., 0]), "multipliers of their own"
    text = evaluated(PaddedAddition(width=6, train_digits=2, text_tokens=9), 20)
    assert not torch.equal(text[5].tokens == PLUS, text[4].tokens == PLUS), "gaps of their own"


def test_rounds_are_scored_apart() -> None:
    task = PaddedMultiplication(number_digits=4, train_digits=2, measured_rounds=(1, 2, 3))
    batch = evaluated(task, 300, (4,))[4]
    two = task.measure_difficulty(batch.tokens)["rounds"] == 2
    assert 0 < int(two.sum()) < 300
    logits = torch.where(two[..., None, None], -perfect(batch), perfect(batch))
    scores = {name: float(score) for name, score in scores_of(task, logits, batch, (4,)).items()}
    assert [scores[f"exact_match_rounds_{r}"] for r in (1, 2, 3)] == [1.0, 0.0, 1.0]
    assert scores["exact_match"] == pytest.approx(1 - float(two.float().mean()))


def test_metrics_of_digits_and_groups_are_numbered_and_not_charted() -> None:
    task = PaddedAddition(measured_digits=2, measured_cascades=(4, 0), measured_runs=(1,), zero_shift=True)
    digits, groups = ["accuracy_digit_1", "accuracy_digit_2"], ["cascade_4", "cascade_0", "run_1"]
    expected = ["exact_match", "digit_accuracy", *digits, *(f"exact_match_{name}" for name in groups)]
    assert list(task.metrics) == [*expected, "exact_match_shifted"]
    assert list(PaddedMultiplication(measured_rounds=(0, 3)).metrics)[-2:] == [
        "exact_match_rounds_0", "exact_match_rounds_3",
    ]  # fmt: skip
    assert task.headline == ("exact_match", "exact_match_shifted", "digit_accuracy")
