"""Calls of a torch module with the weights of all members, and a trial of the module before training.

The trial decides whether vmap runs all members at once. A module that vmap cannot run, such as nn.GRU, is called for
one member after another.

Shapes: M members, B rows, T positions, V output tokens.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainers.errors import locate_in_user_code
from trainers.models.keyed_dropout import DropoutDraws, WatchedDropout, use_dropout
from trainers.positions.context import Recorder
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.recording import Values, recording_to

_MEMBERS, _ROWS, _MAX_POSITIONS = 2, 3, 8  # of a trial
_RANDOM_PROBLEM = (
    "draws random numbers, which all members would share; allowed: nn.Dropout layers, trainers.dropout instead of "
    "functional.dropout, and dropout=0 in nn.MultiheadAttention, nn.GRU and the like"
)
BATCH_PARAMETERS = ("ids", "groups", "lengths")  # parameters of `forward` that get tensors of the batch
TRAINING = "training"  # the parameter of `forward` for whether this is a training step


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


# Cached, because every pass asks and `inspect` is slow.
@lru_cache(maxsize=32)
def find_parameters(module: nn.Module) -> Mapping[str, bool]:
    """Return which of BATCH_PARAMETERS and TRAINING `forward` has: name -> whether it is required."""
    parameters = [*inspect.signature(module.forward).parameters.values()][1:]
    return {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.name in (*BATCH_PARAMETERS, TRAINING)
    }


def select_tensors(module: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the tensors of a batch for the parameters of `forward`, by name: ids and groups (M, B, T), lengths (M, B).

    If the batch does not have a tensor, a required parameter gets ids 0..T-1, groups of zeros or lengths T, and a
    parameter with a default keeps its default.
    """
    # Functions, so that no tensor is made that `forward` does not read.
    tokens = batch.tokens
    defaults = {
        "ids": lambda: torch.arange(tokens.shape[-1], device=tokens.device).expand(tokens.shape),
        "groups": lambda: torch.zeros_like(tokens),
        "lengths": lambda: tokens.new_full(tokens.shape[:-1], tokens.shape[-1]),
    }

    parameters = find_parameters(module)
    tensors = {name: (getattr(batch, name), required) for name, required in parameters.items() if name != TRAINING}
    return {
        name: defaults[name]() if value is None else value
        for name, (value, required) in tensors.items()
        if required or value is not None
    }


