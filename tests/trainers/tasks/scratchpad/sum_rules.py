"""The rules of both additions on characters: each state from the one before it, and whole answers to a question."""

import random
import re

import torch

from trainers.tasks.arithmetic.digits import split_integers
from trainers.tasks.scratchpad.operands import CHARACTERS, TOKEN, Operands, add_numbers

FILLER = "$0123456789abcdefghijklmnopqrstuvwxyz"


def ids_of(text: str) -> torch.Tensor:
    return torch.tensor([[[TOKEN[character] for character in text]]])


def text_of(ids: list[int]) -> str:
    return "".join(CHARACTERS[token] for token in ids)


def numbers_of(first: int, second: int, canvas: int) -> Operands:
    a, b = (split_integers([number], canvas)[None] for number in (first, second))
    return add_numbers(a, b, torch.tensor([[len(str(first))]]))


def after_in_space(cells: str, initial: str, state: str) -> str:
    """The state after `state` (the first one after ""), found on characters; "" after the last."""
    if state.endswith("."):
        return ""
    read = re.fullmatch(r"\[(..)\].\[(..)\].c(.)r(.*)#", state)
    plus = cells.index("+")
    before_a, before_b, carry, window = (
        (int(read[1]), int(read[2]), int(read[3]), read[4]) if read else (plus, len(cells), 0, initial)
    )
    a = max((position for position in range(before_a) if cells[position] != "_"), default=-1)
    b = max(position for position in range(before_b) if cells[position] != "_")
    if a < 0:
        assert b == plus
        return f"[-1]_[{b:02}]_c0r{carry}{window[:-1]}."
    total = int(cells[a]) + int(cells[b]) + carry
    more = any(cell.isdigit() for cell in cells[:a]) or total >= 10
    end = "#" if more else "."
    return f"[{a:02}]{cells[a]}[{b:02}]{cells[b]}c{total // 10}r{total % 10}{window[:-1]}{end}"


def after_shift(state: str) -> str:
    """The state after `state`, found on characters; "" after the last."""
    if state.endswith("."):
        return ""
    read = re.fullmatch(r"(.*)\+(.*)=(.*)\|(.)#", state)
    assert read
    first, second, window, carry = read.groups()
    if first.endswith("$"):
        assert second.endswith("$")
        return f"{carry}{window}."
    total = int(first[-1]) + int(second[-1]) + int(carry)
    turned = f"{first[-1]}{first[:-1]}+{second[-1]}{second[:-1]}"
    return f"{turned}={total % 10}{window[:-1]}|{total // 10}#"


def answer_in_space(question: str, canvas: int, source: random.Random) -> str:
    """What follows `57_+48__=`, with filler of one's own."""
    cells, initial = question[:-1], "$" + "".join(source.choices(FILLER, k=canvas + 1))
    text, state = f"{initial}:", ""
    while state := after_in_space(cells, initial, state):
        text += state
    return text


def answer_by_shifts(question: str, canvas: int, source: random.Random) -> str:
    """What follows `pi$36+lh$48=`, with filler of one's own."""
    first = f"{question}${''.join(source.choices(FILLER, k=canvas))}|0#"
    text, state = first, first
    while state := after_shift(state):
        text += state
    return text.removeprefix(question)
