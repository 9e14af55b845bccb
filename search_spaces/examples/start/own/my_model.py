"""A model of your own: any torch module from tokens to logits."""

import torch
from torch import nn

from trainers import Vmapped, register, setting


class Net(nn.Module):
    """One attention head with learned positions, and a small network."""

    def __init__(self, inputs, outputs, width, positions):
        super().__init__()
        self.embed = nn.Embedding(inputs, width)
        self.position = nn.Embedding(positions, width)  # rows beyond the trained lengths get no gradient
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, tokens):
        """Return logits (rows, length, outputs) for tokens (rows, length)."""
        x = self.embed(tokens) + self.position.weight[: tokens.shape[-1]]
        scores = self.query(x) @ self.key(x).transpose(-1, -2) * x.shape[-1] ** -0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)  # causal: no position sees later positions
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ self.value(x)
        return self.head(x + mixed)


@register("model", "my_attention")
class MyAttention(Vmapped):
    """All seeds and configurations train as one program; each has its own weights and hyperparameters."""

    width: int = setting(16, low=1, help="width of the embeddings")

    def build(self, inputs, outputs, positions):
        """Return the module of one member."""
        return Net(inputs, outputs, self.width, positions)
