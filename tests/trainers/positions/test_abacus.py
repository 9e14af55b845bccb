"""Abacus embeddings: places within runs of digits, their offsets, and what a causal model may see."""

import doctest
import random

import pytest
import torch

from tests.trainers.positions.passes import noise, pass_of, sizes
from trainers.positions import abacus
from trainers.positions.abacus import Abacus
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.numerals import PAD, PLUS


def test_places_of_a_worked_example() -> None:
    tokens, _ = PaddedAddition(width=4, train_digits=2).example(87, 4005)
    assert tokens == "P P 8 7 + 4 0 0 5"
    ids = torch.tensor([PAD, PAD, 8, 7, PLUS, 4, 0, 0, 5])
    assert Abacus().find_places(ids, False).tolist() == [0, 0, 2, 1, 0, 4, 3, 2, 1]
    assert Abacus(pads=True).find_places(ids, False).tolist() == [4, 3, 2, 1, 0, 4, 3, 2, 1]
    assert Abacus().find_places(ids, True).tolist() == [0, 0, 1, 2, 0, 1, 2, 3, 4]
    assert doctest.testmod(abacus).attempted >= 2 and doctest.testmod(abacus).failed == 0


@pytest.mark.parametrize("causal", [False, True])
def test_places_count_along_each_run(causal: bool) -> None:
    draw = random.Random(3)
    rows = [[draw.choice([0, 5, 9, PAD, PLUS]) for _ in range(12)] for _ in range(40)]
    got = Abacus().find_places(torch.tensor(rows).reshape(2, 20, 12), causal).reshape(40, 12).tolist()
    for row, runs in zip(rows, got, strict=True):
        for t, token in enumerate(row):
            run = 0
            while token < 10 and 0 <= t < 12 and row[t] < 10:
                run, t = run + 1, t - 1 if causal else t + 1
            assert runs.pop(0) == run


def test_each_token_gets_the_vector_of_its_place() -> None:
    position = Abacus(max_offset=3)
    (parameter,) = position.parameters(sizes(9, 2, 2, width=4))
    assert parameter.shape == (9 + 1 + 3, 4) and not parameter.decay
    table = torch.arange(2 * 13.0).reshape(2, 13, 1).expand(2, 13, 4).contiguous()
    tokens = torch.tensor([PAD, 8, 7, PLUS, 4, 0, 5]).expand(2, 1, 7)
    got = position.embed(torch.zeros(2, 1, 7, 4), pass_of(tokens, {"places": table}, False))[:, 0, :, 0]
    assert got.tolist() == [[0, 2, 1, 0, 3, 2, 1], [13, 15, 14, 13, 16, 15, 14]]


def test_training_shifts_the_places_of_a_whole_batch() -> None:
    position = Abacus(max_offset=3)
    table = torch.arange(13.0)[None, :, None].expand(2, 13, 4).contiguous()
    tokens = torch.tensor([PAD, 8, 7, PLUS, 4, 0, 5]).expand(2, 6, 7)
    plain, seen = torch.tensor([0, 2, 1, 0, 3, 2, 1]), set()
    for step in range(60):
        training = pass_of(tokens, {"places": table}, False, noise=noise(4, 9, step=step))
        got = position.embed(torch.zeros(2, 6, 7, 4), training)[..., 0]
        offsets = got[:, 0, 1] - 2
        for member in range(2):
            expected = torch.where(plain > 0, plain + offsets[member], 0)
            assert (got[member] == expected).all()
        seen.add(tuple(offsets.tolist()))
    assert {a for a, _ in seen} == {0, 1, 2, 3} and any(a != b for a, b in seen)
    assert position.draws_random_numbers and not Abacus(max_offset=0).draws_random_numbers


@pytest.mark.parametrize(
    ("position", "task", "key"),
    [
        (Abacus(), PaddedAddition(), None),
        (Abacus(pads=True), PaddedAddition(), None),
        (Abacus(), SetComplement(), "position.digits"),
        (Abacus(digits=2), PaddedAddition(), "position.digits"),
    ],
)
def test_tasks_that_do_not_say_which_ids_are_digits_are_refused(position, task, key) -> None:
    assert [problem.key for problem in position.find_task_problems(task)] == ([key] if key else [])
