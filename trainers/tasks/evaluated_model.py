"""Interface by which tasks and generation run models; `trainers.evaluation.forward.Forward` implements it.

Shapes: M members, B rows, T positions, K positions of the KV cache, P tokens of a prompt, G generated tokens,
V output tokens.
"""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise


class EvaluatedModel(Protocol):
    """The properties of a model that the cost of generation depends on: its KV cache and its operations."""

    @property
    def supports_masked_cache(self) -> bool:
        """Whether its KV cache works with masked positions."""

    @property
    def cache_size_per_token(self) -> int:
        """The size of its KV cache per token, in numbers; 0 without a cache."""

    def count_operations(self, task: Any, rows: int, positions: int) -> float:
        """Return the number of arithmetic operations of a forward pass."""


class ForwardPass(Protocol):
    """The models of M members with the weights of an average."""

    @property
    def model(self) -> EvaluatedModel:
        """The model of the members."""

    @property
    def noise(self) -> Noise:
        """The random numbers that the rows are sampled with."""

    @property
    def beat(self) -> Callable[[], None]:
        """The heartbeat, called after every generated token."""

    def __call__(self, batch: Batch) -> Tensor:
        """Return the logits (M, B, T, V)."""

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits (M, B, T, V), without recording values of the layers for metrics."""

    def prefill(self, batch: Batch, width: int) -> tuple[Tensor, Any]:
        """Return the logits (M, B, T, V) and a KV cache with room for `width` positions."""

    def decode(
        self, cache: Any, tokens_MBT: Tensor, ids_MBT: Tensor | None = None, visible_MBK: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Return the logits (M, B, T, V) of the following tokens, and the extended KV cache."""

    def generate(
        self,
        prompt_MBP: Tensor,
        decoding: Decoding,
        *,
        max_tokens: int,
        draw: int = 0,
        draws: int | None = None,
        ids: Tensor | None = None,
        groups: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Return the generated text after each prompt, int64 (M, B, max_tokens) or (M, B, draws, max_tokens)."""

    def generate_by_state(
        self,
        prompt_MBP: Tensor,
        decoding: Decoding,
        *,
        shared: int,
        states: int,
        width: int,
        mark: int,
        draw: int = 0,
        draws: int | None = None,
    ) -> Tensor:
        """Return the text after each prompt, generated state by state, int64 (M, B, G) or (M, B, draws, G)."""
