"""What a pack is evaluated on: drawn once, and kept where it is small."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from trainers.noise import Noise
from trainers.pack import Pack
from trainers.random import Stream
from trainers.tasks.task import EvaluationBatch

KEPT_BYTES = 2**26  # of a pack; larger ones are drawn at every evaluation


def evaluation_inputs(pack: Pack) -> Iterator[EvaluationBatch]:
    """The evaluation batches of the pack's seeds, from their eval streams: the same at every evaluation.

    They are kept with the pack once all have been drawn, unless together they are larger than KEPT_BYTES.
    """
    if pack.kept_inputs is not None:
        yield from pack.kept_inputs
        return
    kept, size = list[EvaluationBatch](), 0
    for test in pack.task.evaluation_batches(evaluation_stream(pack), pack.evaluation.samples, pack.lengths):
        size += sum(
            value.untyped_storage().nbytes() for value in vars(test.batch).values() if isinstance(value, Tensor)
        )
        kept = [*kept, test] if size <= KEPT_BYTES else []
        yield test
    pack.kept_inputs = tuple(kept) if size <= KEPT_BYTES else None


def evaluation_noise(pack: Pack, index_M: Tensor, first: int, total: int) -> Noise:
    """What is random for the rows from `first` on of an evaluation batch of `total`: nothing is dropped."""
    apart = replace(evaluation_stream(pack), name="dropout")  # of step 0, before training: not what the inputs are of
    return Noise(apart, index_M, training=False, first=first, total=total)


def evaluation_stream(pack: Pack) -> Stream:
    """The stream of the pack's seeds that evaluation draws its inputs from."""
    return Stream(pack.seeds_S, "eval", torch.zeros((), dtype=torch.int64, device=pack.device))
