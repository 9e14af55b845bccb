"""What the causal decoder and the bidirectional encoder share: embedding, positions, blocks, head.

Shapes: M member, B batch, T position, D width, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from torch import Tensor

from trainers.batch import Batch
from trainers.config.settings import setting
from trainers.errors import Problem
from trainers.layers.embedding import embed
from trainers.layers.linear import linear
from trainers.maps import Map, Weights
from trainers.models.attention_only import DROPOUT_SITES
from trainers.models.block import block, block_drops, block_parameters, norm_parameters, normed
from trainers.models.model import Model, Recorder
from trainers.noise import Noise
from trainers.parameters import Parameter
from trainers.positions.position import Position
from trainers.tasks.task import Task


class Transformer(Model):
    """Embedding, blocks of attention and MLP with GELU, head without bias; biases elsewhere, untied head."""

    causal: ClassVar[bool]
    embedding_norm: ClassVar[bool] = False
    epsilon: ClassVar[float] = 1e-5

    layers: int = setting(low=1, help="number of blocks")
    width: int = setting(low=1, help="embedding width")
    heads: int = setting(8, low=1, help="attention heads; divides width if head_width is null")
    head_width: int | None = setting(None, low=1, help="width of each head; null: width / heads")
    hidden: int | None = setting(None, low=1, help="width inside the MLP; null: four times width")
    norm: str = setting(
        "pre", choices=("none", "pre", "post"), help="layer norm before each branch, after each sum, or nowhere"
    )
    position: Position = setting("nope", kind="position", help="positional encoding, by name or as {name: ...}")
    dropout: float = setting(
        0.0, low=0.0, below=1.0, member=True, variant=lambda rate: rate > 0, help="dropout probability"
    )
    dropout_sites: tuple[str, ...] = setting(DROPOUT_SITES, choices=DROPOUT_SITES, help="where dropout acts")
    init_std: float = setting(0.02, above=0.0, help="standard deviation of initial matrix entries")

    def cross_checks(self) -> Iterator[Problem]:
        """Problems with the number of heads, the position for them, and dropout sites named twice."""
        if self.head_width is None and self.width % self.heads:
            message = f"{self.heads} does not divide width {self.width}"
            yield Problem(key="heads", given=self.heads, message=message, allowed="a divisor of width, or a head_width")
        else:
            yield from self.position.head_problems(self.heads, self._head_width)
        if len(set(self.dropout_sites)) != len(self.dropout_sites):
            yield Problem(
                key="dropout_sites",
                given=list(self.dropout_sites),
                message="names a site twice",
                allowed="distinct sites",
            )

    def task_problems(self, task: Task) -> Iterator[Problem]:
        """Problems if the task needs a causal model and this is none, and those of the positional encoding."""
        if task.causal and not self.causal:
            message = "sees the tokens it should predict: this task is scored after every prefix"
            yield Problem(key="name", given=self.name, message=message, allowed="a causal model")
        yield from self.position.task_problems(task)

    @property
    def _head_width(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def random(self) -> bool:
        """Whether training draws random numbers besides dropout."""
        return self.position.random

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Embedding, positions, blocks, final norm (pre-norm only) and head."""
        longest = task.positions
        width, std = self.width, self.init_std
        found = [Parameter(name="embedding", shape=(task.inputs, width), std=std, decay=False)]
        found += self.position.parameters(longest, width, self.heads, std)
        found += norm_parameters("embedded", width) if self.embedding_norm else ()
        for layer in range(self.layers):
            name = f"block{layer}"
            extra = self.position.layer_parameters(name, longest, self.heads, self._head_width, std)
            inner, hidden = self.heads * self._head_width, self.hidden or 4 * width
            found += block_parameters(name, width, inner, hidden, self.norm, std, extra)
        found += norm_parameters("final", width) if self.norm == "pre" else ()
        found.append(Parameter(name="head", shape=(width, task.outputs), std=std))
        return tuple(found)

    def operations(self, task: Task, rows: int, positions: int) -> float:
        """Operations (twice the multiply-adds) of one forward pass over `rows` rows of `positions` tokens."""
        outputs = task.outputs
        inner, hidden = self.heads * self._head_width, self.hidden or 4 * self.width
        each = (
            self.layers * (4 * self.width * inner + 2 * self.width * hidden + 2 * positions * inner)
            + self.width * outputs
        )
        return 2.0 * rows * positions * each

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Logits (M, B, T, V) at every position."""
        tokens_MBT = batch.tokens
        x = self.position.embed(embed(weights["embedding"], tokens_MBT), tokens_MBT, weights, noise, self.causal)
        x = normed(x, weights, "embedded", self.epsilon) if self.embedding_norm else x
        if noise is not None and "embedding" in self.dropout_sites:
            x = noise(x, 0)
        for layer in range(self.layers):
            x = block(
                x,
                tokens_MBT,
                weights,
                name=f"block{layer}",
                heads=self.heads,
                norm=self.norm,
                causal=self.causal,
                position=self.position,
                drops=block_drops(noise, self.dropout_sites, layer),
                epsilon=self.epsilon,
            )
        return linear(normed(x, weights, "final", self.epsilon) if self.norm == "pre" else x, weights["head"])

    def maps(self, weights: Weights, task: Task) -> Mapping[str, Map]:
        """The maps of the positional encoding."""
        return self.position.maps(weights, task)
