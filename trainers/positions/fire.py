"""FIRE: a trained function of distance relative to position (Li et al., arXiv:2310.04418)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.config.registry import register
from trainers.config.settings import setting
from trainers.parameters import Parameter, uniform_parameter
from trainers.positions.position import Position, differences

_EPSILON = 1e-6


@register("position", "fire")
class Fire(Position):
    """A trained function of the distance relative to the position, another in each layer.

    MLP(psi(i - j) / psi(max(i, L)))_h with psi(x) = log(|c x| + 1), positions counted from 0. The MLP goes from 1 to
    `hidden` to one number for each head, with ReLU; c and L are trained: L is `threshold` times a trained factor. The
    paper starts L at 512, for contexts of 2048; short inputs need one near the trained length. Its models are causal.
    In a bidirectional one the greater of i and j stands for i, so that ratios stay between 0 and 1; it sees how far a
    key is, and not on which side.
    """

    threshold: float = setting(512.0, above=0.0, help="initial L: up to this position distances are not normalised")
    hidden: int = setting(32, low=1, help="hidden width of the MLP")

    def layer_parameters(
        self, name: str, longest: int, heads: int, head_width: int, std: float
    ) -> tuple[Parameter, ...]:
        """MLP with uniform initial values as of torch.nn.Linear, c = 0.1, and the factor of L; only matrices decay."""
        side = self.hidden**-0.5
        return (
            uniform_parameter(f"{name}.fire_in", (1, self.hidden), -1.0, 1.0),
            uniform_parameter(f"{name}.fire_in_bias", (self.hidden,), -1.0, 1.0, decay=False),
            uniform_parameter(f"{name}.fire_out", (self.hidden, heads), -side, side),
            uniform_parameter(f"{name}.fire_out_bias", (heads,), -side, side, decay=False),
            Parameter(name=f"{name}.fire_c", shape=(1,), std=0.0, mean=0.1, decay=False),
            Parameter(name=f"{name}.fire_factor", shape=(1,), std=0.0, mean=1.0, decay=False),
        )

    def score(
        self, q_MBHTK: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], name: str, causal: bool
    ) -> Tensor:
        """The MLP's value for each head, (M, 1, H, T, T)."""
        own = {key: weights[f"{name}.fire_{key}"] for key in ("in", "in_bias", "out", "out_bias", "c", "factor")}
        c, limit = own["c"][:, :, None], (self.threshold * own["factor"]).abs()[:, :, None]
        length, device = q_MBHTK.shape[-2], q_MBHTK.device
        distance = differences(length, device).abs().to(q_MBHTK.dtype)
        at = torch.arange(length, device=device, dtype=q_MBHTK.dtype)
        last = at[:, None] if causal else torch.maximum(at[:, None], at[None, :])
        ratio = _psi(c, distance) / (_psi(c, torch.maximum(last, limit)) + _EPSILON)
        # Written out: the bits of a product with one column depend on how many members there are.
        hidden = torch.relu(ratio[:, None] * own["in"][:, 0, :, None, None] + own["in_bias"][:, :, None, None])
        out = torch.bmm(own["out"].mT, hidden.flatten(2)) + own["out_bias"][:, :, None]
        return out.reshape(len(out), 1, -1, length, length)


def _psi(c: Tensor, x: Tensor) -> Tensor:
    return torch.log((c * x).abs() + 1.0)
