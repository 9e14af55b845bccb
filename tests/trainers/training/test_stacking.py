"""The determinism contract: a member alone equals the same member in any pack, bit for bit on CPU."""

import random

import numpy as np
import pytest
import torch

from tests.side_by_side.cases import EAGER
from tests.trainers.runs import everything, stepped
from trainers import train
from trainers.config.member import MemberConfig
from trainers.errors import PackError
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.training.step import train_next_step

CPU = torch.device("cpu")


def neighbour(member, draw: random.Random, **changes) -> MemberConfig:
    """Another member of the same structure with hyperparameters of its own; seeds may coincide."""
    hyperparameters = {
        "training__learning_rate": 10 ** draw.uniform(-4, -1.5),
        "training__weight_decay": draw.uniform(0, 0.2),
        "training__betas": [draw.uniform(0.5, 0.95), draw.uniform(0.9, 0.999)],
        "training__clip": draw.uniform(0.05, 2.0),
        "model__dropout": draw.uniform(0.01, 0.7),
        "training__averages": averages(draw.uniform(0.5, 0.999), draw.uniform(0.3, 0.8)),
    }
    return member(draw.randrange(6), **{**changes, **hyperparameters})


def averages(decay: float, kappa: float) -> dict:
    return {"raw": {}, "ema": {"decay": decay}, "bema": {"kappa": kappa, "burn_in": 3, "update_period": 2}}


CASES = {
    "table": {},
    "plain": {"model__form": "plain"},
    "every dropout site, pre-norm, soft": {
        "model__dropout_sites": ["embedding", "attention", "residual"],
        "model__norm": "pre",
        "task__target": "soft",
    },
    "post-norm, warm-up": {"model__norm": "post", "training__schedule": {"name": "cosine", "warmup": 10}},
    "larger": {"task__vocabulary": 20, "task__train_length": 6, "model__width": 32, "training__batch_size": 48},
}

