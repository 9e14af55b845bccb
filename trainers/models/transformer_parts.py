"""What a transformer trains, and what a pass through it costs: its parameters and its operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trainers.models.block import block_parameters
from trainers.positions.position import Sizes
from trainers.tasks.task import Task
from trainers.tensors.parameters import Parameter, uniform_parameter

if TYPE_CHECKING:
    from trainers.models.transformer import Transformer


def transformer_parameters(model: Transformer, task: Task) -> tuple[Parameter, ...]:
    """Embedding, positions, blocks, final norm (where branches or the stream are normed before), untied head."""
    found = _declared(model, task)
    return tuple(replace(p, decay=p.decay or (model.decay_embeddings and len(p.shape) > 1)) for p in found)


def _declared(model: Transformer, task: Task) -> Iterator[Parameter]:
    width, std, form = model.width, model.init_std, model.form_of_blocks
    sizes = Sizes(
        longest=task.positions,
        ids=task.position_ids,
        width=width,
        heads=model.heads,
        head_width=model.width_of_head,
        std=std,
    )
    table, size = (task.inputs, width), model.embedding_range
    if size is None:
        yield Parameter(name="embedding", shape=table, std=std, decay=False)
    else:
        yield uniform_parameter("embedding", table, -size, size, decay=False)
    yield from model.position.parameters(sizes)
    yield from form.norm_parameters("embedded", width) if model.embedding_norm else ()
    for layer in range(model.layers):
        name = f"block{layer}"
        extra = model.position.layer_parameters(name, sizes)
        yield from block_parameters(name, form, width, model.heads * model.width_of_head, model.width_inside, extra)
    yield from form.norm_parameters("final", width) if model.norm_at_end else ()
    if not model.tied:
        yield Parameter(name="head", shape=(width, task.outputs), std=std)


def transformer_operations(model: Transformer, task: Task, rows: int, positions: int) -> float:
    """Operations (twice the multiply-adds) of one forward pass over `rows` rows of `positions` tokens."""
    inner, of_mlp = model.heads * model.width_of_head, 1.5 if model.mlp == "gated" else 2
    each = (
        model.layers * (4 * model.width * inner + of_mlp * model.width * model.width_inside + 2 * positions * inner)
        + model.width * task.outputs
    )
    return 2.0 * rows * positions * each
