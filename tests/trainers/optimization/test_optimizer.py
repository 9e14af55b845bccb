"""Stacked AdamW and clipping against torch.optim.AdamW and clip_grad_norm_, member by member."""

import pytest
import torch

from trainers.optimization.optimizer import adamw, clip_gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_torch_adamw(dtype: torch.dtype) -> None:
    rates, decays, betas, epsilons = (
        [1e-3, 0.1, 0.02],
        [0.0, 0.3, 0.05],
        [(0.9, 0.99), (0.8, 0.999), (0.0, 0.5)],
        [1e-8, 1e-3, 1e-6],
    )
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(3, 17, generator=generator, dtype=dtype)
    gradients = [torch.randn(3, 17, generator=generator, dtype=dtype) for _ in range(30)]
    expected = []
    for i in range(3):
        weight = theta[i].clone().requires_grad_()
        optimizer = torch.optim.AdamW([weight], lr=rates[i], weight_decay=decays[i], betas=betas[i], eps=epsilons[i])
        for gradient in gradients:
            weight.grad = gradient[i].clone()
            optimizer.step()
        expected.append(weight.detach())

    def column(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)[:, None]

    h = {
        "weight_decay": column(decays),
        "epsilon": column(epsilons),
        "beta1": column([b[0] for b in betas]),
        "beta2": column([b[1] for b in betas]),
    }
    m, v = torch.zeros_like(theta), torch.zeros_like(theta)
    for t, gradient in enumerate(gradients, start=1):
        theta, m, v = adamw(theta, gradient, m, v, torch.tensor(t), column(rates), torch.ones(17), h)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    torch.testing.assert_close(theta, torch.stack(expected), rtol=tolerance, atol=tolerance)


def test_clipping_equals_clip_grad_norm_per_member() -> None:
    gradient = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    limits = [0.1, 1.0, 100.0, 5.0]
    got = clip_gradient(gradient, torch.tensor(limits, dtype=torch.float64)[:, None])
    for i, limit in enumerate(limits):
        weight = torch.zeros(50, requires_grad=True)
        weight.grad = gradient[i].clone()
        torch.nn.utils.clip_grad_norm_([weight], limit)
        torch.testing.assert_close(got[i], weight.grad, rtol=1e-6, atol=1e-7)