OTHERS = {
    "task": {"name": "othello", "board": 4, "train_moves": 5},
    "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "t5"},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_alone_equals_packed_bit_for_bit(member, changes) -> None:
    """Compiled packs are in test_stopping.py."""
    draw = random.Random(11)
    mine = neighbour(member, draw, **changes)
    reference = None
    for size, *places in ((1, 0), (2, 1), (5, 0, 2, 4)):
        members = [mine if index in places else neighbour(member, draw, **changes) for index in range(size)]
        pack = Pack(members, CPU)
        state = stepped(pack, 6)
        for index in places:
            values = everything(pack, state, index)
            reference = values if reference is None else reference
            assert torch.equal(reference, values), f"a pack of {size}, place {index}, differs"


SHIPPED = [name for name in EAGER if name.startswith(("decoder", "encoder", "lstm", "training: bfloat16"))]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_model_and_encoding_trains_alone_as_in_a_pack(name: str) -> None:
    """Among two configurations of two seeds."""
    members = [MemberConfig.from_dict(settings) for settings in EAGER[name]]
    values = []
    for some in (members[-1:], members):
        pack = Pack(some, CPU)
        values.append(everything(pack, stepped(pack, 2), -1))  # the second step has moments
    assert torch.equal(*values) and torch.isfinite(values[0]).all()


LONE = {
    "one row of a product, from a single head": {
        "task": {"name": "flip_flop", "pairs": 8},
        "model": {"name": "decoder", "layers": 2, "width": 16, "heads": 1, "position": "fire"},
        "training": {"steps": 20, "batch_size": 8, "learning_rate": 0.003, "compile": False},
    },
    "one row of a product, from a single input": {
        "task": {"name": "set_complement", "vocabulary": 8, "train_length": 1},
        "model": {"name": "decoder", "layers": 1, "width": 32, "heads": 2},
        "training": {"steps": 20, "batch_size": 1, "learning_rate": 0.003, "compile": False},
    },
    "one row of a product, from a single state": {
        "task": {"name": "set_complement", "vocabulary": 8, "train_length": 3},
        "model": {"name": "lstm", "width": 32},
        "training": {"steps": 20, "batch_size": 4, "accumulation": 4, "learning_rate": 0.003, "compile": False},
    },
    "contextual positions": {
        "task": {"name": "flip_flop", "pairs": 8},
        "model": {"name": "decoder", "layers": 2, "width": 32, "heads": 4, "position": "cope"},
        "training": {"steps": 20, "batch_size": 32, "learning_rate": 0.003, "compile": False},
    },
    "a ring at its default width": {
        "task": {"name": "ring_regression"},
        "model": {"name": "linear_attention", "encoding": "rpe"},
        "training": {"steps": 20, "batch_size": 1, "learning_rate": 0.1, "compile": False},
    },
}


@pytest.mark.parametrize("sections", LONE.values(), ids=LONE)
def test_a_lone_member_is_what_it_is_among_others_after_many_steps(sections) -> None:
    """Products with a factor that rows share, or with one column, round differently for one member alone."""
    members = [MemberConfig.from_dict({**sections, "seed": seed, "evaluation": {"samples": 4}}) for seed in range(3)]
    values = []
    for some in (members[:1], members):
        pack = Pack(some, CPU)
        values.append(everything(pack, stepped(pack, 12), 0))
    assert all(torch.equal(values[0], other) for other in values[1:])


@pytest.mark.parametrize("changes", [*CASES.values(), OTHERS], ids=[*CASES, "othello"])
def test_curves_do_not_depend_on_how_many_members_are_evaluated_at_once(member, monkeypatch, changes) -> None:
    """One at a time, some of one average and some of the next, all: the same bits."""
    draw = random.Random(3)
    pack = Pack([neighbour(member, draw, evaluation__samples=17, **changes) for _ in range(7)], CPU)
    state = stepped(pack, 3)
    cells = 17 * pack.task.positions * pack.task.outputs
    curves = []
    for members in (1, 5, 21):
        monkeypatch.setattr(evaluation, "LOGITS_PER_PASS", members * cells)
        curves.append(evaluate(pack, state)[1])
    for other in curves[1:]:
        np.testing.assert_array_equal(curves[0], other)


def test_a_product_does_not_depend_on_its_place_in_a_batch() -> None:
    """MKL's default kernels fail this where a side is one more than a multiple of eight; trainers asks for others."""
    generator = torch.Generator().manual_seed(0)
    for rows, inner, columns in [(9, 8, 9), (10, 16, 9), (2, 32, 33), (17, 8, 9), (5, 16, 9)]:
        x = torch.randn(6, rows, inner, generator=generator)
        w = torch.randn(6, inner, columns, generator=generator)
        together = torch.bmm(x, w)
        for i in range(6):
            assert torch.equal(torch.bmm(x[i : i + 1], w[i : i + 1])[0], together[i])


def test_members_of_one_seed_see_the_same_data(member) -> None:
    pack = Pack([member(2), member(2, training__learning_rate=0.1), member(1)], CPU)
    assert pack.seeds_S.tolist() == [1, 2] and pack.seed_index_M is not None and pack.seed_index_M.tolist() == [1, 1, 0]


def test_a_diverging_member_is_frozen_and_the_others_go_on(member, recorder) -> None:
    good, bad = member(0), member(1, training__learning_rate=1e38)
    together = train([good, bad, member(2)], recorder)
    assert [result.status for result in together] == ["complete", "failed", "complete"]
    failed_at = together[1].failed_at
    assert failed_at is not None and 1 <= failed_at <= 50
    assert all(np.isnan(curve.values).all() for curve in together[1].curves)
    assert together[0].curves == train([good], recorder)[0].curves
    pack = Pack([good, bad], CPU)
    state = TrainingState.make_initial(pack)
    for _ in range(failed_at):
        train_next_step(pack, state)
    frozen = state.theta[1].clone()
    assert torch.isfinite(frozen).all()
    for _ in range(5):
        train_next_step(pack, state)
    assert torch.equal(frozen, state.theta[1]) and int(state.failed_at[1]) == failed_at


def test_a_pack_of_unequal_structure_is_refused(member, recorder) -> None:
    with pytest.raises(PackError, match="structural key"):
        train([member(0), member(1, training__batch_size=8)], recorder)


GOLDEN = {  # mean training loss of steps 1-50 of seeds 0 and 1, float64
    "sampled": [2.0734751353122927, 2.0711929995379426],
    "soft": [2.0650793744036435, 2.0638817208528177],
}


@pytest.mark.parametrize("target", sorted(GOLDEN))
def test_golden_losses(member, recorder, target: str) -> None:
    """Guards the numerics: any change of streams, initialization, model or optimizer shows here."""
    train([member(s, task__target=target, model__dropout=0.2, training__dtype="float64") for s in (0, 1)], recorder)
    assert recorder.evaluations[-1].loss_M.tolist() == pytest.approx(GOLDEN[target], rel=1e-6)
