"""Addition of numbers at random places of a canvas (Abbe et al., arXiv:2406.06467, Fig. 5b and appendix C.2).

Shapes: S seeds, B rows, K states, D digits of the canvas, W tokens of a state.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.operands import (
    NOWHERE,
    PAD,
    START,
    STOP,
    TOKEN,
    Operands,
    draw_filler,
    end_states,
    sum_alone,
    windows,
    written,
)
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.sums import Sums
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import constant

FIELDS = ("form", "place_a", "digit_a", "place_b", "digit_b", "carry", "digit", "window")
LARGEST_CANVAS = 49  # its 99 cells have numbers of two digits
_BEFORE = 13  # tokens of a state before the window: [07]6[02]5c1r


@register("task", "random_space_addition")
class RandomSpaceAddition(Sums):
    """Two numbers at random places of a canvas in; out, for each pair of digits, places, carry and the sum so far.

    First the model invents `$` and filler as a window, into which each new digit is pushed. A sum with one more digit
    than the numbers has a state for it, with the place of the plus sign. A full scratchpad has the same text. Without a
    scratchpad the answer is the sum. Neither is in the paper.

    >>> from trainers.tasks.scratchpad.operands import add_numbers, tokens
    >>> task = RandomSpaceAddition(canvas=3, train_digits=2, test_digits=(), scratchpad="full")
    >>> numbers = add_numbers(*torch.tensor([[[[7, 5, 0]]], [[[8, 4, 0]]]]), torch.tensor([[2]]))  # 57 + 48
    >>> places, initial = torch.tensor([[[1, 2, 3, 5, 6, 7, 7]]]), tokens("$keam")[None, None]
    >>> text = make_states(numbers, places, initial, 2)
    >>> "".join(task.format_row(task.test_batch(text, 2), 0)[0])
    '_57+_48=$keam:[02]7[06]8c1r5$kea#[01]5[05]4c1r05$ke#[-1]_[03]_c0r105$k'
    >>> "".join(task.vocabulary[token] for token in make_question(numbers, places).flatten())
    '_57+_48='
    """

    def cross_checks(self) -> Iterator[Problem]:
        """Yield a problem of a canvas whose places need more than two digits, and the problems of all sums."""
        if self.canvas > LARGEST_CANVAS:
            message = f"its {2 * self.canvas + 1} cells need numbers of more than two digits"
            allowed = f"<= {LARGEST_CANVAS}"
            yield Problem(key="canvas", given=self.canvas, message=message, allowed=allowed)
        yield from super().cross_checks()

    @property
    def start(self) -> str | None:
        """The token between filler and states."""
        return None if self.scratchpad == NONE else START

    @property
    def fields(self) -> tuple[str, ...]:
        """The parts of a state."""
        return () if self.scratchpad == NONE else FIELDS

    @property
    def filler_width(self) -> int:
        """`$` and filler."""
        return self.canvas + 2

    def question_width(self, length: int) -> int:
        """Return the tokens of the canvas and the equals sign, and of `$` and filler with states."""
        return question_width(self.canvas) + (0 if self.scratchpad == NONE else self.filler_width)

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the tokens of a state for each digit, and one for the carry out of the last."""
        return (length + 2,) if self.scratchpad == NONE else (state_width(self.canvas),) * (length + 1)

    def written(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """Return the text of given numbers, at random places and with random filler."""
        places = draw_places(draws, site, numbers)
        if self.scratchpad == NONE:
            question = make_question(numbers, places)
            return sum_alone(question, numbers, numbers.count + numbers.longer, longest)
        return make_states(numbers, places, draw_window(draws, site + 1, numbers), longest)

    def sources(self, longest: int) -> tuple[int, ...]:
        """Return which token of the answer to numbers of `longest` digits each token repeats."""
        return sources(longest, self.canvas)


def question_width(canvas: int) -> int:
    """Return the tokens of the cells and the equals sign."""
    return 2 * canvas + 2


def state_width(canvas: int) -> int:
    """Return the tokens of a state with its mark."""
    return _BEFORE + canvas + 3


def draw_places(draws: Draws, site: int, numbers: Operands) -> Tensor:
    """Draw ascending places for 2 count + 1 characters, then the number of cells, (S, B, C)."""
    cells = 2 * numbers.canvas + 1
    words = draws.bits(site, (numbers.count.shape[1], cells))
    taken = words.argsort(dim=-1, stable=True).argsort(dim=-1) < 2 * numbers.count[..., None] + 1
    return torch.where(taken, torch.arange(cells, device=taken.device), cells).sort(dim=-1).values


def draw_window(draws: Draws, site: int, numbers: Operands) -> Tensor:
    """Draw the initial window: `$` and filler, (S, B, canvas + 2)."""
    found = draw_filler(draws, site, numbers.count.shape[1], numbers.canvas + 1)
    return torch.cat([written(STOP, found), found], dim=-1)


def make_question(numbers: Operands, place_SBC: Tensor) -> Tensor:
    """Return the canvas with the characters of `a+b` at the first 2 count + 1 of the given places, and `=`."""
    cells = _cells(numbers, place_SBC)
    return torch.cat([cells, written("=", cells)], dim=-1)


def make_states(numbers: Operands, place_SBC: Tensor, initial_SBA: Tensor, longest: int) -> Text:
    """Return the question with the initial window, and the states of numbers of at most `longest` digits."""
    shared = torch.cat([make_question(numbers, place_SBC), initial_SBA], dim=-1)
    states = _states(numbers, place_SBC, initial_SBA, longest)
    many = (numbers.count + numbers.longer)[..., None]
    at = torch.arange(longest + 1, device=many.device)
    here = at < many
    width = states.shape[-1]
    return Text(
        question=shared,
        question_length=torch.full_like(numbers.count, shared.shape[-1]),
        states=torch.where(here[..., None], end_states(states, at == many - 1), TOKEN[PAD]),
        state_length=torch.where(here, width, 0),
        given=question_width(numbers.canvas),
        field=constant(_parts(width), many.device).expand(states.shape),
    )


def sources(longest: int, canvas: int) -> tuple[int, ...]:
    """Return which generated token each generated token repeats: itself for new filler, NOWHERE for none."""
    initial = canvas + 2
    found = [NOWHERE, *range(1, initial), NOWHERE]
    for state in range(longest + 1):
        found += [NOWHERE] * (_BEFORE + state + 1) + [*range(initial - state - 1)] + [NOWHERE]
    return tuple(found)


def _cells(numbers: Operands, place_SBC: Tensor) -> Tensor:
    """Return the canvas with `a+b`, tokens (S, B, 2 canvas + 1)."""
    canvas = numbers.canvas
    count, at = numbers.count[..., None], torch.arange(2 * canvas + 1, device=place_SBC.device)
    first, second = (
        torch.gather(digits, -1, (end - at).clamp(0, canvas - 1).expand_as(place_SBC))
        for digits, end in ((numbers.first, count - 1), (numbers.second, 2 * count))
    )
    characters = torch.where(at == count, TOKEN["+"], TOKEN["0"] + torch.where(at < count, first, second))
    blank = torch.full((*place_SBC.shape[:-1], 2 * canvas + 2), TOKEN["_"], device=place_SBC.device)
    return blank.scatter(-1, place_SBC, characters)[..., :-1]  # the last cell takes unused characters


def _states(numbers: Operands, place_SBC: Tensor, initial_SBA: Tensor, longest: int) -> Tensor:
    """Return states `[place of a]digit[place of b]digit c carry r window` and a mark, (S, B, longest + 1, W)."""
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
    """Return the two digits of each place, tokens (..., 2)."""
    return TOKEN["0"] + torch.stack([place // 10, place % 10], dim=-1)


def _parts(width: int) -> tuple[int, ...]:
    """Return the field number of each token of a state."""
    form, place_a, digit_a, place_b, digit_b, carry, digit, window = range(len(FIELDS))
    before = (form, place_a, place_a, form, digit_a, form, place_b, place_b, form, digit_b, form, carry, form, digit)
    return (*before, *[window] * (width - len(before) - 1), form)
