"""A trial of a torch module before training: whether its members can be trained, and by which calls.

The trial decides whether vmap runs all members at once. A module that vmap cannot run, such as nn.GRU, is called for
one member after another.

Shapes: M members, B rows, T positions, V output tokens.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainers.errors import describe_briefly, locate_in_user_code
from trainers.models.keyed_dropout import WatchedDropout, use_dropout
from trainers.models.vmap_call import BATCH_PARAMETERS, TRAINING, call_members, find_batch_parameters
from trainers.positions.context import Recorder
from trainers.tensors.batch import Batch

_MEMBERS, _ROWS, _MAX_POSITIONS = 2, 3, 8  # of a trial
_RANDOM_PROBLEM = (
    "draws random numbers, which all members would share; allowed: nn.Dropout layers, trainers.dropout instead of "
    "functional.dropout, and dropout=0 in nn.MultiheadAttention, nn.GRU and the like"
)


class ModuleSizes(NamedTuple):
    """The numbers of input tokens, output tokens and positions for which a module is built."""

    inputs: int
    outputs: int
    positions: int


class Trial(NamedTuple):
    """The result of calling a module in a trial.

    problems: why the module cannot be trained. loop_reason: why vmap cannot run it, so that members are computed one
    after another; None if it can. has_dropout: whether it has dropout. recorded: name of each recorded value -> why it
    cannot be a metric, None if it can.
    """

    problems: tuple[str, ...]
    loop_reason: str | None = None
    has_dropout: bool = False
    recorded: Mapping[str, str | None] = MappingProxyType({})


def try_module(
    module: nn.Module,
    second_module: nn.Module,
    sizes: ModuleSizes,
    causal: bool,
    has_member_dropout: bool = False,
) -> Trial:
    """Return the result of calling a module on random tokens for two members, by vmap, or one by one if vmap fails.

    second_module: the same module built with another seed. has_member_dropout: whether the model has a dropout rate for
    every member.
    """
    watcher = WatchedDropout(has_member_dropout)
    with use_dropout(watcher):
        trial = _try_calls(module, second_module, sizes, causal)
    return trial._replace(has_dropout=watcher.has_dropout)


def _try_calls(module: nn.Module, second_module: nn.Module, sizes: ModuleSizes, causal: bool) -> Trial:
    """Return the result of `try_module`, without whether the module has dropout."""
    if problems := tuple(_find_declaration_problems(module, second_module)):
        return Trial(problems)

    # Call it under vmap; if this fails, one member after another.
    length = min(sizes.positions, _MAX_POSITIONS)
    tokens = torch.randint(0, sizes.inputs, (_MEMBERS, _ROWS, length), generator=torch.Generator().manual_seed(0))
    loop_reason = None
    rng_state = torch.random.get_rng_state()
    try:
        with _without_fallback():
            logits, recorded = _try_passes(module, tokens, stacked=True)
    except (Exception, SystemExit) as error:  # any error of the user's code
        if "randomness error mode" in str(error):
            return Trial((_RANDOM_PROBLEM + locate_in_user_code(error),))
        loop_reason = _explain_loop(error)
    try:
        logits, recorded = (logits, recorded) if loop_reason is None else _try_passes(module, tokens, stacked=False)
    except (Exception, SystemExit) as error:
        return Trial((f"fails with {describe_briefly(error)}{locate_in_user_code(error)}",))
    # Outside of vmap random draws raise no error, but they change the state of the generator.
    if not torch.equal(rng_state, torch.random.get_rng_state()):
        torch.random.set_rng_state(rng_state)
        return Trial((_RANDOM_PROBLEM,))

    # The output in evaluation can differ only if `forward` has the parameter `training`.
    stacked = loop_reason is None
    problems = tuple(_find_state_problems(module, tokens, logits, stacked=stacked))
    problems = problems or tuple(_find_output_problems(module, tokens, logits, sizes, causal, stacked=stacked))
    if not problems and TRAINING in find_batch_parameters(module):
        logits = _compute_logits(module, tokens, training=False, stacked=stacked)
        output_problems = _find_output_problems(module, tokens, logits, sizes, causal, training=False, stacked=stacked)
        problems = tuple(f"{problem} (in evaluation)" for problem in output_problems)
    return Trial(problems, loop_reason, recorded=recorded)


def _find_declaration_problems(module: nn.Module, second_module: nn.Module) -> Iterator[str]:
    """Yield problems of the parameters of `forward`, of frozen parameters, and of random buffers."""
    # Nothing would be passed for a required parameter of another name.
    unknown_names = [
        parameter.name
        for parameter in [*inspect.signature(module.forward).parameters.values()][1:]
        if parameter.name not in (*BATCH_PARAMETERS, TRAINING)
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    yield from (
        f"forward has the parameter {name}; allowed: tokens, {', '.join((*BATCH_PARAMETERS, TRAINING))}"
        for name in unknown_names
    )

    # Every parameter is trained, and every buffer is shared by all members.
    frozen_names = [
        name for name, tensor in module.named_parameters() if not (tensor.requires_grad and tensor.is_floating_point())
    ]
    yield from (f"the parameter {name} is not trained; make it a buffer" for name in frozen_names)
    buffers = dict(module.named_buffers())
    second_buffers = dict(second_module.named_buffers())
    random_names = [name for name, buffer in buffers.items() if not torch.equal(buffer, second_buffers[name])]
    yield from (
        f"the buffer {name} is random, but all members share buffers; make it a parameter" for name in random_names
    )


def _try_passes(module: nn.Module, tokens: Tensor, *, stacked: bool) -> tuple[Tensor, dict[str, str | None]]:
    """Return the logits of a training step, and the values recorded in an evaluation, as in `Trial.recorded`."""
    logits = _compute_logits(module, tokens, stacked=stacked)
    shapes = dict[str, set[tuple[int, ...]]]()

    def record_shape(name: str, value: Tensor) -> None:
        shapes.setdefault(name, set()).add(tuple(value.shape[1:]))

    _compute_logits(module, tokens, record_shape, training=False, stacked=stacked)
    return logits, dict(_describe_recorded(shapes, *tokens.shape[1:]))


def _describe_recorded(
    shapes: Mapping[str, set[tuple[int, ...]]], rows: int, length: int
) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each recorded value, with why it cannot be a metric, None if it can."""
    for name, recorded in shapes.items():
        wrong_shapes = sorted(recorded - {(), (rows,), (rows, length)})
        yield name, f"has the shape {wrong_shapes[0]} for tokens ({rows}, {length})" if wrong_shapes else None


