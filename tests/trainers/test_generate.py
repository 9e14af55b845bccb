"""Texts that models write, against one row at a time that is encoded from its first token for every new one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainers.models import own_modules
from tests.trainers.models.test_going_on import POSITIONS
from tests.trainers.own_tasks import TOKENS, Bag, Last
from tests.trainers.positions.passes import drawn, noise, tokens_of
from trainers import generate
from trainers.batch import Batch
from trainers.config.member import MemberConfig
from trainers.decoding import Decoding
from trainers.forward import Forward
from trainers.models.attention_only import AttentionOnly
from trainers.models.decoder import Decoder
from trainers.models.lstm import Lstm
from trainers.models.model import Model
from trainers.models.vmapped import NamedModule

M, B = 2, 6
PAD, MARK, END = 0, 1, 2


class Wide(Last):
    """A task of longer rows."""

    lengths = (2, 4, 24)


TASK = Wide()
MODELS: dict[str, Model] = {
    **{name: Decoder(layers=2, width=8, heads=2, position=position) for name, position in POSITIONS.items()},
    "rms, gated": Decoder(layers=1, width=8, heads=2, norm="residual", norm_type="rms", mlp="gated", biases=()),
    "lstm": Lstm(width=6),
    "attention_only": AttentionOnly(width=8),
    "attention_only, plain": AttentionOnly(width=8, norm="post"),
    "vmapped": NamedModule(module=f"{own_modules.__name__}.Net"),
    "bag": Bag(),
}
EACH = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
GREEDY, DRAWN = Decoding(end=END, pad=PAD), Decoding(end=END, pad=PAD, temperature=2.0, top_k=5)
STATES: dict[str, dict[str, int]] = {
    "given": {"given": 4, "shared": 4, "states": 4, "width": 5},
    "part given": {"given": 3, "shared": 5, "states": 3, "width": 4},
    "first state begun": {"given": 3, "shared": 0, "states": 4, "width": 5},
    "one state": {"given": 2, "shared": 3, "states": 1, "width": 6},
}


def forward_of(model: Model, rows: int = B) -> Forward:
    size = 1.0 if isinstance(model, NamedModule) else 0.5
    return Forward(model, drawn(model, TASK, M, size), model.form_used(TASK), noise(3, 5, training=False, total=rows))


def prompt_of(width: int, rows: int = B) -> Tensor:
    return tokens_of((M, rows, width), TOKENS, seed=4)


def lone(forward: Forward, m: int, b: int) -> Forward:
    """The same for one row of one member."""
    weights = {name: value[m : m + 1] for name, value in forward.weights.items()}
    return replace(forward, weights=weights, noise=replace(forward.noise, index_M=torch.tensor([m]), first=b))


def logits_of(forward: Forward, tokens: list[int], total: int) -> Tensor:
    """Behind a row that is encoded as a whole; `total` is how many positions random ones are drawn for."""
    row = torch.tensor([[tokens]])
    return forward.start(Batch(row, row), total)[0][0, 0, -1]


def picked(forward: Forward, decoding: Decoding, logits: Tensor, number: int, most: int) -> int:
    if decoding.temperature == 0.0:
        return int(logits.argmax())
    shape = (1, most)
    u = float(forward.noise.uniform(generate.GENERATION_SITE, shape)[0, 0, number])
    order = sorted(range(len(logits)), key=lambda token: -float(logits[token]))[: decoding.top_k]
    odds = torch.softmax(logits[order] / decoding.temperature, dim=0)
    for token, reached in zip(order, odds.cumsum(dim=0).tolist(), strict=True):
        if u <= reached:
            return token
    return order[-1]


def slowly(
    forward: Forward, prompt: Tensor, decoding: Decoding, *, shared: int, states: int, width: int
) -> tuple[Tensor, list[Tensor]]:
    """What one row says state by state, and the logits of each of its tokens."""
    text, most = prompt.tolist(), shared - len(prompt) + states * width
    total, seen = shared + min(states, 2) * width - 1, list[Tensor]()
    while len(text) < shared:
        seen.append(logits_of(forward, text, total))
        text.append(picked(forward, decoding, seen[-1], len(text) - len(prompt), most))
    question, state, before = text[:shared], text[shared:], list[int]()
    said = text[len(prompt) :]
    for number in range(states):
        while True:
            at = shared - len(prompt) + number * width + len(state)
            seen.append(logits_of(forward, question + before + state, total))
            state.append(picked(forward, decoding, seen[-1], at, most))
            said.append(state[-1])
            if state[-1] in (MARK, END) or len(state) == width:
                break
        if state[-1] != MARK:
            break
        before, state = state, []
    return torch.tensor(said + [PAD] * (most - len(said))), seen


def watched(forward: Forward, decoding: Decoding, rows: int, most: int) -> tuple[generate.Choose, list[Tensor]]:
    """What chooses tokens, and keeps the logits it was given."""
    choose, seen = generate.chooser(forward, decoding, (rows, most)), list[Tensor]()

    def chosen(logits: Tensor, number: int) -> Tensor:
        seen.append(logits)
        return choose(logits, number)

    return chosen, seen


@pytest.mark.parametrize("decoding", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("sizes", STATES.values(), ids=STATES)
@EACH
def test_states_are_those_of_rows_that_are_encoded_anew(model, sizes, decoding) -> None:
    forward = forward_of(model)
    prompt, kinds = prompt_of(sizes["given"]), {name: value for name, value in sizes.items() if name != "given"}
    found = forward.generated_by_state(prompt, decoding, mark=MARK, **kinds)
    for m in range(M):
        for b in range(B):
            expected, _ = slowly(lone(forward, m, b), prompt[m, b], decoding, **kinds)
            assert found[m, b].tolist() == expected.tolist()


def test_the_rows_differ_in_all_that_rows_can_differ_in() -> None:
    """The test above sees states that end at once and late, with the mark, the end or neither, at different points."""
    forward = forward_of(MODELS["rope"], rows=60)
    found = forward.generated_by_state(prompt_of(4, 60), DRAWN, shared=4, states=4, width=5, mark=MARK)
    for m in range(M):
        rows = ["".join(map(str, row)).rstrip("0") for row in found[m].tolist()]
        marks = {row.count("1") for row in rows}
        assert marks == {0, 1, 2, 3, 4}
        assert {row.index("1") for row in rows if "1" in row} >= {0, 1, 2, 3}
        assert len({row[-1] for row in rows}) > 3
