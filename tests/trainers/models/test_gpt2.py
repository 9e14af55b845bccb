"""The decoder as GPT-2's: against a plain module as of nanoGPT, its sizes, and what decays, name by name."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.trainers.own_tasks import TOKENS, Last
from tests.trainers.runs import stepped
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.attention import MAX_QUERIES
from trainers.models.decoder import Decoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.randomized import Randomized
from trainers.random import Stream
from trainers.tensors.batch import Batch
from trainers.tensors.parameters import ParameterLayout
from trainers.training.step import compute_gradients

CPU = torch.device("cpu")
FORM = {
    "norm_type": "layer_unbiased",
    "biases": [],
    "init": "depth",
    "tied": True,
    "decay_embeddings": True,
    "position": "learned",
}


class Words(Last):
    """Any number of words, and rows of up to so many positions."""

    vocabulary: int = 1018
    inputs = outputs = property(lambda self: self.vocabulary)
    lengths = (1, 192)


class Block(nn.Module):
    """x + attention(norm(x)), then + mlp(norm(x)); no map and no norm has a bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (of.view(b, t, self.heads, -1).transpose(1, 2) for of in self.c_attn(self.ln_1(x)).split(d, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ v
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    """Token and position embeddings, blocks, a norm, and the token embedding again as the head."""

    def __init__(self, vocabulary: int, positions: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


MAPS = {"qkv": "c_attn", "output": "c_proj", "in": "c_fc", "out": "mlp_proj"}


def named(model: Gpt) -> Mapping[str, tuple[nn.Parameter, bool]]:
    """The parameters by our names, and whether ours is the transpose."""
    parameters = {"embedding": (model.wte.weight, False), "positions": (model.wpe.weight, False)}
    for i, block in enumerate(model.h):
        parameters |= {f"block{i}.{ours}": (getattr(block, its).weight, True) for ours, its in MAPS.items()}
        parameters |= {f"block{i}.norm{k}_gain": (getattr(block, f"ln_{k}").weight, False) for k in (1, 2)}
    return parameters | {"final_gain": (model.ln_f.weight, False)}


def test_logits_and_gradients_are_those_of_a_plain_module() -> None:
    model, task = Decoder(layers=2, heads=2, width=8, **FORM), Words(vocabulary=9)
    layout = ParameterLayout(model.parameters(task))
    theta = torch.randn(1, layout.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 0.5
    theta.requires_grad_()
    weights = layout.split(theta)
    plain = Gpt(9, 192, 2, 2, 8).double()
    with torch.no_grad():
        for name, (parameter, turned) in named(plain).items():
            parameter.copy_(weights[name][0].T if turned else weights[name][0])
    tokens = torch.tensor([[1, 5, 2, 8, 0, 1], [3, 4, 7, 6, 1, 8]])
    ours, theirs = model.logits(weights, Batch(tokens[None], tokens[None]), None, "plain")[0], plain(tokens)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    for logits in (ours, theirs):
        functional.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
    grads = layout.split(theta.grad)
    assert {name for name, _ in layout.shapes} == set(named(plain))
    for name, (parameter, turned) in named(plain).items():
        torch.testing.assert_close(grads[name][0], parameter.grad.T if turned else parameter.grad, msg=name)


@pytest.mark.parametrize(
    ("layers", "heads", "width", "millions"), [(6, 6, 384, 11.0), (8, 8, 512, 25.7), (12, 12, 768, 85.7)]
)
def test_the_sizes_of_the_paper(layers: int, heads: int, width: int, millions: float) -> None:
    """Of Abbe et al., arXiv:2406.06467: with the vocabulary of cycles, and without positions."""
    model = Decoder(layers=layers, heads=heads, width=width, **{**FORM, "position": "nope"})
    size = ParameterLayout(model.parameters(Words())).size
    assert round(size / 1e6, 1) == millions
    assert ParameterLayout(replace(model, position="learned").parameters(Words())).size == size + 192 * width


def test_all_of_two_dimensions_decay_and_nothing_else() -> None:
    model = Decoder(layers=2, heads=2, width=8, **FORM)
    decayed = {p.name: p.decay for p in model.parameters(Words())}
    matrices = {"embedding", "positions", *(f"block{i}.{name}" for i in (0, 1) for name in MAPS)}
    assert {name for name, decays in decayed.items() if decays} == matrices
    assert decayed.keys() - matrices == {"final_gain", *(f"block{i}.norm{k}_gain" for i in (0, 1) for k in (1, 2))}
    mask = ParameterLayout(model.parameters(Words())).make_decay_mask(CPU)
    assert int(mask.sum()) == len(mask) - 5 * 8
    kept = {p.name for p in replace(model, decay_embeddings=False).parameters(Words()) if not p.decay}
    assert {"embedding", "positions"} <= kept


def test_initial_weights_are_smaller_where_a_branch_ends() -> None:
    layout = ParameterLayout(Decoder(layers=8, heads=4, width=64, **FORM).parameters(Words()))
    views = layout.split(layout.draw_initial_weights(torch.tensor([5]), torch.float64))
    expected = dict.fromkeys(("embedding", "positions", "block3.qkv", "block3.in"), 0.02)
    for name, std in (expected | {"block3.output": 0.005, "block7.out": 0.005}).items():
        assert float(views[name].std()) == pytest.approx(std, rel=0.05), name
        assert abs(float(views[name].mean())) < std / 10
    assert (views["final_gain"] == 1).all() and "final_bias" not in views and "head" not in views


def test_a_head_is_tied_only_where_inputs_are_outputs(sections) -> None:
    model = {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "tied": True}
    with pytest.raises(ConfigError, match=r"model.tied: .*the task has \d+ input tokens and \d+ output tokens"):
        MemberConfig.from_dict(sections(model=model, task={"name": "multi_instruction"}))


class States(Last):
    """A question, then groups of two states each, with ids that restart: few ids and many tokens."""

    question: int = 8
    state: int = 16
    states: int = 4
    trained_lengths = (4,)
    lengths = (4,)

    @property
    def positions(self) -> int:
        return self.question + 2 * self.state * self.states

    train_positions = positions

    @property
    def position_ids(self) -> int:
        return self.question + 2 * self.state

    def batch_of(self, tokens: Tensor) -> Batch:
        at = torch.arange(tokens.shape[-1], device=tokens.device) - self.question
        groups = torch.where(at < 0, 0, 1 + at // (2 * self.state))
        ids = torch.where(at < 0, at, at % (2 * self.state)) + self.question
        return replace(super().batch_of(tokens), ids=ids.expand_as(tokens), groups=groups.expand_as(tokens))

    def sample(self, stream: Stream, rows: int) -> Batch:
        return self.batch_of(stream.integers(0, (rows, self.positions), TOKENS))


def long_rows(member, states: int, **changes) -> Pack:
    model = Decoder(layers=1, heads=2, width=8, dropout=0.2, **FORM)
    settings = {"training__batch_size": 2, "training__averages": {"raw": {}}, **changes}
    task = States(states=states)
    return Pack([replace(member(seed, **settings), task=task, model=model) for seed in (0, 1)], CPU)


def test_positions_have_as_many_vectors_as_there_are_ids(member) -> None:
    pack = long_rows(member, 49)
    assert pack.task.positions == 1576 and dict(pack.layout.shapes)["positions"] == (40, 8)
    assert dict(ParameterLayout(replace(pack.model, position="rpe").parameters(pack.task)).shapes)["block0.pairs"] == (
        79,
        4,
    )
    (problem,) = Randomized(base="learned", longest=2048).find_task_problems(
        type("Offset", (States,), {"position_ids": 4000})()
    )
    assert "4000 position ids" in problem.message


def test_long_rows_of_groups_need_no_mask_of_all_pairs(member) -> None:
    """Only query chunks: nothing that a pass of 1,576 tokens makes is as large as rows times tokens squared."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = [0]

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for output in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(output, Tensor):
                    largest[0] = max(largest[0], output.numel())
            return out

    pack = long_rows(member, 49)
    step, theta = torch.tensor(1), TrainingState.make_initial(pack).theta
    batches = pack.task.training_batches(Stream(pack.seeds_S, "data", step), 2)
    with Watch():
        gradient, loss = compute_gradients(pack, theta, batches, step)
    pairs = 2 * 2 * 2 * 1576  # members, rows and heads for each query
    assert torch.isfinite(gradient).all() and torch.isfinite(loss).all()
    assert 2 * 2 * 1576 * MAX_QUERIES < largest[0] <= pairs * MAX_QUERIES < 2 * 2 * 1576**2


@pytest.mark.slow
def test_long_rows_learn_compiled_as_they_do_eager(member) -> None:
    states = []
    for compiled in (False, True):
        pack = long_rows(member, 5, training__compile=compiled)  # 168 tokens, two chunks
        states.append(stepped(pack, 2))
    assert int(states[1].failed_at.max()) == -1
    torch.testing.assert_close(states[1].theta, states[0].theta, rtol=1e-3, atol=1e-4)
