"""A looped transformer whose depth grows with the length of its input.

After "Looped Transformers for Length Generalization" (Fan et al., arXiv:2409.15647): one block without positional
encoding is applied once for each symbol of the string, the embedded input is added before every loop, and the answer of
a row is read after its own number of loops. In evaluation a row may also stop at its most confident answer, as in
the paper, or when a loop hardly changes it. The number of loops is a metric.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from trainers import Vmapped, record, register, setting

MAX_SETTLED_CHANGE = 0.01  # a row stops when a loop changes the probabilities of its answer by at most this


class Net(nn.Module):
    """An embedding, a block that is applied repeatedly, and a head."""

    def __init__(self, inputs, outputs, width, heads, stop="symbols", most_loops=40):
        super().__init__()
        self.symbols = inputs - 2  # the empty token and the pad are the last two ids
        self.heads = heads
        self.stop = stop
        self.most_loops = most_loops
        self.embed = nn.Embedding(inputs, width)
        self.normalize_attention, self.normalize_mlp, self.normalize = (nn.LayerNorm(width) for _ in range(3))
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, outputs)

    def forward(self, tokens, training):
        """Return logits (rows, length, outputs) for tokens (rows, length), and record the loops of each row."""
        # Training always loops once for each symbol; the other rules are for evaluation.
        embedded = self.embed(tokens)
        by_symbols = training or self.stop == "symbols"
        result, loops = self.loop_symbols(tokens, embedded) if by_symbols else self.loop_until_stop(tokens, embedded)
        record("loops", loops)
        return self.head(self.normalize(result))

    def loop_symbols(self, tokens, embedded):
        """Return the residual stream of each row after a loop for each of its symbols, and their number (rows,)."""
        loops = (tokens < self.symbols).sum(-1)
        x = result = torch.zeros_like(embedded)
        for loop in range(1, tokens.shape[-1]):
            x = self.block(x + embedded)
            result = torch.where(loops[:, None, None] == loop, x, result)
        return result, loops

    def loop_until_stop(self, tokens, embedded):
        """Return the residual stream of each row after its last loop that counts, and the number of loops (rows,).

        Every row takes all loops; a mask selects the loop that counts, so the GPU never waits for the host.
        """
        x = result = torch.zeros_like(embedded)
        loops = torch.zeros_like(tokens[:, 0])
        active = torch.ones_like(tokens[:, 0], dtype=torch.bool)
        probabilities = torch.zeros_like(embedded[..., :1])
        best = torch.zeros_like(embedded[:, 0, 0])
        for loop in range(1, self.most_loops + 1):
            # The loop that counts is the most confident one, or the last one that changed the answer.
            x = self.block(x + embedded)
            previous = probabilities
            probabilities = self.head(self.normalize(x)).softmax(-1)
            if self.stop == "confident":
                confidence = self.average_answers(tokens, probabilities.amax(-1))
                is_better = confidence > best
                best = torch.maximum(confidence, best)
            else:
                change = self.average_answers(tokens, (probabilities - previous).abs().sum(-1))
                is_better = active
                active = active & (change > MAX_SETTLED_CHANGE)
            result = torch.where(is_better[:, None, None], x, result)
            loops = torch.where(is_better, loop, loops)
        return result, loops

    def average_answers(self, tokens, values):
        """Return the mean of values (rows, length) over the empty tokens of each row, (rows,)."""
        is_answer = tokens == self.symbols
        return torch.where(is_answer, values, 0.0).sum(-1) / is_answer.sum(-1)

    def block(self, x):
        """Return the residual stream after causal attention and a small network."""
        q, k, v = self.queries_keys_values(self.normalize_attention(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k, v = (part.transpose(-2, -3) for part in (q, k, v))  # (rows, heads, length, width)

        # There is no positional encoding: only the causal mask tells positions apart.
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
    stop: Literal["symbols", "confident", "settled"] = setting(
        "symbols",
        help="which loop gives the answer in evaluation: one per symbol, the most confident, or the settled one",
    )
    most_loops: int = setting(40, low=1, help="maximum number of loops in evaluation, unless stop is symbols")

    metrics = property(lambda self: {"loops": "none"})

    def build(self, inputs, outputs, positions):
        """Return the module of one member."""
        return Net(inputs, outputs, self.width, self.heads, self.stop, self.most_loops)
