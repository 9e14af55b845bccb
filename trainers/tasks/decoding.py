"""Decoding: choosing the next token greedily, or by sampling with a temperature from the k likeliest tokens.

Shapes: M members, B rows, V output tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Settings of text generation.

    end: the token that ends a row. pad: the token that fills a row after its end. temperature: 0 takes the likeliest
    token; otherwise tokens are sampled from softmax(logits / temperature). top_k: sample from the `top_k` likeliest
    tokens only (Fan et al., arXiv:1805.04833). sampled_tokens: sample this many first tokens of a row, and take the
    likeliest tokens after them.
    Raises ValueError for a temperature below 0 and a top_k below 1.
    """

    end: int
    pad: int
    temperature: float = 0.0
    top_k: int | None = None
    sampled_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}; allowed: 0 (the likeliest token) or a larger number")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; allowed: 1 or more, or None for all tokens")

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are sampled."""
        return self.temperature > 0.0 and self.top_k != 1

    def choose_token(self, logits_MBV: Tensor, uniform_MB: Tensor | None) -> Tensor:
        """Return the next token of each row, int64 (M, B).

        uniform_MB: uniform numbers in (0, 1) to sample with; None takes the likeliest token.
        """
        if uniform_MB is None:
            return logits_MBV.argmax(dim=-1)

        # Invert the cumulative distribution; float32 sums over a large vocabulary would be too coarse.
        count = logits_MBV.shape[-1]
        likeliest = torch.topk(logits_MBV.double(), min(self.top_k or count, count), dim=-1)
        cumulative = torch.softmax(likeliest.values / self.temperature, dim=-1).cumsum(dim=-1)
        rank = (cumulative[..., :-1] < uniform_MB[..., None]).sum(dim=-1, keepdim=True)
        return torch.gather(likeliest.indices, -1, rank)[..., 0]
