"""What a step does after the gradient: the bits of the plain formulas, few passes, buffers that averages share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainers.runs import stepped, update_of
from trainers.optimization import averaging
from trainers.optimization.averaging import Bema, Ema, NormMatched
from trainers.optimization.optimizers.adamw import AdamW
from trainers.optimization.optimizers.descent import GradientDescent
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, compute_averages
from trainers.tensors.parameters import ParameterLayout
from trainers.training import step
from trainers.training.cost import estimate_member_cost
from trainers.training.step import sample_batches, train_next_step, train_step

CPU = torch.device("cpu")
EVERY: dict[str, dict[str, Any]] = {
    "raw": {},
    "ema": {"decay": 0.9},
    "bema": {"rho": 2.0},
    "norm_matched": {"rho": 2.0},
    "queries": {"kind": "norm_matched", "rho": 2.0, "parameters": ["query"]},
    "other": {"kind": "norm_matched", "rho": 3.0},
}


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def packed(member, averages: Mapping[str, Any] = EVERY, **changes: Any) -> Pack:
    return Pack([member(seed, training__averages=dict(averages), **changes) for seed in (0, 1)], CPU)


@pytest.mark.parametrize("mask", [None, torch.tensor([1.0, 0.0] * 40)], ids=["all decay", "half decay"])
def test_the_optimizers_have_the_bits_of_their_formulas(mask: Tensor | None) -> None:
    theta, gradient, m, root = torch.randn(4, 3, 80, generator=torch.Generator().manual_seed(3))
    v, rate = root**2, column(1e-3, 0.1, 1e12)
    h = {"weight_decay": column(0.1, 0.0, 2.0), "epsilon": column(1e-8, 1e-3, 0.0)}
    h |= {"beta1": column(0.9, 0.8, 0.0), "beta2": column(0.99, 0.999, 0.5)}
    kept = [tensor.clone() for tensor in (theta, gradient, m, v)]
    now = update_of(theta, gradient, {"m": m, "v": v}, 7, rate, h, decay_mask=mask)
    new_theta, state = AdamW().update(now)
    got = (new_theta, state["m"], state["v"])
    b1, b2, decay = h["beta1"], h["beta2"], torch.ones(80) if mask is None else mask
    new_m = m + (1.0 - b1).float() * (gradient - m)
    new_v = v * b2.float() + (1.0 - b2).float() * gradient * gradient
    scale = torch.sqrt(new_v) / torch.sqrt(1.0 - b2**7.0).float() + h["epsilon"].float()
    shrunk = theta * (1.0 - (rate * h["weight_decay"]).float() * decay)
    wanted = (shrunk - (rate / (1.0 - b1**7.0)).float() * (new_m / scale), new_m, new_v)
    for mine, theirs in zip(got, wanted, strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(GradientDescent().update(now)[0], shrunk - rate.float() * gradient)
    for before, after in zip(kept, (theta, gradient, m, v), strict=True):
        assert torch.equal(before, after), "nothing that was given is written into"


def plain_ema(ema: Tensor, theta: Tensor, t: int, h: Mapping[str, Tensor]) -> Tensor:
    moved = ema * h["decay"].float() + theta * (1.0 - h["decay"]).float()
    after = t - h["burn_in"]
    return torch.where(after <= 0, theta, torch.where(after % h["update_period"] == 0, moved, ema))


@pytest.mark.parametrize("t", [1, 2, 3, 4, 9])
def test_averages_have_the_bits_of_their_formulas_idle_or_not(t: int) -> None:
    ema, anchor, average, theta = torch.randn(4, 3, 80, generator=torch.Generator().manual_seed(4))
    numbers = {"decay": column(0.9, 0.5, 0.0), "kappa": column(0.5, -1.0, 0.3), "eta": column(0.2, 0.1, -1.0)}
    numbers |= {"rho": column(10.0, 2.0, 3.0), "gamma": column(1.0, 2.0, 0.5)}
    for burn_in, period in (
        ((0, 0, 0), (1, 1, 1)),
        ((0, 3, 2), (1, 1, 2)),
        ((0, 0, 0), (1, 2, 3)),
        ((2, 0, 9), (1, 1, 1)),
    ):
        h = {**numbers, "burn_in": torch.tensor(burn_in)[:, None], "update_period": torch.tensor(period)[:, None]}
        short = {name: value for name, value in h.items() if not (value == Ema.neutral.get(name, -1)).all()}
        after = t - h["burn_in"]
        count = h["rho"] + h["gamma"] * torch.clamp(after, min=1)
        beta = torch.where(h["kappa"] < 0, 1.0, count ** -h["kappa"])
        alpha = torch.where(h["eta"] < 0, 0.0, count ** -h["eta"])
        moved = ema * (1.0 - beta).float() + theta * beta.float()
        corrected = moved + alpha.float() * (theta - anchor)
        burning, due = after <= 0, after % h["update_period"] == 0
        wanted = [
            torch.where(burning, theta, torch.where(due, new, old)) for new, old in ((moved, ema), (corrected, average))
        ]
        for given in (h, short):
            got = Bema().update((ema, anchor, average), theta, torch.tensor(t), given)
            assert torch.equal(got[0], wanted[0]) and torch.equal(got[2], wanted[1])
            assert torch.equal(got[1], torch.where(burning, theta, anchor))
            assert torch.equal(
                Ema(decay=0.5).update((ema,), theta, torch.tensor(t), given)[0], plain_ema(ema, theta, t, h)
            )


class Passes(TorchDispatchMode):
    """The operations on whole buffers, by name."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.names = size, list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [tensor for tensor in (*args, *(kwargs or {}).values()) if isinstance(tensor, Tensor)]
        if any(tensor.numel() == self.size for tensor in given):
            self.names.append(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("label", "most"), [("raw", 21), ("ema", 25), ("bema", 30)])
