"""Threshold relative attention against plain loops over its equations, and what follows from them."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from tests.trainers.positions.passes import B, D, E, H, M, T, attended, heads_of, layer, layer_of, pass_of, projected
from tests.trainers.runs import check_alone
from trainers.models.attention import apply_attention, compute_attention_weights
from trainers.packs.pack import Pack
from trainers.positions.tra import ThresholdRelative

SWITCHES = {
    "the paper's": {},
    "no threshold": {"threshold": False},
    "absolute": {"distance": "absolute"},
    "absolute, no threshold": {"threshold": False, "distance": "absolute"},
    "a gate a head": {"gate": "head"},
    "no gate": {"gate": "off"},
    "no norm": {"qk_norm": False},
}


def by_loops(position: ThresholdRelative, weights: dict[str, Tensor], x: Tensor, causal: bool) -> Tensor:
    """The equations in the docstring of the module, a query and a key at a time."""
    mixed = torch.zeros(M, B, H, x.shape[2], E, dtype=torch.float64)
    for m, b, h in product(range(M), range(B), range(H)):
        q, k, v = heads_of(weights, x, m, b, h)
        if position.qk_norm:
            q, k = (part / (part.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
        for i in range(x.shape[2]):
            score = {j: float(q[i] @ k[j]) / math.sqrt(E) for j in range(i + 1 if causal else x.shape[2])}
            keys = [j for j, of in score.items() if of > 0 or not position.threshold]
            gate = 0.0
            if position.gate != "off":
                gate = float(weights["block0.gate_bias"][m, h])
            if position.gate == "query":
                gate += float(x[m, b, i] @ weights["block0.gate"][m, :, h])
            delta = 0.0 if position.gate == "off" else -math.log1p(math.exp(-gate))
            logits = {}
            for j in keys:
                between = [other for other in keys if j <= other <= i] if j <= i else [o for o in keys if i < o <= j]
                far = len(between) if j <= i else 1 + len(between)
                far = abs(i - j) + 1 if position.distance == "absolute" else far
                logits[j] = score[j] + delta * far
            for j in keys:
                mixed[m, b, h, i] += math.exp(logits[j]) / sum(map(math.exp, logits.values())) * v[j]
    return projected(weights, mixed)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_a_layer_is_its_equations(switches, causal: bool) -> None:
    position = ThresholdRelative(**switches)
    weights, x = layer(position, causal)
    output, expected = attended(position, weights, x, causal), by_loops(position, weights, x, causal)
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)


def test_a_worked_example() -> None:
    """Scores 0.5, -1, 2, 0.3 and delta -0.4: the second key is dropped, the counts are 3, -, 2, 1."""
    delta = -0.4
    bias = torch.full((1, 1), math.log(math.exp(delta) / (1 - math.exp(delta))), dtype=torch.float64)
    k = torch.zeros(1, 1, 1, 4, 4, dtype=torch.float64)
    k[..., 0] = torch.tensor([0.5, -1.0, 2.0, 0.3], dtype=torch.float64)
    q = torch.zeros(1, 1, 1, 1, 4, dtype=torch.float64)
    q[..., 0] = 2.0
    tokens = torch.zeros(1, 1, 4, dtype=torch.int64)
    context = layer_of(q, {"block0.gate_bias": bias}, True, k=k, v=k, tokens=tokens, first=3, count=1)
    scores = ThresholdRelative(gate="head").score(context)
    assert scores.keep.flatten().tolist() == [True, False, True, True]
    torch.testing.assert_close(scores.logits.flatten()[[0, 2, 3]], torch.tensor([-0.7, 1.2, -0.1]).double())
    attention = compute_attention_weights(context, scores).flatten().tolist()
    assert attention == pytest.approx([0.1052, 0.0, 0.7032, 0.1916], abs=5e-5) and attention[1] == 0.0
    zero = replace(context, k=k.masked_fill(k == 0.3, 0.0))  # a score of zero is not positive
    whole = replace(zero, q=q.expand(-1, -1, -1, 4, -1), first=0, count=4)
    for given in (zero, whole):
        assert ThresholdRelative(gate="head").score(given).keep[0, 0, 0, -1].tolist() == [True, False, True, False]


def with_dead_rows() -> tuple[dict[str, Tensor], Tensor]:
    """Queries are (1, 0, 0, 0); the keys of tokens 0 and 2 point away from them, so that query 0 sees none."""
    weights, x = layer(ThresholdRelative())
    weights["block0.qkv"] = weights["block0.qkv"].clone()
    weights["block0.qkv"][:, :, : 2 * H * E] = 0.0
    weights["block0.qkv_bias"] = torch.zeros(M, 3 * H * E, dtype=torch.float64)
    x = x.clone()
    x[..., 0], x[..., 1] = 1.0, torch.tensor([-1.0, 1.0, -1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
    weights["block0.qkv"][:, 0, : H * E : E] = 1.0
    weights["block0.qkv"][:, 1, H * E : 2 * H * E : E] = 1.0
    return weights, x


def test_a_query_without_keys_mixes_nothing_and_does_not_see_the_future() -> None:
    weights, x = with_dead_rows()
    out = attended(ThresholdRelative(), weights, x)
    assert torch.equal(out[:, :, 0], weights["block0.output_bias"][:, None].expand(-1, B, -1))
    assert (out[:, :, 1:] != weights["block0.output_bias"][:, None, None]).any(dim=-1).all()
    for position in (ThresholdRelative(), ThresholdRelative(distance="absolute"), ThresholdRelative(threshold=False)):
        moved = x.clone()
        moved[:, :, 3:] += 1.0
        for i in range(3):
            before, after = attended(position, weights, x), attended(position, weights, moved)
            assert torch.equal(before[:, :, i], after[:, :, i])
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    attended(ThresholdRelative(), leaves, x.requires_grad_()).square().sum().backward()
    assert torch.isfinite(x.grad).all() and x.grad[:, :, 1:].any()
    grads = [leaves[f"block0.{name}"].grad for name in ("qkv", "gate", "output")]
    assert all(torch.isfinite(grad).all() and grad.any() for grad in grads)


def test_the_distance_gives_a_gradient_to_the_gate_and_none_to_the_scores() -> None:
    weights, x = layer(ThresholdRelative())
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    qkv = torch.randn(3, M, B, H, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    qkv.requires_grad_()
    context = layer_of(qkv[0], leaves, True, k=qkv[1], v=qkv[2], x=x)
    (ThresholdRelative().score(context).logits - context.exact_products()).sum().backward()
    assert leaves["block0.gate"].grad.abs().sum() > 0 and leaves["block0.gate_bias"].grad.abs().sum() > 0
    assert not qkv.grad.abs().max() > 1e-12


def test_narrow_numbers_do_not_decide_a_threshold() -> None:
    """1.001 - 1 is zero in bfloat16, and a key of a small positive score would be dropped."""
    q = torch.tensor([1.001, 1.0, 0.0, 0.0]).expand(1, 1, 1, 1, 4)
    k = torch.tensor([1.0, -1.0, 0.0, 0.0]).expand(1, 1, 1, 1, 4)
    weights = {"block0.gate_bias": torch.zeros(1, 1)}
    context = layer_of(q, weights, True, k=k)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert context.products().item() == 0.0
        scores = ThresholdRelative(gate="head").score(context)
    assert scores.keep.item() and scores.logits.dtype == torch.float32
    narrow = layer_of(q.bfloat16(), {"block0.gate_bias": torch.zeros(1, 1).bfloat16()}, True, k=k.bfloat16())
    assert ThresholdRelative(gate="head").score(narrow).logits.dtype == torch.float32


@pytest.mark.parametrize("where", ["logits", "weights"])
def test_dropout_acts_on_logits_or_on_weights(where: str) -> None:
    position = ThresholdRelative(dropout_on=where)
    weights, x = with_dead_rows()
    seen: list[Tensor] = []

    def drop(tensor: Tensor, chunk: int) -> Tensor:
        seen.append(tensor)
        return torch.zeros_like(tensor)

    given = pass_of(torch.zeros(M, B, T, dtype=torch.int64), weights, True)
    out = apply_attention(x, given, name="block0", layer=0, heads=H, position=position, drop=drop)
    plain = attended(position, weights, x)
    sums = seen[0].sum(dim=-1)
    assert len(seen) == 1 and bool(((sums - 1).abs() < 1e-9)[..., 1:].all()) == (where == "weights")
    bias = weights["block0.output_bias"][:, None, None].expand_as(out)
    if where == "weights":
        assert torch.equal(out, bias)
    else:  # equal weights of the keys that remain
        values = (x @ weights["block0.qkv"][:, None, :, 2 * H * E :]).unflatten(-1, (H, E))
        expected = projected(weights, values[:, :, [1, 3]].mean(dim=2, keepdim=True).transpose(2, 3))
        torch.testing.assert_close(out[:, :, 3], expected[:, :, 0])
        assert torch.equal(out[:, :, 0], bias[:, :, 0]) and not torch.allclose(out[:, :, 3], plain[:, :, 3])


def test_what_is_kept_for_the_gradient_is_what_the_mathematics_needs() -> None:
    """Of the size of the scores: the distance, the weights before and after rows without keys, and masks of a byte."""
    long = 64
    weights, _ = layer(ThresholdRelative())
    leaves = {name: value.float().detach().requires_grad_() for name, value in weights.items()}
    x = torch.randn(M, B, long, D, requires_grad=True)
    kept: dict[int, int] = {}

    def count(saved: Tensor) -> Tensor:
        kept[saved.untyped_storage().data_ptr()] = saved.untyped_storage().nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
        out = attended(ThresholdRelative(), leaves, x)
    pairs = M * B * H * long * long
    large = sorted(size / pairs for size in kept.values() if size >= pairs)
    assert out.requires_grad and sum(large) <= 3 * 4 + 1, large


def test_what_it_records_of_a_small_layer() -> None:
    weights, x = with_dead_rows()
    recorded: dict[str, Tensor] = {}
    attended(ThresholdRelative(), weights, x, recorder=recorded.__setitem__)
    expected = {"surviving_keys": [0, 1 / 2, 1 / 3, 2 / 4, 3 / 5, 4 / 6], "dead_rows": [1, 0, 0, 0, 0, 0]}
    expected["contextual_distance"] = [0, 1, 1, 2, 3, 4]
    for name, row in expected.items():
        torch.testing.assert_close(recorded[name], torch.tensor(row).double().expand(M, B, H, T), atol=1e-7, rtol=0)
    assert recorded["gate"].shape == (M, B, H, T) and (recorded["gate"] > 0).all()
    for switches, names in (
        ({"threshold": False}, {"gate", "contextual_distance"}),
        ({"gate": "off", "distance": "absolute"}, {"surviving_keys", "dead_rows"}),
    ):
        recorded.clear()
        attended(ThresholdRelative(**switches), weights, x, recorder=recorded.__setitem__)
        assert recorded.keys() == names == ThresholdRelative(**switches).metrics.keys()


def test_one_head_computes_alone_as_in_a_pack(member) -> None:
    """A product with one column would have bits of its own: the gate is written out there."""
    model = {"name": "decoder", "layers": 1, "width": 16, "heads": 1, "position": "tra"}
    check_alone(lambda seeds: Pack([member(seed, model=model) for seed in seeds], torch.device("cpu")))
