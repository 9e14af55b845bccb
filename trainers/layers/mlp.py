"""Stacked two-layer perceptron with GELU (Hendrycks and Gimpel, arXiv:1606.08415)."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from trainers.layers.linear import linear


def mlp(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    """`<name>.in` (D, F), exact GELU, `<name>.out` (F, D), each with its bias."""
    hidden = functional.gelu(linear(x, weights[f"{name}.in"], weights[f"{name}.in_bias"]))
    return linear(hidden, weights[f"{name}.out"], weights[f"{name}.out_bias"])