def test_an_update_takes_so_many_passes(member, monkeypatch, label: str, most: int) -> None:
    """From the clipped gradient on; none chooses between old and new while nobody has failed."""
    pack = packed(member, {label: EVERY[label]})
    state, batches = TrainingState.make_initial(pack), sample_batches(pack, torch.tensor(1), 16)
    gradients = step.compute_gradients(pack, state.theta, batches, torch.tensor(1))
    monkeypatch.setattr(step, "compute_gradients", lambda *_: gradients)
    with Passes(state.theta.numel()) as passes:
        train_step(pack, state, batches)
    assert "where" not in passes.names and len(passes.names) <= most, passes.names


def test_averages_of_one_source_share_their_buffers(member) -> None:
    pack = packed(member)
    assert pack.buffer_source_indices == (0, 1, 2, 2, 2, 3)
    assert [type(source) for source in pack.buffer_sources[1:]] == [Ema, Bema, Bema]
    together = compute_averages(pack, stepped(pack, 4))
    for label, values in EVERY.items():
        alone = packed(member, {label: values})
        assert torch.equal(compute_averages(alone, stepped(alone, 4))[label], together[label]), label
    rho = [member(seed, training__averages={**EVERY, "bema": {"rho": 2.0 + seed}}) for seed in (0, 1)]
    assert Pack(rho, CPU).buffer_source_indices == (0, 1, 2, 3, 3, 4), "what differs in one member is kept apart"


def test_a_checkpoint_has_the_buffers_of_every_average_by_its_label(member) -> None:
    pack = packed(member)
    state = stepped(pack, 3)
    stored = state.make_snapshot(pack, [], False)
    buffers = {"ema": 1, "bema": 3, "norm_matched": 3, "queries": 3, "other": 3}
    named = {f"averages.{label}.{j}" for label, count in buffers.items() for j in range(count)}
    assert {name for name in stored.arrays if name.startswith("averages.")} == named
    again = TrainingState.make_initial(pack).restore(stored, pack)
    for given in (state, again):
        train_next_step(pack, given)
    for label, weights in compute_averages(pack, state).items():
        assert torch.equal(weights, compute_averages(pack, again)[label])
    assert np.array_equal(stored.arrays["averages.bema.2"], stored.arrays["averages.queries.2"])


