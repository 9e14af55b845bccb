"""One optimiser step of a whole pack: sample, forward, loss, backward, clip, AdamW, averages."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from trainers.optimization.optimizer import adamw, clipped, gradient_descent
from trainers.packs.pack import Pack, State
from trainers.random import Stream
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.precision import computing
from trainers.training.captured import Captured, Learn
from trainers.training.compiling import any_size, compiles, first_call, once, program


def sampled(pack: Pack, step: Tensor, rows: int, stage_M: Tensor | None = None) -> tuple[Batch, ...]:
    """So many rows that every member trains on at step `step` (counted from 1), drawn once for each seed.

    With a curriculum they are drawn for each member at its stage, the first one where `stage_M` is None.
    """
    if pack.curriculum is not None:
        stage_M = torch.zeros_like(pack.seeds_M) if stage_M is None else stage_M
        return pack.task.training_batches(Stream(pack.seeds_M, "data", step), rows, stage_M)
    stream = Stream(pack.seeds_S, "data", step)
    return tuple(batch.of(pack.index_M) for batch in pack.task.training_batches(stream, rows))


def losses(pack: Pack, theta: Tensor, batch: Batch, noise: Noise | None) -> tuple[Tensor, Tensor]:
    """Sum and weight of the training loss of every member, (M,) each. Raises ValueError if the task gives others."""
    with computing(pack.training.compute_dtype, theta.device.type):
        logits = pack.model.logits(pack.layout.views(theta), batch, noise, pack.form)
    found = pack.task.loss(logits.to(theta.dtype), batch)
    if not isinstance(found, tuple) or any(one.shape != theta.shape[:1] for one in found):  # two losses unpack, too
        raise ValueError(f"{pack.task.name}: loss gives no tuple of a sum and its weight, each of shape (members,)")
    return found


def noise_of(pack: Pack, step: Tensor) -> Noise | None:
    """What is random in a training step, if anything is."""
    if pack.drops is None and not pack.model.random:
        return None
    seeds_S, index_M = pack.indexed if torch.compiler.is_compiling() else (pack.seeds_S, pack.index_M)
    return Noise(Stream(seeds_S, "dropout", step), index_M, pack.drops)


def step_once(pack: Pack, state: State) -> None:
    """Sample a batch and learn from it."""
    learn(pack, state, sampled(pack, state.step + 1, pack.training.batch_size, state.stage))


def gradients(pack: Pack, theta: Tensor, batches: Sequence[Batch], step: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (M, P) and the loss (M,) of all rows of `batches`: the sum of their losses over that of weights."""
    noise = noise_of(pack, step)
    slices = [
        (rows, noise and replace(noise, first=first, total=None if rows is batch else count, part=part))
        for part, batch in enumerate(batches)
        for count in (batch.tokens.shape[1],)
        for first, rows in _divided(batch, pack.training.accumulation)
    ]
    if len(slices) == 1:
        rows, noise = slices[0]

        def mean(theta: Tensor) -> tuple[Tensor, Tensor]:
            loss_M, weight_M = losses(pack, theta, rows, noise)
            loss_M = loss_M / weight_M
            return loss_M.sum(), loss_M.detach()

        return _differentiated(mean, theta)

    gradient, loss_M, weight_M = (
        torch.zeros_like(theta),
        theta.new_zeros(theta.shape[0]),
        theta.new_zeros(theta.shape[0]),
    )
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
    """Advance `state` in place by one step.

    A member that has stopped, or whose loss, weights or moments become non-finite, is frozen.
    """
    step = state.step + 1
    gradient, loss_M = gradients(pack, state.theta, batches, step)
    if "clip" in pack.h:
        gradient = clipped(gradient, pack.h["clip"])
    rate = pack.h["learning_rate"] * pack.schedule.factor(step, pack.training.steps)
    if pack.training.optimizer == "adamw":
        theta, m, v = adamw(state.theta, gradient, state.m, state.v, step, rate, pack.decay_mask, pack.h)
    else:
        theta, m, v = gradient_descent(state.theta, gradient, rate, pack.decay_mask, pack.h), state.m, state.v
    if pack.least is not None:
        theta = torch.maximum(theta, pack.least)
    loss_M, going_M = loss_M.double(), state.failed_at < 0
    if pack.stop is not None:
        going_M = going_M & (state.stopped_at < 0)
    alive = going_M & torch.isfinite(loss_M + theta.abs().add_(v).sum(dim=1))
    on = None if _everyone(alive) else alive[:, None]
    _take(on, state.theta, theta)
    _take(on, state.m, m)
    _take(on, state.v, v)
    for source, buffers, h in zip(pack.sources, state.averages, pack.average_h, strict=True):
        updates = [_apart(new, own, buffers) for own, new in enumerate(source.update(buffers, state.theta, step, h))]
        for buffer, updated in zip(buffers, updates, strict=True):
            _take(on, buffer, updated)
    state.loss_sum.add_(torch.where(alive, loss_M, 0.0))
    state.loss_steps.add_(alive)
    state.failed_at.copy_(torch.where(going_M ^ alive, step, state.failed_at))
    state.step.copy_(step)


