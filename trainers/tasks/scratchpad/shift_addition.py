"""Addition by shifting digits out of both numbers (Abbe et al., arXiv:2406.06467, Fig. 5b and appendix C.2).

Shapes: S seeds, B rows, K states, D digits of the canvas, A tokens of a number, D + 1, W tokens of a state.
"""

import torch
from torch import Tensor

from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.operands import (
    END,
    MARK,
    NOWHERE,
    PAD,
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
from trainers.tasks.scratchpad.text import NOT_JUDGED, Text
from trainers.tensors.device_constants import make_constant

FIELDS = ("form", "first", "second", "digit", "window", "carry")


@register("task", "shift_addition")
class ShiftAddition(Sums):
    """Input: two numbers after filler. Output: in steps, both with the last digit moved to the front, and the sum.

    The question is the first state, which the model completes with a window of `$` and invented filler. The answer,
    after the last state, is the last carry, even if it is 0, and the window. A full scratchpad has the same text;
    without a scratchpad the answer is the sum, including the last carry. Neither is in the paper.

    >>> from trainers.tasks.scratchpad.operands import add_numbers, encode_text
    >>> task = ShiftAddition(canvas=2, train_digits=1, test_digits=())
    >>> numbers = add_numbers(*torch.tensor([[[[9, 0]]], [[[4, 0]]]]), torch.tensor([[1]]))
    >>> text = make_states(numbers, encode_text("p-w-lh")[None, None], 1)
    >>> ["".join(symbols) for symbols in task.format_row(task.test_batch(text, 1), 0)]
    ['p$9+w$4=$lh|0#9p$+4w$=3$l|1#9p$+4w$=3$l|1#13$l', '$9+w$4=$lh|0#9p$+4w$=3$l|1#~~~~~~~~~~~~~~13$l.']
    """

    train_digits: int = setting(4, low=1, help="trained on numbers of up to this many digits")

    state_fields = FIELDS

    @property
    def filler_width(self) -> int:
        """Number of tokens of `$` and filler of the window."""
        return self.canvas + 1

    def question_width(self, length: int) -> int:
        """Return the number of tokens of the question; 0 with a scratchpad, whose first state has the question."""
        return 2 * self.canvas + 4 if self.scratchpad == NONE else 0

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of each state: the first state, a state for each digit, and the answer."""
        if self.scratchpad == NONE:
            return (length + 2,)
        return (*[3 * self.canvas + 8] * (length + 1), self.canvas + 3)

    def write_text(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """Return the text of given numbers, with random filler for the first number, the second and their sum."""
        filler = draw_filler(draws, site, numbers.count.shape[1], 3 * self.canvas)
        if self.scratchpad == NONE:
            return write_sum(make_question(numbers, filler), numbers, numbers.count + 1, longest)
        return make_states(numbers, filler, longest)

    def list_sources(self, longest: int) -> tuple[int, ...]:
        """Return, for each token of the answer to `longest` digits, the index of the token it repeats, or NOWHERE.

        The answer begins after the question with `$` and the filler of the sum.
        """
        # Each state pushes a digit into the window, so that its filler moves by a token and loses the last one.
        width = self.filler_width
        question_width = 2 * self.canvas + 4
        sources = [NOWHERE, *range(1, width)] + [NOWHERE] * 3
        for state in range(1, longest + 1):
            sources += [NOWHERE] * (question_width + state) + [*range(width - state)] + [NOWHERE] * 3
        return (*sources, *[NOWHERE] * (1 + longest), *range(width - longest), NOWHERE)


def make_question(numbers: Operands, filler_SBF: Tensor) -> Tensor:
    """Return `a+b=` with filler and `$` before both numbers, (S, B, 2 canvas + 4)."""
    first, second = _pad_numbers(numbers, filler_SBF)
    return torch.cat([first, repeat_text("+", first), second, repeat_text("=", first)], dim=-1)


def make_states(numbers: Operands, filler_SBF: Tensor, longest: int) -> Text:
    """Return the text of numbers of at most `longest` digits; the first state begins with the question."""
    # The first state, one for each digit, and the answer.
    canvas = numbers.canvas
    state_count = longest + 2
    count, sum_filler = numbers.count[..., None], filler_SBF[..., 2 * canvas :]
    first, second = _pad_numbers(numbers, filler_SBF)

    # The carry into a digit is in the state before it, so the first state has none.
    initial = torch.cat([repeat_text(STOP, sum_filler), sum_filler], dim=-1)
    window = torch.cat([initial[..., None, :], push_digits(numbers.total, initial, longest + 1)], dim=-2)
    carry = TOKEN["0"] + torch.nn.functional.pad(numbers.carry[..., : longest + 1], (1, 0))[..., None]
    parts = (
        _rotate_numbers(first, state_count),
        repeat_text("+", carry),
        _rotate_numbers(second, state_count),
        repeat_text("=", carry),
        window,
        repeat_text("|", carry),
        carry,
        repeat_text(MARK, carry),
    )
    states = torch.cat(parts, dim=-1)
    width = states.shape[-1]

    # The answer is the carry and the window of the state before it.
    answer = torch.cat([carry, window, repeat_text(END, carry)], dim=-1).roll(1, dims=-2)
    answer = torch.nn.functional.pad(answer, (0, width - answer.shape[-1]), value=TOKEN[PAD])

    # The answer follows state `count`, the last state of a row; later states are empty.
    state = torch.arange(state_count, device=count.device)
    is_answer = state == count + 1
    length = torch.where(state <= count, width, torch.where(is_answer, canvas + 3, 0))
    texts = torch.where((state <= count)[..., None], states, answer)
    is_used = torch.arange(width, device=count.device) < length[..., None]
    first_fields, later_fields, answer_fields = (make_constant(fields, count.device) for fields in _list_fields(canvas))
    field = torch.where(is_answer[..., None], answer_fields, later_fields)
    field = torch.where((state == 0)[:, None], first_fields, field)
    return Text(
        question=filler_SBF[..., :0],  # the question is part of the first state
        question_length=torch.zeros_like(numbers.count),
        states=torch.where(is_used, texts, TOKEN[PAD]),
        state_length=length,
        given=2 * canvas + 4,
        field=field.expand(texts.shape),
    )


def _pad_numbers(numbers: Operands, filler_SBF: Tensor) -> tuple[Tensor, Tensor]:
    """Return filler, `$` and the digits of each number, tokens (S, B, D + 1)."""
    canvas = numbers.canvas
    count = numbers.count[..., None]
    remaining = torch.arange(canvas, -1, -1, device=count.device)  # number of tokens on the right of each one
    padded = []
    for number, digits in enumerate((numbers.first, numbers.second)):
        text = torch.nn.functional.pad(filler_SBF[..., number * canvas : (number + 1) * canvas], (0, 1))
        text = torch.where(remaining == count, TOKEN[STOP], text)
        padded.append(
            torch.where(remaining < count, TOKEN["0"] + torch.nn.functional.pad(digits, (0, 1)).flip(-1), text)
        )
    return padded[0], padded[1]


def _rotate_numbers(number_SBA: Tensor, count: int) -> Tensor:
    """Return numbers rotated right by 0, 1, ... count - 1 tokens, (S, B, count, A)."""
    width = number_SBA.shape[-1]
    turns = -(-(count - 1) // width)
    repeated = torch.cat([number_SBA] * (turns + 1), dim=-1)
    return repeated.unfold(-1, width, 1)[..., turns * width - count + 1 :, :].flip(2)


def _list_fields(canvas: int) -> tuple[tuple[int, ...], ...]:
    """Return the field of each token of the first state (filler is not scored), of other states, and of the answer."""
    form, first, second, digit, window, carry = range(len(FIELDS))
    numbers = (*[first] * (canvas + 1), form, *[second] * (canvas + 1), form)
    ending = (form, carry, form)
    first_fields = (*numbers, form, *[NOT_JUDGED] * canvas, *ending)
    later_fields = (*numbers, digit, *[window] * canvas, *ending)
    answer_fields = (carry, *[window] * (canvas + 1), *[form] * (len(later_fields) - canvas - 2))
    return first_fields, later_fields, answer_fields