def test_shared_buffers_are_paid_for_once(member) -> None:
    few = {label: EVERY[label] for label in ("raw", "bema")}
    costs = [
        estimate_member_cost(member(training__averages=averages))
        for averages in (few, {**few, "norm_matched": {"rho": 2.0}})
    ]
    assert costs[0].bytes_per_member == costs[1].bytes_per_member


def test_an_update_of_ones_own_is_given_every_number(member) -> None:
    """`neutral` speaks of the `update` beside it, not of one that overrides it; so does `source`."""

    class Mine(Ema):
        def update(self, buffers: Any, theta: Tensor, step: Tensor, h: Mapping[str, Tensor]) -> Any:
            return (torch.where(step <= h["burn_in"] * h["update_period"], theta, buffers[0]),)

    class MyNorms(NormMatched):
        pass

    averages = {"mine": Mine(decay=0.5), "norms": MyNorms(), "bema": Bema()}
    training = replace(member().training, averages=averages)
    pack = Pack([replace(member(seed), training=training) for seed in (0, 1)], CPU)
    assert set(pack.average_hyperparameters[0]) == {"decay", "burn_in", "update_period"}
    assert "burn_in" not in pack.average_hyperparameters[2] and pack.buffer_source_indices == (0, 1, 2)
    start = TrainingState.make_initial(pack)
    first = start.theta.clone()
    train_next_step(pack, start)
    assert torch.equal(start.averages[0][0], first)
    assert averaging.Average.neutral == {}


def test_a_failed_member_keeps_its_whole_state(member) -> None:
    averages = {**EVERY, "late": {"kind": "bema", "burn_in": 3, "update_period": 2}}
    rates = (3e-3, 1e30)
    members = [member(0, training__averages=averages, training__learning_rate=rate) for rate in rates]
    pack, alone = Pack(members, CPU), Pack(members[:1], CPU)
    state, other = TrainingState.make_initial(pack), TrainingState.make_initial(alone)

    def of(some: TrainingState, m: int) -> list[Tensor]:
        buffers = [b for buffers in some.averages for b in buffers]
        every = [some.theta, *some.optimizer.values(), some.loss_sum, *buffers]
        return [tensor[m].clone() for tensor in every]

    before = of(state, 1)
    while int(state.failed_at[1]) < 0:
        before = of(state, 1)
        train_next_step(pack, state)
        train_next_step(alone, other)
        assert int(state.step) < 10
    for _ in range(5):
        train_next_step(pack, state)
        train_next_step(alone, other)
    assert all(torch.equal(*two) for two in zip(before, of(state, 1), strict=True))
    assert all(torch.equal(*two) for two in zip(of(other, 0), of(state, 0), strict=True))
    state.failed_at[0] = 2  # it is healthy, and frozen all the same
    before = of(state, 0)
    train_next_step(pack, state)
    assert all(torch.equal(*two) for two in zip(before, of(state, 0), strict=True)) and int(state.failed_at[0]) == 2


def test_a_healthy_member_counts_its_loss_steps(member) -> None:
    pack = packed(member)
    state = TrainingState.make_initial(pack)
    train_next_step(pack, state)
    assert int(state.failed_at[0]) == -1 and int(state.loss_steps[0]) == int(state.step)


class Lagged(averaging.Average):
    """The weights of two steps ago: its buffers hand on what they have."""

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        return theta.clone(), theta.clone(), theta.clone()

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        return theta, buffers[0], buffers[1]

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        return buffers[2]


def test_buffers_that_hand_on_what_they_have_lose_nothing(member) -> None:
    pack = packed(member, {"raw": {}})
    pack.buffer_sources, pack.average_hyperparameters = (Lagged(),), ({},)
    state, seen = TrainingState.make_initial(pack), []
    for _ in range(4):
        seen.append(state.theta.clone())
        train_next_step(pack, state)
    assert all(torch.equal(mine, wanted) for mine, wanted in zip(state.averages[0][1:], seen[:1:-1], strict=True))
