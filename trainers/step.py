"""One optimiser step of a whole pack: sample, forward, loss, backward, clip, AdamW, averages."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from trainers.batch import Batch
from trainers.config.member import MemberConfig
from trainers.noise import Noise
from trainers.optim import adamw, clipped, gradient_descent
from trainers.pack import Pack, State
from trainers.random import Stream

# Compiling takes tens of seconds. It is the default where one member alone would train at least this long uncompiled,
# by a rough model of one CPU core: so much for starting the kernels of a step, and so many operations a second.
COMPILE_FROM_SECONDS = 2.0
_SECONDS_PER_STEP, _OPERATIONS_PER_SECOND = 5e-4, 2e10


def compiles(pack: Pack) -> bool:
    """Whether the step is compiled: as asked for, or by the work of one member, never by what else is in the pack."""
    wanted = pack.optimization.compile
    return wanted if isinstance(wanted, bool) else rough_seconds(pack.members[0]) >= COMPILE_FROM_SECONDS


def rough_seconds(member: MemberConfig) -> float:
    """How long a member alone would train on one CPU core, uncompiled: from its operations, without measuring."""
    forward = member.model.operations(member.task, member.optimization.batch_size, member.task.train_positions)
    return member.optimization.steps * (_SECONDS_PER_STEP + 3.0 * forward / _OPERATIONS_PER_SECOND)


def sampled(pack: Pack, step: Tensor, rows: int) -> tuple[Batch, ...]:
    """So many rows that every member trains on at step `step` (counted from 1), drawn once for each seed."""
    stream = Stream(pack.seeds_S, "data", step)
    return tuple(batch.of(pack.index_M) for batch in pack.task.training_batches(stream, rows))


def losses(pack: Pack, theta: Tensor, batch: Batch, noise: Noise | None) -> tuple[Tensor, Tensor]:
    """Sum and weight of the training loss of every member, (M,) each. Raises ValueError if the task gives others."""
    logits = pack.model.logits(pack.layout.views(theta), batch, noise, pack.form)
    found = pack.task.loss(logits, batch)
    if not isinstance(found, tuple) or any(one.shape != theta.shape[:1] for one in found):  # two losses unpack, too
        raise ValueError(f"{pack.task.name}: loss gives no tuple of a sum and its weight, each of shape (members,)")
    return found


def noise_of(pack: Pack, step: Tensor) -> Noise | None:
    """What is random in a training step, if anything is."""
    if pack.drops is None and not pack.model.random:
        return None
    return Noise(Stream(pack.seeds_S, "dropout", step), pack.index_M, pack.drops)


def step_once(pack: Pack, state: State) -> None:
    """Sample a batch and learn from it."""
    learn(pack, state, sampled(pack, state.step + 1, pack.optimization.batch_size))


def gradients(pack: Pack, theta: Tensor, batches: Sequence[Batch], step: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (M, P) and the loss (M,) of all rows of `batches`: the sum of their losses over that of weights."""
    noise = noise_of(pack, step)
    slices = [
        (rows, noise and replace(noise, first=first, total=None if rows is batch else count, part=part))
        for part, batch in enumerate(batches)
        for count in (batch.tokens.shape[1],)
        for first, rows in _divided(batch, pack.optimization.accumulation)
    ]
    if len(slices) == 1:
        rows, noise = slices[0]

        def mean(theta: Tensor) -> tuple[Tensor, Tensor]:
            loss_M, weight_M = losses(pack, theta, rows, noise)
            loss_M = loss_M / weight_M
            return loss_M.sum(), loss_M.detach()

        return _differentiated(mean, theta)

    gradient, loss_M, weight_M = torch.zeros_like(theta), theta.new_zeros(len(pack)), theta.new_zeros(len(pack))
    for rows, noise in slices:

        def summed(theta: Tensor, rows: Batch = rows, noise: Noise | None = noise) -> tuple[Tensor, Tensor]:
            loss_M, weight_M = losses(pack, theta, rows, noise)
            return loss_M.sum(), torch.stack([loss_M.detach(), weight_M.detach()])

        more, both = _differentiated(summed, theta)
        gradient, loss_M, weight_M = gradient + more, loss_M + both[0], weight_M + both[1]
    return gradient / weight_M[:, None], loss_M / weight_M


