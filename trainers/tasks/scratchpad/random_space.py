"""Addition with numbers at random places of a canvas: its question and its states (arXiv:2406.06467, appendix C.2).

Shapes: S seeds, B rows, K states, D digits of the canvas, W tokens of a state.
"""

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.operands import (
    NOWHERE,
    PAD,
    STOP,
    TOKEN,
    Operands,
    closed,
    filler,
    windows,
    written,
)
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import constant

FIELDS = ("form", "place_a", "digit_a", "place_b", "digit_b", "carry", "digit", "window")
LARGEST_CANVAS = 49  # its 99 cells have numbers of two digits
_BEFORE = 13  # tokens of a state before the window: [07]6[02]5c1r


def question_width(canvas: int) -> int:
    """Tokens of the cells and of the equals sign."""
    return 2 * canvas + 2


def state_width(canvas: int) -> int:
    """Tokens of a state with its mark."""
    return _BEFORE + canvas + 3


def places(draws: Draws, site: int, numbers: Operands) -> Tensor:
    """Random ascending places for 2 count + 1 characters, the others being as many as there are cells, (S, B, C)."""
    cells = 2 * numbers.canvas + 1
    words = draws.bits(site, (numbers.count.shape[1], cells))
    taken = words.argsort(dim=-1, stable=True).argsort(dim=-1) < 2 * numbers.count[..., None] + 1
    return torch.where(taken, torch.arange(cells, device=taken.device), cells).sort(dim=-1).values


def initially(draws: Draws, site: int, numbers: Operands) -> Tensor:
    """`$` and random filler, (S, B, canvas + 2)."""
    found = filler(draws, site, numbers.count.shape[1], numbers.canvas + 1)
    return torch.cat([written(STOP, found), found], dim=-1)


def question(numbers: Operands, place_SBC: Tensor) -> Tensor:
    """The canvas with `a+b` in it, and `=`, whose characters stand at the first 2 count + 1 of the given places."""
    cells = _cells(numbers, place_SBC)
    return torch.cat([cells, written("=", cells)], dim=-1)


def with_states(numbers: Operands, place_SBC: Tensor, initial_SBA: Tensor, longest: int) -> Text:
    """The question with what its window holds at first, and the states of numbers of at most `longest` digits."""
    shared = torch.cat([question(numbers, place_SBC), initial_SBA], dim=-1)
    states = _states(numbers, place_SBC, initial_SBA, longest)
    many = (numbers.count + numbers.longer)[..., None]
    at = torch.arange(longest + 1, device=many.device)
    here = at < many
    width = states.shape[-1]
    return Text(
        question=shared,
        question_length=torch.full_like(numbers.count, shared.shape[-1]),
        states=torch.where(here[..., None], closed(states, at == many - 1), TOKEN[PAD]),
        state_length=torch.where(here, width, 0),
        given=question_width(numbers.canvas),
        field=constant(_parts(width), many.device).expand(states.shape),
    )


def sources(longest: int, canvas: int) -> tuple[int, ...]:
    """Which generated token each generated token repeats, by place: itself where it is filler, NOWHERE where none."""
    initial = canvas + 2
    found = [NOWHERE, *range(1, initial), NOWHERE]
    for state in range(longest + 1):
        found += [NOWHERE] * (_BEFORE + state + 1) + [*range(initial - state - 1)] + [NOWHERE]
    return tuple(found)


def _cells(numbers: Operands, place_SBC: Tensor) -> Tensor:
    """The canvas with `a+b` in it, tokens (S, B, 2 canvas + 1)."""
    canvas = numbers.canvas
    count, at = numbers.count[..., None], torch.arange(2 * canvas + 1, device=place_SBC.device)
    first, second = (
        torch.gather(digits, -1, (end - at).clamp(0, canvas - 1).expand_as(place_SBC))
        for digits, end in ((numbers.first, count - 1), (numbers.second, 2 * count))
    )
    characters = torch.where(at == count, TOKEN["+"], TOKEN["0"] + torch.where(at < count, first, second))
    blank = torch.full((*place_SBC.shape[:-1], 2 * canvas + 2), TOKEN["_"], device=place_SBC.device)
    return blank.scatter(-1, place_SBC, characters)[..., :-1]  # the last cell takes what has no place


def _states(numbers: Operands, place_SBC: Tensor, initial_SBA: Tensor, longest: int) -> Tensor:
    """`[place of a]digit[place of b]digit c carry r window` and one token for the mark, (S, B, longest + 1, W)."""
    many, count = longest + 1, numbers.count[..., None]
    at = torch.arange(many, device=count.device)
    over = at >= count  # the carry has become a digit: `[-1]_[place of +]_`
    first, second = (
        torch.where(over, TOKEN["_"], TOKEN["0"] + torch.nn.functional.pad(digits, (0, 1))[..., :many])[..., None]
        for digits in (numbers.first, numbers.second)
    )
    place_a, place_b = (
        _number_of_place(torch.gather(place_SBC, -1, (end - at).clamp(min=0))) for end in (count - 1, 2 * count)
    )
    none = written("-1", place_a)
    place_a = torch.where(over[..., None], none, place_a)
    carry = TOKEN["0"] + numbers.carry[..., :many, None]
    opening, closing, c, r = (written(mark, first) for mark in "[]cr")
    window = windows(numbers.total, initial_SBA, many)
    parts = (opening, place_a, closing, first, opening, place_b, closing, second, c, carry, r, window, opening)
    return torch.cat(parts, dim=-1)


def _number_of_place(place: Tensor) -> Tensor:
    """The two digits of each place, tokens (..., 2)."""
    return TOKEN["0"] + torch.stack([place // 10, place % 10], dim=-1)


def _parts(width: int) -> tuple[int, ...]:
    """The number of the field of each token of a state."""
    form, place_a, digit_a, place_b, digit_b, carry, digit, window = range(len(FIELDS))
    before = (form, place_a, place_a, form, digit_a, form, place_b, place_b, form, digit_b, form, carry, form, digit)
    return (*before, *[window] * (width - len(before) - 1), form)
