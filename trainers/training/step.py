"""An optimizer step of a pack: draw batches, forward pass, loss, gradient, clipping, optimizer, averages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from trainers.optimization.loss import LossInputs
from trainers.optimization.optimizer import Update, clip_gradient
from trainers.packs.pack import Pack
from trainers.packs.training_state import Averages, TrainingState, compute_average
from trainers.positions.context import Recorder
from trainers.random import Stream
from trainers.tasks import supervised
from trainers.tensors.batch import Batch
from trainers.tensors.memory import may_share_memory
from trainers.tensors.noise import Noise
from trainers.tensors.precision import autocast
from trainers.training.compiling import compile_once, compile_or_load, compile_program, mark_dynamic, should_compile
from trainers.training.cuda_graph import CudaGraphStep, TrainStep


def sample_batches(
    pack: Pack, step: Tensor, rows: int, stage_M: Tensor | None = None, *, longest: bool = False
) -> tuple[Batch, ...]:
    """Draw `rows` training rows for every member at step `step` (counted from 1), once for each seed.

    For checks, cost estimates and the trial step of the compiler; training draws with `StepBatches`. With a curriculum
    rows are drawn for each member at its stage; `stage_M` None means the first stage. longest: with
    `one_length_per_batch`, draw the longest length instead of the length of the step.
    """
    # Members of one seed may be at different stages; without a curriculum they train on the same rows.
    if pack.curriculum is not None:
        stage_M = torch.zeros_like(pack.seeds_M) if stage_M is None else stage_M
        return pack.task.training_batches(Stream(pack.seeds_M, "data", step), rows, stage_M)
    stream = Stream(pack.seeds_S, "data", step)
    task = pack.task
    length = None
    if pack.training.one_length_per_batch:
        length = max(task.trained_lengths) if longest else task.draw_step_length(int(step))
    return tuple(batch.for_members(pack.seed_index_M) for batch in task.training_batches(stream, rows, None, length))


def compute_losses(
    pack: Pack, theta: Tensor, batch: Batch, noise: Noise | None, step: Tensor, averages: Averages | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sum and the weight of the training loss of every member, (M,) each.

    averages: the buffers of the weight averages, for losses that read them; by default buffers that start at `theta`.
    Raises ValueError if the task's or the user's loss returns other shapes.
    """
    weights = pack.layout.split(theta)
    if pack.loss is None:
        return _compute_task_loss(pack, _run_forward(pack, weights, batch, noise), batch)

    def read_detached_average(label: str) -> Mapping[str, Tensor]:
        detached = theta.detach()
        buffers = averages
        if buffers is None:
            buffers = tuple(source.make_initial_buffers(detached) for source in pack.buffer_sources)
        return pack.layout.split(compute_average(pack, label, buffers, detached))

    # Functions instead of values, because a loss chooses which passes and averages it needs.
    inputs = LossInputs(
        batch=batch,
        weights=weights,
        step=step,
        steps=pack.training.steps,
        hyperparameters={name: column[:, 0].to(theta.dtype) for name, column in pack.loss_hyperparameters.items()},
        target_weights=supervised.weigh_targets(batch, theta.dtype),
        task_loss=lambda logits: _compute_task_loss(pack, logits, batch),
        average=read_detached_average,
        forward=lambda draw, record, other_weights: _run_forward(
            pack, weights if other_weights is None else other_weights, batch, noise and noise.for_pass(draw), record
        ),
    )
    return _check_loss(f"loss {pack.loss.name}: compute", pack.loss.compute(inputs), len(theta))


def _run_forward(
    pack: Pack, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None, record: Recorder | None = None
) -> Tensor:
    """Return the logits (M, B, T, V) in the dtype of the weights."""
    first_weight = next(iter(weights.values()))
    with autocast(pack.training.compute_dtype, first_weight.device.type):
        logits = pack.model.logits(weights, batch, noise, pack.form, record)
    return logits.to(first_weight.dtype)


