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
from trainers.packs.evaluation_inputs import draw_evaluation_inputs, draw_validation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.parameters import ParameterLayout
from trainers.training.step import compute_losses, make_training_noise, sample_batches, train_step

_MAX_MEASURED_OPERATIONS = 3e10  # of an evaluation: some seconds; larger evaluations are measured on fewer rows
_PEAK_FACTOR = 3  # peak bytes of a step / bytes saved for the gradient: 2.7 to 3.3 measured, uncompiled encoders
_BYTES_PER_LOGIT = 3  # of a piece of an evaluation, in addition to the bytes of a training step


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
def use_one_thread() -> Iterator[None]:
    """Compute on a single thread, as packs do; small products only wait for a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@use_one_thread()
def estimate_member_cost(member: MemberConfig) -> Cost:
    """Return the estimated cost of a member without training it."""
    # Activations grow linearly with the rows, so two small passes are enough to extrapolate.
    pack = Pack([member], torch.device("cpu"))
    itemsize = member.training.itemsize
    buffers = sum(len(source.make_initial_buffers(torch.zeros(1, 1))) for source in pack.buffer_sources)
    rows = -(-member.training.batch_size // member.training.accumulation)
    one_row, two_rows = (count_activation_bytes(pack, count) for count in (1, 2))

    # An evaluation is split into pieces of limited size; only generation needs a KV cache.
    positions = member.evaluation.samples * member.task.positions
    evaluation_bytes = _BYTES_PER_LOGIT * min(LOGITS_PER_MEMBER, positions * member.task.outputs)
    cached_numbers = (
        min(LOGITS_PER_MEMBER, positions * member.model.cache_size_per_token) if member.task.passes > 1 else 0
    )

    # The backward pass takes about twice the operations of a forward pass, hence the factor 3 below.
    forward = sum(
        member.model.count_operations(member.task, *batch.tokens.shape[1:])
        for batch in sample_batches(pack, torch.tensor(1), member.training.batch_size, longest=True)
    )
    passes = 1 if member.training.loss is None else member.training.loss.passes
    return Cost(
        parameters=pack.layout.size,
        bytes_per_member=count_training_state_bytes(member)
        + itemsize * pack.layout.size * buffers
        + _PEAK_FACTOR * (one_row + (rows - 1) * (two_rows - one_row))  # linear, with a constant part in table form
        + evaluation_bytes
        + itemsize * cached_numbers,
        flops_per_step=member.training.optimizer.count_operations(3.0 * passes * forward, pack.layout.parameters),
    )


def count_training_state_bytes(member: MemberConfig) -> int:
    """Return the bytes of weights, gradient and state of the optimizer of one member, without allocating them."""
    # On torch's meta device tensors have sizes, but no memory.
    layout = ParameterLayout(member.model.parameters(member.task))
    dtype: torch.dtype = getattr(torch, member.training.dtype)
    if layout.size >= 2**60:
        return 4 * layout.size * dtype.itemsize  # too large for a tensor, also on the meta device
    theta = torch.zeros(1, layout.size, dtype=dtype, device="meta")
    state = member.training.optimizer.make_initial_state(theta, layout)
    return 2 * theta.nbytes + sum(buffer.nbytes for buffer in state.values())


def count_activation_bytes(pack: Pack, rows: int) -> int:
    """Return the bytes that a forward pass of `rows` rows of a one-member pack saves for the gradient."""
    # Several saved tensors may be views of the same storage, which counts once.
    step = torch.tensor(1)
    theta = torch.zeros(1, pack.layout.size, dtype=getattr(torch, pack.training.dtype), requires_grad=True)
    saved_bytes: dict[int, int] = {}

    def count_storage(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        saved_bytes[storage.data_ptr()] = storage.nbytes()
        return saved

    # A forward pass without the backward pass; its losses keep the saved tensors alive.
    with torch.autograd.graph.saved_tensors_hooks(count_storage, lambda saved: saved):
        losses = [
            compute_losses(pack, theta, batch, make_training_noise(pack, step), step)
            for batch in sample_batches(pack, step, rows, longest=True)
        ]

    # The weights themselves are counted elsewhere.
    saved_bytes.pop(theta.untyped_storage().data_ptr(), None)
    del losses
    return sum(saved_bytes.values())


@use_one_thread()
def measure_seconds_per_step(member: MemberConfig, members: int, seconds: float) -> float:
    """Return the measured seconds per step of a pack of `members` such members, including its share of evaluations.

    This is CPU time of a single thread, which a pack also uses, without compilation; compiled runs take less.
    seconds: how long to measure steps.
    """
    copies = [MemberConfig.from_dict({**member.to_dict(), "seed": seed}) for seed in range(members)]
    seconds_per_step = _time_steps(Pack(copies, torch.device("cpu")), seconds)

    # An evaluation, on fewer rows if it is large; its inputs are drawn once per run, so outside of the measurement.
    pack, share = _shrink_evaluation(member)
    for _ in (*draw_evaluation_inputs(pack), *(draw_validation_inputs(pack) if pack.criteria else ())):
        pass
    start = time.process_time()
    evaluate(pack, TrainingState.make_initial(pack))
    validate(pack, TrainingState.make_initial(pack))
    evaluation_seconds = members * (time.process_time() - start) / share

    # Spread the time of all evaluations over the steps.
    return seconds_per_step + evaluation_seconds * member.evaluation_count / member.training.steps


def _shrink_evaluation(member: MemberConfig) -> tuple[Pack, float]:
    """Return a pack of this member alone, with fewer rows in a large evaluation, and the share of rows that is left."""
    task, evaluation, criteria = member.task, member.evaluation, member.criteria

    # Evaluation and validation are cut by the same share, so that their times can be scaled up together.
    validation_samples = [criterion.samples for criterion in criteria.values()][:1] * len(
        task.distributions[0].trained_lengths
    )
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) + sum(validation_samples)
    operations = member.evaluation_passes * member.model.count_operations(task, rows, task.positions)
    share = min(1.0, _MAX_MEASURED_OPERATIONS / operations)

    smaller_criteria: dict[str, Any] = {
        name: replace(criterion, samples=max(1, int(criterion.samples * share))) for name, criterion in criteria.items()
    }
    samples = max(1, int(evaluation.samples * share))
    training = replace(member.training, **smaller_criteria)
    member = replace(member, training=training, evaluation=replace(evaluation, samples=samples))
    return Pack([member], torch.device("cpu")), samples / evaluation.samples


def _time_steps(pack: Pack, seconds: float) -> float:
    """Return the CPU seconds per training step, drawing included, measured for about `seconds`."""
    # The first step allocates memory and loads kernels, so it is not measured.
    state = TrainingState.make_initial(pack)
    step_batches = StepBatches(pack)
    train_step(pack, state, step_batches.get_batches(0, 1))
    start = time.process_time()
    batches = step_batches.get_batches(1, 1 + step_batches.steps_at_once)
    draw_seconds = (time.process_time() - start) / step_batches.steps_at_once

    # All steps train on the same batches, because drawing is measured apart.
    start = time.process_time()
    count = 0
    while count == 0 or time.process_time() - start < seconds:
        if pack.training.one_length_per_batch:  # lengths of steps differ, so each draws a separate batch
            batches = step_batches.get_batches(1 + count, 2 + count)
            draw_seconds = 0.0
        train_step(pack, state, batches)
        count += 1
    return draw_seconds + (time.process_time() - start) / count