def call_members(
    module: nn.Module,
    weights: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    batch: Batch,
    noise: Noise | None = None,
    record: Recorder | None = None,
    *,
    training: bool = True,
    stacked: bool = True,
) -> Tensor:
    """Return the logits (M, B, T, V) of a module with the weights of each member; all members share the buffers.

    The module gets the tokens, and the other tensors of the batch that its `forward` has parameters for.

    noise: random numbers of dropout, None for a pass without dropout. record: gets the values that the module records,
    (M, ...) each. training: whether this is a training step. stacked: whether torch.func.vmap computes all members at
    once, or each is computed after the other. Raises ValueError if members that are computed one after another record
    different numbers of values under a name.
    """
    from torch.func import functional_call, vmap  # importing it takes more than a second

    # Under vmap one call serves all members, so the index of the member must be a tensor.
    count, rows = batch.tokens.shape[:2]
    index_M1 = torch.arange(count, device=batch.tokens.device)[:, None]
    inputs, flags = select_tensors(module, batch), {TRAINING: training} if TRAINING in find_parameters(module) else {}
    draws = None if noise is None else DropoutDraws(noise, count, rows, index_M1[0])

    def call_member(
        parameters: dict[str, Tensor], tokens_BT: Tensor, inputs: dict[str, Tensor], draws: DropoutDraws | None
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Return the logits and the recorded values of a member, both as tensors, which vmap can stack."""
        recorded = Values()
        with use_dropout(draws) if draws else nullcontext(), recording_to(recorded) if record else nullcontext():
            logits: Tensor = functional_call(module, (parameters, dict(buffers)), (tokens_BT,), {**inputs, **flags})
        return logits, {name: [_as_tensor(value, logits) for value in values] for name, values in recorded.items()}

    def call_stacked(
        parameters: dict[str, Tensor], tokens_BT: Tensor, inputs: dict[str, Tensor], index_1: Tensor
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        return call_member(parameters, tokens_BT, inputs, draws and replace(draws, member=index_1))

    with sdpa_kernel(SDPBackend.MATH):  # the only backend that vmap can batch
        if stacked:
            logits, recorded = vmap(call_stacked, randomness="error")(dict(weights), batch.tokens, inputs, index_M1)
        else:
            # Copies, because the bits of a product may depend on the alignment of its factors in memory.
            members = [{name: weight_M[m].clone() for name, weight_M in weights.items()} for m in range(count)]
            results = [
                call_member(
                    parameters,
                    batch.tokens[m],
                    {name: value[m] for name, value in inputs.items()},
                    draws and draws.select(m),
                )
                for m, parameters in enumerate(members)
            ]
            logits = torch.stack([member_logits for member_logits, _ in results])
            recorded = _stack_recorded([member_values for _, member_values in results])
    # A tensor must not leave vmap from within, so recorded values are passed on here.
    if record:
        for name, values in recorded.items():
            for value in values:
                record(name, value)
    return logits


def _as_tensor(value: Tensor | float, logits: Tensor) -> Tensor:
    """Return a recorded value as a tensor, like the logits."""
    return value if isinstance(value, Tensor) else logits.new_full((), value)


def _stack_recorded(members: Sequence[Mapping[str, Sequence[Tensor]]]) -> dict[str, list[Tensor]]:
    """Return the recorded values of all members, (M, ...) each."""
    # A module may record in a loop whose length depends on its weights; such values cannot be stacked.
    for name in dict.fromkeys(name for values in members for name in values):
        counts = [len(values.get(name, ())) for values in members]
        if len({*counts}) > 1:
            raise ValueError(
                f"records {min(counts)} values of {name} for one member and {max(counts)} for another; "
                "allowed: the same number for every member"
            )
    return {
        name: [torch.stack(member_values) for member_values in zip(*(values[name] for values in members), strict=True)]
        for name in members[0]
    }


def try_module(
    module: nn.Module, second_module: nn.Module, sizes: tuple[int, int, int], causal: bool, has_rate: bool = False
) -> Trial:
    """Return the result of calling a module on random tokens for two members, by vmap, or one by one if vmap fails.

    second_module: the same module built with another seed. sizes: (input tokens, output tokens, positions). has_rate:
    whether the model has a dropout rate for every member.
    """
    watcher = WatchedDropout(has_rate)
    with use_dropout(watcher):
        trial = _try_calls(module, second_module, sizes, causal)
    return trial._replace(has_dropout=watcher.has_dropout)


def _try_calls(module: nn.Module, second_module: nn.Module, sizes: tuple[int, int, int], causal: bool) -> Trial:
    """Return the result of `try_module`, without whether the module has dropout."""
    if problems := tuple(_find_declaration_problems(module, second_module)):
        return Trial(problems)

    # Call it under vmap; if this fails, one member after another.
    inputs, _, positions = sizes
    length = min(positions, _MAX_POSITIONS)
    tokens = torch.randint(0, inputs, (_MEMBERS, _ROWS, length), generator=torch.Generator().manual_seed(0))
    loop_reason, rng_state = None, torch.random.get_rng_state()
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
        text = (str(error).strip().splitlines() or [""])[0]
        return Trial((f"fails with {type(error).__name__}: {text}{locate_in_user_code(error)}",))
    # Outside of vmap random draws raise no error, but they change the state of the generator.
    if not torch.equal(rng_state, torch.random.get_rng_state()):
        torch.random.set_rng_state(rng_state)
        return Trial((_RANDOM_PROBLEM,))

    # The output in evaluation can differ only if `forward` has the parameter `training`.
    stacked = loop_reason is None
    problems = tuple(_find_state_problems(module, tokens, logits, stacked=stacked))
    problems = problems or tuple(_find_output_problems(module, tokens, logits, sizes, causal, stacked=stacked))
    if not problems and TRAINING in find_parameters(module):
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
    buffers, second_buffers = dict(module.named_buffers()), dict(second_module.named_buffers())
    random_names = [name for name, buffer in buffers.items() if not torch.equal(buffer, second_buffers[name])]
    yield from (
        f"the buffer {name} is random, but all members share buffers; make it a parameter" for name in random_names
    )


def _try_passes(module: nn.Module, tokens: Tensor, *, stacked: bool) -> tuple[Tensor, dict[str, str | None]]:
    """Return the logits of a training step, and the values recorded in an evaluation, as in `Trial.recorded`."""
    logits, shapes = _compute_logits(module, tokens, stacked=stacked), dict[str, set[tuple[int, ...]]]()

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
    buffers, batch = dict(module.named_buffers()), Batch(tokens, tokens)
    with nullcontext() if training else torch.no_grad():
        weights = {name: value.requires_grad_(training) for name, value in weights.items()}
        logits = call_members(module, weights, buffers, batch, None, record, training=training, stacked=stacked)
    if training:
        torch.autograd.grad(logits.sum(), list(weights.values()), allow_unused=True)
    return logits.detach()


def _find_state_problems(module: nn.Module, tokens: Tensor, logits: Tensor, *, stacked: bool) -> Iterator[str]:
    """Yield problems of state that a call changes, because later calls and other members would see it."""
    # NaN would differ from itself in the comparison, and is another problem.
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
    sizes: tuple[int, int, int],
    causal: bool,
    *,
    training: bool = True,
    stacked: bool,
) -> Iterator[str]:
    """Yield problems of the logits: their shape, values that are not finite, mixed rows, and later tokens."""
    _, rows, length = tokens.shape
    inputs, outputs, _ = sizes
    if logits.shape != (_MEMBERS, rows, length, outputs):
        shape, expected = tuple(logits.shape[1:]), (rows, length, outputs)
        yield f"returns the shape {shape} for tokens ({rows}, {length}); allowed: logits {expected}"
    elif not torch.isfinite(logits).all():
        yield "returns logits that are not finite with its initial weights"
    else:
        # Changed tokens in the first row must not change other rows.
        changed_tokens = tokens.clone()
        changed_tokens[:, 0] = (changed_tokens[:, 0] + 1) % inputs
        changed_logits = _compute_logits(module, changed_tokens, training=training, stacked=stacked)
        if not torch.allclose(changed_logits[:, 1:], logits[:, 1:], rtol=1e-4, atol=1e-5):
            yield "mixes rows of a batch: tokens are (rows, length); recurrent layers of torch need batch_first=True"
            return

        # In a causal model changed tokens in the last column must not change the columns before it.
        if not causal or length == 1:
            return
        changed_tokens = tokens.clone()
        changed_tokens[..., -1] = (changed_tokens[..., -1] + 1) % inputs
        changed_logits = _compute_logits(module, changed_tokens, training=training, stacked=stacked)
        if not torch.allclose(changed_logits[..., :-1, :], logits[..., :-1, :], rtol=1e-4, atol=1e-5):
            yield "is not causal: it sees the tokens that it should predict, because the task scores every prefix"


def _explain_loop(error: BaseException) -> str:
    """Return why vmap cannot run a module, with the line of the user's code."""
    text = (str(error).strip().splitlines() or [""])[0]
    if operator := re.search(r"aten::\w+", text):
        return f"no vmap rule for {operator[0]}{locate_in_user_code(error)}"
    return f"torch.func.vmap cannot run it, {type(error).__name__}: {text}{locate_in_user_code(error)}"


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
