"""What a member costs: parameters, memory and operations from its configuration, time by a short measurement."""

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import CELLS_OF_A_ROW_PIECE, evaluate, validate
from trainers.packs.batches import Ahead
from trainers.packs.evaluation_inputs import evaluation_inputs, validation_inputs
from trainers.packs.pack import Pack, State
from trainers.training.step import learn, losses, noise_of, sampled

_TRIED = 1e11  # operations of an evaluation with texts, up to which it is tried with all its rows: half a minute
_PEAK = 3  # bytes at the peak of a step over bytes kept for the gradient: 2.7 to 3.3 measured, uncompiled encoders


@dataclass(frozen=True, kw_only=True)
class Cost:
    """parameters: of one member. bytes_per_member: weights, moments, gradient, averages and activations in a pack.
    flops_per_step: forward and backward of one training step."""

    parameters: int
    bytes_per_member: int
    flops_per_step: float


def estimate(member: MemberConfig) -> Cost:
    """What a member costs; memory is counted on one row and on two, without training."""
    pack = Pack([member], torch.device("cpu"))
    width = 8 if member.training.dtype == "float64" else 4
    buffers = sum(len(average.start(torch.zeros(1, 1))) for average in pack.sources)
    rows = -(-member.training.batch_size // member.training.accumulation)
    one, two = (kept_for_backward(pack, few) for few in (1, 2))
    positions = member.evaluation.samples * member.task.positions
    evaluated = 6 * min(CELLS_OF_A_ROW_PIECE, positions * member.task.outputs)
    kept = width * min(CELLS_OF_A_ROW_PIECE, positions * member.model.kept_numbers) if member.task.passes > 1 else 0
    forward = sum(
        member.model.operations(member.task, *batch.tokens.shape[1:])
        for batch in sampled(pack, torch.tensor(1), member.training.batch_size)
    )
    return Cost(
        parameters=pack.layout.size,
        bytes_per_member=width * pack.layout.size * (4 + buffers)
        + _PEAK * (one + (rows - 1) * (two - one))  # a line in rows: in table form most of it does not depend on them
        + evaluated // 2
        + kept,
        flops_per_step=3.0 * forward,
    )


def kept_for_backward(pack: Pack, rows: int) -> int:
    """Bytes that the forward pass of so many rows keeps for the gradient, counted by running a one-member pack."""
    step = torch.tensor(1)
    theta = torch.zeros(1, pack.layout.size, dtype=getattr(torch, pack.training.dtype), requires_grad=True)
    kept: dict[int, int] = {}

    def count(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
        found = [losses(pack, theta, batch, noise_of(pack, step)) for batch in sampled(pack, step, rows)]
    kept.pop(theta.untyped_storage().data_ptr(), None)
    del found
    return sum(kept.values())


def calibrate(member: MemberConfig, members: int, seconds: float = 2.0) -> float:
    """Measured seconds per step of a pack of `members` members like this one, its share of the evaluations included.

    On one thread, as packs run, and always uncompiled, since compiling would take longer than the answer is worth: an
    upper bound where the real run compiles (`compiling.compiles`).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        step = _seconds_per_step(_pack(member, members), seconds)
        lone, share = _with_some_rows(member)
        for _ in (*evaluation_inputs(lone), *(validation_inputs(lone) if lone.criteria else ())):
            pass  # drawn once in a run, however many members and evaluations
        began = time.monotonic()
        evaluate(lone, State.initial(lone))
        validate(lone, State.initial(lone))
        evaluation = members * (time.monotonic() - began) / share
    finally:
        torch.set_num_threads(threads)
    steps, every = member.training.steps, member.evaluation.every
    return step + evaluation * (-(-steps // every) if every else 1) / steps


def _with_some_rows(member: MemberConfig) -> tuple[Pack, float]:
    """A pack of it alone, where texts are written with as many rows as can be tried; and their share of all."""
    task, evaluation, criteria = member.task, member.evaluation, member.criteria
    validated = [one.samples for one in criteria.values()][:1] * len(task.distributions[0].trained_lengths)
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) + sum(validated)
    operations = task.passes_by(member.model) * member.model.operations(task, rows, task.positions)
    share = min(1.0, _TRIED / operations) if task.passes > 1 else 1.0
    fewer: dict[str, Any] = {
        name: replace(one, samples=max(1, int(one.samples * share))) for name, one in criteria.items()
    }
    samples = max(1, int(evaluation.samples * share))
    training = replace(member.training, **fewer)
    some = replace(member, training=training, evaluation=replace(evaluation, samples=samples))
    return Pack([some], torch.device("cpu")), samples / evaluation.samples


def _pack(member: MemberConfig, members: int) -> Pack:
    copies = [MemberConfig.from_dict({**member.to_dict(), "seed": seed}) for seed in range(members)]
    return Pack(copies, torch.device("cpu"))


def _seconds_per_step(pack: Pack, seconds: float) -> float:
    state, ahead = State.initial(pack), Ahead(pack)
    learn(pack, state, ahead.batches(0, 1))
    began = time.monotonic()
    batches = ahead.batches(1, 1 + ahead.most)
    drawing = (time.monotonic() - began) / ahead.most
    began, count = time.monotonic(), 0
    while count == 0 or time.monotonic() - began < seconds:
        learn(pack, state, batches)
        count += 1
    return drawing + (time.monotonic() - began) / count
