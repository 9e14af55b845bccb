"""The forms in which a text is trained on and tested: whole, with copies of states, or state by state.

A state of an inductive scratchpad depends on the question and on the state before it alone, at the same position ids
each time (Abbe et al., arXiv:2406.06467, appendix C.2). Either a row has a copy of the state before each next one, and
groups that hide all others, or each transition from a state to the next one is a row.
Shapes: S seeds, B rows, Q tokens of the longest question, K states at most, W tokens of the longest state, F places of
which some are left empty, T positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor

from trainers.tasks.parts import PAD, closed_up, leading, one, places
from trainers.tasks.scratchpad.text import NOT_JUDGED, Text
from trainers.tasks.supervised import IGNORED
from trainers.tensors.batch import Batch

COPY, GIVEN, ANSWER = range(3)  # what a token is for: only read, of the question, or to be said
NO_STATE = -1


@dataclass(frozen=True)
class Widths:
    """Tokens of the longest row: of its question, the start mark (0 or 1), and of each of its states."""

    question: int
    start: int
    states: tuple[int, ...]

    @property
    def shared(self) -> int:
        """Tokens that every state may see."""
        return self.question + self.start

    @property
    def full(self) -> int:
        """Tokens of a whole row."""
        return self.shared + sum(self.states)

    @property
    def masked(self) -> int:
        """Tokens of a row with copies."""
        copies = self.states[1:-1] if self.question == 0 else self.states[:-1]
        return self.full + sum(copies)

    @property
    def transition(self) -> int:
        """Tokens of the longest row with one transition."""
        return self.shared + max(self.states[0], *map(sum, pairwise(self.states)), 0)


@dataclass(frozen=True)
class ScratchpadBatch(Batch):
    """Rows of a test, and what follows their prompts.

    prompt: (S, B, P), the tokens that are given. answer: (S, B, G), those that follow them, without copies, and pads.
    field, state: (S, B, T), the part of a state that each target is of, and the number of that state; NOT_JUDGED and
    NO_STATE where it is not judged.
    """

    prompt: Tensor | None = None
    answer: Tensor | None = None
    field: Tensor | None = None
    state: Tensor | None = None


@dataclass(frozen=True)
class Tokens:
    """Tokens and what is known of each, all (S, B, ..., W): whether it stands there, its id, use, group, state, field.

    use: COPY, GIVEN or ANSWER.
    """

    token: Tensor
    stands: Tensor
    id: Tensor
    use: Tensor
    group: Tensor
    state: Tensor
    field: Tensor

    @classmethod
    def of(
        cls,
        token: Tensor,
        count: Tensor,
        first: Tensor,
        *,
        use: Tensor | int = ANSWER,
        group: Tensor | int = 0,
        state: Tensor | int = NO_STATE,
        field: Tensor | int = NOT_JUDGED,
    ) -> Self:
        """The first `count` (S, B, ...) tokens, whose ids begin with `first`; the others broadcast to all tokens."""
        of_each = (_tensor(of, token).expand(token.shape) for of in (use, group, state, field))
        ids = first[..., None] + torch.arange(token.shape[-1], device=token.device)
        return cls(token, leading(token.shape[-1], count), ids, *of_each)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All of them changed alike."""
        return replace(self, **{name: change(value) for name, value in vars(self).items()})

    def put(self, **constants: int) -> Self:
        """The same, with one value for all tokens."""
        return replace(self, **{name: torch.full_like(self.token, value) for name, value in constants.items()})


class Rows:
    """Tokens one behind the other, (S, B, width), without those that do not stand there."""

    def __init__(self, parts: Sequence[Tokens], width: int) -> None:
        self._parts, self._width = parts, width
        self._places = places(self._joined("stands"), width)

    def tokens(self) -> Tensor:
        """Tokens, pads on their right."""
        return self.closed("token", PAD)

    def closed(self, name: str, of_pads: int) -> Tensor:
        """What is known of each token by name, and of the pads."""
        return closed_up(self._joined(name), self._places, self._width, of_pads)

    def _joined(self, name: str) -> Tensor:
        return torch.cat([getattr(part, name).flatten(2) for part in self._parts], dim=-1)


def full(text: Text, start: int | None, width: int, shift_SB: Tensor | None = None) -> Rows:
    """Rows as they are read. The ids of states are `shift` higher where it is given."""
    before = text.state_length.cumsum(dim=-1) - text.state_length
    begin = _begin(text, start) + (0 if shift_SB is None else shift_SB)
    return Rows([*_shared(text, start), _states(text, begin[..., None] + before)], width)


def masked(text: Text, start: int | None, width: int, *, fix_first_state: bool = True) -> Rows:
    """Rows with a copy of each state before the next one.

    Where the question is the first state there is no copy of it, and the second state sees it if `fix_first_state` says
    so; in the authors' code it does not.
    """
    begin, length = _begin(text, start)[..., None], text.state_length
    alone = text.question.shape[-1] == 0
    whole = _states(text, begin.expand(length.shape))
    first = whole.each(lambda of: of[:, :, :1])
    first = first.put(group=2) if alone and fix_first_state else first
    copy, after = whole.each(lambda of: of[:, :, :-1]), whole.each(lambda of: of[:, :, 1:])
    copied = after.stands.any(dim=-1, keepdim=True) & copy.stands
    if alone:
        copied = copied & (after.state > 1)
    copy = replace(copy.put(use=COPY), stands=copied, group=after.group)
    after = replace(after, id=after.id + length[..., :-1, None])
    pairs = Tokens(*(torch.stack([getattr(copy, name), getattr(after, name)], dim=3) for name in vars(copy)))
    return Rows([*_shared(text, start), first, pairs], width)