def _compute_logits(
    module: nn.Module, tokens: Tensor, record: Recorder | None = None, *, training: bool = True, stacked: bool
) -> Tensor:
    """Return the logits of members with the weights of the module; in training also compute a gradient."""
    # The backward pass is part of the trial, because some operators have a vmap rule only for the forward pass.
    weights = {name: torch.stack([parameter.detach()] * _MEMBERS) for name, parameter in module.named_parameters()}
    buffers = dict(module.named_buffers())
    batch = Batch(tokens, tokens)
    with nullcontext() if training else torch.no_grad():
        weights = {name: value.requires_grad_(training) for name, value in weights.items()}
        logits = call_members(module, weights, buffers, batch, None, record, training=training, stacked=stacked)
    if training:
        torch.autograd.grad(logits.sum(), list(weights.values()), allow_unused=True)
    return logits.detach()


def _find_state_problems(module: nn.Module, tokens: Tensor, logits: Tensor, *, stacked: bool) -> Iterator[str]:
    """Yield problems of state that a call changes, because later calls and other members would see it."""
    # NaN is another problem, and would differ from itself in this comparison.
    buffers_before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    second_logits = _compute_logits(module, tokens, stacked=stacked)
    changed_names = [name for name, buffer in module.named_buffers() if not torch.equal(buffers_before[name], buffer)]
    if changed_names:
        yield f"changes its buffer {', '.join(changed_names)} in each call, but all members share buffers"
    elif not torch.equal(second_logits.nan_to_num(), logits.nan_to_num()):
        yield "returns other logits in a second call with the same inputs; a call must not change the module"


def _find_output_problems(
    module: nn.Module,
    tokens: Tensor,
    logits: Tensor,
    sizes: ModuleSizes,
    causal: bool,
    *,
    training: bool = True,
    stacked: bool,
) -> Iterator[str]:
    """Yield problems of the logits: their shape, values that are not finite, mixed rows, and later tokens."""
    _, rows, length = tokens.shape
    if logits.shape != (_MEMBERS, rows, length, sizes.outputs):
        shape = tuple(logits.shape[1:])
        expected = (rows, length, sizes.outputs)
        yield f"returns the shape {shape} for tokens ({rows}, {length}); allowed: logits {expected}"
    elif not torch.isfinite(logits).all():
        yield "returns logits that are not finite with its initial weights"
    else:
        # Changed tokens in the first row must not change other rows.
        changed_tokens = tokens.clone()
        changed_tokens[:, 0] = (changed_tokens[:, 0] + 1) % sizes.inputs
        changed_logits = _compute_logits(module, changed_tokens, training=training, stacked=stacked)
        if not torch.allclose(changed_logits[:, 1:], logits[:, 1:], rtol=1e-4, atol=1e-5):
            yield "mixes rows of a batch: tokens are (rows, length); recurrent layers of torch need batch_first=True"
            return

        # In a causal model changed tokens in the last column must not change the columns before it.
        if not causal or length == 1:
            return
        changed_tokens = tokens.clone()
        changed_tokens[..., -1] = (changed_tokens[..., -1] + 1) % sizes.inputs
        changed_logits = _compute_logits(module, changed_tokens, training=training, stacked=stacked)
        if not torch.allclose(changed_logits[..., :-1, :], logits[..., :-1, :], rtol=1e-4, atol=1e-5):
            yield "is not causal: it sees the tokens that it should predict, because the task scores every prefix"


def _explain_loop(error: BaseException) -> str:
    """Return why vmap cannot run a module, with the line of the user's code."""
    description = describe_briefly(error)
    if operator := re.search(r"aten::\w+", description):
        return f"no vmap rule for {operator[0]}{locate_in_user_code(error)}"
    return f"torch.func.vmap cannot run it, {description}{locate_in_user_code(error)}"


@contextmanager
def _without_fallback() -> Iterator[None]:
    """Make operators without a batching rule raise an error instead of running member by member with a warning."""
    functorch: Any = torch._C._functorch
    was_enabled = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(was_enabled)
