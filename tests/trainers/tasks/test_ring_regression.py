"""Ring regression: closed forms of the population losses, their gradients, and the three settings of Fig. 9."""

import math

import numpy as np
import pytest
import torch

from tests.trainers.own_tasks import mean_loss, scores_of
from trainers import MemberConfig, train
from trainers.errors import ConfigError
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.tasks.ring_regression import RingRegression
from trainers.training.step import train_next_step

CPU = torch.device("cpu")
STREAM = Stream(torch.tensor([0]), "eval", torch.tensor(0))


def ring_member(
    seed: int = 0, decay: float = 0.0, steps: int = 3000, rate: float = 5e-3, task=None, **model
) -> MemberConfig:
    return MemberConfig.from_dict(
        {
            "task": {"name": "ring_regression", **(task or {})},
            "model": {"name": "linear_attention", **model},
            "training": {
                "optimizer": "gradient_descent",
                "steps": steps,
                "batch_size": 1,
                "learning_rate": rate,
                "weight_decay": decay,
                "dtype": "float64",
                "compile": False,
            },
            "evaluation": {"samples": 1},
            "seed": seed,
        }
    )


def trained(members, steps: int) -> tuple[Pack, TrainingState]:
    pack = Pack(members, CPU)
    state = TrainingState.make_initial(pack)
    for _ in range(steps):
        train_next_step(pack, state)
    return pack, state


def test_loss_is_the_mean_squared_error_over_sampled_inputs() -> None:
    """The exact expectation against 40,000 draws, for a model with random coefficients."""
    task = RingRegression(ring=9, window=4, alpha=2.0, betas=(0.5, 0.25))
    member = ring_member(task={"ring": 9, "window": 4, "betas": [0.5, 0.25]}, encoding="rpe", width=6, free_value=True)
    pack = Pack([member], CPU)
    weights = pack.layout.split(TrainingState.make_initial(pack).theta)
    logits = pack.model.logits(weights, task.sample(STREAM, 1), None, "plain")
    test = next(iter(task.evaluation_batches(STREAM, 1, task.lengths)))
    scores = scores_of(task, logits, test.batch, test.lengths)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40_000, 9, 6))
    p, u, v = (weights[name][0].numpy() for name in ("positions", "u", "v"))
    a = p @ u
    matrix = np.array([[a[(i - r) % 9] for r in range(9)] for i in range(9)])

    def errors(x: np.ndarray) -> np.ndarray:
        target = sum(
            coefficient * (np.roll(x, k, axis=1) + (np.roll(x, -k, axis=1) if k else 0))[..., 0]
            for k, coefficient in enumerate((2.0, 0.5, 0.25))
        )
        return ((x @ v) @ matrix.T - target) ** 2

    np.testing.assert_allclose(scores["test_loss"][0].numpy(), errors(x).mean(0), rtol=0.05)
    inside = np.zeros(9)
    inside[[s - 1 for s in task.trained_lengths]] = 1
    expected = (errors(x * inside[None, :, None]) * inside).sum(1).mean()
    assert float(mean_loss(task, logits, test.batch)) == pytest.approx(expected, rel=0.05)


def test_augmentation_is_the_average_over_every_shift_of_the_window() -> None:
    plain, augmented = RingRegression(ring=11, window=4), RingRegression(ring=11, window=4, augmented=True)
    weights = plain.make_pair_weights(torch.float64)
    shifted = sum(torch.roll(weights, (s, s), (0, 1)) for s in range(11)) / 11
    torch.testing.assert_close(augmented.make_pair_weights(torch.float64), shifted)


