"""Calls of a torch module with the weights of all members: at once by torch.func.vmap, or one after another.

Shapes: M members, B rows, T positions, V output tokens.
"""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainers.models.keyed_dropout import DropoutDraws, use_dropout
from trainers.positions.context import Recorder
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.recording import Values, record_into

BATCH_PARAMETERS = ("ids", "groups", "lengths")  # parameters of `forward` that get tensors of the batch
TRAINING = "training"  # the parameter of `forward` for whether this is a training step


# Cached, because every pass asks and `inspect` is slow.
@lru_cache(maxsize=32)
def find_batch_parameters(module: nn.Module) -> Mapping[str, bool]:
    """Return which of BATCH_PARAMETERS and TRAINING `forward` has: name -> whether it is required."""
    parameters = [*inspect.signature(module.forward).parameters.values()][1:]
    return {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.name in (*BATCH_PARAMETERS, TRAINING)
    }


def select_batch_tensors(module: nn.Module, batch: Batch) -> dict[str, Tensor]:
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

    parameters = find_batch_parameters(module)
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
    once, instead of one after another. Raises ValueError if members that are computed one after another record
    different numbers of values under a name.
    """
    from torch.func import functional_call, vmap  # importing it takes more than a second

    # Under vmap one call serves all members, so the index of the member must be a tensor.
    count, rows = batch.tokens.shape[:2]
    index_M1 = torch.arange(count, device=batch.tokens.device)[:, None]
    inputs = select_batch_tensors(module, batch)
    flags = {TRAINING: training} if TRAINING in find_batch_parameters(module) else {}
    draws = None if noise is None else DropoutDraws(noise, count, rows, index_M1[0])

    def call_member(
        parameters: dict[str, Tensor], tokens_BT: Tensor, inputs: dict[str, Tensor], draws: DropoutDraws | None
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Return the logits and the recorded values of a member, both as tensors, which vmap can stack."""
        recorded = Values()
        with use_dropout(draws) if draws else nullcontext(), record_into(recorded) if record else nullcontext():
            logits: Tensor = functional_call(module, (parameters, dict(buffers)), (tokens_BT,), {**inputs, **flags})
        return logits, {name: [_as_tensor(value, logits) for value in values] for name, values in recorded.items()}

    def call_stacked(
        parameters: dict[str, Tensor], tokens_BT: Tensor, inputs: dict[str, Tensor], index_1: Tensor
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        return call_member(parameters, tokens_BT, inputs, draws and replace(draws, member=index_1))

    # Stacked, one call serves all members; what vmap cannot run is called for one member after another.
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
