"""Scores of next-token predictions on true scratchpads: right tokens and losses.

Shapes: M members, B rows, T positions, K states, V tokens.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trainers.tasks.scratchpad.layout import NO_STATE, ScratchpadBatch
from trainers.tasks.scratchpad.text import NOT_JUDGED
from trainers.tasks.supervised import compute_token_losses

_TOTAL_PREFIX = "total of "


def count_right(
    logits_MBTV: Tensor, batch: ScratchpadBatch, fields: Sequence[str], states: int, *, questions: bool
) -> dict[str, Tensor]:
    """Return the numbers of scored tokens, states and tokens of each field, and of right ones among them, (M, B, 1).

    Also the counts and summed losses of scored tokens, and with `questions` of trained tokens outside of states.
    fields: their names by index. states: their number.
    """
    # Tokens.
    assert batch.weight is not None
    scored = batch.field != NOT_JUDGED
    wrong = scored & (logits_MBTV.argmax(dim=-1) != batch.targets)
    values = _count_accuracy("token_accuracy", scored, wrong)

    # States, which are right if all their tokens are, and fields.
    state = torch.where(scored, batch.state, states)  # the last place takes unscored tokens
    tokens, mistakes = (
        torch.zeros(*state.shape[:2], states + 1, device=state.device).scatter_add_(-1, state, mask.float())
        for mask in (scored, wrong)
    )
    values |= _count_accuracy("state_accuracy", tokens[..., :states] > 0, mistakes[..., :states] > 0)
    for number, name in enumerate(fields):
        in_field = batch.field == number
        values |= _count_accuracy(f"field_{name}", in_field, wrong & in_field)

    # Losses.
    losses = compute_token_losses(logits_MBTV, batch.targets)
    values |= _sum_losses("state_loss", scored, losses)
    if questions:
        values |= _sum_losses("question_loss", (batch.weight > 0) & (batch.state == NO_STATE), losses)
    return values


def reduce_counts(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return shares of right tokens and mean losses over all rows, (M, 1), from `count_right`; NaN without targets."""
    names = [name.removeprefix(_TOTAL_PREFIX) for name in rows if name.startswith(_TOTAL_PREFIX)]
    return {name: rows[_TOTAL_PREFIX + name].sum(dim=1) / rows[name].sum(dim=1) for name in names}


def _count_accuracy(name: str, scored: Tensor, wrong: Tensor) -> dict[str, Tensor]:
    """Return how many entries of each row are scored, and how many of these are right."""
    count, mistakes = (mask.sum(dim=-1, keepdim=True).float() for mask in (scored, wrong))
    return {name: count, _TOTAL_PREFIX + name: count - mistakes}


def _sum_losses(name: str, counted: Tensor, losses_MBT: Tensor) -> dict[str, Tensor]:
    """Return how many tokens of each row are counted, and the sum of their losses."""
    total = torch.where(counted, losses_MBT, 0.0).sum(dim=-1, keepdim=True)
    return {name: counted.sum(dim=-1, keepdim=True).to(total.dtype), _TOTAL_PREFIX + name: total}