def _differentiated(function: Callable[[Tensor], tuple[Tensor, Tensor]], theta: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the first of what `function` gives, and the second."""
    if torch.compiler.is_compiling():
        found: tuple[Tensor, Tensor] = torch.func.grad(function, has_aux=True)(theta)
        return found
    # The same bits without torch.func, which imports symbolic algebra for more than a second.
    with torch.enable_grad():
        at = theta.detach().requires_grad_()
        value, beside = function(at)
        return torch.autograd.grad(value, at)[0], beside


def _divided(batch: Batch, count: int) -> list[tuple[int, Batch]]:
    """The batch in at most `count` slices of rows, each with the number of its first row."""
    total = batch.tokens.shape[1]
    if count == 1:
        return [(0, batch)]
    edges = sorted({total * part // count for part in range(count + 1)})
    return [(first, batch.rows(first, last)) for first, last in pairwise(edges)]


def learn(pack: Pack, state: State, batches: Sequence[Batch]) -> None:
    """Advance `state` in place by one step. A member whose loss, weights or moments become non-finite is frozen."""
    step = state.step + 1
    gradient, loss_M = gradients(pack, state.theta, batches, step)
    if "clip" in pack.h:
        gradient = clipped(gradient, pack.h["clip"])
    rate = pack.h["learning_rate"] * pack.schedule.factor(step, pack.optimization.steps)
    if pack.optimization.optimizer == "adamw":
        theta, m, v = adamw(state.theta, gradient, state.m, state.v, step, rate, pack.decay_mask, pack.h)
    else:
        theta, m, v = gradient_descent(state.theta, gradient, rate, pack.decay_mask, pack.h), state.m, state.v
    loss_M, going_M = loss_M.double(), state.failed_at < 0
    alive = going_M & torch.isfinite(loss_M + theta.abs().add_(v).sum(dim=1))
    on = None if _everyone(alive) else alive[:, None]
    _take(on, state.theta, theta)
    _take(on, state.m, m)
    _take(on, state.v, v)
    for source, buffers, h in zip(pack.sources, state.averages, pack.average_h, strict=True):
        for buffer, updated in zip(buffers, source.update(buffers, state.theta, step, h), strict=True):
            _take(on, buffer, updated)
    state.loss_sum.add_(torch.where(alive, loss_M, 0.0))
    state.loss_steps.add_(alive)
    state.failed_at.copy_(torch.where(going_M ^ alive, step, state.failed_at))
    state.step.copy_(step)


def _everyone(alive_M: Tensor) -> bool:
    """Whether it is known that no member has failed; to look would make a GPU's host wait."""
    return not torch.compiler.is_compiling() and alive_M.device.type == "cpu" and bool(alive_M.all())


def _take(on: Tensor | None, kept: Tensor, new: Tensor) -> None:
    """Write what is new over what was kept, where a member is `on` (M, 1); None: in all members."""
    if new is kept:
        return
    if on is None:
        kept.copy_(new)
    else:
        torch.where(on, new, kept, out=kept)


def learner(pack: Pack) -> Callable[[State, Sequence[Batch]], None]:
    """`learn` as it is called in the loop, compiled or not."""
    if not compiles(pack):
        return lambda state, batches: learn(pack, state, batches)
    torch._dynamo.config.recompile_limit = 1024  # one process trains packs of many structures in turn
    torch._dynamo.config.accumulated_recompile_limit = 1024
    compiled: Callable[[Pack, State, Sequence[Batch]], None] = torch.compile(learn, dynamic=False, fullgraph=True)
    return lambda state, batches: compiled(pack, state, batches)


def stepper(pack: Pack) -> Callable[[State], None]:
    """One whole step, compiled or not, on a batch that is drawn for it alone."""
    learning = learner(pack)
    return lambda state: learning(state, sampled(pack, state.step + 1, pack.optimization.batch_size))
