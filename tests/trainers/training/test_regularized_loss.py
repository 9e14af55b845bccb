"""Label smoothing and z-loss: per member as torch computes them, refused where a task has a loss of its own."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainers.runs import check_alone, stepped
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tasks.supervised import IGNORED, loss, regularize_loss
from trainers.tensors.batch import Batch
from trainers.training.step import compute_gradients, sample_batches

CPU = torch.device("cpu")
Make = Callable[..., MemberConfig]


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_each_member_is_as_torch_computes_it_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(5, (2, 3, 4), generator=generator)
    targets[:, 0, 1:3] = IGNORED
    batch = Batch(targets.clamp(min=0), targets)
    plain, weight = loss(logits, batch)
    shares, factors = (0.1, 0.4), (1e-2, 0.5)
    smooth = regularize_loss(plain, logits, batch, column(*shares), None)
    z = regularize_loss(plain, logits, batch, None, column(*factors))
    both = regularize_loss(plain, logits, batch, column(*shares), column(*factors))
    for m in range(2):
        flat, wanted = logits[m].flatten(0, 1), targets[m].flatten()
        expected = functional.cross_entropy(flat, wanted, ignore_index=IGNORED, label_smoothing=shares[m])
        torch.testing.assert_close(smooth[m] / weight[m], expected)
        squares = torch.log(torch.exp(flat[wanted != IGNORED]).sum(dim=1)) ** 2
        torch.testing.assert_close(z[m] - plain[m], factors[m] * squares.sum())
        torch.testing.assert_close(both[m], smooth[m] + z[m] - plain[m])


def test_a_weighted_target_counts_as_often() -> None:
    logits = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    targets = torch.tensor([[[0, 1, 2], [3, 3, 0]]])
    weighted = Batch(targets, targets, weight=torch.tensor([[[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]))
    single = Batch(targets[:, :1, :1], targets[:, :1, :1])
    sums = [
        regularize_loss(loss(some, batch)[0], some, batch, column(0.3), column(0.2))
        for some, batch in ((logits, weighted), (logits[:, :1, :1], single))
    ]
    torch.testing.assert_close(sums[0], 2 * sums[1])


@pytest.mark.parametrize(
    "hyperparameters", [{"label_smoothing": 0.1}, {"z_loss": 0.01}, {"label_smoothing": 0.1, "z_loss": 0.01}]
)
def test_members_with_other_values_share_a_program_and_keep_their_bits(
    member: Make, hyperparameters: dict[str, float]
) -> None:
    def built(seed: int) -> MemberConfig:
        return member(seed, **{f"training__{name}": value * (1 + seed) for name, value in hyperparameters.items()})

    _, state = check_alone(lambda seeds: Pack([built(seed) for seed in seeds], CPU), packs=((7,), (2, 7)), steps=3)
    plain = stepped(Pack([member(seed) for seed in (2, 7)], CPU), 3)
    assert not torch.equal(plain.theta, state.theta)
    assert built(1).structural_key == built(2).structural_key != member().structural_key
    assert built(1).config_id != built(2).config_id


def test_slices_of_a_batch_add_up_to_it(member: Make) -> None:
    packs = [
        Pack([member(training__dtype="float64", training__z_loss=0.1, training__accumulation=n)], CPU) for n in (1, 4)
    ]
    step = torch.tensor(1)
    gradients = [
        compute_gradients(pack, TrainingState.make_initial(pack).theta, sample_batches(pack, step, 16), step)[0]
        for pack in packs
    ]
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("name", ["label_smoothing", "z_loss"])
def test_a_task_with_a_loss_of_its_own_is_refused(member: Make, name: str) -> None:
    task = {"name": "othello", "board": 4, "train_moves": 6}
    with pytest.raises(ConfigError) as caught:
        member(task=task, **{f"training__{name}": 0.1})
    assert [problem.key for problem in caught.value.problems] == [f"training.{name}"]