def _compute_task_loss(pack: Pack, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return sum and weight of the loss of the task, with label smoothing and z-loss, (M,) each."""
    loss_M, weight_M = _check_loss(f"{pack.task.name}: loss", pack.task.loss(logits, batch), len(logits))
    # Without both settings the loss of the task keeps its bits.
    smoothing = pack.hyperparameters.get("label_smoothing")
    factor = pack.hyperparameters.get("z_loss")
    if smoothing is None and factor is None:
        return loss_M, weight_M
    return supervised.regularize_loss(loss_M, logits, batch, smoothing, factor), weight_M


def _check_loss(name: str, loss: tuple[Tensor, Tensor], members: int) -> tuple[Tensor, Tensor]:
    """Return `loss`. Raises ValueError unless it is a sum and a weight for every member, (M,) each."""
    # A tensor (2,) could be unpacked, too, and a number has no shape.
    parts = loss if isinstance(loss, tuple) else ()
    shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
    if shapes != [(members,), (members,)]:
        raise ValueError(
            f"{name} must return a tuple of a sum and its weight, each of shape ({members},), an entry per member; got "
            f"{', '.join(map(str, shapes)) or type(loss).__name__}"
        )
    return loss


def make_training_noise(pack: Pack, step: Tensor) -> Noise | None:
    """Return the noise of a training step, None if nothing is random."""
    if pack.dropout_rates is None and not pack.model.draws_random_numbers:
        return None
    # A compiled program serves packs of any size, so it reads seeds and index in a form that all packs have.
    seeds_S, seed_index_M = pack.seeds_S, pack.seed_index_M
    if torch.compiler.is_compiling():
        seeds_S = pack.compiled_seeds_S
        seed_index_M = pack.compiled_seed_index_M
    return Noise(Stream(seeds_S, "dropout", step), seed_index_M, pack.dropout_rates)


def train_next_step(pack: Pack, state: TrainingState) -> None:
    """Draw the batches of the next step and train on them, changing `state` in place."""
    train_step(pack, state, sample_batches(pack, state.step + 1, pack.training.batch_size, state.stage))


def compute_gradients(
    pack: Pack, theta: Tensor, batches: Sequence[Batch], step: Tensor, averages: Averages | None = None
) -> tuple[Tensor, Tensor]:
    """Return the gradient (M, P) and the loss (M,) of all rows of `batches`: sum of losses over sum of weights.

    averages: as in `compute_losses`. Raises ValueError for a loss that does not depend on the weights.
    """
    # A slice has the noise of its rows in the batch, so accumulation does not change random numbers.
    noise = make_training_noise(pack, step)
    slices: list[tuple[Batch, Noise | None]] = []  # the compiler cannot trace list[...]()
    for part, batch in enumerate(batches):
        for first, rows in _split_rows(batch, pack.training.accumulation):
            total = None if rows is batch else batch.tokens.shape[1]
            slices.append((rows, noise and replace(noise, first=first, total=total, part=part)))

    # A single slice differentiates the mean: the sum divided afterwards would have other bits.
    if len(slices) == 1:
        rows, noise = slices[0]

        def compute_mean(theta: Tensor) -> tuple[Tensor, Tensor]:
            loss_M, weight_M = compute_losses(pack, theta, rows, noise, step, averages)
            loss_M = loss_M / _replace_zero_weights(weight_M)
            return loss_M.sum(), loss_M.detach()

        return _differentiate(compute_mean, theta)

    # Slices may have different weights, so their means cannot be averaged: sum everything, and divide once.
    gradient = torch.zeros_like(theta)
    loss_M = theta.new_zeros(theta.shape[0])
    weight_M = theta.new_zeros(theta.shape[0])
    for rows, noise in slices:

        def compute_sums(theta: Tensor, rows: Batch = rows, noise: Noise | None = noise) -> tuple[Tensor, Tensor]:
            loss_M, weight_M = compute_losses(pack, theta, rows, noise, step, averages)
            return loss_M.sum(), torch.stack([loss_M.detach(), weight_M.detach()])

        slice_gradient, (slice_loss_M, slice_weight_M) = _differentiate(compute_sums, theta)
        gradient = gradient + slice_gradient
        loss_M = loss_M + slice_loss_M
        weight_M = weight_M + slice_weight_M
    divisor_M = _replace_zero_weights(weight_M)
    return gradient / divisor_M[:, None], loss_M / divisor_M


def _replace_zero_weights(weight_M: Tensor) -> Tensor:
    """Return the weights, with 1 for a weight of 0: a member without counted targets has loss and gradient 0."""
    return torch.where(weight_M == 0, 1.0, weight_M)


def _differentiate(function: Callable[[Tensor], tuple[Tensor, Tensor]], theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of the first result of `function` at `theta`, and its second result."""
    if torch.compiler.is_compiling():
        gradient_and_auxiliary: tuple[Tensor, Tensor] = torch.func.grad(function, has_aux=True)(theta)
        return gradient_and_auxiliary

    # The same bits without torch.func, whose import takes more than a second.
    with torch.enable_grad():
        leaf = theta.detach().requires_grad_()
        value, auxiliary = function(leaf)
        if not value.requires_grad:
            raise ValueError("the loss does not depend on the weights: it was computed without them, or detached")
        return torch.autograd.grad(value, leaf)[0], auxiliary


def _split_rows(batch: Batch, count: int) -> list[tuple[int, Batch]]:
    """Split a batch into at most `count` slices of rows; return each with the index of its first row."""
    total = batch.tokens.shape[1]
    if count == 1:
        return [(0, batch)]
    # With fewer rows than slices some edges coincide, hence the set.
    edges = sorted({total * part // count for part in range(count + 1)})
    return [(first, batch.slice_rows(first, last)) for first, last in pairwise(edges)]


def train_step(pack: Pack, state: TrainingState, batches: Sequence[Batch]) -> None:
    """Train a pack for a step, changing `state` in place.

    A member is frozen if it has stopped, or if its loss, weights or optimizer state are not finite.
    """
    step = state.step + 1

    def compute_clipped_gradient(theta: Tensor) -> tuple[Tensor, Tensor]:
        gradient, loss_M = compute_gradients(pack, theta, batches, step, state.averages)
        clip = pack.hyperparameters.get("clip")
        return gradient if clip is None else clip_gradient(gradient, clip), loss_M

    # An optimizer may need further gradients, so it also gets a function that computes them.
    gradient, loss_M = compute_clipped_gradient(state.theta)
    update_inputs = Update(
        theta=state.theta,
        gradient=gradient,
        state=state.optimizer,
        step=step,
        # The schedule is shared by the pack; each member has its own learning rate.
        rate=pack.hyperparameters["learning_rate"] * pack.schedule.factor(step, pack.training.steps),
        hyperparameters={**pack.hyperparameters, **pack.optimizer_hyperparameters},
        layout=pack.layout,
        decay_mask=pack.decay_mask,
        seeds_M=pack.compiled_seeds_S[pack.compiled_seed_index_M] if torch.compiler.is_compiling() else pack.seeds_M,
        compute_gradient=lambda theta: compute_clipped_gradient(theta)[0],
    )
    theta, updates = pack.optimizer.update(update_inputs)
    # Checkpoints and compiled programs depend on these names.
    if updates.keys() != state.optimizer.keys():
        returned, allowed = (", ".join(names) or "no tensors" for names in (updates, state.optimizer))
        raise ValueError(f"optimizer {pack.optimizer.name}: update returns the state {returned}; allowed: {allowed}")
    if pack.lower_bounds is not None:
        theta = torch.maximum(theta, pack.lower_bounds)

    # A member that is not finite keeps the state before this step, so that its averages stay finite.
    loss_M = loss_M.double()
    active_M = state.failed_at < 0
    if pack.stop_criterion is not None:
        active_M = active_M & (state.stopped_at < 0)
    alive_M = active_M & torch.isfinite(loss_M + _sum_entries(theta, pack.optimizer.list_checked_tensors(updates)))
    mask = None if _are_all_known_alive(alive_M) else alive_M

    # Averages read the new weights, so the weights are written first.
    trained_buffers = (state.theta, *state.optimizer.values())
    _write_buffers(mask, trained_buffers, [theta, *(updates[name] for name in state.optimizer)])
    for source, buffers, h in zip(pack.buffer_sources, state.averages, pack.average_hyperparameters, strict=True):
        _write_buffers(mask, buffers, source.update(buffers, state.theta, step, h))
    state.loss_sum.add_(torch.where(alive_M, loss_M, 0.0))
    state.loss_steps.add_(alive_M)
    state.failed_at.copy_(torch.where(active_M ^ alive_M, step, state.failed_at))
    state.step.copy_(step)


def _sum_entries(theta: Tensor, state: Sequence[Tensor]) -> Tensor:
    """Return a number for each member, (M,), that is not finite if any entry of its weights or state is not."""
    # One pass over tensors in the shape of the weights; infinities and NaN survive sums.
    total = theta.abs()
    other_buffers = [buffer for buffer in state if buffer.shape != theta.shape]
    for buffer in state:
        if buffer.shape == theta.shape:
            total.add_(buffer)
    other_sums = (buffer.flatten(1).sum(dim=1) if buffer.dim() > 1 else buffer for buffer in other_buffers)
    return total.sum(dim=1) + sum(other_sums)


def _are_all_known_alive(alive_M: Tensor) -> bool:
    """Return whether all members are alive; False if that is unknown without waiting for a GPU."""
    return not torch.compiler.is_compiling() and alive_M.device.type == "cpu" and bool(alive_M.all())


def _write_buffers(mask: Tensor | None, buffers: Sequence[Tensor], updates: Sequence[Tensor]) -> None:
    """Overwrite buffers with their updates, for the members in the mask (M,); None means all members."""
    # Copy an update that shares memory with a buffer, which may be overwritten before the update is read. A compiler
    # fuses such copies with the computation of the update.
    separate = [
        new.to(old.dtype, copy=new is not old and may_share_memory(new, buffers))
        for old, new in zip(buffers, updates, strict=True)
    ]
    for buffer, new in zip(buffers, separate, strict=True):
        if new is buffer:
            continue
        if mask is None:
            buffer.copy_(new)
        else:
            torch.where(mask.reshape(-1, *[1] * (buffer.dim() - 1)), new, buffer, out=buffer)


def make_train_step(
    pack: Pack,
    compiled: bool | None = None,
    on_wait: Callable[[], None] = lambda: None,
    notice: Callable[[str], None] = lambda text: None,
) -> TrainStep:
    """Return `train_step` for a pack, captured as a CUDA graph on a GPU.

    compiled: whether the step is compiled; None: as configured. The program is compiled here for packs of any size, or
    loaded from the cache. on_wait: called while another process compiles it. notice: gets reasons why steps are slow.
    """
    if compiled is None:
        compiled = should_compile(pack.members[0], pack.device.type)
    run_step = _compile_train_step(pack, on_wait) if compiled else partial(train_step, pack)

    # Launching the kernels of a step one by one takes longer than running them.
    if pack.device.type != "cuda" or pack.model.compiling == "never":  # a user's module may compute on the host
        return run_step
    return CudaGraphStep(run_step, notice)


def _compile_train_step(pack: Pack, on_wait: Callable[[], None]) -> TrainStep:
    """Compile `train_step` by a step of a pack of three members; the program serves packs of any size."""
    program = compile_program(train_step, pack.device.type)

    # Inputs of three members, because compilers treat sizes 0 and 1 as constants; their first dimension is dynamic.
    trial = pack.select([0, 0, 0])
    state = TrainingState.make_initial(trial)
    step = torch.ones((), dtype=torch.int64, device=pack.device)
    batches = make_contiguous_batches(trial, sample_batches(trial, step, trial.training.batch_size))
    mark_dynamic(
        [*trial.list_tensors(), *state.list_tensors(), *(tensor for batch in batches for tensor in batch.tensors())]
    )

    # The number of threads is part of the program.
    with compile_once(f"{pack.members[0].structural_key} {pack.device.type} {torch.get_num_threads()}", on_wait):
        compile_or_load(program, trial, state, batches)
    return lambda state, batches: program(pack, state, make_contiguous_batches(pack, batches))


def make_contiguous_batches(pack: Pack, batches: Sequence[Batch]) -> list[Batch]:
    """Return batches whose tensors have contiguous rows of their own for every member, as compiled programs need."""
    seed_index_M = None if pack.seed_index_M is not None else pack.compiled_seed_index_M
    return [batch.for_members(seed_index_M).contiguous() for batch in batches]
