"""Additions with scratchpads: the paper's examples, and every state worked out from the one before it on characters."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
import torch

from tests.trainers.tasks.scratchpad.sum_rules import after_in_space, after_shift, ids_of, numbers_of, text_of
from trainers.random import Stream
from trainers.tasks.scratchpad import random_space_addition as random_space
from trainers.tasks.scratchpad import shift_addition as shift
from trainers.tasks.scratchpad.operands import CHARACTERS, FILLER, PAD, TOKEN, draw_filler, draw_operands
from trainers.tasks.scratchpad.random_space_addition import RandomSpaceAddition
from trainers.tasks.scratchpad.shift_addition import ShiftAddition
from trainers.tasks.scratchpad.text import NOT_JUDGED, Text

STREAM = Stream(torch.tensor([3, 8]), "eval", torch.tensor(0))
CANVAS = 6


def rows_of(text: Text) -> list[tuple[str, list[str]]]:
    """The question and the states of each row of each seed; what does not count is pads."""
    rows = []
    for seed in range(len(text.question)):
        for row in range(text.question.shape[1]):
            question = text.question[seed, row, : text.question_length[seed, row]]
            states = []
            for state, length in zip(text.states[seed, row], text.state_length[seed, row].tolist(), strict=True):
                assert (state[length:] == TOKEN[PAD]).all()
                states += [text_of(state[:length].tolist())] if length else []
            rows.append((text_of(question.tolist()), states))
    return rows


def following(state: str, after: Callable[[str], str]) -> list[str]:
    """The states after a state ("" for the first one), each worked out from the one before."""
    states = list[str]()
    while state := after(state):
        states.append(state)
    return states


def test_the_rules_are_the_papers() -> None:
    assert following("", partial(after_in_space, "_57+_48", "$keam")) == [
        "[02]7[06]8c1r5$kea#",
        "[01]5[05]4c1r05$ke#",
        "[-1]_[03]_c0r105$k.",
    ]
    assert following("", partial(after_in_space, "_21+3_2", "$h85l")) == ["[02]1[06]2c0r3$h85#", "[01]2[04]3c0r53$h8."]
    assert following("pi$36+lh$48=$lv50|0#", after_shift) == [
        "6pi$3+8lh$4=4$lv5|1#",
        "36pi$+48lh$=84$lv|0#",
        "084$lv.",
    ]
    assert following("p$9+w$4=$lh|0#", after_shift) == ["9p$+4w$=3$l|1#", "13$l."]


def in_spaces(stream: Stream, count: torch.Tensor, longest: int, canvas: int) -> Text:
    task = RandomSpaceAddition(canvas=canvas, train_digits=1, test_digits=())
    return task.text(stream, 5, count, longest)


def shifts(stream: Stream, count: torch.Tensor, longest: int, canvas: int) -> Text:
    task = ShiftAddition(canvas=canvas, train_digits=1, test_digits=())
    return task.text(stream, 5, count, longest)


@pytest.mark.parametrize("longest", [1, 3, CANVAS])
def test_every_state_in_a_canvas_follows_from_the_question_and_the_state_before(longest: int) -> None:
    count = torch.arange(40).remainder(longest).add(1).expand(2, 40)
    carried = 0
    for row, (question, states) in enumerate(rows_of(in_spaces(STREAM, count, longest, CANVAS))):
        cells, initial = question.split("=")
        assert len(cells) == 2 * CANVAS + 1 and len(initial) == CANVAS + 2 and initial[0] == "$"
        first, second = cells.replace("_", "").split("+")
        assert len(first) == len(second) == row % 40 % longest + 1 and "0" not in (first[0], second[0])
        assert states == following("", partial(after_in_space, cells, initial))
        assert states[-1].split("r")[1].split("$")[0] == str(int(first) + int(second))
        carried += len(states) - len(first)
    assert 0 < carried < 80


@pytest.mark.parametrize("longest", [1, 3, CANVAS])
def test_every_shifted_state_follows_from_the_state_before(longest: int) -> None:
    count = torch.arange(40).remainder(longest).add(1).expand(2, 40)
    for row, (_, states) in enumerate(rows_of(shifts(STREAM, count, longest, CANVAS))):
        first, second = (number.rsplit("$", 1)[1] for number in states[0].split("=")[0].split("+"))
        assert len(first) == len(second) == row % 40 % longest + 1 and "0" not in (first[0], second[0])
        assert re.fullmatch(rf"[^+]{{{CANVAS + 1}}}\+[^+]{{{CANVAS + 1}}}=\$[^|]{{{CANVAS}}}\|0#", states[0])
        assert states[1:] == following(states[0], after_shift)
        assert int(states[-1].split("$")[0]) == int(first) + int(second)
        assert len(states[-1].split("$")[0]) == len(first) + 1


def test_rows_are_as_long_as_the_paper_says() -> None:
    digits = (1, 7, 10, 20, 30)
    count = torch.tensor([[each] * 30 for each in digits])
    seeds = Stream(torch.arange(5), "eval", torch.tensor(0))
    states = in_spaces(seeds, count, 30, 30).state_length
    longer = (states > 0).sum(dim=-1) - count
    lengths = 95 + states.sum(dim=-1)
    assert {(length, more) for length, more in zip(lengths[2].tolist(), longer[2].tolist(), strict=True)} == {
        (601, 1),
        (555, 0),
    }
    assert (lengths == 95 + 46 * (count + longer)).all() and lengths.max() == 1521
    lengths = shifts(seeds, count, 30, 30).state_length.sum(dim=-1)
    assert (lengths == 98 * (count + 1) + 33).all()


@pytest.mark.parametrize("draw", [in_spaces, shifts])
def test_a_row_is_the_same_whatever_the_longest_row_beside_it(draw) -> None:
    count = torch.tensor([[1, 2, 3]] * 2)
    narrow, wide = rows_of(draw(STREAM, count, 3, CANVAS)), rows_of(draw(STREAM, count, CANVAS, CANVAS))
    assert narrow == wide


def test_digits_are_equally_likely_and_the_leading_one_is_no_zero() -> None:
    numbers = draw_operands(Stream(torch.arange(4), "data", torch.tensor(1)), 0, torch.full((4, 2000), 2), 4)
    for digits in (numbers.first, numbers.second):
        assert digits[..., 2:].sum() == 0
        units, tens = (Counter(digits[..., column].flatten().tolist()) for column in (0, 1))
        assert set(units) == set(range(10)) and set(tens) == set(range(1, 10))
        assert sum((n - 800) ** 2 / 800 for n in units.values()) < 27.9  # one in a thousand, nine degrees of freedom
        assert sum((n - 8000 / 9) ** 2 / (8000 / 9) for n in tens.values()) < 26.1
    assert (numbers.first != numbers.second).any()


def test_filler_has_letters_digits_and_the_stop() -> None:
    drawn = draw_filler(STREAM, 2, 200, 10)
    assert {CHARACTERS[token] for token in drawn.flatten().tolist()} == set("$0123456789abcdefghijklmnopqrstuvwxyz")
    assert set(FILLER) == set(drawn.flatten().tolist())


def parts_of(text: Text, letters: str) -> list[str]:
    """The field of each token of the states of the first row, as a letter; ? where there is none."""
    assert text.field is not None and NOT_JUDGED not in range(len(letters))
    names = {NOT_JUDGED: "?", **dict(enumerate(letters))}
    lengths = text.state_length[0, 0].tolist()
    rows = zip(text.field[0, 0].tolist(), lengths, strict=True)
    return ["".join(names[number] for number in state[:length]) for state, length in rows]


def test_fields_name_the_parts_and_filler_that_is_made_up_has_none() -> None:
    text = shift.make_states(numbers_of(9, 4, 2), ids_of("pxwxlh"), 1)  # p$9+w$4=$lh|0#9p$+4w$=3$l|1#13$l.
    assert shift.FIELDS == ("form", "first", "second", "digit", "window", "carry")
    assert parts_of(text, ".abdwc") == ["aaa.bbb..??.c.", "aaa.bbb.dww.c.", "cwww."]
    places = torch.tensor([[[1, 2, 3, 5, 6, 7, 7]]])
    text = random_space.make_states(numbers_of(57, 48, 3), places, ids_of("$keam"), 2)
    assert random_space.FIELDS == ("form", "place_a", "digit_a", "place_b", "digit_b", "carry", "digit", "window")
    assert parts_of(text, ".pahbcdw") == [".pp.a.hh.b.c.dwwww."] * 3  # [02]7[06]8c1r5$kea#
