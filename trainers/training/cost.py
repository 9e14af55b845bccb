"""The cost of a member: parameters, memory and operations from its configuration, time by a short measurement."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import LOGITS_PER_MEMBER, evaluate, validate
from trainers.packs.batches import StepBatches
from trainers.packs.evaluation_inputs import evaluation_inputs, validation_inputs
from trainers.packs.pack import Pack, State
from trainers.tensors.parameters import ParameterLayout
from trainers.training.step import compute_losses, learn, sample_batches, training_noise

_MAX_MEASURED_OPERATIONS = 3e10  # of an evaluation: some seconds; larger evaluations are measured on fewer rows
_PEAK_FACTOR = 3  # peak bytes of a step / bytes saved for the gradient: 2.7 to 3.3 measured, uncompiled encoders


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The estimated cost of a member.

    parameters: their number. bytes_per_member: weights, gradient, state of the optimizer, averages and activations.
    flops_per_step: forward pass, backward pass, and large operations of the optimizer.
    """

    parameters: int
    bytes_per_member: int
    flops_per_step: float


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on a single thread, as packs do; small products only wait for a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def estimate(member: MemberConfig) -> Cost:
    """Return the estimated cost of a member without training it."""
    # Memory in training: weights, averages, and activations, extrapolated from one and two rows.
    pack = Pack([member], torch.device("cpu"))
    itemsize = 8 if member.training.dtype == "float64" else 4
    buffers = sum(len(average.start(torch.zeros(1, 1))) for average in pack.sources)
    rows = -(-member.training.batch_size // member.training.accumulation)
    one_row, two_rows = (saved_for_backward(pack, count) for count in (1, 2))

    # Memory in evaluation: logits, and a KV cache for generation.
    positions = member.evaluation.samples * member.task.positions
    evaluated = 6 * min(LOGITS_PER_MEMBER, positions * member.task.outputs)
    cached = min(LOGITS_PER_MEMBER, positions * member.model.cache_size_per_token) if member.task.passes > 1 else 0

    # Operations of a step.
    forward = sum(
        member.model.operations(member.task, *batch.tokens.shape[1:])
        for batch in sample_batches(pack, torch.tensor(1), member.training.batch_size, longest=True)
    )
    passes = 1 if member.training.loss is None else member.training.loss.passes
    return Cost(
        parameters=pack.layout.size,
        bytes_per_member=trained_bytes(member)
        + itemsize * pack.layout.size * buffers
        + _PEAK_FACTOR * (one_row + (rows - 1) * (two_rows - one_row))  # linear, with a constant part in table form
        + evaluated // 2
        + itemsize * cached,
        flops_per_step=member.training.optimizer.operations(3.0 * passes * forward, pack.layout.parameters),
    )


def trained_bytes(member: MemberConfig) -> int:
    """Return the bytes of weights, gradient and state of the optimizer of one member, without allocating them."""
    layout = ParameterLayout(member.model.parameters(member.task))
    dtype: torch.dtype = getattr(torch, member.training.dtype)
    if layout.size >= 2**60:
        return 4 * layout.size * dtype.itemsize  # too large for a tensor, also on the meta device
    theta = torch.zeros(1, layout.size, dtype=dtype, device="meta")
    return 2 * theta.nbytes + sum(buffer.nbytes for buffer in member.training.optimizer.start(theta, layout).values())


def saved_for_backward(pack: Pack, rows: int) -> int:
    """Return the bytes that a forward pass of `rows` rows of a one-member pack saves for the gradient."""
    # Every storage that autograd saves counts once.
    step = torch.tensor(1)
    theta = torch.zeros(1, pack.layout.size, dtype=getattr(torch, pack.training.dtype), requires_grad=True)
    saved_bytes: dict[int, int] = {}

    def count(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        saved_bytes[storage.data_ptr()] = storage.nbytes()
        return saved

    # A forward pass without the backward pass; its losses keep the saved tensors alive.
    with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
        losses = [
            compute_losses(pack, theta, batch, training_noise(pack, step), step)
            for batch in sample_batches(pack, step, rows, longest=True)
        ]

    # The weights themselves are counted elsewhere.
    saved_bytes.pop(theta.untyped_storage().data_ptr(), None)
    del losses
    return sum(saved_bytes.values())


@one_thread()
def calibrate(member: MemberConfig, members: int, seconds: float) -> float:
    """Return the measured seconds per step of a pack of `members` such members, including its share of evaluations.

    Measured on a single thread, like a pack, in CPU time, and without compiling, so an upper bound if the run compiles.
    seconds: how long to measure steps.
    """
    copies = [MemberConfig.from_dict({**member.to_dict(), "seed": seed}) for seed in range(members)]
    step = _seconds_per_step(Pack(copies, torch.device("cpu")), seconds)

    # An evaluation, on fewer rows if it is large; its inputs are drawn once per run, so outside of the measurement.
    pack, share = _reduce_rows(member)
    for _ in (*evaluation_inputs(pack), *(validation_inputs(pack) if pack.criteria else ())):
        pass
    began = time.process_time()
    evaluate(pack, State.initial(pack))
    validate(pack, State.initial(pack))
    evaluation = members * (time.process_time() - began) / share

    # Its time in proportion to the steps between evaluations.
    steps, every = member.training.steps, member.evaluation.every
    return step + evaluation * (-(-steps // every) if every else 1) / steps


def _reduce_rows(member: MemberConfig) -> tuple[Pack, float]:
    """Return a pack of this member alone, with fewer rows in a large evaluation, and the share of rows that is left."""
    task, evaluation, criteria = member.task, member.evaluation, member.criteria

    # The share of rows whose evaluation takes at most the measured operations.
    validated = [criterion.samples for criterion in criteria.values()][:1] * len(task.distributions[0].trained_lengths)
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) + sum(validated)
    operations = member.evaluation_passes * member.model.operations(task, rows, task.positions)
    share = min(1.0, _MAX_MEASURED_OPERATIONS / operations)

    # The member with this share of evaluation and validation rows.
    reduced: dict[str, Any] = {
        name: replace(criterion, samples=max(1, int(criterion.samples * share))) for name, criterion in criteria.items()
    }
    samples = max(1, int(evaluation.samples * share))
    training = replace(member.training, **reduced)
    member = replace(member, training=training, evaluation=replace(evaluation, samples=samples))
    return Pack([member], torch.device("cpu")), samples / evaluation.samples


def _seconds_per_step(pack: Pack, seconds: float) -> float:
    """Return the CPU seconds per training step, drawing included, measured for about `seconds`."""
    # Warm up with a step, then measure the time to draw batches of several steps.
    state, step_batches = State.initial(pack), StepBatches(pack)
    learn(pack, state, step_batches.batches(0, 1))
    began = time.process_time()
    batches = step_batches.batches(1, 1 + step_batches.steps_at_once)
    drawing = (time.process_time() - began) / step_batches.steps_at_once

    # Measure steps; all train on the same batches.
    began, count = time.process_time(), 0
    while count == 0 or time.process_time() - began < seconds:
        if pack.training.one_length_per_batch:  # lengths of steps differ, so each draws a separate batch
            batches, drawing = step_batches.batches(1 + count, 2 + count), 0.0
        learn(pack, state, batches)
        count += 1
    return drawing + (time.process_time() - began) / count
