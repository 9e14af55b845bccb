"""Stacked optimizers and clipping against torch.optim, or the formulas of the paper, member by member."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainers.runs import update_of
from trainers.optimization.optimizer import clip_gradient
from trainers.settings import registry
from trainers.tensors.parameters import Parameter, ParameterLayout

SHAPES = {"wide": (3, 5), "tall": (7, 4), "square": (4, 4), "vector": (6,), "scalar": (), "head": (5, 2)}
HIDDEN = ("wide", "tall", "square")
LAYOUT = ParameterLayout([Parameter(name=n, shape=s, std=0.0, hidden=n in HIDDEN) for n, s in SHAPES.items()])
SIZE, STEPS = LAYOUT.size, 30
RATES, DECAYS = (1e-3, 0.1, 0.02), (0.0, 0.3, 0.05)
BETAS, EPSILONS = [(0.9, 0.99), (0.8, 0.999), (0.0, 0.5)], (1e-8, 1e-3, 1e-6)

Weights = Mapping[str, Tensor]
Reference = Callable[[int, Weights], Callable[[], None]]
"""Given the place of a member and its weights, a function that steps on their gradients."""


class Lion:
    """Algorithm 2 of arXiv:2302.06675 for one member, line by line."""

    def __init__(self, weights: Weights, rate: float, decay: float, beta1: float, beta2: float) -> None:
        self.weights, self.rate, self.decay, self.beta1, self.beta2 = weights, rate, decay, beta1, beta2
        self.m = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    @torch.no_grad()
    def step(self) -> None:
        for name, weight in self.weights.items():
            g, m = weight.grad, self.m[name]
            assert g is not None
            c = self.beta1 * m + (1 - self.beta1) * g
            weight -= self.rate * (torch.sign(c) + self.decay * weight)
            self.m[name] = self.beta2 * m + (1 - self.beta2) * g


def adamw(k: int, weights: Weights) -> Callable[[], Any]:
    values = list(weights.values())
    return torch.optim.AdamW(values, lr=RATES[k], weight_decay=DECAYS[k], betas=BETAS[k], eps=EPSILONS[k]).step


def muon(k: int, weights: Weights) -> Callable[[], Any]:
    hidden = [weights[name] for name in HIDDEN]
    rest = adamw(k, {name: weight for name, weight in weights.items() if name not in HIDDEN})
    options: dict[str, Any] = {"lr": RATES[k], "weight_decay": DECAYS[k], "adjust_lr_fn": "match_rms_adamw"}
    matrices = torch.optim.Muon(hidden, momentum=(0.95, 0.5, 0.0)[k], nesterov=True, ns_steps=5, **options)
    return lambda: (matrices.step(), rest())


def sgd(nesterov: bool) -> Reference:
    return lambda k, weights: (
        torch.optim.SGD(
            list(weights.values()),
            lr=RATES[k],
            weight_decay=DECAYS[k],
            momentum=(0.9, 0.5, 0.3)[k],
            nesterov=nesterov,
        ).step
    )


def descent(k: int, weights: Weights) -> Callable[[], Any]:
    return torch.optim.SGD(list(weights.values()), lr=RATES[k], weight_decay=DECAYS[k]).step


def lion(k: int, weights: Weights) -> Callable[[], Any]:
    return Lion(weights, RATES[k], DECAYS[k], (0.9, 0.5, 0.0)[k], (0.99, 0.9, 0.5)[k]).step


def adafactor(k: int, weights: Weights) -> Callable[[], Any]:
    options: dict[str, Any] = {"beta2_decay": (-0.8, -0.5, -1.0)[k], "d": (1.0, 2.0, 1.5)[k]}
    eps = (None, (1e-3, 0.1, 10.0)[k])
    return torch.optim.Adafactor(list(weights.values()), lr=RATES[k], weight_decay=DECAYS[k], eps=eps, **options).step


CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[float, ...]], Reference]] = {
    "adamw": ({"name": "adamw"}, {}, adamw),
    "gradient_descent": ({"name": "gradient_descent"}, {}, descent),
    "sgd": ({"name": "sgd"}, {"momentum": (0.9, 0.5, 0.3)}, sgd(False)),
    "nesterov": ({"name": "sgd", "nesterov": True}, {"momentum": (0.9, 0.5, 0.3)}, sgd(True)),
    "lion": ({"name": "lion"}, {"beta1": (0.9, 0.5, 0.0), "beta2": (0.99, 0.9, 0.5)}, lion),
    "muon": ({"name": "muon"}, {"momentum": (0.95, 0.5, 0.0)}, muon),
    "adafactor": (
        {"name": "adafactor"},
        {"beta2_decay": (-0.8, -0.5, -1.0), "threshold": (1.0, 2.0, 1.5), "least_scale": (1e-3, 0.1, 10.0)},
        adafactor,
    ),
}


def column(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES)
def test_every_member_is_updated_as_by_the_reference(
    case: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch.optim.Muon orthogonalizes in bfloat16; here in the type of the weights, so that digits can be compared.
    monkeypatch.setattr(Tensor, "bfloat16", Tensor.clone)
    named, hyperparameters, reference = CASES[case]
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(3, SIZE, generator=generator, dtype=dtype)
    gradients = [torch.randn(3, SIZE, generator=generator, dtype=dtype) for _ in range(STEPS)]

    # Each member alone, with the public optimizer.
    expected = []
    for k in range(3):
        weights = {n: value[0].clone().requires_grad_() for n, value in LAYOUT.split(theta[k : k + 1]).items()}
        step = reference(k, weights)
        for gradient in gradients:
            for name, value in LAYOUT.split(gradient[k : k + 1]).items():
                weights[name].grad = value[0].clone()
            step()
        expected.append(torch.cat([weight.detach().flatten() for weight in weights.values()]))

    # All members at once.
    optimizer = registry.build("optimizer", named)
    h = {"weight_decay": column(DECAYS), "epsilon": column(EPSILONS)}
    h |= {f"beta{i + 1}": column(tuple(betas[i] for betas in BETAS)) for i in range(2)}
    h |= {name: column(values) for name, values in hyperparameters.items()}
    state = optimizer.make_initial_state(theta, LAYOUT)
    before = {name: (buffer.shape, buffer.dtype) for name, buffer in state.items()}
    for t, gradient in enumerate(gradients, start=1):
        theta, state = optimizer.update(update_of(theta, gradient, state, t, column(RATES), h, LAYOUT))
    assert {name: (buffer.shape, buffer.dtype) for name, buffer in state.items()} == before
    tolerance = 1e-11 if dtype == torch.float64 else 5e-5 if case == "muon" else 5e-6
    torch.testing.assert_close(theta, torch.stack(expected), rtol=tolerance, atol=tolerance)


def test_every_shipped_optimizer_is_compared() -> None:
    assert {named["name"] for named, _, _ in CASES.values()} == set(registry.list_names("optimizer"))


def test_clipping_equals_clip_grad_norm_per_member() -> None:
    gradient = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    limits = [0.1, 1.0, 100.0, 5.0]
    got = clip_gradient(gradient, torch.tensor(limits, dtype=torch.float64)[:, None])
    for i, limit in enumerate(limits):
        weight = torch.zeros(50, requires_grad=True)
        weight.grad = gradient[i].clone()
        torch.nn.utils.clip_grad_norm_([weight], limit)
        torch.testing.assert_close(got[i], weight.grad, rtol=1e-6, atol=1e-7)