def _everyone(alive_M: Tensor) -> bool:
    """Whether it is known that no member has failed; to look would make a GPU's host wait."""
    return not torch.compiler.is_compiling() and alive_M.device.type == "cpu" and bool(alive_M.all())


def _apart(new: Tensor, own: int, buffers: Sequence[Tensor]) -> Tensor:
    """What is new of the buffer `own`; a copy where it is another buffer, which is written over first."""
    return new.clone() if any(new is other for place, other in enumerate(buffers) if place != own) else new


def _take(on: Tensor | None, kept: Tensor, new: Tensor) -> None:
    """Write what is new over what was kept, where a member is `on` (M, 1); None: in all members."""
    if new is kept:
        return
    if on is None:
        kept.copy_(new)
    else:
        torch.where(on, new, kept, out=kept)


def learner(
    pack: Pack,
    compiled: bool | None = None,
    waiting: Callable[[], None] = lambda: None,
    notice: Callable[[str], None] = lambda text: None,
) -> Learn:
    """`learn` as it is called in the loop, compiled or not; None: as the members want it. On a GPU one launch a step.

    A program is compiled here, for packs of any size, unless it is there; `waiting` is called while others compile it.
    `notice` is told what is slower than it could be.
    """
    if compiled is None:
        compiled = compiles(pack.members[0], pack.device.type)
    learning = _learner(pack, compiled, waiting)
    if pack.device.type != "cuda" or pack.model.compiling == "never":  # what a module does may not be kernels alone
        return learning
    return Captured(learning, notice)


def _learner(pack: Pack, compiled: bool, waiting: Callable[[], None]) -> Learn:
    if not compiled:
        return lambda state, batches: learn(pack, state, batches)
    run = program(learn, pack.device.type)
    few = pack.of([0, 0, 0])
    state, step = State.initial(few), torch.ones((), dtype=torch.int64, device=pack.device)
    batches = for_program(few, sampled(few, step, few.training.batch_size))
    any_size([*few.tensors(), *state.tensors(), *(tensor for batch in batches for tensor in batch.tensors())])
    with once(f"{pack.members[0].structural_key} {pack.device.type} {torch.get_num_threads()}", waiting):
        first_call(run, few, state, batches)
    return lambda state, batches: run(pack, state, for_program(pack, batches))


def for_program(pack: Pack, batches: Sequence[Batch]) -> list[Batch]:
    """The batches of a pack as one program has them that serves all packs: each tensor one of its own."""
    index_M = None if pack.index_M is not None else pack.indexed[1]
    return [batch.of(index_M).in_one_piece() for batch in batches]


def stepper(pack: Pack) -> Callable[[State], None]:
    """One whole step, compiled or not, on a batch that is drawn for it alone."""
    learning = learner(pack)
    return lambda state: learning(state, sampled(pack, state.step + 1, pack.training.batch_size, state.stage))
