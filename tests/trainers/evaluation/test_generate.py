"""Texts that models write, against one row at a time that is encoded from its first token for every new one."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.trainers.models import own_modules
from tests.trainers.models.test_key_value_cache import POSITIONS
from tests.trainers.own_tasks import TOKENS, Bag, Last
from tests.trainers.positions.passes import drawn, noise, tokens_of
from tests.trainers.training.test_waits import waits
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation import generate
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.forward import Forward
from trainers.models.attention_only import AttentionOnly
from trainers.models.decoder import Decoder
from trainers.models.lstm import Lstm
from trainers.models.model import Model
from trainers.models.vmapped import NamedModule
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.position import Position
from trainers.positions.randomized import Randomized
from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch
from trainers.training import cost
from trainers.training.cost import estimate_member_cost

M, B = 2, 3
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
    return Forward(model, drawn(model, TASK, M, size), model.choose_form(TASK), noise(3, 5, training=False, total=rows))


def prompt_of(width: int, rows: int = B) -> Tensor:
    return tokens_of((M, rows, width), TOKENS, seed=4)


def select_row(forward: Forward, m: int, b: int) -> Forward:
    """The same for one row of one member."""
    weights = {name: value[m : m + 1] for name, value in forward.weights.items()}
    return replace(forward, weights=weights, noise=replace(forward.noise, seed_index_M=torch.tensor([m]), first=b))


def logits_of(forward: Forward, tokens: list[int], total: int) -> Tensor:
    """Behind a row that is encoded as a whole; `total` is how many positions random ones are drawn for."""
    row = torch.tensor([[tokens]])
    return forward.prefill(Batch(row, row), total)[0][0, 0, -1]


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


def generate_row_by_state(
    forward: Forward, prompt: Tensor, decoding: Decoding, *, shared: int, states: int, width: int
) -> tuple[list[int], dict[int, Tensor]]:
    """Return the text of a row, generated state by state without a KV cache, and the logits by token number."""
    text, most = prompt.tolist(), shared - len(prompt) + states * width
    total, seen = shared + min(states, 2) * width - 1, dict[int, Tensor]()
    while len(text) < shared:
        number = len(text) - len(prompt)
        seen[number] = logits_of(forward, text, total)
        text.append(picked(forward, decoding, seen[number], number, most))
    question, state, before, generated = text[:shared], text[shared:], list[int](), text[len(prompt) :]
    for k in range(states):
        while True:
            number = shared - len(prompt) + k * width + len(state)
            seen[number] = logits_of(forward, question + before + state, total)
            state.append(picked(forward, decoding, seen[number], number, most))
            generated.append(state[-1])
            if state[-1] in (MARK, END) or len(state) == width:
                break
        if state[-1] != MARK:
            break
        before, state = state, []
    return generated + [PAD] * (most - len(generated)), seen


def watched(
    forward: Forward, decoding: Decoding, rows: int, most: int
) -> tuple[generate.TokenChooser, dict[int, Tensor]]:
    """What chooses tokens, and keeps the logits it was given by their numbers."""
    choose, seen = generate.make_chooser(forward, decoding, (rows, most)), dict[int, Tensor]()

    def chosen(logits: Tensor, number: int) -> Tensor:
        seen[number] = logits
        return choose(logits, number)

    return chosen, seen


def agree(model: Model, decoding: Decoding, *, given: int, **sizes: int) -> None:
    """Tokens of all rows together are those of one after the other, and the logits of each of them to rounding.

    A row is generated alone for one of the members: every second row for each of them.
    """
    forward, prompt = forward_of(model), prompt_of(given)
    most = sizes["shared"] - given + sizes["states"] * sizes["width"]
    choose, seen = watched(forward, decoding, B, most)
    tokens = generate.generate_states(forward, prompt, decoding, [choose], mark=MARK, **sizes)[:, :, 0]
    assert torch.equal(tokens, forward.generate_by_state(prompt, decoding, mark=MARK, **sizes))
    for b in range(B):
        m = b % M
        expected, logits = generate_row_by_state(select_row(forward, m, b), prompt[m, b], decoding, **sizes)
        assert tokens[m, b].tolist() == expected
        each = torch.stack([seen[number][m, b] for number in logits])
        torch.testing.assert_close(each, torch.stack([*logits.values()]), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "states"), [*zip(MODELS, cycle(STATES)), *(("learned", states) for states in STATES)])
def test_states_are_those_of_rows_that_are_encoded_anew(name, states) -> None:
    """Every model with one kind of states in turn, and one model with every kind."""
    agree(MODELS[name], DRAWN, **STATES[states])


@pytest.mark.parametrize("name", ["learned", "tra", "randomized", "abacus", "lstm"])
def test_so_are_the_likeliest_ones(name) -> None:
    agree(MODELS[name], GREEDY, **STATES["given"])


def test_the_rows_differ_in_all_that_rows_can_differ_in() -> None:
    """The test above sees states that end at once and late, with the mark, the end or neither, at different points."""
    forward = forward_of(MODELS["rope"], rows=60)
    tokens = forward.generate_by_state(prompt_of(4, 60), DRAWN, shared=4, states=4, width=5, mark=MARK)
    for m in range(M):
        rows = ["".join(map(str, row)).rstrip("0") for row in tokens[m].tolist()]
        marks = {row.count("1") for row in rows}
        assert marks == {0, 1, 2, 3, 4}
        assert {row.index("1") for row in rows if "1" in row} >= {0, 1, 2, 3}
        assert len({row[-1] for row in rows}) > 3


@EACH
def test_what_follows_a_prompt_is_that_of_rows_that_are_encoded_anew(model) -> None:
    forward, prompt = forward_of(model), prompt_of(4)
    choose, seen = watched(forward, DRAWN, B, 7)
    tokens = generate.generate_tokens(forward, prompt, DRAWN, [choose], 7)[:, :, 0]
    assert torch.equal(tokens, forward.generate(prompt, DRAWN, max_tokens=7))
    for m in range(M):
        for b in range(B):
            alone, text = select_row(forward, m, b), prompt[m, b].tolist()
            while len(text) < 4 + 7 and END not in text[4:]:
                logits = logits_of(alone, text, 10)
                torch.testing.assert_close(seen[len(text) - 4][m, b], logits, rtol=1e-12, atol=1e-12)
                text.append(picked(alone, DRAWN, logits, len(text) - 4, 7))
            assert tokens[m, b].tolist() == text[4:] + [PAD] * (11 - len(text))


@pytest.mark.parametrize("model", [MODELS["rope"], MODELS["randomized"], MODELS["abacus"]], ids=str)
def test_neither_pieces_of_the_rows_nor_the_pack_change_a_token(model) -> None:
    rows = 7
    forward, prompt = forward_of(model, rows), prompt_of(3, rows)

    def both(mine: Forward, given: Tensor) -> Tensor:
        return torch.cat(
            [
                mine.generate(given, DRAWN, max_tokens=6),
                mine.generate_by_state(given, DRAWN, shared=4, states=3, width=4, mark=MARK, draw=1),
            ],
            dim=-1,
        )

    whole = both(forward, prompt)
    for each in (1, 3):
        pieces = [
            both(replace(forward, noise=replace(forward.noise, first=k)), prompt[:, k : k + each])
            for k in range(0, rows, each)
        ]
        assert torch.equal(torch.cat(pieces, dim=1), whole)
    index = torch.tensor([1, 0, 1])
    weights = {name: value[index] for name, value in forward.weights.items()}
    packed = replace(forward, weights=weights, noise=replace(forward.noise, seed_index_M=index))
    assert torch.equal(both(packed, prompt[index]), whole[index])
    assert not torch.equal(whole[0], whole[1])


@EACH
def test_what_an_older_state_says_changes_nothing(model) -> None:
    forward, prompt = forward_of(model), prompt_of(4)
    sizes = {"shared": 4, "states": 4, "width": 4, "mark": MARK}

    def take_notice(first: int) -> Tensor:
        """All states, when the first is `first` and the second is 4, 5 and the mark."""

        def chosen(logits: Tensor, number: int) -> Tensor:
            fixed = {0: first, 1: MARK, 4: 4, 5: 5, 6: MARK}.get(number)
            free = logits[..., 3:].argmax(dim=-1) + 3  # neither marks nor ends
            free = torch.full_like(free, MARK) if number % 4 == 3 else free
            return free if fixed is None else torch.full_like(free, fixed)

        return generate.generate_states(forward, prompt, GREEDY, [chosen], **sizes)[:, :, 0]

    first, second = take_notice(3), take_notice(6)
    assert first.shape[-1] == 16 and not torch.equal(first[..., :2], second[..., :2])
    assert torch.equal(first[..., 2:], second[..., 2:]) and bool((first[..., 12] == MARK).all())


def test_tokens_are_drawn_as_often_as_the_softmax_says() -> None:
    rows, logits = 20_000, torch.tensor([0.3, -1.0, 2.0, 1.1, 0.0, -0.4])
    uniform = noise(3, training=False).uniform(0, (rows,))
    for decoding in (
        Decoding(end=0, pad=0, temperature=1.0),
        Decoding(end=0, pad=0, temperature=0.5, top_k=3),
        Decoding(end=0, pad=0, temperature=3.0, top_k=100),
    ):
        tokens = decoding.choose_token(logits.expand(1, rows, -1), uniform)
        counts = torch.bincount(tokens[0], minlength=6).double()
        kept = torch.argsort(logits, descending=True)[: decoding.top_k]
        expected = torch.zeros(6, dtype=torch.float64)
        expected[kept] = rows * torch.softmax(logits[kept].double() / decoding.temperature, dim=0)
        assert bool((counts[expected == 0] == 0).all())
        there = expected > 0
        chi_square = ((counts - expected)[there] ** 2 / expected[there]).sum()
        assert chi_square < {2: 9.21, 5: 15.09}[int(there.sum()) - 1]  # the 99th percentiles


def test_the_edges_of_a_draw_are_tokens() -> None:
    logits = torch.tensor([[[0.0, -torch.inf, 5.0], [1.0, 1.0, 1.0]]])
    for u in (2.0**-33, 1 - 2.0**-33):
        tokens = Decoding(end=0, pad=0, temperature=1.0).choose_token(
            logits, torch.full((1, 2), u, dtype=torch.float64)
        )
        assert bool((tokens >= 0).all()) and bool((tokens < 3).all()) and int(tokens[0, 0]) != 1
    small = Decoding(end=0, pad=0, temperature=1e-30).choose_token(logits, torch.full((1, 2), 0.9, dtype=torch.float64))
    assert int(small[0, 0]) == 2
    decoding = Decoding(end=0, pad=0, temperature=1.0, top_k=1)
    assert not decoding.is_sampled and decoding.choose_token(logits, None)[0, 0] == 2


@pytest.mark.parametrize("wrong", [{"temperature": -0.1}, {"temperature": float("nan")}, {"top_k": 0}])
def test_a_decoding_that_is_none_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*allowed: "):
        Decoding(end=1, pad=0, **wrong)


def test_sizes_that_do_not_go_together_are_refused() -> None:
    forward, prompt, sizes = forward_of(MODELS["nope"]), prompt_of(4), {"shared": 4, "states": 2, "width": 3}
    with pytest.raises(ValueError, match="max_tokens is 0; allowed: 1 or more"):
        forward.generate(prompt, GREEDY, max_tokens=0)
    for wrong in ({"states": 0}, {"width": 0}, {"shared": 1}, {"mark": END}):
        with pytest.raises(ValueError, match="allowed: "):
            forward.generate_by_state(prompt, GREEDY, **{**sizes, "mark": MARK, **wrong})
    with pytest.raises(ValueError, match="the prompt has 0 tokens"):
        forward.generate_by_state(prompt[..., :0], GREEDY, mark=MARK, **sizes)


@pytest.mark.parametrize("name", ["learned", "abacus", "randomized", "tra", "fox"])
def test_neither_form_waits(name) -> None:
    forward = forward_of(MODELS[name])
    assert waits(lambda: replace(forward).generate(prompt_of(4), DRAWN, max_tokens=5)) == set()
    sizes = {"shared": 4, "states": 3, "width": 4, "mark": MARK}
    for decoding in (GREEDY, DRAWN):
        assert waits(lambda how=decoding: replace(forward).generate_by_state(prompt_of(3), how, **sizes)) == set()


def test_a_long_text_is_known_to_be_alive() -> None:
    beats = list[int]()
    forward = replace(forward_of(MODELS["nope"]), beat=lambda: beats.append(1))
    never = Decoding(end=TOKENS, pad=PAD)
    forward.generate(prompt_of(4), never, max_tokens=9)
    assert len(beats) == 9
    forward.generate_by_state(prompt_of(4), never, shared=4, states=1, width=6, mark=TOKENS + 1)
    assert len(beats) == 9 + 6


def test_only_the_first_tokens_are_drawn_where_it_says_how_many() -> None:
    forward = forward_of(MODELS["learned"], rows=B)
    prompt = prompt_of(3)
    greedy, drawn_all = (forward.generate(prompt, decoding, max_tokens=8) for decoding in (GREEDY, DRAWN))
    none, all_of_them, some = (
        replace(forward).generate(prompt, replace(DRAWN, sampled_tokens=count), max_tokens=8) for count in (0, 8, 2)
    )
    assert torch.equal(none, greedy) and torch.equal(all_of_them, drawn_all)
    assert torch.equal(some[..., :2], drawn_all[..., :2]) and not torch.equal(some, drawn_all)
    after = forward.generate(torch.cat([prompt, some[..., :2]], dim=-1), GREEDY, max_tokens=6)
    going = (some[..., :2] != END).all(dim=-1)
    assert going.any() and torch.equal(some[going][:, 2:], after[going])


def test_each_draw_has_its_own_random_numbers_and_is_sampled_once() -> None:
    forward, prompt = forward_of(MODELS["learned"], rows=60), prompt_of(3, 60)
    texts = [forward.generate(prompt, DRAWN, max_tokens=8, draw=draw) for draw in range(5)]
    for i, text in enumerate(texts):
        assert not any(torch.equal(text, other) for other in texts[:i])
        assert torch.equal(text, replace(forward).generate(prompt, DRAWN, max_tokens=8, draw=i))
    assert torch.equal(texts[0], replace(forward).generate(prompt, DRAWN, max_tokens=8))
    sizes = {"shared": 4, "states": 3, "width": 4, "mark": MARK}
    for again in (
        lambda: forward.generate(prompt, DRAWN, max_tokens=8),
        lambda: forward.generate_by_state(prompt, DRAWN, **sizes, draw=4),
    ):
        with pytest.raises(ValueError, match=r"^draw \d was sampled already.*draw=5"):
            again()
    for draw in (-1, generate.MAX_DRAWS):
        with pytest.raises(ValueError, match=f"draw is {draw}; allowed: "):
            forward.generate(prompt, DRAWN, max_tokens=8, draw=draw)
    last = forward.generate(prompt, DRAWN, max_tokens=8, draw=generate.MAX_DRAWS - 1)
    assert not any(torch.equal(last, text) for text in texts)
    for _ in range(2):
        forward.generate(prompt, GREEDY, max_tokens=2)


class Texts(Wide):
    """Texts behind two tokens, by states and plain, that are drawn: their mean token, and how long they are."""

    metrics: ClassVar[Mapping[str, str]] = {"plain": "none", "by_state": "none", "length": "none"}
    passes = 2.0

    def score_batch(self, forward: Forward, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        prompt = batch.tokens[..., :2]
        sizes = {"shared": 3, "states": 3, "width": 4, "mark": MARK, "draw": 1}
        plain, states = forward.generate(prompt, DRAWN, max_tokens=6), forward.generate_by_state(prompt, DRAWN, **sizes)
        metrics = {
            "plain": plain.double().mean(-1),
            "by_state": states.double().mean(-1),
            "length": (states > 0).sum(-1),
        }
        return {name: value.double()[..., None] for name, value in metrics.items()}


@pytest.mark.slow
def test_evaluations_have_the_same_texts_in_any_pieces_and_packs(member, monkeypatch) -> None:
    model, beats = MODELS["learned"], list[int]()
    settings = {"task": Texts(), "model": model}
    members = [replace(member(seed, training__dtype="float64", evaluation__samples=24), **settings) for seed in (3, 5)]
    both = Pack(members, torch.device("cpu"))
    names, whole = evaluate(both, TrainingState.make_initial(both), beat=lambda: beats.append(1))
    assert set(names) == {"plain", "by_state", "length"} and whole.std(axis=(0, 3)).min() > 0
    steps = len(beats)
    assert steps > 3 * (6 + 4)  # three lengths; at least the plain texts and a state
    monkeypatch.setattr(evaluation, "LOGITS_PER_MEMBER", 3 * 24 * model.cache_size_per_token)
    _, pieces = evaluate(both, TrainingState.make_initial(both), beat=lambda: beats.append(1))
    alone = Pack(members[1:], torch.device("cpu"))
    _, lone = evaluate(alone, TrainingState.make_initial(alone))
    assert (pieces == whole).all() and (lone[0] == whole[1]).all()
    assert len(beats) > 5 * steps


def test_kept_keys_bound_how_much_is_evaluated_together(member, monkeypatch) -> None:
    """Many heads, few output tokens: keys and values take more than logits."""
    monkeypatch.setattr(evaluation, "SCORES_PER_PASS", 2**40)  # which do not bound texts
    model = Decoder(layers=8, width=64, heads=8, position="rope")
    tokens = torch.zeros(1, 4000, 24, dtype=torch.int64)
    rows, costs = dict[type, int](), dict[type, int]()
    for task in (Wide(), Texts()):
        config = replace(member(evaluation__samples=500), task=task, model=model)
        rows[type(task)] = evaluation.choose_piece_sizes(Pack([config], torch.device("cpu")), Batch(tokens, tokens))[0]
        costs[type(task)] = estimate_member_cost(config).bytes_per_member
    assert model.cache_size_per_token == 2 * 8 * 64
    assert rows[Texts] == evaluation.LOGITS_PER_MEMBER // (24 * 1024) < rows[Wide]
    assert costs[Texts] - costs[Wide] == 4 * 500 * 24 * 1024


def test_an_encoding_that_looks_ahead_is_refused_where_texts_are_written() -> None:
    class LookingAhead(Position):
        name: ClassVar[str] = "looking_ahead"
        looks_ahead = True

    for position in (LookingAhead(), Randomized(longest=32, base=LookingAhead())):
        model = Decoder(layers=1, width=8, heads=2, position=position)
        (problem,) = model.find_task_problems(Texts())
        assert problem.key == "position" and "later tokens" in problem.message
        assert not [*model.find_task_problems(Wide())]
    for writer in MODELS.values():
        assert [*writer.find_task_problems(Texts())] == [*writer.find_task_problems(Wide())]


def test_a_forecast_measures_a_large_evaluation_on_some_rows(member, monkeypatch) -> None:
    asked = replace(member(evaluation__samples=600), task=Texts(), model=MODELS["rope"])
    pack, share = cost._shrink_evaluation(asked)
    assert share == 1.0 and pack.evaluation.samples == 600
    monkeypatch.setattr(
        cost, "_MAX_MEASURED_OPERATIONS", 2 * asked.model.count_operations(asked.task, 3 * 2 * 150, 24)
    )  # 3 lengths, 2 averages
    pack, share = cost._shrink_evaluation(asked)
    assert pack.evaluation.samples == 150 and share == 0.25
    assert cost._shrink_evaluation(replace(asked, task=Wide()))[1] == 0.5  # one pass, not two
