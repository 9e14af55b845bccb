"""What a pack is evaluated and validated on: drawn once, and kept where it is small."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.tasks.task import EvaluationBatch

KEPT_BYTES = 2**26  # of a pack and stream; larger ones are drawn at every evaluation


def evaluation_inputs(pack: Pack) -> Iterator[EvaluationBatch]:
    """The evaluation batches of the pack's seeds, from their eval streams: the same at every evaluation.

    They are kept with the pack once all have been drawn, unless together they are larger than KEPT_BYTES.
    """
    stream = evaluation_stream(pack)
    return _kept(pack, stream.name, lambda: pack.task.evaluation_batches(stream, pack.evaluation.samples, pack.lengths))


def validation_inputs(pack: Pack) -> Iterator[EvaluationBatch]:
    """What stopping and the curriculum go by, from the validation streams of the pack's seeds; kept in the same way."""
    stream = validation_stream(pack)
    return _kept(pack, stream.name, lambda: pack.task.validation_batches(stream, pack.criteria[0].samples))


def noise_stream(pack: Pack) -> Stream:
    """The stream of what is random in evaluation besides its inputs: of step 0, before training."""
    return replace(evaluation_stream(pack), name="dropout")


def evaluation_stream(pack: Pack) -> Stream:
    """The stream of the pack's seeds that evaluation draws its inputs from."""
    return Stream(pack.seeds_S, "eval", torch.zeros((), dtype=torch.int64, device=pack.device))


def validation_stream(pack: Pack) -> Stream:
    """The stream of the pack's seeds that validation draws its inputs from."""
    return Stream(pack.seeds_S, "validation", torch.zeros((), dtype=torch.int64, device=pack.device))


def _kept(pack: Pack, name: str, draw: Callable[[], Iterable[EvaluationBatch]]) -> Iterator[EvaluationBatch]:
    if name in pack.kept_inputs:
        yield from pack.kept_inputs[name]
        return
    kept, size = list[EvaluationBatch](), 0
    for test in draw():
        size += sum(
            value.untyped_storage().nbytes() for value in vars(test.batch).values() if isinstance(value, Tensor)
        )
        kept = [*kept, test] if size <= KEPT_BYTES else []
        yield test
    if size <= KEPT_BYTES:
        pack.kept_inputs[name] = tuple(kept)
