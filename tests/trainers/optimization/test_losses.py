"""Losses apart from tasks: against plain torch, bits in packs, resumption, identity and refusals."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.trainers.models import own_modules
from tests.trainers.own_tasks import Last
from tests.trainers.runs import check_alone, check_one_program
from trainers.check import check_model
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.vmapped import Vmapped
from trainers.optimization.averaging import Raw
from trainers.optimization.loss import Loss, LossInputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.settings.fields import setting
from trainers.settings.fields_by_key import find_field
from trainers.tasks.supervised import IGNORED
from trainers.tensors.recording import record
from trainers.training.cost import estimate_member_cost
from trainers.training.step import compute_gradients, make_training_noise, sample_batches, train_next_step

CPU = torch.device("cpu")
DECODER = {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "dropout": 0.3}
COPY = {"name": "copy_string", "train_length": 4, "test_lengths": [8]}
Make = Callable[..., MemberConfig]


class Net(own_modules.Net):
    """Records what its embeddings are."""

    def forward(self, tokens: Tensor) -> Tensor:
        record("hidden", self.table(tokens))
        return super().forward(tokens)


class Recording(Vmapped):
    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        return Net(inputs, outputs, positions)


class Sparse(Loss):
    """The task's loss, a growing penalty on weights, and one on recorded values."""

    factor: float = setting(0.01, low=0.0, member=True, help="factor of the weights")
    activity: float = setting(0.0, low=0.0, member=True, help="factor of the recorded values")

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        recorded: dict[str, list[Tensor]] = {}
        loss, weight = inputs.task_loss(inputs.logits(recorded=recorded))
        size = sum(value.abs().flatten(1).sum(dim=1) for value in inputs.weights.values())
        penalty = inputs.hyperparameters["factor"] * (inputs.step / inputs.steps) * size
        for hidden in recorded.get("hidden", ()):
            activity = inputs.h["activity"]  # the name of hyperparameters in 2.0.0
            penalty = penalty + activity * hidden.square().flatten(1).mean(dim=1)
        return loss + penalty * weight, weight


class Follows(Loss):
    """The loss of the task, and how far the distribution is from that of the weight average `slow`."""

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        logits, goal = inputs.logits(), inputs.logits(1, weights=inputs.average("slow"))
        loss, weight = inputs.task_loss(logits)
        apart = (goal.softmax(-1) * (goal.log_softmax(-1) - logits.log_softmax(-1))).sum(-1)
        return loss + (apart * inputs.target_weights).sum(dim=(1, 2)), weight


class Mixing(Loss):
    """Averages over members, which no loss may."""

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        loss, weight = inputs.task_loss(inputs.logits())
        return loss + loss.mean(), weight


class Returning(Loss):
    """Returns what a test puts here."""

    result: ClassVar[Any] = None

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        inputs.task_loss(inputs.logits())
        return cast(tuple[Tensor, Tensor], self.result)


class Scalar(Loss):
    """A mean instead of a value for each member."""

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        loss, weight = inputs.task_loss(inputs.logits())
        return (loss / weight).mean(), weight.mean()


class Frozen(Raw):
    """The weights that training started from: with `training.initial`, those of a teacher."""

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        return (theta.clone(),)

    def update(self, buffers: tuple[Tensor, ...], *_: object) -> tuple[Tensor, ...]:
        return buffers

    def compute_weights(self, buffers: tuple[Tensor, ...], *_: object) -> Tensor:
        return buffers[0]


@pytest.fixture(autouse=True)
def _own(registered: Callable[[str, str, type[Any]], None]) -> None:
    registered("model", "recording", Recording)
    registered("task", "last", Last)
    for cls in (Sparse, Follows, Mixing, Scalar, Returning):
        registered("loss", cls.__name__.lower(), cls)


