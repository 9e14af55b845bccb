"""The LSTM from linear maps against torch.nn.LSTM with its weights, at any length and in any pack."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trainers.positions.passes import drawn, noise, tokens_of
from tests.trainers.training.test_waits import check_one_program, waits
from trainers.errors import ConfigError
from trainers.evaluation.evaluate import evaluate
from trainers.models.lstm import Lstm
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch
from trainers.tensors.parameters import ParameterLayout
from trainers.training.compiling import should_compile
from trainers.training.step import train_next_step

TASK = SetComplement(vocabulary=9, train_length=4)
CPU = torch.device("cpu")


@pytest.mark.parametrize("length", [1, 5, 40])
@pytest.mark.parametrize("hidden", [None, 5])
def test_it_is_the_lstm_of_torch(length: int, hidden) -> None:
    model = Lstm(width=6, hidden=hidden)
    weights, tokens = drawn(model, TASK), tokens_of((2, 3, length), TASK.inputs)
    logits = model.logits(weights, Batch(tokens, tokens), None, "plain")
    for m in range(2):
        layer = nn.LSTM(6, hidden or 6, batch_first=True, dtype=torch.float64)
        names = {
            "weight_ih_l0": "input",
            "weight_hh_l0": "state",
            "bias_ih_l0": "input_bias",
            "bias_hh_l0": "state_bias",
        }
        layer.load_state_dict({name: weights[mine][m].t() for name, mine in names.items()})
        states, _ = layer(functional.embedding(tokens[m], weights["embedding"][m]))
        expected = states @ weights["head"][m] + weights["head_bias"][m]
        torch.testing.assert_close(logits[m], expected.detach(), rtol=1e-12, atol=1e-12)


def test_it_starts_as_torch_does() -> None:
    layout = ParameterLayout(Lstm(width=100, hidden=25).parameters(TASK))
    views = layout.split(layout.draw_initial_weights(torch.tensor([1]), torch.float64))
    for name in ("input", "input_bias", "state", "state_bias", "head", "head_bias"):
        size = float(views[name].abs().max())
        assert 0.15 < size <= 0.2, name
    assert float(views["embedding"].std()) == pytest.approx(1.0, rel=0.1)
    assert {p.name for p in layout.parameters if p.decay} == {"input", "state", "head"}


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_nothing_waits(member, rate: float) -> None:
    model = {"name": "lstm", "width": 8, "dropout": rate}
    pack = Pack([member(seed, model=model) for seed in (2, 7)], CPU)
    state = TrainingState.make_initial(pack)
    assert waits(lambda: train_next_step(pack, state)) == set() == waits(lambda: evaluate(pack, state))


def test_dropout_acts_where_it_says() -> None:
    weights, tokens = drawn(Lstm(width=6), TASK), tokens_of((2, 3, 5), TASK.inputs)
    logits = [
        Lstm(width=6, dropout=0.5, dropout_sites=sites).logits(
            weights, Batch(tokens, tokens), noise(0, 1, rate=0.5), ""
        )
        for sites in ((), ("embedding",), ("residual",))
    ]
    assert torch.equal(logits[0], Lstm(width=6).logits(weights, Batch(tokens, tokens), None, ""))
    assert not torch.allclose(logits[0], logits[1]) and not torch.allclose(logits[1], logits[2])
    with pytest.raises(ConfigError, match="no attention"):
        Lstm(dropout_sites=("attention",))
    with pytest.raises(ValueError, match="groups"):
        Lstm(width=6).logits(weights, Batch(tokens, tokens, groups=tokens), None, "")


def test_it_is_compiled_where_that_is_asked_for(member) -> None:
    """Long enough for any other model; a program would have every position apart."""
    long = {"model": {"name": "lstm", "width": 64}, "training__steps": 100_000, "training__compile": "auto"}
    assert not should_compile(member(**long)) and not should_compile(member(**long), "cuda")
    assert should_compile(member(**{**long, "training__compile": True}))
    short = {"model": {"name": "lstm", "width": 8}, "task__vocabulary": 5, "task__train_length": 2}
    check_one_program(Pack([member(seed, **short) for seed in (1, 2)], CPU))
