"""Scores of the next token after each true token of a scratchpad: right tokens and loss.

Shapes: M members, B rows, T positions, K states, V tokens.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trainers.tasks.scratchpad.layout import NO_STATE, ScratchpadBatch
from trainers.tasks.scratchpad.text import NOT_JUDGED
from trainers.tasks.supervised import token_losses

_TOTAL = "total of "


def counts(
    logits_MBTV: Tensor, batch: ScratchpadBatch, fields: Sequence[str], states: int, *, questions: bool
) -> dict[str, Tensor]:
    """Return how many scored tokens, states and tokens of each field there are, and how many are right, (M, B, 1).

    Also the counts and summed losses of scored tokens and, with `questions`, of trained tokens outside of states.
    """
    assert batch.weight is not None
    scored = batch.field != NOT_JUDGED
    wrong = scored & (logits_MBTV.argmax(dim=-1) != batch.targets)
    values = _both("token_accuracy", scored, wrong)
    state = torch.where(scored, batch.state, states)  # the last place takes unscored tokens
    tokens, mistakes = (
        torch.zeros(*state.shape[:2], states + 1, device=state.device).scatter_add_(-1, state, mask.float())
        for mask in (scored, wrong)
    )
    values |= _both("state_accuracy", tokens[..., :states] > 0, mistakes[..., :states] > 0)
    for number, name in enumerate(fields):
        in_field = batch.field == number
        values |= _both(f"field_{name}", in_field, wrong & in_field)
    losses = token_losses(logits_MBTV, batch.targets)
    values |= _mean("state_loss", scored, losses)
    if questions:
        values |= _mean("question_loss", (batch.weight > 0) & (batch.state == NO_STATE), losses)
    return values


def shares(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return shares of right tokens and mean losses of all rows together, (M, 1); NaN if nothing is scored."""
    names = [name.removeprefix(_TOTAL) for name in rows if name.startswith(_TOTAL)]
    return {name: rows[_TOTAL + name].sum(dim=1) / rows[name].sum(dim=1) for name in names}


def _both(name: str, scored: Tensor, wrong: Tensor) -> dict[str, Tensor]:
    count, mistakes = (mask.sum(dim=-1, keepdim=True).float() for mask in (scored, wrong))
    return {name: count, _TOTAL + name: count - mistakes}


def _mean(name: str, counted: Tensor, losses_MBT: Tensor) -> dict[str, Tensor]:
    total = torch.where(counted, losses_MBT, 0.0).sum(dim=-1, keepdim=True)
    return {name: counted.sum(dim=-1, keepdim=True).to(total.dtype), _TOTAL + name: total}
