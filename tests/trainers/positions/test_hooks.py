"""What a positional encoding can say that no shipped one says, each against plain loops or a closed form."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import get_type_hints

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import Last
from tests.trainers.positions.own_positions import Forgetting, PairValues, Randomized, Threshold
from tests.trainers.positions.passes import drawn, layer_of, noise, pass_of, tokens_of
from trainers.batch import Batch
from trainers.config import registry
from trainers.config.contract import missing
from trainers.evaluate import evaluate
from trainers.forward import Forward
from trainers.models.attention import attention
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.pack import Pack, State
from trainers.positions.context import Scores
from trainers.positions.nope import Nope
from trainers.positions.position import Position
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication

TASK = PaddedMultiplication(multiplier_digits=1, number_digits=4, train_digits=2)
M, B, H, T, E, D = 2, 3, 2, 6, 4, 8
TOKENS = tokens_of((M, B, T), TASK.inputs)
CPU = torch.device("cpu")


def layer(position: Position, causal: bool = True) -> tuple[dict[str, Tensor], Tensor]:
    """Weights and inputs of one attention layer."""
    model = (Decoder if causal else Encoder)(layers=1, width=D, heads=H, position=position)
    x = torch.randn(M, B, T, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return drawn(model, TASK), x


def attended(position: Position, weights: Mapping[str, Tensor], x: Tensor, causal: bool = True, **more) -> Tensor:
    seen = pass_of(TOKENS[..., : x.shape[2]], weights, causal, **more)
    return attention(x, seen, name="block0", layer=0, heads=H, position=position)


def heads_of(weights: Mapping[str, Tensor], x: Tensor, m: int, b: int, h: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of one head, (T, E)."""
    qkv = x[m, b] @ weights["block0.qkv"][m] + weights["block0.qkv_bias"][m]
    q, k, v = (part[:, h * E : (h + 1) * E] for part in qkv.chunk(3, dim=-1))
    return q, k, v


def projected(weights: Mapping[str, Tensor], mixed_MBHTE: Tensor) -> Tensor:
    flat = mixed_MBHTE.transpose(2, 3).flatten(-2)
    return torch.stack([flat[m] @ weights["block0.output"][m] + weights["block0.output_bias"][m] for m in range(M)])


@pytest.mark.parametrize("ids", [None, [0, 2, 3, 3, 1, 5]])
@pytest.mark.parametrize("causal", [False, True])
def test_values_may_depend_on_the_pair(causal: bool, ids) -> None:
    position = PairValues()
    weights, x = layer(position, causal)
    at = list(range(T)) if ids is None else ids
    mixed = torch.zeros(M, B, H, T, E, dtype=torch.float64)
    for m in range(M):
        for b in range(B):
            for h in range(H):
                q, k, v = heads_of(weights, x, m, b, h)
                for i in range(T):
                    keys = range(i + 1 if causal else T)
                    scores = torch.softmax(torch.stack([q[i] @ k[j] / math.sqrt(E) for j in keys]), dim=0)
                    for j in keys:
                        row = max(-2, min(2, at[i] - at[j])) + 2
                        mixed[m, b, h, i] += scores[j] * (v[j] + weights["block0.values"][m, row])
    given = None if ids is None else torch.tensor(ids).expand(M, B, T)
    torch.testing.assert_close(attended(position, weights, x, causal, ids=given), projected(weights, mixed))


