"""The arguments of a positional encoding's hooks: a forward pass, and one attention layer in it.

Shapes: M members, B rows, T queries, K keys, H heads, E head width, D model width.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.tensors.layers import rms_norm
from trainers.tensors.noise import Noise
from trainers.tensors.precision import matmul, upcast

Recorder = Callable[[str, Tensor], None]
Watcher = Callable[["Context", Tensor], None]

# Sites of the random numbers of a pass, distinct so that no two draws are equal: 0 for the token embedding, from
# 1 + 3 * layer on for the three dropouts of a block, HIDDEN_SITE + layer for its MLP. Encodings use sites in between:
# EMBED_SITE, POSITION_SITE, and _SITES_PER_LAYER for each layer from _LAYER_SITES on. The n-th chunk of queries adds
# n * CHUNK_SITES to its sites.
EMBED_SITE, POSITION_SITE, GENERATION_SITE = 1000, 1001, 1002
_LAYER_SITES, _SITES_PER_LAYER = 1024, 16
HIDDEN_SITE = 7168
CHUNK_SITES = 2**13


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A forward pass over tokens, with the values that its layers share.

    The keys are all tokens. The queries are the `count` tokens from `first` on: all tokens, the last tokens with a KV
    cache, or a chunk.

    tokens: int64 (M, B, K). ids: position ids, int64 (M, B, K); None means 0..K-1. groups: int64 (M, B, K); a query of
    group 0 sees every group, any other query its own group and group 0. visible: mask of the keys, bool (M, B, K); None
    means all. causal: whether later keys are masked. noise: None if nothing is random. recorder: gets recorded values.
    watcher: gets the attention weights (M, B, H, T, K) of every layer or chunk. chunk: number of the chunk.
    """

    tokens: Tensor
    weights: Mapping[str, Tensor]
    causal: bool
    first: int
    count: int
    ids: Tensor | None = None
    groups: Tensor | None = None
    visible: Tensor | None = None
    noise: Noise | None = None
    recorder: Recorder | None = None
    watcher: Watcher | None = None
    chunk: int = 0

    @property
    def training(self) -> bool:
        """Whether this is a training pass, with dropout and random numbers that only training has."""
        return self.noise is not None and self.noise.training

    @property
    def key_ids(self) -> Tensor:
        """The position ids of the keys, int64 (K,), or (M, B, K) if the batch has ids."""
        return torch.arange(self.tokens.shape[-1], device=self.tokens.device) if self.ids is None else self.ids

    @property
    def query_ids(self) -> Tensor:
        """The position ids of the queries, int64 (T,), or (M, B, T) if the batch has ids."""
        if self.ids is None:
            return torch.arange(self.first, self.first + self.count, device=self.tokens.device)
        return self.select_queries(self.ids)

    def select_queries(self, key_values: Tensor) -> Tensor:
        """Return the entries of the queries in values of all keys, (..., K) -> (..., T)."""
        return key_values[..., self.first : self.first + self.count]

    def differences(self) -> Tensor:
        """Return i - j of the ids of query i and key j, int64 (T, K), or (M, B, 1, T, K) if the batch has ids."""
        differences = self.query_ids[..., :, None] - self.key_ids[..., None, :]
        return differences if self.ids is None else differences[:, :, None]

    @property
    def allowed(self) -> Tensor | None:
        """The attention mask: whether query i sees key j, bool (T, K) or (M, B, 1, T, K); None without masked keys."""
        # A single last query sees every key, also in a causal pass, and needs no mask.
        mask = None
        total = self.tokens.shape[-1]
        if self.causal and (self.count > 1 or self.first + 1 < total):
            mask = torch.ones(self.count, total, dtype=torch.bool, device=self.tokens.device).tril(self.first)

        # Group 0 sees and is seen by every group.
        if self.visible is not None:
            visible = self.visible[:, :, None, None, :]
            mask = visible.expand(-1, -1, -1, self.count, -1) if mask is None else mask & visible
        if self.groups is not None:
            query = self.select_queries(self.groups)[..., :, None]
            key = self.groups[..., None, :]
            sees_group = ((query == key) | (key == 0) | (query == 0))[:, :, None]
            mask = sees_group if mask is None else mask & sees_group
        return mask

    @property
    def is_recording(self) -> bool:
        """Whether recorded values are used, as in evaluation."""
        return self.recorder is not None

    def record(self, name: str, value: Tensor) -> None:
        """Record a value for each query of this layer, (M, B, H, T), for a metric; no effect in training."""
        if self.recorder is not None:
            self.recorder(name, value)


