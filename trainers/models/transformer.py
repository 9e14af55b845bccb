"""What the causal decoder and the bidirectional encoder share: embedding, positions, blocks, head.

Shapes: M member, B batch, T position, D width, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from trainers.errors import Problem
from trainers.models.attention import AttentionWeights
from trainers.models.block import BIASES, Form, block, block_drops, block_parameters
from trainers.models.dropout import SITES, dropout_rate, dropout_sites, repeated_name_problems
from trainers.models.kept import Kept, KeptTokens
from trainers.models.model import Cache, Model, Recorded
from trainers.positions.context import Pass, Recorder
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.embedding import embed, embedding_parameter
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
        yield from repeated_name_problems("biases", self.biases)
        yield from repeated_name_problems("dropout_sites", self.dropout_sites)

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
        declared = self._declared(task)
        return tuple(replace(p, decay=p.decay or (self.decay_embeddings and len(p.shape) > 1)) for p in declared)

    def _declared(self, task: Task) -> Iterator[Parameter]:
        width, std, form = self.width, self.init_std, self.form_of_blocks
        inner = self.heads * self.width_of_head
        sizes = Sizes(
            longest=task.positions,
            ids=task.position_ids,
            width=width,
            heads=self.heads,
            head_width=self.width_of_head,
            std=std,
        )
        yield embedding_parameter(task.inputs, width, std, self.embedding_range)
        yield from self.position.parameters(sizes)
        yield from form.norm_parameters("embedded", width) if self.embedding_norm else ()
        for layer in range(self.layers):
            extra = self.position.layer_parameters(f"block{layer}", sizes)
            yield from block_parameters(f"block{layer}", form, width, inner, self.width_inside, extra)
        yield from form.norm_parameters("final", width) if self.norm_at_end else ()
        if not self.tied:
            yield Parameter(name="head", shape=(width, task.outputs), std=std)

    def operations(self, task: Task, rows: int, positions: int) -> float:
        """Operations (twice the multiply-adds) of one forward pass over `rows` rows of `positions` tokens."""
        width, inner, mlp_maps = self.width, self.heads * self.width_of_head, 1.5 if self.mlp == "gated" else 2
        per_block = 4 * width * inner + mlp_maps * width * self.width_inside + 2 * positions * inner
        return 2.0 * rows * positions * (self.layers * per_block + width * task.outputs)

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
        seen = AttentionWeights(batch.tokens.shape[-1])
        self._logits(self._whole(weights, batch, noise, watcher=seen))
        return tuple(seen.layers)

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
        seen = self._pass(weights, batch.tokens, 0, ids, noise, groups=batch.groups)
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
        seen = self._pass(weights, grown.batch.tokens, first, ids, noise, visible=visible)
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
        return self._pass(weights, batch.tokens, 0, ids, noise, groups=batch.groups, **more)

    def _pass(
        self,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        first: int,
        ids: Tensor | None,
        noise: Noise | None,
        **more: Any,
    ) -> Pass:
        count, causal = tokens.shape[-1] - first, self.causal
        return Pass(
            tokens=tokens, weights=weights, causal=causal, first=first, count=count, ids=ids, noise=noise, **more
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
        """Return what each row says of the metrics of the positional encoding."""
        return self.position.measured(lengths, recorded)

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """Return the metrics of the positional encoding."""
        return self.position.reduce(rows)

    def maps(self, weights: Weights, task: Task) -> Mapping[str, Map]:
        """The maps of the positional encoding."""
        return self.position.maps(weights, task)
