"""The evaluation and validation inputs of a pack, drawn once and cached if they are small."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.tasks.task import EvaluationBatch

MAX_CACHED_BYTES = 2**26  # per pack and stream; larger inputs are drawn again at every evaluation


def draw_evaluation_inputs(pack: Pack) -> Iterator[EvaluationBatch]:
    """Yield the evaluation batches of the pack's seeds, drawn from their eval streams: the same at every evaluation.

    They are cached in the pack after the last batch, unless all together are larger than MAX_CACHED_BYTES.
    """
    return _draw_cached(pack, "eval", pack.task.evaluation_batches, pack.evaluation.samples, pack.lengths)


def draw_validation_inputs(pack: Pack) -> Iterator[EvaluationBatch]:
    """Yield the batches for early stopping and curricula, drawn from the validation streams; cached in the same way."""
    return _draw_cached(pack, "validation", pack.task.validation_batches, pack.criteria[0].samples)


def make_evaluation_stream(pack: Pack, name: str) -> Stream:
    """Return a stream of the pack's seeds at step 0: eval or validation for inputs, dropout for forward passes."""
    return Stream(pack.seeds_S, name, torch.zeros((), dtype=torch.int64, device=pack.device))


def _draw_cached(
    pack: Pack, name: str, draw: Callable[..., Iterable[EvaluationBatch]], *arguments: object
) -> Iterator[EvaluationBatch]:
    """Yield the cached batches of a stream, or draw them and cache them if they are small."""
    if name in pack.cached_inputs:
        yield from pack.cached_inputs[name]
        return

    # Drop the collected batches at once if they grow too large: they would stay in memory during training.
    batches = list[EvaluationBatch]()
    size = 0
    for evaluation_batch in draw(make_evaluation_stream(pack, name), *arguments):
        size += sum(
            value.untyped_storage().nbytes()
            for value in vars(evaluation_batch.batch).values()
            if isinstance(value, Tensor)
        )
        batches = [*batches, evaluation_batch] if size <= MAX_CACHED_BYTES else []
        yield evaluation_batch
    if size <= MAX_CACHED_BYTES:
        pack.cached_inputs[name] = tuple(batches)
