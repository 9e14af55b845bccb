"""Causal transformer decoder in the style of GPT-1/minGPT, with positions, norm placement and dropout sites to choose.

The defaults are those of the Othello study (Li et al., arXiv:2210.13382): pre-norm, GELU MLP of four times the width,
biases, final layer norm, untied head, weights normal(0, 0.02^2). Shapes: M member, B batch, T position, D width,
V vocabulary.
"""

from collections.abc import Iterator, Mapping

from torch import Tensor

from trainers.errors import Problem
from trainers.layers.block import block, block_drops, block_parameters, norm_parameters, normed
from trainers.layers.dropout import Dropout
from trainers.layers.embedding import embed
from trainers.layers.linear import linear
from trainers.models.attention_only import DROPOUT_SITES
from trainers.parameters import Parameter
from trainers.positions.position import Position
from trainers.registry import register
from trainers.settings import Settings, setting


@register("model", "decoder")
class Decoder(Settings):
    """Causal transformer: embedding, blocks of attention and MLP, head."""

    layers: int = setting(8, low=1, help="number of blocks")
    width: int = setting(512, low=1, help="embedding width")
    heads: int = setting(8, low=1, help="attention heads; width is a multiple of it")
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
        """Heads divide the width, the position fits the head width, dropout sites are distinct."""
        if self.width % self.heads:
            yield Problem(key="heads", given=self.heads, message=f"{self.heads} does not divide width {self.width}")
        yield from self.position.width_problems(self.width, self.heads)
        if len(set(self.dropout_sites)) != len(self.dropout_sites):
            yield Problem(
                key="dropout_sites",
                given=list(self.dropout_sites),
                message="names a site twice",
                allowed="distinct sites",
            )

    def task_problems(self, task: Settings) -> Iterator[Problem]:
        """Any task of token sequences will do."""
        return iter(())

    def form_used(self, task: Settings) -> str:
        """There is one form."""
        return "plain"

    @property
    def random(self) -> bool:
        """Whether training draws random numbers besides dropout."""
        return self.position.random

    def parameters(self, task: Settings) -> tuple[Parameter, ...]:
        """Embedding, positions, blocks, final norm (pre-norm only) and head."""
        longest = max(task.lengths)  # type: ignore[attr-defined]
        width, std = self.width, self.init_std
        found = [Parameter(name="embedding", shape=(task.inputs, width), std=std, decay=False)]  # type: ignore[attr-defined]
        found += self.position.parameters(longest, width, self.heads, std)
        for layer in range(self.layers):
            found += block_parameters(f"block{layer}", width, self.hidden or 4 * width, self.norm, std)
        found += norm_parameters("final", width) if self.norm == "pre" else ()
        found.append(Parameter(name="head", shape=(width, task.outputs), std=std))  # type: ignore[attr-defined]
        return tuple(found)

    def operations(self, task: Settings, batch: int, positions: int) -> float:
        """Multiply-adds times two of one forward pass over `batch` rows of `positions` tokens."""
        outputs: int = task.outputs  # type: ignore[attr-defined]
        hidden = self.hidden or 4 * self.width
        each = (
            self.layers * (4 * self.width**2 + 2 * self.width * hidden + 2 * positions * self.width)
            + self.width * outputs
        )
        return 2.0 * batch * positions * each

    def logits(self, weights: Mapping[str, Tensor], tokens_MBT: Tensor, noise: Dropout | None, form: str) -> Tensor:
        """Logits (M, B, T, V) at every position; `noise` is None when evaluating."""
        x = self.position.embed(embed(weights["embedding"], tokens_MBT), weights, noise)
        if noise is not None and "embedding" in self.dropout_sites:
            x = noise(x, 0)
        for layer in range(self.layers):
            x = block(
                x,
                weights,
                name=f"block{layer}",
                heads=self.heads,
                norm=self.norm,
                causal=True,
                position=self.position,
                drops=block_drops(noise, self.dropout_sites, layer),
            )
        return linear(normed(x, weights, "final") if self.norm == "pre" else x, weights["head"])

    def diagnostics(
        self, weights: Mapping[str, Tensor], tokens_MBT: Tensor, lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """None."""
        return {}
