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
    END,
    MARK,
    NOWHERE,
    PAD,
    START,
    STOP,
    TOKEN,
    Operands,
    draw_filler,
    push_digits,
    repeat_text,
    write_sum,
)
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.sums import Sums
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.device_constants import make_constant

FIELDS = ("form", "place_a", "digit_a", "place_b", "digit_b", "carry", "digit", "window")
_FORM, _PLACE_A, _DIGIT_A, _PLACE_B, _DIGIT_B, _CARRY, _DIGIT, _WINDOW = range(len(FIELDS))
# The field of each token of a state up to the new digit: [07]6[02]5c1r1
_STATE_FIELDS = (
    *(_FORM, _PLACE_A, _PLACE_A, _FORM, _DIGIT_A, _FORM, _PLACE_B, _PLACE_B, _FORM, _DIGIT_B),
    *(_FORM, _CARRY, _FORM, _DIGIT),
)
MAX_CANVAS = 49  # the numbers of its 99 cells have two digits


@register("task", "random_space_addition")
class RandomSpaceAddition(Sums):
    """Input: two numbers at random places of a canvas. Output: for each pair of digits, places, carry and sum so far.

    First the model invents a window of `$` and filler, into which each new digit is pushed. A sum with one more digit
    than the numbers has a state for this digit, with the place of the plus sign. A full scratchpad has the same text;
    without a scratchpad the answer is the sum. These two forms are not in the paper.

    >>> from trainers.tasks.scratchpad.operands import add_numbers, encode_text
    >>> task = RandomSpaceAddition(canvas=3, train_digits=2, test_digits=(), scratchpad="full")
    >>> numbers = add_numbers(*torch.tensor([[[[7, 5, 0]]], [[[8, 4, 0]]]]), torch.tensor([[2]]))  # 57 + 48
    >>> places, initial = torch.tensor([[[1, 2, 3, 5, 6, 7, 7]]]), encode_text("$keam")[None, None]
    >>> text = make_states(numbers, places, initial, 2)
    >>> "".join(task.format_row(task.test_batch(text, 2), 0)[0])
    '_57+_48=$keam:[02]7[06]8c1r5$kea#[01]5[05]4c1r05$ke#[-1]_[03]_c0r105$k'
    >>> "".join(task.vocabulary[token] for token in make_question(numbers, places).flatten())
    '_57+_48='
    """

    state_fields = FIELDS

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem of a canvas whose places need more than two digits, and problems of all sums."""
        if self.canvas > MAX_CANVAS:
            message = f"its {2 * self.canvas + 1} cells need numbers of more than two digits"
            yield self._make_problem("canvas", message, f"<= {MAX_CANVAS}")
        yield from super().find_combination_problems()

    @property
    def start(self) -> str | None:
        """The token between filler and states; None without a scratchpad."""
        return None if self.scratchpad == NONE else START

    @property
    def filler_width(self) -> int:
        """Number of tokens of `$` and filler."""
        return self.canvas + 2

    def question_width(self, length: int) -> int:
        """Return the number of tokens of the canvas and the equals sign, and with states of `$` and filler."""
        return 2 * self.canvas + 2 + (0 if self.scratchpad == NONE else self.filler_width)

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of each state: a state for each digit, and for the last carry."""
        return (length + 2,) if self.scratchpad == NONE else (len(_STATE_FIELDS) + self.canvas + 2,) * (length + 1)

    def write_text(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """Return the text of given numbers, at random places and with random filler."""
        # All sets of cells are equally likely; characters keep their order, so the cells ascend.
        rows = numbers.count.shape[1]
        cell_count = 2 * self.canvas + 1
        order = draws.bits(site, (rows, cell_count)).argsort(dim=-1, stable=True).argsort(dim=-1)
        is_used = order < 2 * numbers.count[..., None] + 1
        cell = torch.arange(cell_count, device=is_used.device)
        cells_SBC = torch.where(is_used, cell, cell_count).sort(dim=-1).values

        if self.scratchpad == NONE:
            question = make_question(numbers, cells_SBC)
            return write_sum(question, numbers, numbers.count + numbers.longer, longest)
        filler = draw_filler(draws, site + 1, rows, self.canvas + 1)
        return make_states(numbers, cells_SBC, torch.cat([repeat_text(STOP, filler), filler], dim=-1), longest)

    def list_sources(self, longest: int) -> tuple[int, ...]:
        """Return, for each token of the answer to `longest` digits, the index of the token it repeats, or NOWHERE."""
        # Each state pushes a digit into the window, so that its filler moves by a token and loses the last one.
        width = self.filler_width
        sources = [NOWHERE, *range(1, width), NOWHERE]
        for state in range(longest + 1):
            sources += [NOWHERE] * (len(_STATE_FIELDS) + state) + [*range(width - state - 1)] + [NOWHERE]
        return tuple(sources)


def make_question(numbers: Operands, cells_SBC: Tensor) -> Tensor:
    """Return the canvas with the characters of `a+b` at the first 2 count + 1 of the given places, and `=`.

    cells_SBC: the cells of the characters, ascending, then 2 canvas + 1 for unused entries, (S, B, 2 canvas + 1).
    """
    canvas = numbers.canvas
    count = numbers.count[..., None]
    column = torch.arange(2 * canvas + 1, device=cells_SBC.device)
    first, second = (
        torch.gather(digits, -1, (end - column).clamp(0, canvas - 1).expand_as(cells_SBC))
        for digits, end in ((numbers.first, count - 1), (numbers.second, 2 * count))
    )
    characters = torch.where(column == count, TOKEN["+"], TOKEN["0"] + torch.where(column < count, first, second))

    # A cell more than the canvas takes the unused characters and is cut off.
    blank = torch.full((*cells_SBC.shape[:-1], 2 * canvas + 2), TOKEN["_"], device=cells_SBC.device)
    canvas_text = blank.scatter(-1, cells_SBC, characters)[..., :-1]
    return torch.cat([canvas_text, repeat_text("=", canvas_text)], dim=-1)


def make_states(numbers: Operands, cells_SBC: Tensor, initial_SBA: Tensor, longest: int) -> Text:
    """Return the question with the initial window, and the states of numbers of at most `longest` digits.

    A state is `[place of a]digit[place of b]digit c carry r window` and a mark, (S, B, longest + 1, W).
    """
    question = make_question(numbers, cells_SBC)
    shared = torch.cat([question, initial_SBA], dim=-1)

    # The state of the last carry has no digits: `[-1]_[place of +]_`.
    state_count = longest + 1
    count = numbers.count[..., None]
    state = torch.arange(state_count, device=count.device)
    is_carry = state >= count
    first, second = (
        torch.where(is_carry, TOKEN["_"], TOKEN["0"] + torch.nn.functional.pad(digits, (0, 1))[..., :state_count])
        for digits in (numbers.first, numbers.second)
    )
    first, second = first[..., None], second[..., None]
    places = (torch.gather(cells_SBC, -1, (end - state).clamp(min=0)) for end in (count - 1, 2 * count))
    place_a, place_b = (TOKEN["0"] + torch.stack([place // 10, place % 10], dim=-1) for place in places)
    place_a = torch.where(is_carry[..., None], repeat_text("-1", place_a), place_a)
    carry = TOKEN["0"] + numbers.carry[..., :state_count, None]

    # Join the fields of a state; its last token is a mark, or the end.
    opening, closing, c, r = (repeat_text(mark, first) for mark in "[]cr")
    window = push_digits(numbers.total, initial_SBA, state_count)
    is_last = state == count + numbers.longer[..., None] - 1
    mark = torch.where(is_last, TOKEN[END], TOKEN[MARK])[..., None]
    parts = (opening, place_a, closing, first, opening, place_b, closing, second, c, carry, r, window, mark)

    # Shorter numbers have fewer states; the fields are the same in all of them.
    states = torch.cat(parts, dim=-1)
    is_used = state < count + numbers.longer[..., None]
    width = states.shape[-1]
    fields = (*_STATE_FIELDS, *[_WINDOW] * (width - len(_STATE_FIELDS) - 1), _FORM)
    return Text(
        question=shared,
        question_length=torch.full_like(numbers.count, shared.shape[-1]),
        states=torch.where(is_used[..., None], states, TOKEN[PAD]),
        state_length=torch.where(is_used, width, 0),
        given=question.shape[-1],
        field=make_constant(fields, is_used.device).expand(states.shape),
    )