def test_unseen_absolute_positions_only_decay() -> None:
    rate, decay, steps = 5e-3, 1e-2, 200
    pack, state = trained([ring_member(decay=decay, rate=rate, encoding="ape")], steps)
    before = pack.layout.split(TrainingState.make_initial(pack).theta)["positions"][0]
    after = pack.layout.split(state.theta)["positions"][0]
    unseen = [i for i in range(51) if i + 1 not in pack.task.trained_lengths]
    torch.testing.assert_close(after[unseen], before[unseen] * (1 - rate * decay) ** steps, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(after, before)


def test_gradient_of_the_relative_form() -> None:
    """dl/da_k = 2 (n1 - |k|) (a_k - T_k), zero beyond the window."""
    pack = Pack([ring_member(encoding="rpe")], CPU)
    theta = TrainingState.make_initial(pack).theta
    views = pack.layout.split(theta)
    a = views["positions"][0] @ views["u"][0]
    batch = pack.task.sample(STREAM, 1)
    gradient = torch.func.grad(
        lambda t: mean_loss(pack.task, pack.model.logits(pack.layout.split(t), batch, None, "plain"), batch).sum()
    )(theta)
    got = pack.layout.split(gradient)["positions"][0]
    for k in range(-25, 26):
        target = {0: 2.0, 1: 0.5, -1: 0.5}.get(k, 0.0)
        expected = 2 * max(10 - abs(k), 0) * (a[k % 51] - target) * views["u"][0]
        torch.testing.assert_close(got[k % 51], expected, rtol=1e-9, atol=1e-12)
    assert not pack.layout.split(gradient)["u"].any()


def test_gradient_flow_of_one_position() -> None:
    """Window 1, beta 0: A_0(t) = alpha / (1 + (alpha / A_0(0) - 1) exp(-8 alpha t)), and A_j grows as |p_0|."""
    rate, steps, alpha = 2e-4, 750, 2.0
    task = {"ring": 7, "window": 1, "alpha": alpha, "betas": []}
    pack, state = trained([ring_member(rate=rate, task=task, encoding="ape", width=30)], steps)
    start, end = (pack.layout.split(s.theta)["positions"][0] for s in (TrainingState.make_initial(pack), state))
    middle = pack.task.trained_lengths[0] - 1
    square = float(start[middle] @ start[middle])
    # The loss (|p|^2 - alpha)^2 has gradient 4 (|p|^2 - alpha) p, so A_0' = 8 A_0 (alpha - A_0).
    expected = alpha / (1 + (alpha / square - 1) * math.exp(-8 * alpha * rate * steps))
    assert float(end[middle] @ end[middle]) == pytest.approx(expected, rel=2e-3)
    for j in range(7):
        if j != middle:
            before, after = float(start[j] @ start[middle]), float(end[j] @ end[middle])
            assert after == pytest.approx(before * math.sqrt(expected / square), rel=2e-3)


@pytest.mark.slow
def test_the_three_settings_end_as_the_paper_says(recorder) -> None:
    """Shortened: RPE is right at every position once decay took the rest, APE fails far away, augmentation between."""
    seeds, decay, rate, steps = (0, 1, 2), 0.05, 6e-2, 1000
    losses = {}
    for name, task, encoding in (("ape", {}, "ape"), ("augmented", {"augmented": True}, "ape"), ("rpe", {}, "rpe")):
        train([ring_member(s, decay, steps, rate, task, encoding=encoding) for s in seeds], recorder)
        last = recorder.evaluations[-1]
        curve = np.median(last.values_MAKL[:, 0, last.metrics.index("test_loss")], axis=0)
        losses[name] = curve
        assert np.median(last.values_MAKL[:, 0, last.metrics.index("train_loss")].sum(axis=1)) < 0.05
    far = [i for i in range(51) if not 10 <= i < 41]
    shrink = math.exp(-2 * decay * rate * steps)
    assert losses["ape"][far].mean() == pytest.approx((2.0 - shrink) ** 2 + 2 * 0.25, rel=0.15)
    assert losses["rpe"].max() < 0.02
    assert losses["rpe"].max() < losses["augmented"].mean() < 0.5 * losses["ape"][far].mean()


def test_the_model_of_another_task_is_refused(member) -> None:
    with pytest.raises(ConfigError, match="ring_regression"):
        member(model={"name": "linear_attention"})
