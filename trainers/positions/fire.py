"""FIRE: a trained function of distance relative to position (Li et al., arXiv:2310.04418)."""

import torch
from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import matmul, upcast

_EPSILON = 1e-6


@register("position", "fire")
class Fire(Position):
    """A trained function of the distance relative to the position, separate in each layer.

    MLP(psi(i - j) / psi(max(i, L)))_h with psi(x) = log(|c x| + 1), positions counted from 0. The MLP maps 1 to
    `hidden` to one number per head, with ReLU; c and L are trained, L as `threshold` times a trained factor. The paper
    starts with L = 512 for contexts of 2048; short inputs need an L near the trained length. Its models are causal. In
    a bidirectional model the larger of i and j replaces i, so that ratios are between 0 and 1, and the bias has no sign
    of direction.
    """

    threshold: float = setting(512.0, above=0.0, help="initial L: up to this position distances are not normalized")
    hidden: int = setting(32, low=1, help="hidden width of the MLP")

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return an MLP initialized as torch.nn.Linear, c = 0.1 and the factor of L; only matrices have decay."""
        bound = self.hidden**-0.5
        return (
            uniform_parameter(f"{name}.fire_in", (1, self.hidden), -1.0, 1.0),
            uniform_parameter(f"{name}.fire_in_bias", (self.hidden,), -1.0, 1.0, decay=False),
            uniform_parameter(f"{name}.fire_out", (self.hidden, sizes.heads), -bound, bound),
            uniform_parameter(f"{name}.fire_out_bias", (sizes.heads,), -bound, bound, decay=False),
            Parameter(name=f"{name}.fire_c", shape=(1,), std=0.0, mean=0.1, decay=False),
            Parameter(name=f"{name}.fire_factor", shape=(1,), std=0.0, mean=1.0, decay=False),
        )

    def score(self, context: Context) -> Scores:
        """Return the MLP's value for each head as a bias."""
        keys = ("in", "in_bias", "out", "out_bias", "c", "factor")
        dtype = upcast(context.q.dtype)
        parameters = {key: context.weights[f"{context.name}.fire_{key}"] for key in keys}
        c = parameters["c"][:, :, None]
        limit = (self.threshold * parameters["factor"]).abs()[:, :, None]

        # Divide by the later of the two positions, which in a causal model is the query's.
        distance = context.differences().abs().to(dtype)
        query = context.query_ids.to(dtype)[..., :, None]
        key = context.key_ids.to(dtype)[..., None, :]
        last = query if context.causal else torch.maximum(query, key)
        if context.ids is not None:
            # Rows and queries together.
            distance = distance.flatten(1, 3)
            last = last.flatten(1, 2)
        ratio = _psi(c, distance) / (_psi(c, torch.maximum(last, limit)) + _EPSILON)

        # The first map is no matrix product: with a single column its bits would depend on the number of members.
        hidden = torch.relu(
            ratio[:, None] * parameters["in"][:, 0, :, None, None] + parameters["in_bias"][:, :, None, None]
        )
        out = matmul(parameters["out"].mT, hidden.flatten(2)) + parameters["out_bias"][:, :, None]
        return Scores(bias=out.reshape(*out.shape[:2], -1, context.count, distance.shape[-1]).transpose(1, 2))


def _psi(c: Tensor, x: Tensor) -> Tensor:
    """Return log(|c x| + 1)."""
    return torch.log((c * x).abs() + 1.0)
