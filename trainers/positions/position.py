"""The hooks of a positional encoding, each doing nothing until overridden."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from trainers.errors import Problem
from trainers.layers.dropout import Dropout
from trainers.parameters import Parameter
from trainers.settings import Settings


class Position(Settings):
    """Base of every positional encoding. Shapes: M member, B batch, T position, D width, H head, K head width."""

    @property
    def random(self) -> bool:
        """Whether training draws random numbers for it."""
        return False

    def width_problems(self, width: int, heads: int) -> Iterator[Problem]:
        """Why this encoding cannot serve a model of that width."""
        return iter(())

    def task_problems(self, task: Settings) -> Iterator[Problem]:
        """Why this encoding cannot serve that task."""
        return iter(())

    def parameters(self, longest: int, width: int, std: float) -> tuple[Parameter, ...]:
        """Trained parameters added to the token embedding, for inputs of up to `longest` positions."""
        return ()

    def layer_parameters(self, name: str, longest: int, head_width: int, std: float) -> tuple[Parameter, ...]:
        """Trained parameters of the attention layer `name`, shared by its heads."""
        return ()

    def embed(self, x_MBTD: Tensor, weights: Mapping[str, Tensor], noise: Dropout | None) -> Tensor:
        """Token embeddings with positions added."""
        return x_MBTD

    def rotate(self, q_MBHTK: Tensor, k_MBHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys with positions worked in."""
        return q_MBHTK, k_MBHTK

    def score(self, q_MBHTK: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor | None:
        """What layer `name` adds to its scaled attention scores, broadcastable to (M, B, H, T, T), or None."""
        return None
