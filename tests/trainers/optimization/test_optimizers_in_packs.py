"""Optimizers in packs: bits alone and in a pack, resumption, identity, refusals, and optimizers of one's own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import Bag, Echo
from tests.trainers.runs import check_alone, check_one_program, check_resumed, stepped
from trainers import Checkpoints, train
from trainers.check import check_class
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.optimization.optimizer import Optimizer, Update
from trainers.optimization.optimizers.adamw import AdamW
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.settings.fields import setting
from trainers.settings.fields_by_key import find_field
from trainers.tensors.parameters import ParameterLayout
from trainers.training.cost import count_training_state_bytes, estimate_member_cost
from trainers.training.step import sample_batches, train_next_step, train_step

CPU = torch.device("cpu")
OPTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "adamw": lambda seed: {},
    "gradient_descent": lambda seed: {},
    "sgd": lambda seed: {"momentum": 0.9 - 0.1 * seed},
    "lion": lambda seed: {"beta1": 0.9 - 0.1 * seed, "beta2": 0.99 - 0.01 * seed},
    "muon": lambda seed: {"momentum": 0.95 - 0.1 * seed},
    "adafactor": lambda seed: {"threshold": 1.0 + seed, "beta2_decay": -0.8 + 0.05 * seed},
}
DECODER = {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "dropout": 0.1}
Make = Callable[..., MemberConfig]


class Sam(AdamW):
    """Sharpness-aware minimization: AdamW with the gradient at the worst weights nearby."""

    radius: float = setting(0.05, low=0.0, member=True, help="distance of the worst weights")

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        norm = torch.linalg.vector_norm(inputs.gradient, dim=1, keepdim=True)
        radius = inputs.hyperparameters["radius"]
        worst = inputs.theta + (radius * inputs.gradient / (norm + 1e-12)).to(inputs.theta.dtype)
        return super().update(replace(inputs, gradient=inputs.compute_gradient(worst)))

    def count_operations(self, gradient: float, parameters: Any) -> float:
        return 2 * gradient


class Noisy(Optimizer):
    """Gradient descent with Gaussian noise, in float64 without noticing."""

    noise: float = setting(0.01, low=0.0, member=True, help="standard deviation of the noise")

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        return {"before": theta}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        noise = inputs.stream.normal(0, tuple(inputs.theta.shape[1:]))
        share = inputs.h["noise"]  # the name of hyperparameters in 2.0.0
        return inputs.theta - inputs.rate * (inputs.gradient + share * noise), {"before": inputs.theta}


class Remembering(Optimizer):
    """Gradient descent that keeps the weights before its step, as a view of the tensor that the step overwrites."""

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        return {"before": torch.zeros_like(theta)}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        return inputs.theta - inputs.rate * inputs.gradient, {"before": inputs.theta.detach()}


@pytest.fixture(autouse=True)
def _own(registered: Callable[[str, str, type[Any]], None]) -> None:
    registered("optimizer", "sam", Sam)
    registered("optimizer", "noisy", Noisy)
    registered("optimizer", "remembering", Remembering)


def built(member: Make, name: str, seed: int, **more: Any) -> MemberConfig:
    """A member whose hyperparameters all depend on its seed."""
    options = OPTIONS.get(name, lambda seed: {})(seed)
    optimizer = {"name": name, **options}
    rate = {"training__learning_rate": 0.002 * (1 + seed), "training__weight_decay": 0.01 * seed}
    return member(seed, **{"model": DECODER, "training__optimizer": optimizer, **rate, **more})


@pytest.mark.parametrize("name", [*OPTIONS, "sam", "noisy"])
def test_a_member_has_the_same_bits_alone_and_beside_other_hyperparameters(member: Make, name: str) -> None:
    def pack_of(seeds: tuple[int, ...]) -> Pack:
        return Pack([built(member, name, seed) for seed in seeds], CPU)

    pack, state = check_alone(pack_of, packs=((7,), (2, 7, 5, 2)) if name == "adamw" else ((7,), (2, 7)), steps=4)
    assert not torch.equal(state.theta, TrainingState.make_initial(pack).theta)


@pytest.mark.parametrize("name", ["sgd", "lion", "muon", "adafactor", "noisy"])
def test_a_killed_run_resumes_with_the_same_bits(member: Make, name: str, tmp_path: Path) -> None:
    members = [built(member, name, seed, training__steps=8, evaluation__every=4) for seed in (0, 1)]
    check_resumed(members, tmp_path, at=6, every_steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gradient_descent", "sgd", "lion", "muon", "adafactor", "sam", "noisy"])
def test_a_step_is_one_program(member: Make, name: str) -> None:
    needs_blocks = name in ("muon", "adafactor")  # which treat matrices and vectors differently
    model = DECODER if needs_blocks else {"name": "attention_only", "width": 8}
    check_one_program(Pack([built(member, name, seed, model=model) for seed in (0, 1)], CPU))


def test_ids_from_when_the_optimizer_was_a_text_have_not_changed(member: Make) -> None:
    plain = {"training": {"steps": 50, "batch_size": 16, "learning_rate": 3e-3}}
    for written, ids in (
        ({}, ("4d7db127ba06", "86618cbf0db1")),
        ({"optimizer": "adamw"}, ("4d7db127ba06", "86618cbf0db1")),
        ({"optimizer": "gradient_descent"}, ("7318e4d82400", "1748646b328b")),
        ({"optimizer": {"name": "gradient_descent"}}, ("7318e4d82400", "1748646b328b")),
    ):
        config = member(training={**plain["training"], **written})
        assert (config.config_id, config.structural_key) == ids
        assert MemberConfig.from_dict(config.to_dict()) == config


def test_an_optimizer_and_its_options_are_part_of_the_identity(member: Make) -> None:
    def named(optimizer: Any) -> MemberConfig:
        return member(training__optimizer=optimizer)

    written = [*OPTIONS, {"name": "lion", "beta1": 0.8}, {"name": "muon", "nesterov": False}]
    assert len({named(optimizer).config_id for optimizer in written}) == len(written)
    assert named({"name": "lion", "beta1": 0.9}).config_id == named("lion").config_id
    # Member hyperparameters share a program, other options do not.
    assert named({"name": "lion", "beta1": 0.8}).structural_key == named("lion").structural_key
    assert named({"name": "muon", "nesterov": False}).structural_key != named("muon").structural_key
    field = find_field(named("lion").to_dict(), "training.optimizer.beta1", MemberConfig)
    assert field is not None and field.bounds["below"] == 1.0


@pytest.mark.parametrize(
    ("optimizer", "key", "close"),
    [
        ("adamv", "training.optimizer.name", "adamw"),
        ({"name": "lion", "beta_1": 0.5}, "training.optimizer.beta_1", "beta1"),
        ({"name": "sgd", "momentum": 1.0}, "training.optimizer.momentum", None),
        ({"name": "muon", "matrices": ["quary"]}, "training.optimizer.matrices", "query"),
        ({"name": "muon", "matrices": []}, "training.optimizer.matrices", None),
    ],
)
def test_a_wrong_name_or_option_is_one_problem(member: Make, optimizer: Any, key: str, close: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        member(training__optimizer=optimizer)
    (problem,) = caught.value.problems
    assert (problem.key, problem.nearest) == (key, close)


def test_muon_takes_matrices_between_hidden_layers_alone(member: Make) -> None:
    config = member(model=DECODER, training__optimizer="muon")
    taken = [p.name for p in config.model.parameters(config.task) if config.training.optimizer.is_muon_parameter(p)]  # type: ignore[attr-defined]
    assert taken and all(name.startswith("block0.") for name in taken)
    chosen = member(training__optimizer={"name": "muon", "matrices": ["query"]})
    pack, plain = (Pack([each], CPU) for each in (chosen, member()))
    states = [stepped(each, 1) for each in (pack, plain)]
    muon, adamw = (pack.layout.split(state.theta) for state in states)
    assert [name for name in muon if not torch.equal(muon[name], adamw[name])] == ["query"]


def test_a_checkpoint_of_gradient_descent_with_unused_moments_is_resumed(member: Make, tmp_path: Path) -> None:
    config = built(member, "gradient_descent", 0, training__steps=8, evaluation__every=4)
    checkpoints, names = Checkpoints(folder=tmp_path, every_steps=6), [(config.config_id, 0)]
    expected = train([config], Ignore(), checkpoints=checkpoints)
    stored, _ = Checkpoints(folder=tmp_path).load(names)
    assert stored is not None
    arrays = {**stored.arrays, **{name: np.zeros_like(stored.arrays["theta"]) for name in ("m", "v")}}
    for path in tmp_path.glob("*.ckpt"):
        path.unlink()
    Checkpoints(folder=tmp_path).save(replace(stored, arrays=arrays), names)
    assert train([config], Ignore(), checkpoints=Checkpoints(folder=tmp_path)) == expected


class Ignore:
    """A reporter that ignores everything."""

    def report(self, evaluation: Any) -> None: ...

    def progress(self, progress: Any) -> None: ...

    def notice(self, text: str) -> None: ...


def test_the_gradient_is_taken_again_at_other_weights(member: Make) -> None:
    same, other = (member(training__optimizer={"name": "sam", "radius": radius}) for radius in (0.0, 0.5))
    states = [stepped(Pack([each], CPU), 3) for each in (member(), same, other)]
    assert torch.equal(states[0].theta, states[1].theta)
    assert not torch.allclose(states[0].theta, states[2].theta, atol=1e-3)
    assert estimate_member_cost(same).flops_per_step == 2 * estimate_member_cost(member()).flops_per_step


def test_noise_is_keyed_by_seed_and_step(member: Make) -> None:
    pack = Pack([member(seed, training__optimizer={"name": "noisy", "noise": 5.0}) for seed in (3, 4, 3)], CPU)
    first, second = stepped(pack, 1), stepped(pack, 2)
    assert torch.equal(second.theta[0], second.theta[2]) and not torch.equal(second.theta[0], second.theta[1])
    assert torch.equal(second.optimizer["before"], first.theta), "a state that aliases the weights"


@pytest.mark.parametrize("backend", ["none", "aot_eager"])
def test_a_view_of_the_weights_keeps_their_values_before_the_step(member: Make, backend: str) -> None:
    few = {"training__optimizer": "remembering", "training__averages": {"raw": {}}}  # little to compile
    pack = Pack([replace(member(seed, **few), task=Echo(), model=Bag()) for seed in (0, 1)], CPU)
    run_step = train_step if backend == "none" else torch.compile(train_step, fullgraph=True, backend=backend)
    state = TrainingState.make_initial(pack)
    before = state.theta.clone()
    run_step(pack, state, sample_batches(pack, torch.tensor(1), 4))
    assert torch.equal(state.optimizer["before"], before) and not torch.equal(state.theta, before)


def test_estimates_know_the_size_of_the_state(member: Make) -> None:
    sizes = {name: count_training_state_bytes(member(training__optimizer=name)) for name in OPTIONS}
    weights = sizes["gradient_descent"] // 2
    assert sizes["adamw"] == sizes["muon"] == 4 * weights and sizes["lion"] == sizes["sgd"] == 3 * weights
    assert 2 * weights < sizes["adafactor"] < 3 * weights
    costs = {name: estimate_member_cost(member(training__optimizer=name)) for name in ("adamw", "lion", "muon")}
    assert costs["adamw"].bytes_per_member - costs["lion"].bytes_per_member == weights
    assert costs["adamw"].flops_per_step == costs["lion"].flops_per_step < costs["muon"].flops_per_step


class Mixing(AdamW):
    """The mean gradient of the pack for everybody."""

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        mean = inputs.gradient.mean(dim=0, keepdim=True)
        return super().update(replace(inputs, gradient=mean.expand_as(inputs.theta)))


class Flat(AdamW):
    """A state for all members together."""

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        return {"m": theta[:1], "v": theta[:1]}


class Taken(AdamW):
    """A state with the name of something else."""

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        return {"theta": theta}


class Lost(AdamW):
    """A state that is not returned."""

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        return super().update(inputs)[0], {}


@pytest.mark.parametrize(
    ("cls", "message"), [(Mixing, "other members"), (Flat, "shape (1, "), (Taken, "theta"), (Lost, "m, v")]
)
def test_a_faulty_optimizer_is_found_before_a_run(registered: Any, cls: type[Optimizer], message: str) -> None:
    registered("optimizer", "faulty", cls)
    (problem,) = check_class("optimizer", "faulty")
    assert message in problem


@pytest.mark.parametrize("name", ["adafactor", "noisy"])
def test_a_failed_member_keeps_its_state_and_others_continue(member: Make, name: str) -> None:
    pack = Pack([built(member, name, seed) for seed in (0, 1)], CPU)
    healthy, state = stepped(pack, 3), stepped(pack, 2)
    before = {key: buffer.clone() for key, buffer in state.optimizer.items()}
    state.failed_at[0] = 2
    train_next_step(pack, state)
    for key, buffer in state.optimizer.items():
        assert torch.equal(buffer[0], before[key][0]) and torch.equal(buffer[1], healthy.optimizer[key][1])
        assert not torch.equal(buffer[1], before[key][1])


def test_a_member_whose_state_is_not_finite_has_failed(member: Make) -> None:
    pack = Pack([member(seed, training__optimizer="lion") for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    state.optimizer["momentum"][0, 3] = float("inf")
    train_next_step(pack, state)
    assert state.failed_at.tolist() == [1, -1]
