"""How the next token is chosen: the likeliest one, or drawn from a softmax with a temperature, of the k likeliest.

Shapes: M members, B rows, V output tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """end: the token after which a row says nothing more; pad: what stands behind it.

    temperature: 0 takes the likeliest token; otherwise tokens are drawn from softmax(logits / temperature), of the
    `top_k` likeliest alone if it is given (Fan et al., arXiv:1805.04833), and the first `drawn` tokens of a row alone
    if that is given: the others are the likeliest. Raises ValueError for a temperature below 0 and a top_k below 1.
    """

    end: int
    pad: int
    temperature: float = 0.0
    top_k: int | None = None
    drawn: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature}; allowed: 0 (the likeliest token) or a number above")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k {self.top_k}; allowed: 1 or more, or None for all tokens")

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn."""
        return self.temperature > 0.0 and self.top_k != 1

    def chosen(self, logits_MBV: Tensor, uniform_MB: Tensor | None) -> Tensor:
        """The next token of each row, int64 (M, B), drawn by a number in (0, 1) for each row; the likeliest without."""
        if uniform_MB is None:
            return logits_MBV.argmax(dim=-1)
        count = logits_MBV.shape[-1]
        best = torch.topk(logits_MBV.double(), min(self.top_k or count, count), dim=-1)
        reached = torch.softmax(best.values / self.temperature, dim=-1).cumsum(dim=-1)
        place = (reached[..., :-1] < uniform_MB[..., None]).sum(dim=-1, keepdim=True)  # the last one takes the rest
        return torch.gather(best.indices, -1, place)[..., 0]
