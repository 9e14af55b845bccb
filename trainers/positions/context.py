"""What one pass over tokens, and one attention layer in it, hand to a positional encoding.

Shapes: M members, B rows, T queries, K keys, H heads, E head width, D model width.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.tensors.noise import Noise
from trainers.tensors.precision import product, wide

Recorder = Callable[[str, Tensor], None]
Watcher = Callable[["Context", Tensor], None]

# Random sites of a pass. A model has 0 for its embedding, 1 + 3 layer + place for its blocks, and from HIDDEN_SITE on
# one for each MLP; those between are for encodings, and from _OF_LAYERS on each layer has _EACH of its own. A chunk of
# queries has all of them anew; `Noise` keeps those of many chunks apart from other batches of the step.
EMBED_SITE, PLACE_SITE, GENERATION_SITE = 1000, 1001, 1002
_OF_LAYERS, _EACH = 1024, 16
HIDDEN_SITE = 7168
CHUNK_SITES = 2**13


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass over tokens: what its layers share.

    The queries are the tokens from `first` on, `count` of them; the keys are all tokens. In a whole pass both are the
    same, when a pass goes on the queries are the last of the keys, and a chunk has some of the queries.

    tokens: int64 (M, B, K). ids: int64 (M, B, K), the position id of each; None: 0..K-1. groups: int64 (M, B, K); a
    query sees keys of its own group, those of group 0, and all if its own is 0. visible: bool (M, B, K), keys that the
    queries may see; None: all. causal: no query sees later keys. noise: None where nothing is random. watcher: is shown
    the attention weights (M, B, H, T, K) of every layer, or of each chunk of its queries; None: nobody looks.
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
        """Whether the pass learns: dropout and what is random in training alone act."""
        return self.noise is not None and self.noise.training

    @property
    def key_ids(self) -> Tensor:
        """Position ids of the keys, int64 (K,), or (M, B, K) where they were given."""
        return torch.arange(self.tokens.shape[-1], device=self.tokens.device) if self.ids is None else self.ids

    @property
    def query_ids(self) -> Tensor:
        """Position ids of the queries, int64 (T,), or (M, B, T) where they were given."""
        if self.ids is None:
            return torch.arange(self.first, self.first + self.count, device=self.tokens.device)
        return self.of_queries(self.ids)

    def of_queries(self, of_keys: Tensor) -> Tensor:
        """The queries' part of what there is of every key, (..., K) -> (..., T)."""
        return of_keys[..., self.first : self.first + self.count]

    def differences(self) -> Tensor:
        """i - j of the ids of query i and key j, int64 (T, K), or (M, B, 1, T, K) where ids were given."""
        found = self.query_ids[..., :, None] - self.key_ids[..., None, :]
        return found if self.ids is None else found[:, :, None]

    @property
    def allowed(self) -> Tensor | None:
        """Whether query i may see key j, bool (T, K) or (M, B, 1, T, K); None where each sees all."""
        found, total = None, self.tokens.shape[-1]
        if self.causal and (self.count > 1 or self.first + 1 < total):
            found = torch.ones(self.count, total, dtype=torch.bool, device=self.tokens.device).tril(self.first)
        if self.visible is not None:
            seen = self.visible[:, :, None, None, :]
            found = seen.expand(-1, -1, -1, self.count, -1) if found is None else found & seen
        if self.groups is not None:
            own, other = self.of_queries(self.groups)[..., :, None], self.groups[..., None, :]
            same = ((own == other) | (other == 0) | (own == 0))[:, :, None]
            found = same if found is None else found & same
        return found

    @property
    def recording(self) -> bool:
        """Whether anything comes of `record`."""
        return self.recorder is not None

    def record(self, name: str, value: Tensor) -> None:
        """Tell what this layer measures of itself at each query, (M, B, H, T); without effect in training."""
        if self.recorder is not None:
            self.recorder(name, value)


@dataclass(frozen=True, kw_only=True)
class Context(Pass):
    """One attention layer in a pass.

    name: the prefix of its parameters; layer: its number, from 0. x: what it reads, (M, B, T, D). q: (M, B, H, T, E);
    k and v: (M, B, H, K, E), and `state` what `key_state` gave of every key, (M, B, H, K) by name; in `rotate` and
    `key_state` of the queries alone.
    """

    name: str
    layer: int
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    state: Mapping[str, Tensor]

    def products(self) -> Tensor:
        """q . k / sqrt(E), (M, B, H, T, K)."""
        return product(self.q, self.k.mT) / math.sqrt(self.q.shape[-1])

    def exact_products(self) -> Tensor:
        """The same in float32 at least, however narrow the numbers of the pass are."""
        q, k = (part.to(wide(part.dtype)) for part in (self.q, self.k))
        with torch.autocast(self.q.device.type, enabled=False):
            return torch.matmul(q / math.sqrt(q.shape[-1]), k.mT)

    def site(self, place: int) -> int:
        """The random site of a named place of this layer, 0..15. Raises ValueError for others."""
        if not 0 <= place < _EACH:
            raise ValueError(f"site {place} of {self.name}; allowed: 0..{_EACH - 1}")
        return _OF_LAYERS + _EACH * self.layer + place + CHUNK_SITES * self.chunk

    def part(self, start: int, stop: int, chunk: int, recorder: Recorder | None, ahead: bool) -> "Context":
        """The queries start..stop-1 of a whole pass, with the keys that they may see at all; `ahead`: with all."""
        own = replace(
            self,
            first=start,
            count=stop - start,
            chunk=chunk,
            recorder=recorder,
            x=self.x[:, :, start:stop],
            q=self.q[:, :, :, start:stop],
        )
        if ahead or not self.causal:
            return own
        return replace(
            own,
            tokens=self.tokens[..., :stop],
            ids=None if self.ids is None else self.ids[..., :stop],
            groups=None if self.groups is None else self.groups[..., :stop],
            k=self.k[:, :, :, :stop],
            v=self.v[:, :, :, :stop],
            state={name: value[..., :stop] for name, value in self.state.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What a layer's attention scores are; each broadcastable to (M, B, H, T, K).

    bias is added to q . k / sqrt(E), or logits replace it. keep: bool, the keys that remain of those allowed; a query
    that none remain for attends to nothing and mixes zero. Raises ValueError for a bias beside logits.
    """

    bias: Tensor | None = None
    logits: Tensor | None = None
    keep: Tensor | None = None

    def __post_init__(self) -> None:
        if self.bias is not None and self.logits is not None:
            raise ValueError("Scores takes a bias or logits, not both: logits replace the scores")
