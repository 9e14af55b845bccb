"""Addition by shifting numbers out of their places: its question and its states (arXiv:2406.06467, appendix C.2).

Shapes: S seeds, B rows, K states, D digits of the canvas, A tokens of a number, D + 1, W tokens of a state.
"""

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.operands import (
    END,
    MARK,
    NOWHERE,
    PAD,
    STOP,
    TOKEN,
    Operands,
    filler,
    windows,
    written,
)
from trainers.tasks.scratchpad.text import NOT_JUDGED, Text
from trainers.tensors.device_constants import constant

FIELDS = ("form", "first", "second", "digit", "window", "carry")


def question_width(canvas: int) -> int:
    """Tokens of both numbers with plus and equals sign."""
    return 2 * canvas + 4


def state_width(canvas: int) -> int:
    """Tokens of a state with its mark."""
    return question_width(canvas) + canvas + 4


def answer_width(canvas: int) -> int:
    """Tokens of the last carry and the window, with the end mark."""
    return canvas + 3


def fillers(draws: Draws, site: int, numbers: Operands) -> Tensor:
    """Filler for the first number, the second and their sum, (S, B, 3 canvas)."""
    return filler(draws, site, numbers.count.shape[1], 3 * numbers.canvas)


def question(numbers: Operands, filler_SBF: Tensor) -> Tensor:
    """Both numbers behind filler and `$`: `a+b=`, (S, B, 2 canvas + 4)."""
    first, second = _padded(numbers, filler_SBF)
    return torch.cat([first, written("+", first), second, written("=", first)], dim=-1)


def with_states(numbers: Operands, filler_SBF: Tensor, longest: int) -> Text:
    """The states of numbers of at most `longest` digits, with the question in front of the first one."""
    canvas, many = numbers.canvas, longest + 2
    count, third = numbers.count[..., None], filler_SBF[..., 2 * canvas :]
    first, second = _padded(numbers, filler_SBF)
    initial = torch.cat([written(STOP, third), third], dim=-1)
    window = torch.cat([initial[..., None, :], windows(numbers.total, initial, longest + 1)], dim=-2)
    carry = TOKEN["0"] + torch.nn.functional.pad(numbers.carry[..., : longest + 1], (1, 0))[..., None]
    parts = (
        _rotated(first, many),
        written("+", carry),
        _rotated(second, many),
        written("=", carry),
        window,
        written("|", carry),
        carry,
        written(MARK, carry),
    )
    states = torch.cat(parts, dim=-1)
    width = states.shape[-1]
    tail = torch.cat([carry, window, written(END, carry)], dim=-1).roll(1, dims=-2)  # of what the state before says
    tail = torch.nn.functional.pad(tail, (0, width - tail.shape[-1]), value=TOKEN[PAD])
    at = torch.arange(many, device=count.device)
    length = torch.where(at <= count, width, torch.where(at == count + 1, answer_width(canvas), 0))
    texts = torch.where((at <= count)[..., None], states, tail)
    inside = torch.arange(width, device=count.device) < length[..., None]
    whole, end = (constant(part, count.device) for part in _parts(canvas))
    initially = constant(_initial_parts(canvas), count.device)
    field = torch.where((at == 0)[:, None], initially, torch.where((at == count + 1)[..., None], end, whole))
    empty = filler_SBF[..., :0]
    return Text(
        question=empty,
        question_length=torch.zeros_like(numbers.count),
        states=torch.where(inside, texts, TOKEN[PAD]),
        state_length=length,
        given=question_width(canvas),
        field=field.expand(texts.shape),
    )


def sources(count: int, canvas: int) -> tuple[int, ...]:
    """Which generated token each generated token repeats, by place: itself where it is filler, NOWHERE where none.

    It is of numbers of `count` digits, and begins behind the question with `$` and the filler of the sum.
    """
    initial, before = canvas + 1, question_width(canvas)
    found = [NOWHERE, *range(1, initial)] + [NOWHERE] * 3
    for state in range(1, count + 1):
        found += [NOWHERE] * (before + state) + [*range(initial - state)] + [NOWHERE] * 3
    return (*found, *[NOWHERE] * (1 + count), *range(initial - count), NOWHERE)


def _padded(numbers: Operands, filler_SBF: Tensor) -> tuple[Tensor, Tensor]:
    """Filler, `$` and the digits of each number, tokens (S, B, D + 1)."""
    canvas, count = numbers.canvas, numbers.count[..., None]
    left = torch.arange(canvas, -1, -1, device=count.device)  # digits on the right of each place
    found = []
    for number, digits in enumerate((numbers.first, numbers.second)):
        text = torch.nn.functional.pad(filler_SBF[..., number * canvas : (number + 1) * canvas], (0, 1))
        text = torch.where(left == count, TOKEN[STOP], text)
        found.append(torch.where(left < count, TOKEN["0"] + torch.nn.functional.pad(digits, (0, 1)).flip(-1), text))
    return found[0], found[1]


def _rotated(number_SBA: Tensor, many: int) -> Tensor:
    """A number after 0, 1, ... many - 1 times its last token has come to its front, (S, B, many, A)."""
    width = number_SBA.shape[-1]
    turns = -(-(many - 1) // width)
    repeated = torch.cat([number_SBA] * (turns + 1), dim=-1)
    return repeated.unfold(-1, width, 1)[..., turns * width - many + 1 :, :].flip(2)


def _parts(canvas: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of the field of each token of a state, and of the answer."""
    form, first, second, digit, window, carry = range(len(FIELDS))
    number = canvas + 1
    state = (*[first] * number, form, *[second] * number, form, digit, *[window] * canvas, form, carry, form)
    answer = (carry, *[window] * number, form)
    return state, (*answer, *[form] * (len(state) - len(answer)))


def _initial_parts(canvas: int) -> tuple[int, ...]:
    """The same of the first state, where `$` is followed by filler that may be anything."""
    state, _ = _parts(canvas)
    before = question_width(canvas)
    return (*state[:before], 0, *[NOT_JUDGED] * canvas, *state[before + canvas + 1 :])
