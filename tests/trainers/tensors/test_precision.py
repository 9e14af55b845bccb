"""Passes in bfloat16: the same in every pack, near float32, and wide where a narrow number would decide otherwise."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests.trainers.positions.passes import layer_of
from tests.trainers.runs import check_alone, check_resumed, stepped
from trainers.errors import ConfigError
from trainers.evaluation.forward import Forward
from trainers.models.attention import _attend_fused, compute_attention_weights
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.alibi import Alibi
from trainers.positions.cope import Cope
from trainers.positions.tra import ThresholdRelative
from trainers.tasks.decoding import Decoding
from trainers.tensors.precision import autocast, matmul, sigmoid, upcast
from trainers.training.step import make_training_noise, sample_batches

CPU = torch.device("cpu")
TASK = {"name": "copy_string", "train_length": 5, "test_lengths": [8], "symbols": 6}
MODEL = {"name": "decoder", "layers": 2, "width": 24, "heads": 2, "head_width": 6, "dropout": 0.1}
NARROW = {"training__compute_dtype": "bfloat16", "task": TASK}


def pack_of(member, seeds: tuple[int, ...], position: str = "nope", **changes) -> Pack:
    sites = ["embedding", "attention", "residual"] if position == "tra" else ["embedding", "residual"]
    model = {**MODEL, "position": position, "dropout_sites": sites}
    return Pack([member(seed, **{**NARROW, "model": model, **changes}) for seed in seeds], CPU)


@pytest.mark.parametrize("position", ["nope", "rope", "tra", "cope"])
def test_a_member_trains_alone_as_in_a_pack(member, position: str) -> None:
    check_alone(lambda seeds: pack_of(member, seeds, position), steps=12)


def test_what_is_kept_and_the_loss_are_float32_and_near_those_of_float32(member) -> None:
    narrow, plain = (pack_of(member, (0, 1), "rope", training__compute_dtype=d) for d in ("bfloat16", "float32"))
    narrow_state, plain_state = stepped(narrow, 12), stepped(plain, 12)
    for state in (narrow_state, plain_state):
        buffers = [state.theta, *state.optimizer.values(), *state.averages[0]]
        assert {buffer.dtype for buffer in buffers} == {torch.float32}
    assert not torch.equal(narrow_state.theta, plain_state.theta)
    torch.testing.assert_close(narrow_state.loss_sum, plain_state.loss_sum, rtol=2e-3, atol=0)
    step = torch.tensor(1)
    (batch,) = sample_batches(narrow, step, 16)
    with autocast("bfloat16", "cpu"):
        logits = narrow.model.logits(
            narrow.layout.split(narrow_state.theta), batch, make_training_noise(narrow, step), narrow.form
        )
    assert logits.dtype == torch.bfloat16


def test_generation_is_narrow_too_and_gives_float32(member) -> None:
    pack = pack_of(member, (0, 1), "rope")
    (batch,) = sample_batches(pack, torch.tensor(1), 3)
    weights = pack.layout.split(3 * TrainingState.make_initial(pack).theta)
    logits = {}
    for dtype in ("float32", "bfloat16"):
        forward = Forward(pack.model, weights, pack.form, None, dtype)
        whole = forward(batch)
        short = type(batch)(batch.tokens[..., :4], batch.tokens[..., :4])
        first, cache = forward.prefill(short, batch.tokens.shape[-1])
        rest, _ = forward.decode(cache, batch.tokens[..., 4:])
        logits[dtype] = whole
        assert whole.dtype == first.dtype == rest.dtype == torch.float32
        torch.testing.assert_close(torch.cat([first, rest], dim=2), whole, rtol=0.02, atol=0.02)
        kept = cache.state.layers[0].tensors["v"].dtype
        assert kept == getattr(torch, dtype)
    assert not torch.equal(logits["float32"], logits["bfloat16"])
    torch.testing.assert_close(logits["bfloat16"], logits["float32"], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("kept", [True, False])
def test_states_are_written_in_narrow_numbers_whether_keys_are_kept_or_not(member, monkeypatch, kept: bool) -> None:
    pack = pack_of(member, (0, 1), "rope")
    monkeypatch.setattr(type(pack.model), "supports_masked_cache", kept)
    weights = pack.layout.split(3 * TrainingState.make_initial(pack).theta)
    prompt, seen = torch.tensor([[[1, 2, 3]], [[1, 3, 2]]]), []
    choose = Decoding.choose_token
    monkeypatch.setattr(
        Decoding, "choose_token", lambda self, logits, u: seen.append(logits) or choose(self, logits, u)
    )
    for dtype in ("float32", "bfloat16"):
        forward = Forward(pack.model, weights, pack.form, None, dtype)
        sizes = {"shared": 4, "states": 1, "width": 2, "mark": 4}
        forward.generate_by_state(prompt, Decoding(end=5, pad=0), **sizes)
    plain, narrow = seen[0], seen[len(seen) // 2]
    assert plain.dtype == narrow.dtype == torch.float32 and not torch.equal(plain, narrow)
    torch.testing.assert_close(narrow, plain, rtol=0.05, atol=0.05)


@pytest.mark.slow
def test_a_compiled_step_is_near_an_eager_one(member) -> None:
    """With fullgraph, batches drawn by code that does not compile; and the same bits in packs of two sizes."""
    small = {"model": {**MODEL, "layers": 1, "dropout": 0.0}, "training__averages": {"raw": {}}}
    small |= {"task": {"name": "othello", "board": 4, "train_moves": 6}, "training__optimizer": "gradient_descent"}
    eager = stepped(pack_of(member, (0, 3), **small), 4)
    both = [stepped(pack_of(member, seeds, **small, training__compile=True), 4) for seeds in ((0, 3), (5, 0, 1))]
    torch.testing.assert_close(both[0].loss_sum, eager.loss_sum, rtol=1e-3, atol=0)
    assert torch.equal(both[0].theta[0], both[1].theta[1]) and int(both[0].failed_at.max()) == -1


def test_a_killed_run_resumes_bit_for_bit(member, tmp_path) -> None:
    changes = {"evaluation__every": 4, "training__steps": 12, "evaluation__samples": 16}
    check_resumed(pack_of(member, (0, 1), "tra", **changes).members, tmp_path, 12, every_steps=3)


def test_keys_are_kept_and_counted_in_float32() -> None:
    """512.5 - 512 is 0 in bfloat16 as a product is rounded there, and a key of a positive score would be dropped."""
    q = torch.tensor([1.0, 1.0, 1.0, 0.0]).expand(1, 1, 1, 600, 4)
    k = torch.tensor([512.0, 0.5, -512.0, 0.0]).expand(1, 1, 1, 600, 4)
    context = layer_of(q, {"block0.gate_bias": torch.zeros(1, 1)}, True, k=k, v=k)
    position = ThresholdRelative(gate="head", qk_norm=False)
    with autocast("bfloat16", "cpu"):
        bits = (q.bfloat16()[..., :2] * k.bfloat16()[..., :2]).sum(dim=-1) + (q * k).bfloat16()[..., 2]
        assert not (bits > 0).any()
        scores = position.score(context)
        attention = compute_attention_weights(context, scores)
    assert (
        scores.keep[0, 0, 0].tril().sum() == 600 * 601 // 2 and scores.logits.dtype == attention.dtype == torch.float32
    )
    counts = (scores.logits[0, 0, 0, -1] - scores.logits[0, 0, 0, -1, -1]) / torch.log(torch.tensor(0.5))
    torch.testing.assert_close(counts.round(), torch.arange(599.0, -1.0, -1.0))  # 257 does not exist in bfloat16


@pytest.mark.parametrize("position", [Alibi(), Cope(npos_max=1024)], ids=["alibi", "cope"])
def test_distances_beyond_256_are_told_apart(position) -> None:
    q = torch.ones(1, 1, 1, 400, 4)
    vectors = torch.arange(1024.0)[None, :, None].expand(1, 1024, 4) / 4
    context = layer_of(q.bfloat16(), {"block0.cope": vectors}, True, v=q)
    with autocast("bfloat16", "cpu"):
        scores = position.score(context)
    scored = scores.bias if scores.bias is not None else scores.logits
    steps = scored.expand(1, 1, 1, 400, 400)[0, 0, 0, -1].float().diff().abs()
    assert (steps > 0).float().mean() > 0.9


def test_products_are_those_of_rounded_factors_whose_sums_are_rounded() -> None:
    left, right = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(matmul(left, right), torch.bmm(left, right)) and upcast(torch.float64) == torch.float64
    exact = torch.bmm(left.bfloat16().double(), right.bfloat16().double())
    with autocast("bfloat16", "cpu"):
        product = matmul(left, right)
    assert product.dtype == torch.bfloat16 and torch.equal(product, exact.float().bfloat16())


def test_a_product_does_not_depend_on_its_place_in_a_batch() -> None:
    """Those of torch do: its CPU kernel for bfloat16 is another one for few and small matrices."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        left, right = (torch.randn(64, *shape, generator=generator) for shape in ((8, 60), (60, 8)))
        with autocast("bfloat16", "cpu"):
            together = matmul(left, right)
            assert all(torch.equal(matmul(left[i : i + 1], right[i : i + 1])[0], together[i]) for i in range(64))


