"""Stacked two-layer perceptron: with GELU (arXiv:1606.08415), or gated by SiLU (SwiGLU, arXiv:2002.05202)."""

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.nn import functional

from trainers.tensors.linear import linear

Drop = Callable[[Tensor, int], Tensor]


def mlp(x: Tensor, weights: Mapping[str, Tensor], name: str, kind: str = "gelu", drop: Drop | None = None) -> Tensor:
    """Apply `<name>.in` (D, F), the activation, `drop` and `<name>.out`, with their biases if they have any.

    gelu: exact GELU, `out` is (F, D). gated: the first half of F times SiLU of the second half, `out` is (F / 2, D).
    """
    hidden = linear(x, weights[f"{name}.in"], weights.get(f"{name}.in_bias"))
    if kind == "gated":
        first, second = hidden.chunk(2, dim=-1)
        hidden = first * functional.silu(second)
    else:
        hidden = functional.gelu(hidden)
    hidden = hidden if drop is None else drop(hidden, 0)
    return linear(hidden, weights[f"{name}.out"], weights.get(f"{name}.out_bias"))
