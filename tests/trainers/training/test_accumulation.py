"""A batch in slices trains as the whole batch does: to float rounding, with the dropout masks of the whole draw."""

from dataclasses import replace

import pytest
import torch

from tests.trainers.own_tasks import TOKENS, Bag, Last, Ragged
from tests.trainers.runs import check_alone
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.decoder import Decoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.batch import Batch
from trainers.training.cost import estimate_member_cost
from trainers.training.step import compute_gradients, compute_losses, make_training_noise, sample_batches

CPU = torch.device("cpu")
DECODER = Decoder(layers=1, width=8, heads=2, dropout=0.3, position="learned")


def sliced(member, count: int, task=None, model=DECODER, seeds=(0, 1), **changes) -> Pack:
    settings = {"training__dtype": "float64", "training__batch_size": 10, **changes}
    plain = [member(seed, training__accumulation=count, **settings) for seed in seeds]
    return Pack([replace(config, task=task or Last(), model=model) for config in plain], CPU)


def gradient(pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
    step = torch.tensor(3)
    return compute_gradients(pack, TrainingState.make_initial(pack).theta, sample_batches(pack, step, 10), step)


@pytest.mark.parametrize("count", [2, 3, 4, 10])
@pytest.mark.parametrize("task", [Last(), Ragged(), Ragged(two=True)], ids=["last", "ragged", "two widths"])
def test_slices_have_the_gradient_of_the_whole(member, count: int, task) -> None:
    whole, parts = (gradient(sliced(member, n, task)) for n in (1, count))
    for expected, actual in zip(whole, parts, strict=True):
        torch.testing.assert_close(expected, actual, rtol=1e-12, atol=1e-14)


def test_a_ragged_loss_counts_every_position_once(member) -> None:
    """By hand: the sum over all counted positions of a member over their number, not a mean of means."""
    pack = sliced(member, 4, Ragged(), replace(DECODER, dropout=0.0))
    (batch,) = sample_batches(pack, torch.tensor(3), 10)
    assert len({int(n) for n in batch.weight[0].sum(dim=-1)}) > 1
    theta = TrainingState.make_initial(pack).theta
    logits = pack.model.logits(pack.layout.split(theta), batch, None, "plain")
    expected = []
    for m in range(2):
        terms = [
            torch.nn.functional.cross_entropy(logits[m, b, t], batch.targets[m, b, t])
            for b in range(10)
            for t in range(4)
            if batch.weight[m, b, t]
        ]
        expected.append(torch.stack(terms).mean())
    torch.testing.assert_close(gradient(pack)[1], torch.stack(expected))


def test_one_slice_is_the_step_there_was(member) -> None:
    """Bit for bit the gradient of the mean loss of the whole batch."""
    pack = sliced(member, 1, training__dtype="float32")
    step, theta = torch.tensor(3), TrainingState.make_initial(pack).theta
    (batch,) = sample_batches(pack, step, 10)

    def mean(theta: torch.Tensor) -> torch.Tensor:
        total, weight = compute_losses(pack, theta, batch, make_training_noise(pack, step), step)
        return (total / weight).sum()

    assert torch.equal(torch.func.grad(mean)(theta), gradient(pack)[0])


def test_what_a_model_draws_besides_dropout_goes_by_rows(member) -> None:
    """A random model without a `dropout` field trains, and its slices draw what the whole batch draws."""
    whole, parts = (gradient(sliced(member, n, model=Bag(shaken=True))) for n in (1, 5))
    torch.testing.assert_close(whole[0], parts[0], rtol=1e-12, atol=1e-14)
    still = gradient(sliced(member, 1, model=Bag()))
    assert not torch.allclose(whole[1], still[1]), "the random numbers matter"


@pytest.mark.parametrize("model", [DECODER, Bag(shaken=True)], ids=["decoder", "random"])
def test_a_member_alone_equals_itself_in_a_pack(member, model) -> None:
    check_alone(
        lambda seeds: sliced(member, 3, Ragged(two=True), model, seeds, training__dtype="float32"),
        packs=((7,), (0, 7)),
        steps=5,
    )


def test_fewer_rows_at_once_need_less_memory(member) -> None:
    settings = {"training__batch_size": 64, "training__compile": False}
    model = replace(DECODER, width=32)
    costs = [
        estimate_member_cost(replace(member(training__accumulation=n, **settings), task=Last(), model=model))
        for n in (1, 4, 64)
    ]
    assert costs[0].bytes_per_member > 1.5 * costs[1].bytes_per_member > 1.5 * costs[2].bytes_per_member
    assert costs[0].flops_per_step == costs[2].flops_per_step


def test_more_slices_than_rows_are_refused(sections) -> None:
    with pytest.raises(ConfigError, match="cannot have 17 slices"):
        MemberConfig.from_dict(sections(training__accumulation=17))


def test_the_cost_counts_the_tokens_of_the_batch(member) -> None:
    """Rows of two widths: half of them have 2 tokens, half 4."""
    wide, both = (replace(member(training__batch_size=10), task=Ragged(two=two), model=Bag()) for two in (False, True))
    assert estimate_member_cost(wide).flops_per_step == 3 * 2 * 10 * 4 * TOKENS
    assert estimate_member_cost(both).flops_per_step == 3 * 2 * (5 * 2 + 5 * 4) * TOKENS


class Seldom(Last):
    """Only rows that begin with token 0 have a target, so that a small batch may have none."""

    def batch_of(self, tokens: torch.Tensor) -> Batch:
        whole = super().batch_of(tokens)
        return replace(whole, weight=whole.weight * (tokens[..., :1] == 0))


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_without_any_target_has_no_loss_and_no_gradient(member, count: int) -> None:
    pack = sliced(member, count, Seldom(), seeds=range(8), training__batch_size=2)
    batches = sample_batches(pack, torch.tensor(3), 2)
    empty = sum(batch.weight.sum(dim=(1, 2)) for batch in batches) == 0
    gradients, losses = compute_gradients(pack, TrainingState.make_initial(pack).theta, batches, torch.tensor(3))
    assert empty.any() and not empty.all()
    assert torch.isfinite(gradients).all() and torch.equal(losses == 0, empty)
    assert torch.equal((gradients == 0).all(dim=1), empty)
