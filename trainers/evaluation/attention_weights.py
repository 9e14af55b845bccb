"""Attention weights of every layer and head of a trained member, for an input of its evaluation.

The random numbers are the same as in the evaluation. If the task generates texts, the input has the true tokens.
Shapes: H heads, T positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem, find_nearest
from trainers.packs.evaluation_inputs import draw_evaluation_inputs, make_evaluation_stream
from trainers.packs.pack import Pack
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.noise import Noise


@dataclass(frozen=True, kw_only=True, eq=False)
class InputAttention:
    """An input and the attention weights (H, T, T), queries by keys, of each layer.

    tokens: the T tokens as text. distribution: its name, "" if the task has only one. row: its index among the rows
    evaluated at this length.
    """

    distribution: str
    length: int
    row: int
    tokens: tuple[str, ...]
    layers: tuple[NDArray[Any], ...]


@torch.no_grad()
def compute_input_attention(
    member: MemberConfig,
    weights: Mapping[str, NDArray[Any]],
    *,
    length: int,
    distribution: str | None = None,
    row: int = 0,
) -> InputAttention:
    """Return the attention weights of row `row` of a member's evaluation at `length`, on the CPU without autocast.

    weights: arrays by parameter name. distribution: by default the distribution that is trained on. Raises ConfigError
    for a length, distribution or row that was not evaluated (the key is the argument), and for a model without
    attention weights (the key is `model.name`).
    """
    # The inputs are drawn again: they depend only on the seed.
    name = member.task.distributions[0].name if distribution is None else distribution
    if problem := _find_problem(member, name, length):
        raise ConfigError([problem])
    pack = Pack([member], torch.device("cpu"))
    default = member.task.distributions[0].name
    batches = draw_evaluation_inputs(pack)
    evaluation_batch = next(
        candidate
        for candidate in batches
        if length in candidate.lengths and (candidate.distribution or default) == name
    )
    rows = evaluation_batch.batch.tokens.shape[1]
    if not 0 <= row < rows:
        allowed = f"0..{rows - 1}, the rows evaluated at length {length}"
        raise ConfigError([Problem(key="row", given=row, message=f"there is no row {row}", allowed=allowed)])

    # The noise depends on the index of the row, so this row has the same noise as in the evaluation.
    views = {key: torch.as_tensor(value)[None] for key, value in weights.items()}
    index = torch.zeros(1, dtype=torch.int64)
    noise = Noise(make_evaluation_stream(pack, "dropout"), index, training=False, first=row, total=rows)
    layers = member.model.compute_attention(views, evaluation_batch.batch.slice_rows(row, row + 1), noise)
    if not layers:
        model_name = member.model.name
        message = f"{model_name} has no attention weights"
        raise ConfigError([Problem(key="model.name", given=model_name, message=message)])

    # Cut the padding of the row, and its tokens beyond this length.
    tokens = _format_tokens(member.task, evaluation_batch, row, length)
    arrays = tuple(layer[0, 0, :, : len(tokens), : len(tokens)].numpy() for layer in layers)
    return InputAttention(distribution=name, length=length, row=row, tokens=tokens, layers=arrays)


def _find_problem(member: MemberConfig, name: str, length: int) -> Problem | None:
    """Return why a distribution or length was not evaluated, None if it was."""
    distributions = {distribution.name: distribution for distribution in member.task.distributions}
    if name not in distributions:
        allowed = (
            ", ".join(map(repr, distributions)) if len(distributions) > 1 else "no name, since this task has only one"
        )
        message = f"the task has no distribution {name!r}"
        close = find_nearest(name, distributions)
        return Problem(key="distribution", given=name, message=message, allowed=allowed, nearest=close)

    # A distribution may lack some of the evaluated lengths.
    evaluated_lengths = [length for length in member.evaluated_lengths if length in distributions[name].lengths]
    if length not in evaluated_lengths:
        message = f"{length} was not evaluated" + (f" in {name}" if name else "")
        return Problem(key="length", given=length, message=message, allowed=", ".join(map(str, evaluated_lengths)))
    return None


def _format_tokens(task: Task, evaluation_batch: EvaluationBatch, row: int, length: int) -> tuple[str, ...]:
    """Return the tokens of a row as text, only the first `length` if the row measures several lengths."""
    # The targets of an evaluation may not be token ids.
    batch = replace(evaluation_batch.batch, targets=torch.zeros_like(evaluation_batch.batch.tokens))
    words, _ = task.format_row(batch, row)
    if len(words) > evaluation_batch.batch.tokens.shape[-1]:
        words = [str(token) for token in evaluation_batch.batch.tokens[0, row].tolist()]
    return tuple(words[:length] if len(evaluation_batch.lengths) > 1 else words)
