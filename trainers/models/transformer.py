"""What the causal decoder and the bidirectional encoder share: embedding, positions, blocks, head.

Shapes: M member, B batch, T position, D width, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.models.block import BIASES, Form, block, block_drops
from trainers.models.dropout import SITES, dropout_rate, dropout_sites, site_problems
from trainers.models.kept import Kept, KeptTokens
from trainers.models.model import Cache, Model, Recorded
from trainers.models.transformer_parts import transformer_operations, transformer_parameters
from trainers.positions.context import Context, Pass, Recorder
from trainers.positions.position import Position
from trainers.settings.fields import setting
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.embedding import embed
from trainers.tensors.linear import linear
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter
from trainers.tensors.position_maps import Map, Weights

NORMS = ("none", "pre", "post", "residual")
NORM_HELP = "norm before each branch, after each sum, of the residual stream before each branch, or nowhere"


class Transformer(Model):
    """Embedding, blocks of attention and MLP, and a head without bias, of its own or tied to the embedding."""

    causal: ClassVar[bool]
    embedding_norm: ClassVar[bool] = False
    epsilon: ClassVar[float] = 1e-5

    layers: int = setting(low=1, help="number of blocks")
    width: int = setting(low=1, help="embedding width")
    heads: int = setting(8, low=1, help="attention heads; divides width if head_width is null")
    head_width: int | None = setting(None, low=1, help="width of each head; null: width / heads")
    hidden: int | None = setting(None, low=1, help="width inside the MLP; null: four times width")
    mlp: str = setting("gelu", choices=("gelu", "gated"), help="GELU, or half of hidden times SiLU of the other half")
    norm: str = setting("pre", choices=NORMS, help=NORM_HELP)
    norm_type: str = setting(
        "layer",
        choices=("layer", "layer_unbiased", "rms", "rms_unscaled"),
        help="layer norm with or without a bias, or RMS norm with or without a gain",
    )
    biases: tuple[str, ...] = setting(BIASES, choices=BIASES, help="which maps of a block have biases")
    position: Position = setting("nope", kind="position", help="positional encoding, by name or as {name: ...}")
    dropout: float = dropout_rate()
    dropout_sites: tuple[str, ...] = dropout_sites(SITES, ("hidden",))
    init_std: float = setting(0.02, above=0.0, help="standard deviation of initial matrix entries")
    init: str = setting(
        "normal",
        choices=("normal", "depth", "torch"),
        help="of the maps of blocks: normal with init_std; depth: divided by sqrt(2 layers) where a branch ends; "
        "or as torch.nn.Linear",
    )
    embedding_range: float | None = setting(
        None, above=0.0, help="embeddings start uniform up to this size; null: normal with init_std"
    )

    tied: bool = setting(False, help="the head is the transposed embedding")
    decay_embeddings: bool = setting(
        False, help="weight decay acts on all parameters of two dimensions: embeddings and position vectors, too"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Problems with the number of heads, the position for them, halves of an odd width, and what is named twice."""
        if self.head_width is None and self.width % self.heads:
            message = f"{self.heads} does not divide width {self.width}"
            yield Problem(key="heads", given=self.heads, message=message, allowed="a divisor of width, or a head_width")
        else:
            yield from self.position.head_problems(self.heads, self.width_of_head)
        if self.mlp == "gated" and self.hidden is not None and self.hidden % 2:
            yield Problem(
                key="hidden", given=self.hidden, message="has no halves", allowed="an even number, for a gate"
            )
        if len(set(self.biases)) != len(self.biases):
            yield Problem(key="biases", given=list(self.biases), message="names one twice", allowed="distinct names")
        yield from site_problems(self.dropout_sites)

    def task_problems(self, task: Task) -> Iterator[Problem]:
        """Problems with a task that needs a causal model, writes texts or has other outputs, and of the encoding."""
        if task.causal and not self.causal:
            message = "sees the tokens it should predict: this task is scored after every prefix"
            yield Problem(key="name", given=self.name, message=message, allowed="a causal model")
        elif task.passes > 1 and self.position.looks_ahead:
            message = f"looks at later tokens, and {task.name} asks for texts, whose later tokens are not there yet"
            yield Problem(key="position", given=self.position.name, message=message, allowed="one that does not")
        if self.tied and task.inputs != task.outputs:
            message = f"the task has {task.inputs} input tokens and {task.outputs} output tokens"
            yield Problem(key="tied", given=True, message=message, allowed="false")
        yield from self.position.task_problems(task)

    @property
    def width_of_head(self) -> int:
        """Width of each head."""
        return self.head_width or self.width // self.heads

    @property
    def width_inside(self) -> int:
        """Width inside the MLP."""
        return self.hidden or 4 * self.width

    @property
    def form_of_blocks(self) -> Form:
        """What its blocks are made of."""
        return Form(
            norm=self.norm,
            norm_type=self.norm_type,
            mlp=self.mlp,
            biases=self.biases,
            init=self.init,
            std=self.init_std,
            branches=2 * self.layers,
            epsilon=self.epsilon,
        )

    @property
    def random(self) -> bool:
        """Whether training draws random numbers besides dropout."""
        return self.position.random

    @property
    def metrics(self) -> Mapping[str, str]:
        """What the positional encoding records of itself."""
        return self.position.metrics

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Embedding, positions, blocks, final norm (where branches or the stream are normed before), untied head."""
        return transformer_parameters(self, task)

    def operations(self, task: Task, rows: int, positions: int) -> float:
        """Operations (twice the multiply-adds) of one forward pass over `rows` rows of `positions` tokens."""
        return transformer_operations(self, task, rows, positions)

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Logits (M, B, T, V) at every position."""
        return self._logits(self._whole(weights, batch, noise, recorder=record))

    def attended(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None) -> tuple[Tensor, ...]:
        """The attention weights (M, B, H, T, T) of every block."""
        m, b, t = batch.tokens.shape
        found: list[Tensor] = []

        def watch(seen: Context, part_MBHTK: Tensor) -> None:
            if seen.layer == len(found):
                found.append(part_MBHTK.new_zeros(m, b, self.heads, t, t))
            found[seen.layer][..., seen.first : seen.first + seen.count, : part_MBHTK.shape[-1]] = part_MBHTK

        self._logits(self._whole(weights, batch, noise, watcher=watch))
        return tuple(found)

    def start(
        self, weights: Mapping[str, Tensor], batch: Batch, width: int, noise: Noise | None, form: str
    ) -> tuple[Tensor, Cache]:
        """Logits and cache of a batch. Raises ValueError for more tokens than `width`."""
        if not self._keeps:
            return super().start(weights, batch, width, noise, form)
        m, b, t = batch.tokens.shape
        if t > width:
            raise ValueError(f"{t} tokens are more than the {width} to keep")
        kept = KeptTokens.empty(self.layers, width, self.position.place(batch.ids, (m, b, width), noise))
        ids = None if kept.ids is None else kept.ids[..., :t]
        seen = self._pass(weights, batch.tokens, 0, t, ids, noise, groups=batch.groups)
        return self._logits(seen, kept.layers), Cache(batch=batch, width=width, kept=kept)

    def extend(
        self,
        weights: Mapping[str, Tensor],
        cache: Cache,
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None,
        visible_MBK: Tensor | None,
        noise: Noise | None,
        form: str,
    ) -> tuple[Tensor, Cache]:
        """Logits of the tokens that follow, and the cache of all. A cache is used up: what it has is written over."""
        if not self._keeps:
            return super().extend(weights, cache, tokens_MBT, ids_MBT, visible_MBK, noise, form)
        grown, kept = cache.grown(tokens_MBT, ids_MBT), cache.kept
        first, last = cache.length, grown.length
        if ids_MBT is not None and kept.ids is not None:
            shape = (*tokens_MBT.shape[:2], cache.width)
            kept.ids[..., first:last] = self.position.place(ids_MBT, shape, noise)
        ids = None if kept.ids is None else kept.ids[..., :last]
        visible = None if visible_MBK is None else visible_MBK[..., :last]
        seen = self._pass(weights, grown.batch.tokens, first, last - first, ids, noise, visible=visible)
        return self._logits(seen, kept.layers), grown

    @property
    def keeps_groups(self) -> bool:
        """Its attention goes by the groups of a batch."""
        return True

    @property
    def keeps_gaps(self) -> bool:
        """Where keys are kept, and the encoding does not go by the columns they stand in."""
        return self._keeps and not self.position.by_columns

    @property
    def kept_numbers(self) -> int:
        """Keys and values of every layer."""
        return 2 * self.layers * self.heads * self.width_of_head if self._keeps else 0

    @property
    def _keeps(self) -> bool:
        """Whether what it has of a token stays what it is when others follow."""
        return self.causal and not self.position.looks_ahead

    def _whole(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None, **more: Any) -> Pass:
        """One pass over all tokens of a batch."""
        m, b, t = batch.tokens.shape
        ids = self.position.place(batch.ids, (m, b, t), noise)
        return self._pass(weights, batch.tokens, 0, t, ids, noise, groups=batch.groups, **more)

    def _pass(
        self,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        first: int,
        count: int,
        ids: Tensor | None,
        noise: Noise | None,
        **more: Any,
    ) -> Pass:
        return Pass(
            tokens=tokens, weights=weights, causal=self.causal, first=first, count=count, ids=ids, noise=noise, **more
        )

    def _logits(self, seen: Pass, kept: tuple[Kept, ...] | None = None) -> Tensor:
        """The logits (M, B, T, V) of the queries of a pass."""
        weights, noise, form = seen.weights, seen.noise, self.form_of_blocks
        x = self.position.embed(embed(weights["embedding"], seen.of_queries(seen.tokens)), seen)
        x = form.normed(x, weights, "embedded") if self.embedding_norm else x
        if noise is not None and "embedding" in self.dropout_sites:
            x = noise(x, 0)
        for layer in range(self.layers):
            x = block(
                x,
                seen,
                name=f"block{layer}",
                layer=layer,
                heads=self.heads,
                form=form,
                position=self.position,
                drops=block_drops(noise, self.dropout_sites, layer),
                kept=kept[layer] if kept else None,
            )
        head = weights["embedding"].mT if self.tied else weights["head"]
        return linear(form.normed(x, weights, "final") if self.norm_at_end else x, head)

    @property
    def norm_at_end(self) -> bool:
        """Whether what the blocks leave is normed once more."""
        return self.norm in ("pre", "residual")

    def measured(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        """What the encoding recorded, mean or greatest of layers and heads, (M, B, L): at each length's last position.

        Of a batch that measures one length alone, the mean or greatest of its positions.
        """
        found = {}
        for name in self.metrics:
            if name in recorded:
                of = torch.amax if name in self.position.largest else torch.mean
                rows_MBT = of(torch.stack([of(value, dim=2) for value in recorded[name]]), dim=0)
                at = rows_MBT.unbind(dim=-1) if len(lengths) > 1 else ()
                found[name] = torch.stack([at[s - 1] for s in lengths], -1) if at else of(rows_MBT, -1, keepdim=True)
        return found

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """The mean over rows, or the greatest."""
        of = {name: torch.amax if name in self.position.largest else torch.mean for name in rows}
        return {name: of[name](value, dim=1) for name, value in rows.items()}

    def maps(self, weights: Weights, task: Task) -> Mapping[str, Map]:
        """The maps of the positional encoding."""
        return self.position.maps(weights, task)
