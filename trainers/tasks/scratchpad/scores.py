"""Scores of next-token predictions on true scratchpads: right tokens and losses.

Shapes: M members, B rows, T positions, K states, V tokens.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trainers.tasks.scratchpad.layout import NO_STATE, ScratchpadBatch
from trainers.tasks.scratchpad.text import NOT_JUDGED
from trainers.tasks.supervised import compute_token_losses

_TOTAL_PREFIX = "total of "  # of the name of a sum, beside the count of its entries


def score_next_tokens(
    logits_MBTV: Tensor, batch: ScratchpadBatch, fields: Sequence[str], states: int, *, questions: bool
) -> dict[str, Tensor]:
    """Return the numbers of scored tokens, states and tokens of each field, and of right ones among them, (M, B, 1).

    Also the counts and summed losses of scored tokens, and with `questions` of trained tokens outside of states.
    fields: names of the fields by index. states: number of states.
    """
    assert batch.weight is not None
    is_scored = batch.field != NOT_JUDGED
    is_wrong = is_scored & (logits_MBTV.argmax(dim=-1) != batch.targets)
    values = _count_accuracy("token_accuracy", is_scored, is_wrong)

    # A state is right if it has no wrong token; unscored tokens are counted in a column of their own, which is cut off.
    state = torch.where(is_scored, batch.state, states)
    tokens, mistakes = (
        torch.zeros(*state.shape[:2], states + 1, device=state.device).scatter_add_(-1, state, mask.float())
        for mask in (is_scored, is_wrong)
    )
    values |= _count_accuracy("state_accuracy", tokens[..., :states] > 0, mistakes[..., :states] > 0)
    for number, name in enumerate(fields):
        in_field = batch.field == number
        values |= _count_accuracy(f"field_{name}", in_field, is_wrong & in_field)

    losses = compute_token_losses(logits_MBTV, batch.targets)
    values |= _sum_losses("state_loss", is_scored, losses)
    if questions:
        values |= _sum_losses("question_loss", (batch.weight > 0) & (batch.state == NO_STATE), losses)
    return values


def reduce_scores(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return shares of right tokens and mean losses over all rows, (M, 1), NaN without targets.

    rows: from `score_next_tokens`.
    """
    names = [name.removeprefix(_TOTAL_PREFIX) for name in rows if name.startswith(_TOTAL_PREFIX)]
    return {name: rows[_TOTAL_PREFIX + name].sum(dim=1) / rows[name].sum(dim=1) for name in names}


def _count_accuracy(name: str, is_scored: Tensor, is_wrong: Tensor) -> dict[str, Tensor]:
    """Return how many entries of each row are scored, and how many of these are right, (M, B, 1) each."""
    count, mistakes = (mask.sum(dim=-1, keepdim=True).float() for mask in (is_scored, is_wrong))
    return {name: count, _TOTAL_PREFIX + name: count - mistakes}


def _sum_losses(name: str, is_counted: Tensor, losses_MBT: Tensor) -> dict[str, Tensor]:
    """Return how many tokens of each row are counted, and the sum of their losses, (M, B, 1) each."""
    total = torch.where(is_counted, losses_MBT, 0.0).sum(dim=-1, keepdim=True)
    return {name: is_counted.sum(dim=-1, keepdim=True).to(total.dtype), _TOTAL_PREFIX + name: total}
