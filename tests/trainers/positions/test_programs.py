"""Steps with encodings that draw, gate or drop: no waiting for a GPU, one program, and the same in any pack."""

import random

import pytest
import torch

from tests.trainers.runs import Recorder, check_alone
from tests.trainers.training.test_waits import check_one_program, waits
from trainers import train
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack
from trainers.training.step import train_next_step

CPU = torch.device("cpu")
POSITIONS = {
    "tra": "tra",
    "tra, a gate a head": {"name": "tra", "gate": "head", "distance": "absolute"},
    "fox": "fox",
    "rope, normalized": {"name": "rope", "qk_norm": True},
    "cope": {"name": "cope", "npos_max": 3},
    "shaw, values": {"name": "shaw", "clip": 2, "values": True},
    "randomized": {"name": "randomized", "longest": 20, "base": {"name": "tra", "dropout_on": "weights"}},
    "randomized rows": {"name": "randomized", "longest": 20, "base": "fox", "draw": "row"},
}


def pack_of(member, position, seeds: tuple[int, ...], layers: int = 2) -> Pack:
    model = {"name": "decoder", "layers": layers, "width": 8, "heads": 2, "dropout": 0.1, "position": position}
    draw = random.Random(5)
    rates = {seed: 10 ** draw.uniform(-3, -2) for seed in range(10)}
    return Pack([member(seed, model=model, training__learning_rate=rates[seed]) for seed in seeds], CPU)


@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS)
def test_a_member_is_alone_what_it_is_in_a_pack_and_nothing_waits(member, position) -> None:
    packs = ((7,), (2, 7, 2, 5))
    pack, state = check_alone(lambda seeds: pack_of(member, position, seeds), packs, steps=3)
    assert waits(lambda: train_next_step(pack, state)) == set() == waits(lambda: evaluate(pack, state))


def test_a_step_is_one_program(member) -> None:
    """The other encodings are in a step with every hook."""
    position = {"name": "randomized", "longest": 20, "base": POSITIONS["cope"]}
    check_one_program(pack_of(member, position, (3, 4), layers=1))


@pytest.mark.parametrize("name", ["cope", "tra", "fox", "rope, normalized", "shaw, values"])
def test_a_member_that_diverges_fails_alone(member, name: str) -> None:
    """With AdamW a rate of 1e10 makes every weight infinite, or NaN, within a few steps."""
    model = {"name": "decoder", "layers": 2, "width": 8, "heads": 2, "position": POSITIONS[name]}
    sane, wild = (member(3, model=model, training__learning_rate=rate, training__steps=8) for rate in (1e-3, 1e10))
    recorder = Recorder()
    assert [result.status for result in train([sane, wild], recorder)] == ["complete", "failed"]
    alone = Recorder()
    train([sane], alone)
    last, expected = recorder.evaluations[-1].values_MAKL, alone.evaluations[-1].values_MAKL
    assert (last[0] == expected[0]).all()
