"""One optimiser step of a whole pack: sample, forward, loss, backward, clip, AdamW, averages."""

from collections.abc import Callable

import torch
from torch import Tensor

from trainers.noise import Dropout
from trainers.optim import adamw, clipped, gradient_descent
from trainers.pack import Pack, State
from trainers.random import Stream
from trainers.tasks.task import Batch

# Compiling takes tens of seconds. It is the default where one member alone would train at least this long uncompiled,
# by a rough model of one CPU core: so much for starting the kernels of a step, and so many operations a second.
COMPILE_FROM_SECONDS = 2.0
_SECONDS_PER_STEP, _OPERATIONS_PER_SECOND = 5e-4, 2e10


def compiles(pack: Pack) -> bool:
    """Whether the step is compiled: as asked for, or by the work of one member, never by what else is in the pack."""
    wanted = pack.optimization.compile
    if isinstance(wanted, bool):
        return wanted
    forward = pack.model.operations(pack.task, pack.optimization.batch_size, pack.task.train_positions)
    seconds = _SECONDS_PER_STEP + 3.0 * float(forward) / _OPERATIONS_PER_SECOND
    return pack.optimization.steps * seconds >= COMPILE_FROM_SECONDS


def sampled(pack: Pack, step: Tensor) -> Batch:
    """The training batch of every member at step `step` (counted from 1): drawn once for each seed."""
    batch: Batch = pack.task.sample(Stream(pack.seeds_S, "data", step), pack.optimization.batch_size)
    return batch.of(pack.index_M)


def losses(pack: Pack, theta: Tensor, batch: Batch, step: Tensor) -> Tensor:
    """The training loss of every member, (M,)."""
    noise = None
    if pack.drops or pack.model.random:
        noise = Dropout(Stream(pack.seeds_S, "dropout", step), pack.index_M, pack.model_h["dropout"][:, 0], pack.drops)
    loss: Tensor = pack.task.loss(pack.model.logits(pack.layout.views(theta), batch.tokens, noise, pack.form), batch)
    return loss


def step_once(pack: Pack, state: State) -> None:
    """Sample a batch and learn from it."""
    learn(pack, state, sampled(pack, state.step + 1))


def learn(pack: Pack, state: State, batch: Batch) -> None:
    """Advance `state` in place by one step. A member whose loss, weights or moments become non-finite is frozen."""

    def total(theta: Tensor) -> tuple[Tensor, Tensor]:
        loss_M = losses(pack, theta, batch, step)
        return loss_M.sum(), loss_M.detach()

    step = state.step + 1
    gradient, loss_M = torch.func.grad(total, has_aux=True)(state.theta)
    if "clip" in pack.h:
        gradient = clipped(gradient, pack.h["clip"])
    rate = pack.h["learning_rate"] * pack.schedule.factor(step, pack.optimization.steps)
    if pack.optimization.optimizer == "adamw":
        theta, m, v = adamw(state.theta, gradient, state.m, state.v, step, rate, pack.decay_mask, pack.h)
    else:
        theta, m, v = gradient_descent(state.theta, gradient, rate, pack.decay_mask, pack.h), state.m, state.v
    finite = torch.isfinite(loss_M) & torch.isfinite((theta.abs() + v).sum(dim=1))
    alive = (state.failed_at < 0) & finite
    on = alive[:, None]
    theta = torch.where(on, theta, state.theta)
    for average, buffers, h in zip(pack.averages, state.averages, pack.average_h, strict=True):
        for buffer, updated in zip(buffers, average.update(buffers, theta, step, h), strict=True):
            buffer.copy_(torch.where(on, updated, buffer))
    state.theta.copy_(theta)
    state.m.copy_(torch.where(on, m, state.m))
    state.v.copy_(torch.where(on, v, state.v))
    state.loss_sum.add_(torch.where(alive, loss_M.double(), 0.0))
    state.loss_steps.add_(alive)
    state.failed_at.copy_(torch.where((state.failed_at < 0) & ~finite, step, state.failed_at))
    state.step.copy_(step)


def stepper(pack: Pack) -> Callable[[State], None]:
    """The step to call in the loop, compiled or not."""
    if not compiles(pack):
        return lambda state: step_once(pack, state)
    torch._dynamo.config.recompile_limit = 1024  # one process trains packs of many structures in turn
    torch._dynamo.config.accumulated_recompile_limit = 1024
    if pack.task.compiles:
        whole: Callable[[Pack, State], None] = torch.compile(step_once, dynamic=False, fullgraph=True)
        return lambda state: whole(pack, state)
    rest: Callable[[Pack, State, Batch], None] = torch.compile(learn, dynamic=False, fullgraph=True)
    return lambda state: rest(pack, state, sampled(pack, state.step + 1))