def built(member: Make, name: str, seed: int, **more: Any) -> MemberConfig:
    """A member whose hyperparameters depend on its seed."""
    options = {"r_drop": {"alpha": 1.0 + seed}, "sparse": {"factor": 0.01 * (1 + seed)}}.get(name, {})
    return member(seed, **{"model": DECODER, "training__loss": {"name": name, **options}, **more})


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second) of logits at every position, by torch."""
    logs = (second.log_softmax(-1), first.log_softmax(-1))
    return functional.kl_div(*logs, reduction="none", log_target=True).sum(-1)


def test_r_drop_is_equation_4_of_its_paper(member: Make) -> None:
    members = [
        member(seed, task=COPY, model=DECODER, training__loss={"name": "r_drop", "alpha": 2.0 + seed})
        for seed in (0, 1)
    ]
    pack, step = Pack(members, CPU), torch.tensor(3)
    (batch,) = sample_batches(pack, step, 5)
    batch = replace(batch, weight=torch.rand(batch.targets.shape, generator=torch.Generator().manual_seed(0)))
    theta = TrainingState.make_initial(pack).theta
    gradient, loss_M = compute_gradients(pack, theta, [batch], step)

    at, noise = theta.clone().requires_grad_(), make_training_noise(pack, step)
    assert noise is not None
    first, second = (pack.model.logits(pack.layout.split(at), batch, noise.for_pass(k), pack.form) for k in (0, 1))
    assert not torch.allclose(first, second), "the same dropout in both passes"
    expected = []
    for m in (0, 1):
        counted = batch.targets[m] != IGNORED
        a, b, targets = first[m][counted], second[m][counted], batch.targets[m][counted]
        both = sum(functional.cross_entropy(logits, targets, reduction="none") for logits in (a, b))
        apart = 0.5 * (2.0 + m) * (divergence(a, b) + divergence(b, a))
        assert batch.weight is not None
        weight = batch.weight[m][counted]
        expected.append(((both + apart) * weight).sum() / weight.sum())
    torch.testing.assert_close(loss_M, torch.stack(expected).detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(sum(expected), at)[0])


def test_a_loss_sees_step_weights_and_recorded_values(member: Make) -> None:
    task = {"name": "last"}
    plain, penalized = (
        Pack([member(seed, task=task, model={"name": "recording"}, **more) for seed in (0, 1)], CPU)
        for more in ({}, {"training__loss": {"name": "sparse", "factor": 0.5, "activity": 3.0}})
    )
    step = torch.tensor(10)  # of 50
    (batch,) = sample_batches(plain, step, 4)
    theta = TrainingState.make_initial(plain).theta
    gradient, loss_M = compute_gradients(penalized, theta, [batch], step)
    at = theta.clone().requires_grad_()
    tokens = batch.tokens
    tables = plain.layout.split(at)["table.weight"]
    hidden = torch.stack([functional.embedding(tokens[m], tables[m]) for m in (0, 1)])
    penalty = 0.5 * 0.2 * at.abs().sum(1) + 3.0 * hidden.square().flatten(1).mean(1)
    (more,) = torch.autograd.grad(penalty.sum(), at)
    before, before_M = compute_gradients(plain, theta, [batch], step)
    torch.testing.assert_close(loss_M, before_M + penalty.detach())
    torch.testing.assert_close(gradient, before + more)


def test_the_loss_of_the_task_keeps_its_smoothing_and_z_loss(member: Make) -> None:
    more = {"training__label_smoothing": 0.1, "training__z_loss": 0.01}
    without = {"training__loss": {"name": "sparse", "factor": 0.0}}
    results = []
    for settings in ({}, more, {**more, **without}):
        pack, step = Pack([member(0, model=DECODER, **settings)], CPU), torch.tensor(1)
        theta = TrainingState.make_initial(pack).theta
        results.append(compute_gradients(pack, theta, sample_batches(pack, step, 4), step)[1])
    assert torch.equal(results[1], results[2]) and not torch.equal(results[0], results[1])


@pytest.mark.parametrize("name", ["r_drop", "sparse"])
def test_slices_of_a_batch_have_the_gradient_of_the_whole(member: Make, name: str) -> None:
    packs = [Pack([built(member, name, 3, training__accumulation=count)], CPU) for count in (1, 3)]
    step, theta = torch.tensor(1), TrainingState.make_initial(packs[0]).theta
    batches = sample_batches(packs[0], step, 6)
    whole, sliced = (compute_gradients(pack, theta, batches, step) for pack in packs)
    torch.testing.assert_close(sliced, whole)


SLOW = {"training__averages": {"slow": {"kind": "ema", "decay": 0.9}}}


def test_a_loss_reads_a_weight_average_from_before_the_step(member: Make) -> None:
    """As of arXiv:1703.01780, whose teacher is the average of the weights, with other dropout than the student."""
    pack = Pack([built(member, "follows", seed, **SLOW) for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    for _ in range(3):
        train_next_step(pack, state)
    step = state.step + 1
    (batch,) = sample_batches(pack, step, pack.training.batch_size)
    gradient, loss_M = compute_gradients(pack, state.theta, [batch], step, state.averages)

    slow, at, noise = state.averages[0][0], state.theta.clone().requires_grad_(), make_training_noise(pack, step)
    assert not torch.equal(slow, state.theta) and noise is not None
    goal, logits = (
        pack.model.logits(pack.layout.split(weights), batch, noise.for_pass(k), pack.form)
        for k, weights in ((1, slow), (0, at))
    )
    losses = []
    for m in (0, 1):
        counted = batch.targets[m] != IGNORED
        entropy = functional.cross_entropy(logits[m][counted], batch.targets[m][counted])
        losses.append(entropy + divergence(goal[m][counted], logits[m][counted]).mean())
    torch.testing.assert_close(loss_M, torch.stack(losses).detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(sum(losses), at)[0])

    # A step of training gives the loss the averages of its state.
    state.loss_sum.zero_()
    train_next_step(pack, state)
    torch.testing.assert_close(state.loss_sum, loss_M.double())


def test_a_loss_that_names_no_average_is_refused(member: Make) -> None:
    (problem,) = check_model(built(member, "follows", 0).to_dict())
    assert "'slow'" in problem
    assert check_model(built(member, "follows", 0, **SLOW).to_dict()) == []


def test_a_loss_without_gradient_is_refused(member: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Returning, "result", (torch.ones(1), torch.ones(1)))
    pack = Pack([built(member, "returning", 0)], CPU)
    with pytest.raises(ValueError, match="detached"):
        train_next_step(pack, TrainingState.make_initial(pack))


def test_an_average_that_never_changes_is_a_frozen_teacher(
    member: Make, registered: Callable[[str, str, type[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    registered("average", "frozen", Frozen)
    teachers = []

    def compute(self: Follows, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        teachers.append(torch.cat([value.flatten(1) for value in inputs.average("slow").values()], dim=1))
        return following(self, inputs)

    following = Follows.compute
    monkeypatch.setattr(Follows, "compute", compute)
    averages = {"training__averages": {"raw": {}, "slow": {"kind": "frozen"}}}
    pack = Pack([built(member, "follows", seed, **averages) for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    start = state.theta.sort(dim=1).values
    for _ in range(3):
        train_next_step(pack, state)
    assert not state.theta.sort(dim=1).values.equal(start) and len(teachers) == 3
    assert all(teacher.sort(dim=1).values.equal(start) for teacher in teachers)


@pytest.mark.parametrize("name", ["r_drop", "sparse", "follows"])
def test_a_member_has_the_same_bits_alone_and_beside_other_hyperparameters(member: Make, name: str) -> None:
    def pack_of(seeds: tuple[int, ...]) -> Pack:
        return Pack([built(member, name, seed, **SLOW) for seed in seeds], CPU)

    check_alone(pack_of, packs=((7,), (2, 7)), steps=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r_drop", "sparse", "follows"])
def test_a_step_is_one_program_without_waits(member: Make, name: str) -> None:
    pack = Pack([built(member, name, seed, **SLOW) for seed in (0, 1)], CPU)
    check_one_program(pack)


def test_a_loss_is_part_of_the_identity_and_its_absence_changes_no_id(member: Make) -> None:
    plain, named = member(), member(training__loss="r_drop")
    assert "loss" not in plain.to_dict()["training"] and MemberConfig.from_dict(named.to_dict()) == named
    assert member(training__loss=None).config_id == plain.config_id
    assert len({plain.config_id, named.config_id, member(training__loss={"name": "r_drop", "alpha": 2}).config_id}) == 3
    assert member(training__loss={"name": "r_drop", "alpha": 2}).structural_key == named.structural_key
    assert plain.structural_key != named.structural_key
    field = find_field(named.to_dict(), "training.loss.alpha", MemberConfig)
    assert field is not None and field.bounds["low"] == 0.0


@pytest.mark.parametrize(
    ("loss", "key", "close"),
    [
        ("r_dorp", "training.loss.name", "r_drop"),
        ({"name": "r_drop", "alhpa": 1.0}, "training.loss.alhpa", "alpha"),
        ({"name": "r_drop", "alpha": -1.0}, "training.loss.alpha", None),
    ],
)
def test_a_wrong_name_or_option_is_one_problem(member: Make, loss: Any, key: str, close: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        member(training__loss=loss)
    (problem,) = caught.value.problems
    assert (problem.key, problem.nearest) == (key, close)


@pytest.mark.parametrize("name", ["mixing", "scalar"])
def test_a_trial_refuses_a_loss_that_is_not_a_value_for_each_member(member: Make, name: str) -> None:
    assert check_model(built(member, name, 0).to_dict())
    assert check_model(built(member, "sparse", 0).to_dict()) == []


TWO = torch.ones(2)


@pytest.mark.parametrize("result", [None, TWO, (TWO,), (TWO, 1.0), (TWO.mean(), TWO.mean()), (TWO, torch.ones(2, 1))])
def test_a_result_that_is_not_two_values_for_each_member_is_refused(
    member: Make, monkeypatch: pytest.MonkeyPatch, result: Any
) -> None:
    monkeypatch.setattr(Returning, "result", result)
    pack, step = Pack([built(member, "returning", seed) for seed in (0, 1)], CPU), torch.tensor(1)
    with pytest.raises(ValueError, match="returning"):
        compute_gradients(pack, TrainingState.make_initial(pack).theta, sample_batches(pack, step, 4), step)


def test_each_pass_of_a_step_has_dropout_of_its_own(member: Make) -> None:
    noise = make_training_noise(Pack([built(member, "r_drop", 0)], CPU), torch.tensor(1))
    assert noise is not None and noise.for_pass(0) is noise
    drawn = [noise.for_pass(k).dropout_factors(0, (40, 40), torch.float32) for k in range(16)]
    assert len({tensor.numpy().tobytes() for tensor in drawn}) == 16
    for k in (-1, 16):
        with pytest.raises(ValueError, match=str(k)):
            noise.for_pass(k)


def test_estimates_know_the_passes(member: Make) -> None:
    plain, twice = (estimate_member_cost(member(model=DECODER, training__loss=loss)) for loss in (None, "r_drop"))
    assert twice.flops_per_step == 2 * plain.flops_per_step
    assert twice.bytes_per_member > plain.bytes_per_member


def test_members_that_are_left_keep_their_options(member: Make) -> None:
    pack, step = Pack([built(member, "sparse", seed) for seed in (0, 1, 2)], CPU), torch.tensor(5)
    theta = TrainingState.make_initial(pack).theta
    whole = compute_gradients(pack, theta, sample_batches(pack, step, 4), step)
    few = pack.select([2, 1])
    known = {id(tensor) for tensor in few.list_tensors()}
    assert few.loss_hyperparameters and all(id(column) in known for column in few.loss_hyperparameters.values())
    left = compute_gradients(few, theta[[2, 1]], sample_batches(few, step, 4), step)
    assert all(torch.equal(inputs, before[[2, 1]]) for inputs, before in zip(left, whole, strict=True))
