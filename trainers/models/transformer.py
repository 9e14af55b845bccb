"""The base of the causal decoder and the bidirectional encoder: embedding, positions, blocks, head.

Shapes: M members, B rows, T positions, D width, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from trainers.errors import Problem, find_repeated_name_problems
from trainers.models.attention import AttentionWatcher
from trainers.models.block import BIASES, BlockForm, apply_block, declare_block_parameters, make_block_drops
from trainers.models.dropout import DROPOUT_SITES, dropout_rate, dropout_sites
from trainers.models.key_value_cache import LayerCache, TokenCache
from trainers.models.model import Cache, Model, Recorded
from trainers.positions.context import Pass, Recorder
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.layers import embed, embedding_parameter, linear
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter

NORMS = ("none", "pre", "post", "residual")
NORM_HELP = "pre: norm of the input of each branch; post: after each sum; residual: of the stream before each branch"


class Transformer(Model):
    """Embedding, blocks of attention and MLP, and a head without bias, which may be tied to the embedding."""

    supports_groups = True  # its attention masks other groups
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
    dropout_sites: tuple[str, ...] = dropout_sites(DROPOUT_SITES, ("hidden",))
    init_std: float = setting(0.02, above=0.0, help="standard deviation of initial matrix entries")
    init: str = setting(
        "normal",
        choices=("normal", "depth", "torch"),
        help="initial values in blocks. normal: with init_std; depth: divided by sqrt(2 layers) where a branch ends; "
        "torch: as torch.nn.Linear",
    )
    embedding_range: float | None = setting(
        None, above=0.0, help="embeddings start uniform up to this size; null: normal with init_std"
    )
    tied: bool = setting(False, help="the head is the transposed embedding")
    decay_embeddings: bool = setting(
        False, help="weight decay acts on all parameters of two dimensions: embeddings and position vectors, too"
    )

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of the number of heads, of an odd width of a gated MLP, and of repeated names."""
        if self.head_width is None and self.width % self.heads:
            message = f"{self.heads} does not divide width {self.width}"
            yield Problem(key="heads", given=self.heads, message=message, allowed="a divisor of width, or a head_width")
        else:
            # An encoding may need heads of an even width, so it is asked only if the width is valid.
            yield from self.position.find_head_problems(self.heads, self.head_width_used)
        if self.mlp == "gated" and self.hidden is not None and self.hidden % 2:
            message = "is odd, but mlp: gated halves it"
            yield Problem(key="hidden", given=self.hidden, message=message, allowed="an even number")
        yield from find_repeated_name_problems("biases", self.biases)
        yield from find_repeated_name_problems("dropout_sites", self.dropout_sites)

    def find_task_problems(self, task: Task) -> Iterator[Problem]:
        """Yield problems with a task that needs a causal model, generates texts or has other outputs than inputs."""
        # While a text is generated its later tokens do not exist yet.
        if task.causal and not self.causal:
            message = "is not causal: it sees the tokens that it should predict, because the task scores every prefix"
            yield Problem(key="name", given=self.name, message=message, allowed="a causal model")
        elif task.passes > 1 and self.position.looks_ahead:
            message = f"looks at later tokens, but {task.name} generates texts token by token"
            yield Problem(
                key="position", given=self.position.name, message=message, allowed="an encoding without later tokens"
            )

        if self.tied and task.inputs != task.outputs:
            message = f"the task has {task.inputs} input tokens and {task.outputs} output tokens"
            yield Problem(key="tied", given=True, message=message, allowed="false")
        yield from self.position.find_task_problems(task)

    @property
    def head_width_used(self) -> int:
        """Width of each head: head_width, by default width / heads."""
        return self.head_width or self.width // self.heads

    @property
    def mlp_width(self) -> int:
        """Width inside the MLP."""
        return self.hidden or 4 * self.width

    @property
    def block_form(self) -> BlockForm:
        """The architecture of its blocks."""
        return BlockForm(
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
    def draws_random_numbers(self) -> bool:
        """Whether training draws random numbers besides dropout."""
        return self.position.draws_random_numbers

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metrics of the positional encoding."""
        return self.position.metrics

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return the parameters of embedding, positions, blocks, final norm and untied head, as far as it has them."""
        # Apply decay_embeddings here, also to tables of positions: positional encodings do not know it.
        parameters = self._declare_parameters(task)
        return tuple(
            replace(parameter, decay=parameter.decay or (self.decay_embeddings and len(parameter.shape) > 1))
            for parameter in parameters
        )

    def _declare_parameters(self, task: Task) -> Iterator[Parameter]:
        """Yield the parameters; `decay_embeddings` is applied to them later."""
        width, std, block_form = self.width, self.init_std, self.block_form
        attention_width = self.heads * self.head_width_used
        sizes = Sizes(
            longest=task.positions,
            ids=task.position_ids,
            width=width,
            heads=self.heads,
            head_width=self.head_width_used,
            std=std,
        )

        # The order gives the site of each initial draw and the column of each weight, so it must not change.
        yield embedding_parameter(task.inputs, width, std, self.embedding_range)
        yield from self.position.parameters(sizes)
        yield from block_form.declare_norm_parameters("embedded", width) if self.embedding_norm else ()
        for layer in range(self.layers):
            extra = self.position.layer_parameters(f"block{layer}", sizes)
            yield from declare_block_parameters(
                f"block{layer}", block_form, width, attention_width, self.mlp_width, extra
            )
        yield from block_form.declare_norm_parameters("final", width) if self.has_final_norm else ()
        if not self.tied:
            yield Parameter(name="head", shape=(width, task.outputs), std=std)

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return the operations (twice the multiply-adds) of a forward pass over `rows` rows of `positions` tokens."""
        # A gated MLP halves its hidden width before the second map, so it has one and a half maps.
        width = self.width
        mlp_maps = 1.5 if self.mlp == "gated" else 2
        attention_width = self.heads * self.head_width_used
        per_block = 4 * width * attention_width + mlp_maps * width * self.mlp_width + 2 * positions * attention_width
        return 2.0 * rows * positions * (self.layers * per_block + width * task.outputs)

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Return logits (M, B, T, V) at every position."""
        return self._compute_logits(self._make_full_pass(weights, batch, noise, recorder=record))

    def compute_attention(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None) -> tuple[Tensor, ...]:
        """Return the attention weights (M, B, H, T, T) of every block."""
        watcher = AttentionWatcher(batch.tokens.shape[-1])
        self._compute_logits(self._make_full_pass(weights, batch, noise, watcher=watcher))
        return tuple(watcher.layers)

    def prefill(
        self, weights: Mapping[str, Tensor], batch: Batch, width: int, noise: Noise | None, form: str
    ) -> tuple[Tensor, Cache]:
        """Return logits and KV cache of a batch. Raises ValueError for more tokens than `width`."""
        if not self._has_cache:
            return super().prefill(weights, batch, width, noise, form)
        m, b, t = batch.tokens.shape
        if t > width:
            raise ValueError(f"{t} tokens do not fit into a cache of {width}")
        # Ids are assigned for the full width at once, so that random positions of later tokens continue the prompt's
        # positions.
        state = TokenCache.empty(self.layers, width, self.position.assign_ids(batch.ids, (m, b, width), noise))
        ids = None if state.ids is None else state.ids[..., :t]
        forward_pass = self._make_pass(weights, batch.tokens, 0, ids, noise, groups=batch.groups)
        return self._compute_logits(forward_pass, state.layers), Cache(batch=batch, width=width, state=state)

    def decode(
        self,
        weights: Mapping[str, Tensor],
        cache: Cache,
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None,
        visible_MBK: Tensor | None,
        noise: Noise | None,
        form: str,
    ) -> tuple[Tensor, Cache]:
        """Return logits of the following tokens, and the extended KV cache; the old cache is overwritten."""
        if not self._has_cache:
            return super().decode(weights, cache, tokens_MBT, ids_MBT, visible_MBK, noise, form)

        # The encoding may have replaced the ids (`randomized`), so the cache keeps those that were assigned.
        extended = cache.append(tokens_MBT, ids_MBT)
        state = cache.state
        first, last = cache.length, extended.length
        if ids_MBT is not None and state.ids is not None:
            shape = (*tokens_MBT.shape[:2], cache.width)
            state.ids[..., first:last] = self.position.assign_ids(ids_MBT, shape, noise)

        # Only the new tokens are queries; their keys are appended to the cached keys.
        ids = None if state.ids is None else state.ids[..., :last]
        visible = None if visible_MBK is None else visible_MBK[..., :last]
        forward_pass = self._make_pass(weights, extended.batch.tokens, first, ids, noise, visible=visible)
        return self._compute_logits(forward_pass, state.layers), extended

    @property
    def supports_masked_cache(self) -> bool:
        """Whether it has a KV cache and its encoding does not depend on adjacent tokens."""
        return self._has_cache and not self.position.depends_on_adjacency

    @property
    def cache_size_per_token(self) -> int:
        """The size of the keys and values of all layers per token, in numbers; 0 without a KV cache."""
        return 2 * self.layers * self.heads * self.head_width_used if self._has_cache else 0

    @property
    def _has_cache(self) -> bool:
        """Whether it has a KV cache: no token depends on later tokens."""
        return self.causal and not self.position.looks_ahead

    def _make_full_pass(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None, **fields: Any) -> Pass:
        """Return a pass over all tokens of a batch; fields: other fields of the pass."""
        m, b, t = batch.tokens.shape
        ids = self.position.assign_ids(batch.ids, (m, b, t), noise)
        real_tokens = (
            None if self._has_cache else batch.real_mask()
        )  # a causal model does not see the padding at the end
        return self._make_pass(weights, batch.tokens, 0, ids, noise, groups=batch.groups, visible=real_tokens, **fields)

    def _make_pass(
        self,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        first: int,
        ids: Tensor | None,
        noise: Noise | None,
        **fields: Any,
    ) -> Pass:
        """Return a pass whose queries are the tokens from `first` on."""
        count = tokens.shape[-1] - first
        causal = self.causal
        return Pass(
            tokens=tokens, weights=weights, causal=causal, first=first, count=count, ids=ids, noise=noise, **fields
        )

    def _compute_logits(self, forward_pass: Pass, caches: tuple[LayerCache, ...] | None = None) -> Tensor:
        """Return the logits (M, B, T, V) of the queries of a pass."""
        # A cached pass has only the new tokens as queries.
        weights = forward_pass.weights
        noise = forward_pass.noise
        block_form = self.block_form
        tokens = forward_pass.select_queries(forward_pass.tokens)
        x = self.position.embed(embed(weights["embedding"], tokens), forward_pass)
        x = block_form.normalize(x, weights, "embedded") if self.embedding_norm else x
        if noise is not None and "embedding" in self.dropout_sites:
            x = noise(x, 0)

        # Each layer has dropout sites and a KV cache of its own.
        for layer in range(self.layers):
            x = apply_block(
                x,
                forward_pass,
                name=f"block{layer}",
                layer=layer,
                heads=self.heads,
                form=block_form,
                position=self.position,
                drops=make_block_drops(noise, self.dropout_sites, layer),
                cache=caches[layer] if caches else None,
            )
        # With a post-norm the last block ends in a norm already.
        head = weights["embedding"].mT if self.tied else weights["head"]
        return linear(block_form.normalize(x, weights, "final") if self.has_final_norm else x, head)

    @property
    def has_final_norm(self) -> bool:
        """Whether there is a norm before the head."""
        return self.norm in ("pre", "residual")

    def measure_rows(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        """Return the metrics of the positional encoding for each row, (M, B, L)."""
        return self.position.measure_rows(lengths, recorded)

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """Return the metrics of the positional encoding, (M, L)."""
        return self.position.reduce(rows)