@pytest.mark.parametrize("shape", [(64, 5, 81), (64, 2, 32)])
def test_a_sigmoid_does_not_depend_on_its_place_in_a_pack(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    together = sigmoid(values)
    assert torch.equal(together, torch.cat([sigmoid(values[index, None]) for index in range(64)]))
    torch.testing.assert_close(together, torch.sigmoid(values), atol=0, rtol=1e-6)


def test_the_softmax_and_the_fused_kernel_sum_in_float32() -> None:
    q, k, v = torch.randn(3, 2, 3, 2, 40, 4, generator=torch.Generator().manual_seed(1)).bfloat16()
    context = layer_of(q, {}, True, k=k, v=v)
    with autocast("bfloat16", "cpu"):
        weights, fused = compute_attention_weights(context, None), _attend_fused(context)
    assert weights.dtype == torch.float32 and fused.dtype == torch.bfloat16
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 2, 40), rtol=1e-6, atol=0)
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    assert (fused == exact.bfloat16()).float().mean() > 0.99


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training__dtype": "float64"},
            "compute_dtype: with dtype float64 everything is computed in float64.*float32",
        ),
        (
            {"model": {"name": "attention_only", "width": 8}, "task__name": "copy_string"},
            "attention_only supports only",
        ),
        ({"training__compute_dtype": "bfloat"}, "compute_dtype.*bfloat16"),
    ],
)
def test_what_cannot_be_narrow_is_refused(member, changes, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){message}"):
        member(**{**NARROW, "model": MODEL, **changes})


TRAINED = """
import sys
import torch
torch.ones(8, 8) @ torch.ones(8, 8)
import json
from trainers import MemberConfig, train
class Told:
    report = progress = lambda self, given: None
    notice = lambda self, text: print(text)
train([MemberConfig.from_dict(json.loads(sys.argv[1]))], Told())
from orchestrator.engine.environment import read_environment
print(read_environment([], gpus=0)["MKL_CBWR"])
"""


@pytest.mark.slow
@pytest.mark.skipif("USE_MKL=ON" not in torch.__config__.show(), reason="this torch computes without MKL")
def test_a_matrix_product_before_the_import_is_recorded(sections) -> None:
    """MKL reads MKL_CBWR at its first product, and not when it is loaded."""
    given = json.dumps(sections(training__steps=1))
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    done = subprocess.run(
        [sys.executable, "-c", TRAINED, given], capture_output=True, text=True, env=environment, check=True
    )
    *calls, recorded = done.stdout.splitlines()
    assert recorded == "AVX2,STRICT, too late"
    assert [line.split()[0] for line in calls] == ["MKL_CBWR=AVX2,STRICT"]