@dataclass(frozen=True, kw_only=True)
class Context(Pass):
    """An attention layer in a pass.

    name: prefix of its parameters. layer: its number, from 0. x: its input, (M, B, T, D). q: queries, (M, B, H, T, E).
    k, v: keys and values, (M, B, H, K, E). state: the `key_state` of every key, (M, B, H, K) by name. During `rotate`
    and `key_state`, k, v and state have only the tokens of the queries.
    """

    name: str
    layer: int
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    state: Mapping[str, Tensor]

    def products(self) -> Tensor:
        """Return q . k / sqrt(E), (M, B, H, T, K)."""
        return matmul(self.q, self.k.mT) / math.sqrt(self.q.shape[-1])

    def exact_products(self) -> Tensor:
        """Return q . k / sqrt(E) in float32 at least, also in a bfloat16 pass."""
        # Scaling the queries saves a second tensor of the size of the scores.
        q, k = (part.to(upcast(part.dtype)) for part in (self.q, self.k))
        with torch.autocast(self.q.device.type, enabled=False):
            return torch.matmul(q / math.sqrt(q.shape[-1]), k.mT)

    def normalized(self) -> tuple[Tensor, Tensor]:
        """Return queries and keys of norm sqrt(E), by the RMS norm without a gain (Henry et al., arXiv:2010.04245).

        They are float32 at least, because rounding could change the sign of a score.
        """
        dtype = upcast(self.q.dtype)
        return rms_norm(self.q.to(dtype)), rms_norm(self.k.to(dtype))

    def site(self, number: int) -> int:
        """Return the site of random numbers for draw `number`, 0..15, of this layer. Raises ValueError."""
        if not 0 <= number < _SITES_PER_LAYER:
            raise ValueError(f"draw {number} of {self.name}; allowed: 0..{_SITES_PER_LAYER - 1}")
        return _LAYER_SITES + _SITES_PER_LAYER * self.layer + number + CHUNK_SITES * self.chunk

    def slice_queries(
        self, start: int, stop: int, chunk: int, recorder: Recorder | None, keeps_later_keys: bool
    ) -> "Context":
        """Return the context of the queries start..stop-1 of a full pass.

        keeps_later_keys: False drops the keys after the last query if the pass is causal.
        """
        sliced = replace(
            self,
            first=start,
            count=stop - start,
            chunk=chunk,
            recorder=recorder,
            x=self.x[:, :, start:stop],
            q=self.q[:, :, :, start:stop],
        )
        if keeps_later_keys or not self.causal:
            return sliced

        # A causal pass would mask the later keys, so scores for them are not computed.
        return replace(
            sliced,
            tokens=self.tokens[..., :stop],
            ids=None if self.ids is None else self.ids[..., :stop],
            groups=None if self.groups is None else self.groups[..., :stop],
            k=self.k[:, :, :, :stop],
            v=self.v[:, :, :, :stop],
            state={name: value[..., :stop] for name, value in self.state.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Changes to the attention scores of a layer, each broadcastable to (M, B, H, T, K).

    bias: added to q . k / sqrt(E). logits: used instead of q . k / sqrt(E). keep: bool mask of keys, in addition to the
    attention mask; the output of a query without keys is zero. Raises ValueError for both a bias and logits.
    """

    bias: Tensor | None = None
    logits: Tensor | None = None
    keep: Tensor | None = None

    def __post_init__(self) -> None:
        if self.bias is not None and self.logits is not None:
            raise ValueError("Scores has both a bias and logits; allowed: only one of them")
