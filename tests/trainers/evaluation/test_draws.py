"""Several texts after each prompt, and ids, groups and lengths of the rows that are generated."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.evaluation.test_generate import (
    DRAWN,
    GREEDY,
    MARK,
    MODELS,
    TASK,
    B,
    M,
    forward_of,
    prompt_of,
    select_row,
    watched,
)
from tests.trainers.models import own_modules
from tests.trainers.training.test_waits import waits
from trainers.evaluation import generate
from trainers.evaluation.forward import Forward
from trainers.models.decoder import Decoder
from trainers.models.model import Model
from trainers.models.vmapped import NamedModule
from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch

STATES = {"shared": 4, "states": 3, "width": 4, "mark": MARK}
BEGUN = {**STATES, "shared": 2}  # the prompt begins the first state
PROMPT, TOKENS = 4, 6
NEVER = Decoding(end=99, pad=0, temperature=2.0)


def texts(forward: Forward, prompt: Tensor, decoding: Decoding = DRAWN, **draws: int) -> list[Tensor]:
    """Plain texts and texts by states, each with random numbers of its own."""
    begun = None if decoding is GREEDY else 100
    return [
        replace(forward).generate(prompt, decoding, max_tokens=TOKENS, **draws),
        replace(forward).generate_by_state(prompt, decoding, **STATES, **draws),
        replace(forward).generate_by_state(
            prompt, GREEDY if decoding is GREEDY else NEVER, **BEGUN, **{**draws, "draw": begun or 0}
        ),
    ]


@pytest.mark.parametrize("name", ["learned", "randomized", "abacus", "lstm", "vmapped"])
def test_a_draw_has_the_same_bits_however_many_are_asked_for(name: str) -> None:
    forward, prompt = forward_of(MODELS[name], rows=12), prompt_of(PROMPT, 12)
    many = texts(forward, prompt, draws=3)
    for number, few in enumerate(texts(forward, prompt, draws=2)):
        assert many[number].shape == (M, 12, 3, few.shape[-1]) and torch.equal(many[number][:, :, :2], few)
    for draw in range(3):
        single = replace(forward).generate(prompt, DRAWN, max_tokens=TOKENS, draw=draw)
        assert torch.equal(many[0][:, :, draw], single)
        assert torch.equal(many[1][:, :, draw], replace(forward).generate_by_state(prompt, DRAWN, **STATES, draw=draw))
        assert torch.equal(
            many[2][:, :, draw], replace(forward).generate_by_state(prompt, NEVER, **BEGUN, draw=100 + draw)
        )
    later = replace(forward).generate(prompt, DRAWN, max_tokens=TOKENS, draw=1, draws=2)
    assert torch.equal(many[0][:, :, 1:], later)
    assert len({text.numpy().tobytes() for text in many[0].unbind(dim=2)}) == 3


def test_a_draw_of_a_row_depends_on_neither_pack_nor_pieces() -> None:
    forward, prompt = forward_of(MODELS["rope"], rows=4), prompt_of(PROMPT, 4)
    whole = texts(forward, prompt, draws=3)
    for m in range(M):
        for b in range(4):
            alone = texts(select_row(forward, m, b), prompt[m : m + 1, b : b + 1], draws=3)
            assert all(torch.equal(mine[0, 0], all_of[m, b]) for mine, all_of in zip(alone, whole, strict=True))


def test_the_likeliest_text_is_that_of_one_draw() -> None:
    forward, prompt, beats = forward_of(MODELS["learned"]), prompt_of(PROMPT), list[int]()
    counting = replace(forward, beat=lambda: beats.append(1))
    for single, many in zip(texts(forward, prompt, GREEDY), texts(counting, prompt, GREEDY, draws=4), strict=True):
        assert all(torch.equal(single, draw) for draw in many.unbind(dim=2)) and many.shape[2] == 4
    assert len(beats) <= TOKENS + 2 * 12  # all draws cost one text


def test_wrong_numbers_of_draws_are_refused() -> None:
    forward, prompt = forward_of(MODELS["learned"]), prompt_of(PROMPT)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"draws is {wrong}; allowed: 1 or more"):
            forward.generate(prompt, DRAWN, max_tokens=2, draws=wrong)
    with pytest.raises(ValueError, match=f"draw is {generate.MAX_DRAWS}; allowed: "):
        forward.generate(prompt, DRAWN, max_tokens=2, draw=generate.MAX_DRAWS - 1, draws=2)
    forward.generate(prompt, DRAWN, max_tokens=2, draw=2, draws=3)
    with pytest.raises(ValueError, match=r"^draw 2 was sampled already.*draw=5"):
        forward.generate_by_state(prompt, DRAWN, **STATES, draws=3)


def chi_square(counts: Tensor, expected: Tensor) -> tuple[float, int]:
    """Return the statistic and its degrees of freedom; cells of fewer than five expected draws are one."""
    rare = expected < 5
    counts, expected = (
        torch.cat([values[~rare], values[rare].sum()[None]])[: int((~rare).sum()) + bool(rare.any())]
        for values in (counts.double(), expected)
    )
    return float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1


def bound(freedom: int) -> float:
    """Return about the 99.9th percentile of chi-squared (Wilson and Hilferty)."""
    return float(freedom * (1 - 2 / (9 * freedom) + 3.09 * np.sqrt(2 / (9 * freedom))) ** 3)


@pytest.mark.parametrize("name", ["learned", "lstm"])
def test_draws_have_the_chances_of_the_softmax_and_are_independent(name: str) -> None:
    rows, draws = 100, 60
    forward, prompt = forward_of(MODELS[name], rows), prompt_of(PROMPT)[:, :1].expand(-1, rows, -1)
    drawn = replace(forward).generate(prompt, NEVER, max_tokens=2, draws=draws)
    chances, size = torch.empty(M, 7, 7, dtype=torch.float64), 7
    first = torch.softmax(forward.logits(Batch(prompt, prompt))[:, 0, -1] / NEVER.temperature, dim=-1)
    for token in range(size):
        longer = torch.cat([prompt[:, :1], torch.full_like(prompt[:, :1, :1], token)], dim=-1)
        second = forward.logits(Batch(longer, longer))[:, 0, -1]
        chances[:, token] = first[:, token, None] * torch.softmax(second / NEVER.temperature, dim=-1)
    for m in range(M):
        # Both tokens of all draws together, against their chances.
        pairs = drawn[m, ..., 0] * size + drawn[m, ..., 1]
        counts = torch.bincount(pairs.flatten(), minlength=size**2)
        statistic, freedom = chi_square(counts, rows * draws * chances[m].flatten())
        assert freedom > 20 and statistic < bound(freedom)
        # The first tokens of two draws of a row: a token of one says nothing about that of the other.
        for distance in (1, 2, 16):
            both = drawn[m, :, distance:, 0] * size + drawn[m, :, :-distance, 0]
            counts = torch.bincount(both.flatten(), minlength=size**2)
            expected = both.numel() * torch.outer(first[m], first[m]).flatten()
            statistic, freedom = chi_square(counts, expected)
            assert freedom > 20 and statistic < bound(freedom)


# Ids, groups and lengths ----------------------------------------------------------------------------------------------


OWN: dict[str, Model] = {
    name: NamedModule(module=f"{own_modules.__name__}.{name}") for name in ("Net", "Grouped", "Pooled", "MayAsk")
}
DECODERS = {name: MODELS[name] for name in ("nope", "learned", "rope", "shaw", "fox", "tra", "randomized", "abacus")}
NO_GROUPS = ("lstm", "Net", "Pooled", "MayAsk")
ROWS: dict[str, Model] = {**DECODERS, "lstm": MODELS["lstm"], **OWN}


def made(names: tuple[str, ...]) -> dict[str, Tensor]:
    """Ids as of position coupling, groups with the shared one, and lengths of padded prompts."""
    total, generator = PROMPT + TOKENS - 1, torch.Generator().manual_seed(2)
    shape = (M, B, total)
    known = {
        "ids": torch.arange(total) % 5 + torch.randint(0, 4, (M, B, 1), generator=generator),
        "groups": torch.randint(0, 3, shape, generator=generator),
        "lengths": torch.randint(1, PROMPT + 1, shape[:2], generator=generator),
    }
    return {name: known[name] for name in names}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, ("ids", "groups", "lengths")) for name in ROWS),
        *((name, (alone,)) for name in ("rope", "lstm", "Grouped") for alone in ("ids", "groups", "lengths")),
    ],
)
def test_logits_of_a_generated_token_are_those_of_a_plain_pass(name: str, given: tuple[str, ...]) -> None:
    if "groups" in given and name in NO_GROUPS:
        given = tuple(other for other in given if other != "groups")
    forward, prompt, extra = forward_of(ROWS[name]), prompt_of(PROMPT), made(given)
    choose, seen = watched(forward, NEVER, B, TOKENS)
    (text,) = generate.generate_tokens(forward, prompt, NEVER, [choose], TOKENS, **extra).unbind(dim=2)
    lengths = extra.get("lengths", torch.full((M, B), PROMPT))
    for number, logits in seen.items():
        # A row is the real tokens of its prompt, the tokens before this one, and padding up to the widest row.
        rows = torch.zeros(M, B, PROMPT + TOKENS - 1, dtype=torch.int64)
        for m in range(M):
            for b in range(B):
                row = torch.cat([prompt[m, b, : lengths[m, b]], text[m, b, :number]])
                rows[m, b, : len(row)] = row
        width = PROMPT + number
        more = {key: values[..., :width] for key, values in extra.items() if key != "lengths"}
        more |= {"lengths": lengths + number} if "lengths" in given else {}
        batch = Batch(rows[..., :width], rows[..., :width], **more)
        pass_logits = forward.prefill(batch, PROMPT + TOKENS - 1)[0]  # random positions are drawn for the whole row
        at = (lengths + number - 1)[..., None, None].expand(-1, -1, 1, logits.shape[-1])
        torch.testing.assert_close(logits, pass_logits.gather(2, at)[:, :, 0], rtol=1e-10, atol=1e-10)
    assert torch.equal(text, forward.generate(prompt, NEVER, max_tokens=TOKENS, **extra))
    several = forward.generate(prompt, NEVER, max_tokens=TOKENS, draw=1, draws=2, **extra)
    for draw in (1, 2):
        single = replace(forward).generate(prompt, NEVER, max_tokens=TOKENS, draw=draw, **extra)
        assert torch.equal(several[:, :, draw - 1], single)


@pytest.mark.parametrize("name", ["learned", "rope", "Grouped"])
def test_ids_and_groups_change_what_is_generated(name: str) -> None:
    forward, prompt = forward_of(ROWS[name]), prompt_of(PROMPT)
    plain = replace(forward).generate(prompt, NEVER, max_tokens=TOKENS, draws=2)
    for given in (("ids",), ("groups",)):
        tokens = replace(forward).generate(prompt, NEVER, max_tokens=TOKENS, draws=2, **made(given))
        assert not torch.equal(plain, tokens)


def test_padding_of_a_prompt_changes_nothing() -> None:
    prompt = prompt_of(PROMPT)
    extra = made(("lengths",))
    pads = torch.arange(PROMPT) >= extra["lengths"][..., None]
    for name in ("rope", "abacus", "lstm", "Pooled"):
        forward = forward_of(ROWS[name])
        tokens = [
            replace(forward).generate(given, NEVER, max_tokens=TOKENS, draws=2, **extra)
            for given in (prompt, torch.where(pads, 5, prompt))
        ]
        assert torch.equal(*tokens) and bool(pads.any())


def test_a_module_by_states_gets_the_ids_of_states() -> None:
    """Question and states are at positions 0, 1, 2..., as in rows of one transition."""
    seen = list[Batch]()

    class Watched(Decoder):
        supports_masked_cache = False

        def logits(self, weights, batch, noise, form, record=None):
            seen.append(batch)
            return super().logits(weights, batch, noise, form, record)

    forward = forward_of(Watched(layers=1, width=8, heads=2))
    forward.generate_by_state(prompt_of(PROMPT), DRAWN, **STATES)
    assert seen and all(batch.ids[0, 0].tolist() == [*range(4 + 2 * 4 - 1)] for batch in seen)
    assert all(batch.groups is None and batch.lengths is None for batch in seen)


def test_other_shapes_are_refused() -> None:
    forward, prompt = forward_of(MODELS["rope"]), prompt_of(PROMPT)
    for name, values in made(("ids", "groups", "lengths")).items():
        with pytest.raises(ValueError, match=rf"^{name} has the shape .*; allowed: \({M}, {B}"):
            forward.generate(prompt, GREEDY, max_tokens=TOKENS, **{name: values[..., :-1]})


@pytest.mark.parametrize("name", ["learned", "abacus", "randomized"])
def test_nothing_waits(name: str) -> None:
    forward, prompt = forward_of(ROWS[name]), prompt_of(PROMPT)
    extra = made(("ids", "groups", "lengths"))
    assert waits(lambda: replace(forward).generate(prompt, DRAWN, max_tokens=TOKENS, draws=2, **extra)) == set()
    assert waits(lambda: replace(forward).generate_by_state(prompt, DRAWN, **STATES, draws=2)) == set()
    assert TASK.positions >= PROMPT + TOKENS