def threshold_by_loops(weights: Mapping[str, Tensor], x: Tensor, causal: bool) -> Tensor:
    """Section 3.1 of arXiv:2503.23174, a query at a time."""
    mixed = torch.zeros(M, B, H, x.shape[2], E, dtype=torch.float64)
    for m in range(M):
        for b in range(B):
            for h in range(H):
                q, k, v = heads_of(weights, x, m, b, h)
                q, k = (part / (part.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
                gate = x[m, b] @ weights["block0.gate"][m, :, h] + weights["block0.gate_bias"][m, h]
                for i in range(x.shape[2]):
                    keys = [j for j in range(i + 1 if causal else x.shape[2]) if q[i] @ k[j] > 0]
                    delta = -math.log1p(math.exp(-float(gate[i])))
                    logits = [
                        float(q[i] @ k[j]) / math.sqrt(E) + delta * sum(other >= j for other in keys) for j in keys
                    ]
                    for j, logit in zip(keys, logits, strict=True):
                        mixed[m, b, h, i] += math.exp(logit) / sum(map(math.exp, logits)) * v[j]
    return projected(weights, mixed)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_may_be_dropped_and_each_query_has_a_gate(causal: bool) -> None:
    position = Threshold()
    weights, x = layer(position, causal)
    torch.testing.assert_close(attended(position, weights, x, causal), threshold_by_loops(weights, x, causal))


def with_dead_rows() -> tuple[dict[str, Tensor], Tensor]:
    """Queries are (1, 0, 0, 0); the keys of tokens 0 and 2 point away from them, so that query 0 sees none."""
    weights, x = layer(Threshold())
    weights["block0.qkv"] = weights["block0.qkv"].clone()
    weights["block0.qkv"][:, :, : 2 * H * E] = 0.0
    weights["block0.qkv_bias"] = torch.zeros(M, 3 * H * E, dtype=torch.float64)
    x = x.clone()
    x[..., 0], x[..., 1] = 1.0, torch.tensor([-1.0, 1.0, -1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
    weights["block0.qkv"][:, 0, : H * E : E] = 1.0
    weights["block0.qkv"][:, 1, H * E : 2 * H * E : E] = 1.0
    return weights, x


def test_a_query_whose_keys_are_all_dropped_mixes_nothing() -> None:
    weights, x = with_dead_rows()
    out = attended(Threshold(), weights, x)
    assert torch.equal(out[:, :, 0], weights["block0.output_bias"][:, None].expand(-1, B, -1))
    assert (out[:, :, 1:] != weights["block0.output_bias"][:, None, None]).any(dim=-1).all()
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    attended(Threshold(), leaves, x.requires_grad_()).square().sum().backward()
    assert torch.isfinite(x.grad).all() and x.grad[:, :, 1:].any()
    grads = [leaves[f"block0.{name}"].grad for name in ("qkv", "gate", "output")]
    assert all(torch.isfinite(grad).all() and grad.any() for grad in grads)


def test_dropped_keys_may_be_anywhere_where_distance_is_contextual() -> None:
    weights, x = with_dead_rows()
    alive = [1, 3, 4, 5]
    contextual, absolute = (
        (attended(position, weights, x)[:, :, alive], attended(position, weights, x[:, :, alive]))
        for position in (Threshold(), Threshold(contextual=False))
    )
    torch.testing.assert_close(*contextual, rtol=1e-13, atol=1e-13)
    assert not torch.allclose(*absolute, rtol=1e-3)


def test_gradients_of_the_distance_reach_the_gate_and_not_the_scores() -> None:
    weights, x = layer(Threshold())
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    qkv = torch.randn(
        3, M, B, H, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    ).requires_grad_()
    found = layer_of(qkv[0], leaves, True, k=qkv[1], v=qkv[2], x=x)
    (Threshold().score(found).logits - found.products()).sum().backward()
    assert leaves["block0.gate"].grad.abs().sum() > 0 and not qkv.grad.abs().max() > 1e-12


def test_a_constant_key_state_is_a_slope() -> None:
    weights, x = layer(Forgetting())
    weights["block0.forget"] = torch.zeros(M, D, H, dtype=torch.float64)  # every token lets half through
    found = layer_of(torch.zeros(M, B, H, T, E, dtype=torch.float64), weights, True, x=x)
    scores = Forgetting().score(replace(found, state=Forgetting().key_state(found)))
    slope = math.log(0.5)
    for i in range(T):
        for j in range(i + 1):
            torch.testing.assert_close(scores.bias[..., i, j], torch.full((M, B, H), slope * (i - j)).double())


def test_a_bias_beside_logits_is_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Scores(bias=torch.zeros(()), logits=torch.zeros(()))


def test_every_layer_place_and_chunk_has_a_random_site_of_its_own() -> None:
    one = layer_of(torch.zeros(1, 1, 1, 1, E), {})
    sites = [
        replace(one, layer=number, chunk=chunk).site(place)
        for number, chunk, place in product((0, 1, 331), (0, 1, 127), (0, 15))
    ]
    of_models = [0, 1000, 1001, *range(1, 997)]
    assert len({*sites, *of_models}) == len(sites) + len(of_models) and max(sites) < 2**20
    with pytest.raises(ValueError, match=r"site 16 of block0; allowed: 0\.\.15"):
        one.site(16)


def test_biases_are_optional() -> None:
    weights, x = layer(Nope())
    zero = {name: torch.zeros_like(value) if name.endswith("_bias") else value for name, value in weights.items()}
    none = {name: value for name, value in weights.items() if not name.endswith(("qkv_bias", "output_bias"))}
    assert torch.equal(attended(Nope(), none, x), attended(Nope(), zero, x))


BASES: dict[str, str | dict] = {
    name: {"name": name, **({"threshold": 2.0} if name == "fire" else {})}
    for name in registry.names("position")
    if name not in ("abacus", "significance")  # they do not go by ids, or by tokens as well
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_random_positions_out_of_just_enough_are_the_base(base, causal: bool) -> None:
    plain = (Decoder if causal else Encoder)(layers=2, width=D, heads=H, position=base)
    random = replace(plain, position=Randomized(most=TASK.positions, base=base))
    assert plain.parameters(TASK) == random.parameters(TASK)
    tokens, weights = tokens_of((M, B, TASK.positions), TASK.inputs), drawn(plain, TASK)
    expected = plain.logits(weights, Batch(tokens, tokens), None, "plain")
    got = random.logits(weights, Batch(tokens, tokens), noise(0, 1), "plain")
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_tokens_in_another_order_with_their_ids_are_the_same_tokens(base) -> None:
    model = Encoder(layers=2, width=D, heads=H, position=base)
    weights, order = drawn(model, TASK), torch.tensor([4, 2, 0, 5, 1, 3])
    plain = model.logits(weights, Batch(TOKENS, TOKENS), None, "plain")
    moved = TOKENS[..., order]
    got = model.logits(weights, Batch(moved, moved, ids=order.expand(M, B, T)), None, "plain")
    torch.testing.assert_close(got, plain[:, :, order], rtol=1e-12, atol=1e-12)


def test_random_positions_are_drawn_in_tests_too_a_row_at_a_time() -> None:
    model = Decoder(layers=1, width=D, heads=H, position=Randomized(most=40, base="learned"))
    same = Batch(*[tokens_of((1, 1, T), TASK.inputs).expand(M, 8, T)] * 2)
    weights = {name: value[:1].expand(M, *value.shape[1:]) for name, value in drawn(model, TASK).items()}
    whole = Forward(model, weights, "plain", noise(0, 1, training=False))(same)
    rows = whole.flatten(2).flatten(0, 1)
    assert len({tuple(row.tolist()) for row in rows}) == 2 * 8  # another draw for every seed and row
    pieces = [
        Forward(model, weights, "plain", noise(0, 1, training=False, first=first, total=8))(same.rows(first, last))
        for first, last in ((0, 3), (3, 8))
    ]
    assert torch.equal(torch.cat(pieces, dim=1), whole)
    drawn_ids = model.position.place(None, (2, 500, T), noise(0, 1))
    assert (drawn_ids.diff(dim=-1) > 0).all() and set(drawn_ids.flatten().tolist()) == set(range(40))


def test_what_layers_record_becomes_a_metric_at_every_length(member) -> None:
    model = Decoder(layers=2, width=D, heads=H, position=Threshold())
    assert model.metrics == Threshold().metrics
    pack = Pack([replace(member(seed, evaluation={"samples": 4}), model=model) for seed in (0, 1)], CPU)
    state = State.initial(pack)
    names, values = evaluate(pack, state)
    test, *others = pack.task.evaluation_batches(pack_stream(pack), 4, pack.lengths)
    assert len(test.lengths) > 1 and not others
    forward = Forward(model, pack.layout.views(state.theta), "plain", noise(0, 1, training=False))
    forward(test.batch)
    for name in ("alive", "gate"):
        layers = forward.recorded[name]
        assert len(layers) == 2 and layers[0].shape[:3] == (2, test.batch.tokens.shape[1], H)
        for column, length in enumerate(test.lengths):
            expected = sum(one[..., length - 1].mean(dim=(1, 2)) for one in layers) / 2
            np.testing.assert_allclose(values[:, 0, names.index(name), column], expected, rtol=1e-5)


def test_of_a_batch_of_one_length_a_metric_is_the_mean_over_positions(member) -> None:
    model = Decoder(layers=1, width=D, heads=H, position=Threshold())
    pack = Pack([replace(member(seed), model=model, task=Last()) for seed in (0, 1)], CPU)
    names, values = evaluate(pack, State.initial(pack))
    for test in pack.task.evaluation_batches(pack_stream(pack), 64, pack.lengths):
        forward = Forward(model, pack.layout.views(State.initial(pack).theta), "plain", noise(0, 1, training=False))
        forward(test.batch)
        (length,) = test.lengths
        expected = forward.recorded["alive"][0].mean(dim=(1, 2, 3))
        column = pack.lengths.index(length)
        np.testing.assert_allclose(values[:, 0, names.index("alive"), column], expected, rtol=1e-5)


def pack_stream(pack: Pack):
    return replace(noise(0).stream, seeds_S=pack.seeds_S, name="eval", step=torch.zeros((), dtype=torch.int64))


class Before(Position):
    """Written for 0.1.0."""

    def score(
        self, q_MBHTK: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], name: str, causal: bool
    ) -> Tensor | None:
        return None

    def parameters(self, longest: int, width: int, heads: int, std: float) -> tuple:
        return ()


def test_an_encoding_of_0_1_0_is_refused_by_name() -> None:
    assert list(missing("position", Before, Position, get_type_hints(Before))) == [
        "Before.parameters takes (longest, width, heads, std), and it is called with (sizes)",
        "Before.score takes (q_MBHTK, tokens_MBT, weights, name, causal), and it is called with (context)",
    ]
    assert not list(missing("position", Threshold, Position, get_type_hints(Threshold)))
