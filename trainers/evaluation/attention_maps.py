"""What one input of an evaluation attends to: the attention weights of every layer and head of one trained member.

The input is a row that evaluation has measured, with the random numbers that it had there. Where a task asks the model
to go on, token by token, it is the row that the model is given first. Shapes: H heads, T positions.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem, nearest
from trainers.packs.evaluation_inputs import evaluation_inputs, noise_stream
from trainers.packs.pack import Pack
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.noise import Noise
from trainers.tensors.position_maps import Map, Weights

MOST_POSITIONS = 1024  # of an input that is drawn: of longer ones no cell can be seen


@dataclass(frozen=True, kw_only=True, eq=False)
class Attended:
    """One input and the weights (H, T, T), queries by keys, of each layer; `tokens` are T words, as the task has them.

    distribution: its name, "" where the task has but one. row: which of those that were evaluated at this length.
    """

    distribution: str
    length: int
    row: int
    tokens: tuple[str, ...]
    layers: tuple[NDArray[Any], ...]

    def maps(self) -> dict[str, Map]:
        """A heat map of every head, queries down and keys across; those of a layer are a group."""
        at = range(1, len(self.tokens) + 1)
        return {
            f"{layer}.{head}": Map(
                values=weights_TT,
                group=f"attention weights of layer {layer}",
                title=f"head {head}",
                row_label="query",
                rows=at,
                column_label="key",
                columns=at,
                words=self.tokens,
                ends=(0.0, 1.0),
            )
            for layer, weights_HTT in enumerate(self.layers, start=1)
            for head, weights_TT in enumerate(weights_HTT, start=1)
        }


@torch.no_grad()
def attended(
    member: MemberConfig, weights: Weights, *, length: int, distribution: str | None = None, row: int = 0
) -> Attended:
    """What row `row` of a member's evaluation at `length` attends to, computed on the CPU without autocast.

    `weights` are arrays by parameter name. `distribution` is by default the one that is trained on. Raises ConfigError,
    whose problems have the names of these arguments as keys, for what was not evaluated and for an input too long to
    be drawn, and one with the key `model.name` for a model that has no attention weights.
    """
    name = member.task.distributions[0].name if distribution is None else distribution
    if problem := _problem(member, name, length):
        raise ConfigError([problem])
    pack = Pack([member], torch.device("cpu"))
    test = _test(pack, name, length)
    rows, positions = test.batch.tokens.shape[1:]
    if not 0 <= row < rows:
        allowed = f"0..{rows - 1}, the rows evaluated at length {length}"
        raise ConfigError([Problem(key="row", given=row, message=f"there is no row {row}", allowed=allowed)])
    if positions > MOST_POSITIONS:
        message = f"an input of {positions} tokens is too long to be drawn"
        raise ConfigError([Problem(key="length", given=length, message=message, allowed=f"<= {MOST_POSITIONS} tokens")])
    of_member = {key: torch.as_tensor(value)[None] for key, value in weights.items()}
    index = torch.zeros(1, dtype=torch.int64)
    noise = Noise(noise_stream(pack), index, training=False, first=row, total=rows)
    layers = member.model.attended(of_member, test.batch.rows(row, row + 1), noise)
    if not layers:
        given = member.model.name
        message = f"{given} has no attention weights that could be drawn"
        raise ConfigError([Problem(key="model.name", given=given, message=message)])
    tokens = _words(member.task, test, row, length)
    cut = tuple(layer[0, 0, :, : len(tokens), : len(tokens)].numpy() for layer in layers)
    return Attended(distribution=name, length=length, row=row, tokens=tokens, layers=cut)


def _problem(member: MemberConfig, name: str, length: int) -> Problem | None:
    """Why there is no such evaluation."""
    named = {one.name: one for one in member.task.distributions}
    if name not in named:
        of_task = ", ".join(map(repr, named)) if len(named) > 1 else "none by name: this task has but one"
        near = nearest(name, named)
        return Problem(
            key="distribution", given=name, message=f"{name!r} is none of the task", allowed=of_task, nearest=near
        )
    evaluated = [one for one in member.evaluated_lengths if one in named[name].lengths]
    if length not in evaluated:
        of = f" in {name}" if name else ""
        allowed = ", ".join(map(str, evaluated))
        return Problem(key="length", given=length, message=f"{length} was not evaluated{of}", allowed=allowed)
    return None


def _test(pack: Pack, name: str, length: int) -> EvaluationBatch:
    first = pack.task.distributions[0].name
    return next(one for one in evaluation_inputs(pack) if length in one.lengths and (one.distribution or first) == name)


def _words(task: Task, test: EvaluationBatch, row: int, length: int) -> tuple[str, ...]:
    """The tokens of a row as the task shows them, without those after `length` where the row measures several."""
    without = replace(test.batch, targets=torch.zeros_like(test.batch.tokens))  # a test may have others than training
    words, _ = task.shown(without, row)
    if len(words) > test.batch.tokens.shape[-1]:
        words = [str(token) for token in test.batch.tokens[0, row].tolist()]
    return tuple(words[:length] if len(test.lengths) > 1 else words)
