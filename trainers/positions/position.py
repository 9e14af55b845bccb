"""The hooks of a positional encoding, each doing nothing until overridden, and what most encodings start from."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainers.config.settings import Settings
from trainers.errors import Problem
from trainers.maps import Map, Weights
from trainers.noise import Noise
from trainers.parameters import Parameter


class Position(Settings):
    """Base of every positional encoding. Shapes: M member, B batch, T position, D width, H head, K head width."""

    @property
    def random(self) -> bool:
        """Whether training draws random numbers for it."""
        return False

    def head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Why this encoding cannot serve so many heads of that width."""
        return iter(())

    def task_problems(self, task: Settings) -> Iterator[Problem]:
        """Why this encoding cannot serve that task."""
        return iter(())

    def parameters(self, longest: int, width: int, heads: int, std: float) -> tuple[Parameter, ...]:
        """Trained parameters that all layers share, for inputs of up to `longest` positions."""
        return ()

    def layer_parameters(
        self, name: str, longest: int, heads: int, head_width: int, std: float
    ) -> tuple[Parameter, ...]:
        """Trained parameters of the attention layer `name` alone."""
        return ()

    def embed(
        self, x_MBTD: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], noise: Noise | None, causal: bool
    ) -> Tensor:
        """Token embeddings with positions added; `noise` is None when evaluating."""
        return x_MBTD

    def rotate(self, q_MBHTK: Tensor, k_MBHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys with positions worked in."""
        return q_MBHTK, k_MBHTK

    def score(
        self, q_MBHTK: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], name: str, causal: bool
    ) -> Tensor | None:
        """What layer `name` adds to its scaled attention scores, broadcastable to (M, B, H, T, T), or None.

        `causal`: whether later keys are masked, so that nothing of i < j matters.
        """
        return None

    def maps(self, weights: Weights, task: Settings) -> Mapping[str, Map]:
        """What can be drawn of its trained parameters, of one member; see `trainers.maps`."""
        return {}


def differences(length: int, device: torch.device) -> Tensor:
    """i - j of query i and key j, int64 (T, T)."""
    at = torch.arange(length, device=device)
    return at[:, None] - at[None, :]
