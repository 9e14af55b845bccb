"""What a model says behind each true token of a scratchpad: tokens, states and parts of states that are right.

Shapes: M members, B rows, T positions, K states, V tokens.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.text import NOT_JUDGED

_RIGHT = "right of "


def counts(logits_MBTV: Tensor, batch: ScratchpadBatch, fields: Sequence[str], states: int) -> dict[str, Tensor]:
    """How many tokens, states and tokens of each field are judged, and how many of them are right, (M, B, 1)."""
    assert batch.field is not None and batch.state is not None
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
    return found


def shares(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The shares that are right, of all rows together, (M, 1); NaN where nothing is judged."""
    names = [name.removeprefix(_RIGHT) for name in rows if name.startswith(_RIGHT)]
    return {name: rows[_RIGHT + name].sum(dim=1) / rows[name].sum(dim=1) for name in names}


def _both(name: str, judged: Tensor, wrong: Tensor) -> dict[str, Tensor]:
    all_of, bad = (of.sum(dim=-1, keepdim=True).float() for of in (judged, wrong))
    return {name: all_of, _RIGHT + name: all_of - bad}
