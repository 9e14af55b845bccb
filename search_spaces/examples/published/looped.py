"""A looped transformer whose depth grows with the length of its input.

After "Looped Transformers for Length Generalization" (Fan et al., arXiv:2409.15647): one block without positional
encoding is applied once for each symbol of the string, the embedded input is added before every loop, and the answer of
a row is read after its own number of loops.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from trainers import Vmapped, register, setting


class Net(nn.Module):
    """Embedding, one block that is applied again and again, and a head."""

    def __init__(self, inputs, outputs, width, heads):
        super().__init__()
        self.symbols, self.heads = inputs - 2, heads  # the empty token and the pad are the last two ids
        self.embed = nn.Embedding(inputs, width)
        self.normalize_attention, self.normalize_mlp, self.normalize = (nn.LayerNorm(width) for _ in range(3))
        self.queries_keys_values, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, outputs)

    def forward(self, tokens):
        """Return logits (rows, length, outputs) for tokens (rows, length)."""
        given = self.embed(tokens)
        loops = (tokens < self.symbols).sum(-1)[:, None, None]  # of each row
        x = result = torch.zeros_like(given)
        for loop in range(1, tokens.shape[-1]):
            x = self.block(x + given)
            result = torch.where(loops == loop, x, result)
        return self.head(self.normalize(result))

    def block(self, x):
        """Return the residual stream after causal attention and a small network."""
        q, k, v = self.queries_keys_values(self.normalize_attention(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k, v = (part.transpose(-2, -3) for part in (q, k, v))  # (rows, heads, length, width)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.mix(mixed.transpose(-2, -3).flatten(-2))
        return x + self.mlp(self.normalize_mlp(x))


@register("model", "looped")
class Looped(Vmapped):
    """A block of attention and MLP, looped once for each symbol; for the tasks of formal_languages."""

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "even_pairs", "train_length": 5, "test_lengths": [7]}

    width: int = setting(64, low=1, help="width of the residual stream")
    heads: int = setting(4, low=1, help="attention heads")

    def build(self, inputs, outputs, positions):
        """Return the module of one member."""
        return Net(inputs, outputs, self.width, self.heads)
