"""What a model says behind each true token of a scratchpad: what is right, and its loss.

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
    """How many tokens, states and tokens of each field are judged, and how many of them are right, (M, B, 1).

    Of tokens their loss, too: of those that are judged, and, with `questions`, of those trained that are of no state.
    """
    assert batch.field is not None and batch.state is not None and batch.weight is not None
    judged = batch.field != NOT_JUDGED
    wrong = judged & (logits_MBTV.argmax(dim=-1) != batch.targets)
    found = _both("token_accuracy", judged, wrong)
    state = torch.where(judged, batch.state, states)  # the last place takes what is not judged
    there, spoilt = (
        torch.zeros(*state.shape[:2], states + 1, device=state.device).scatter_add_(-1, state, of.float())
        for of in (judged, wrong)
    )
    found |= _both("state_accuracy", there[..., :states] > 0, spoilt[..., :states] > 0)
    for number, name in enumerate(fields):
        mine = batch.field == number
        found |= _both(f"field_{name}", mine, wrong & mine)
    losses = token_losses(logits_MBTV, batch.targets)
    found |= _mean("state_loss", judged, losses)
    if questions:
        found |= _mean("question_loss", (batch.weight > 0) & (batch.state == NO_STATE), losses)
    return found


def shares(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The shares that are right and the mean losses, of all rows together, (M, 1); NaN where nothing is judged."""
    names = [name.removeprefix(_TOTAL) for name in rows if name.startswith(_TOTAL)]
    return {name: rows[_TOTAL + name].sum(dim=1) / rows[name].sum(dim=1) for name in names}


def _both(name: str, judged: Tensor, wrong: Tensor) -> dict[str, Tensor]:
    all_of, bad = (of.sum(dim=-1, keepdim=True).float() for of in (judged, wrong))
    return {name: all_of, _TOTAL + name: all_of - bad}


def _mean(name: str, counted: Tensor, losses_MBT: Tensor) -> dict[str, Tensor]:
    total = torch.where(counted, losses_MBT, 0.0).sum(dim=-1, keepdim=True)
    return {name: counted.sum(dim=-1, keepdim=True).to(total.dtype), _TOTAL + name: total}