def transitions(text: Text, start: int | None, width: int, index_SB: Tensor) -> Rows:
    """Rows of one transition each: the state before the one of the given number, if there is one, and that state.

    The question and the start mark are to be said with the first state alone. A row that has no such state is empty.
    """
    whole = _states(text, _begin(text, start)[..., None].expand(text.state_length.shape))
    after = whole.each(lambda of: _picked(of, index_SB))
    before = whole.each(lambda of: _picked(of, (index_SB - 1).clamp(min=0)))
    begins, there = (index_SB == 0)[..., None], after.stands.any(dim=-1, keepdim=True)
    before = replace(before.put(use=COPY), stands=before.stands & there & ~begins)
    after = replace(after, id=after.id + before.stands.sum(dim=-1, keepdim=True))
    shared = [
        replace(part, stands=part.stands & there, use=torch.where(begins, part.use, COPY))
        for part in _shared(text, start)
    ]
    return Rows([*shared, before, after], width)


def batch_of(
    rows: Rows, *, loss_on_question: bool, ids: bool = False, groups: bool = False, most_id: int | None = None
) -> Batch:
    """What rows train on: every token but the last in, every token but the first out.

    `ids` and `groups` say whether rows have any. Targets that are only read are ignored; those of the question have no
    weight unless `loss_on_question` says so.
    """
    tokens, use = rows.tokens(), rows.closed("use", COPY)[..., 1:]
    return Batch(
        tokens[..., :-1],
        torch.where(use == COPY, IGNORED, tokens[..., 1:]),
        ids=rows.closed("id", 0)[..., :-1] if ids else None,
        groups=rows.closed("group", 0)[..., :-1] if groups else None,
        weight=(use >= (GIVEN if loss_on_question else ANSWER)).float(),
    )


def test_of(
    text: Text, start: int | None, widths: Widths, *, loss_on_question: bool, fix_first_state: bool | None
) -> ScratchpadBatch:
    """Rows of a test with what they are scored by: with copies, or whole ones where `fix_first_state` is None."""
    given = widths.question if text.given is None else text.given
    inductive = fix_first_state is not None
    if fix_first_state is None:
        rows, room = full(text, start, widths.full), widths.full - given
    else:
        rows = masked(text, start, widths.masked, fix_first_state=fix_first_state)
        room = widths.shared - given + len(widths.states) * max(widths.states)
    batch = batch_of(rows, loss_on_question=loss_on_question, ids=inductive, groups=inductive)
    whole = full(text, start, given + room).tokens()
    said = rows.closed("use", COPY)[..., 1:] == ANSWER
    field, state = (
        torch.where(said, rows.closed(name, nowhere)[..., 1:], nowhere)
        for name, nowhere in (("field", NOT_JUDGED), ("state", NO_STATE))
    )
    prompt, answer = whole[..., :given], whole[..., given:]
    return ScratchpadBatch(**vars(batch), prompt=prompt, answer=answer, field=field, state=state)


def _begin(text: Text, start: int | None) -> Tensor:
    """The id of the first token of a state, (S, B)."""
    return text.question_length + (start is not None)


def _shared(text: Text, start: int | None) -> list[Tokens]:
    """What every state may see."""
    length = text.question_length
    place = torch.arange(text.question.shape[-1], device=length.device)
    use = torch.where(place < (length[..., None] if text.given is None else text.given), GIVEN, ANSWER)
    found = [Tokens.of(text.question, length, torch.zeros_like(length), use=use)]
    if start is not None:
        found.append(Tokens.of(*one(start, length), length))
    return found


def _states(text: Text, first_SBK: Tensor) -> Tokens:
    """All states, (S, B, K, W), each with the number of its group when every group has one state."""
    _, _, k, w = text.states.shape
    number, place = (torch.arange(size, device=first_SBK.device) for size in (k, w))
    asked = 0 if text.question.shape[-1] or text.given is None else text.given  # in the first state
    use = torch.where((number[:, None] == 0) & (place < asked), GIVEN, ANSWER)
    field = 0 if text.field is None else text.field
    numbers = number[:, None]
    return Tokens.of(text.states, text.state_length, first_SBK, use=use, group=numbers + 1, state=numbers, field=field)


def _picked(of_SBKW: Tensor, index_SB: Tensor) -> Tensor:
    """What is said of one state of each row, (S, B, W)."""
    at = index_SB[..., None, None].expand(*index_SB.shape, 1, of_SBKW.shape[-1])
    return of_SBKW.gather(2, at)[:, :, 0]


def _tensor(value: Tensor | int, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else like.new_full((), value)
