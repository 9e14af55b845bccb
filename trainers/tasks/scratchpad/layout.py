"""The row forms of a text in training and tests: full rows, rows with copies of states, or single transitions.

A state of an inductive scratchpad depends only on the question and the previous state, always at the same position ids
(Abbe et al., arXiv:2406.06467, appendix C.2). Either a row has a copy of the previous state before each state, and
groups that mask all others, or each transition from a state to the next is a row.
Shapes: S seeds, B rows, Q tokens of the longest question, K states at most, W tokens of the longest state, P tokens of
a prompt, G tokens of an answer, T positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor

from trainers.tasks.parts import PAD, find_packed_columns, mask_leading, repeat_token, scatter_columns
from trainers.tasks.scratchpad.text import NOT_JUDGED, Text
from trainers.tasks.supervised import IGNORED
from trainers.tensors.batch import Batch

COPY, GIVEN, ANSWER = range(3)  # role of a token: copied context, question, generated answer
NO_STATE = -1


@dataclass(frozen=True)
class Widths:
    """Numbers of tokens of the longest row: of its question, its start mark (0 or 1) and each of its states."""

    question: int
    start: int
    states: tuple[int, ...]

    @property
    def shared(self) -> int:
        """Number of tokens that are visible to every state."""
        return self.question + self.start

    @property
    def full(self) -> int:
        """Number of tokens of a full row."""
        return self.shared + sum(self.states)

    @property
    def masked(self) -> int:
        """Number of tokens of a row with copies."""
        copies = self.states[1:-1] if self.question == 0 else self.states[:-1]
        return self.full + sum(copies)

    @property
    def transition(self) -> int:
        """Number of tokens of the longest row with a single transition."""
        return self.shared + max(self.states[0], *map(sum, pairwise(self.states)), 0)


@dataclass(frozen=True, kw_only=True)
class ScratchpadBatch(Batch):
    """Rows of a test with their prompts and answers.

    prompt: tokens given to the model, (S, B, P). answer: the tokens after the prompt without copies, then pads,
    (S, B, G). field, state: the index of the field of a state that each target belongs to, and the number of the state,
    (S, B, T); NOT_JUDGED and NO_STATE for targets that are not scored.
    """

    prompt: Tensor
    answer: Tensor
    field: Tensor
    state: Tensor


@dataclass(frozen=True)
class Tokens:
    """Tokens and their attributes, (S, B, ..., W) each.

    used: whether the token is part of the text. id: position id. role: COPY, GIVEN or ANSWER. group: as in `Batch`.
    state: number of the state. field: index of the field of the state.
    """

    token: Tensor
    used: Tensor
    id: Tensor
    role: Tensor
    group: Tensor
    state: Tensor
    field: Tensor

    @classmethod
    def build(
        cls,
        token: Tensor,
        count: Tensor,
        first: Tensor,
        *,
        role: Tensor | int = ANSWER,
        group: Tensor | int = 0,
        state: Tensor | int = NO_STATE,
        field: Tensor | int = NOT_JUDGED,
    ) -> Self:
        """Return tokens of which the first `count` (S, B, ...) are used, with ids from `first` on.

        Other attributes are broadcast to all tokens.
        """
        fields = (_as_tensor(value, token).expand(token.shape) for value in (role, group, state, field))
        ids = first[..., None] + torch.arange(token.shape[-1], device=token.device)
        return cls(token, mask_leading(token.shape[-1], count), ids, *fields)

    def map_all(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the result of a function on the tokens and on each of their attributes."""
        return replace(self, **{name: change(value) for name, value in vars(self).items()})


class TokenRows:
    """The used tokens of several parts, concatenated to rows (S, B, width)."""

    def __init__(self, parts: Sequence[Tokens], width: int) -> None:
        self._parts = parts
        self._width = width
        self._columns = find_packed_columns(self._concatenate("used"), width)

    def tokens(self) -> Tensor:
        """Return the tokens, with pads at the end."""
        return self.join_attribute("token", PAD)

    def join_attribute(self, name: str, pad_value: int) -> Tensor:
        """Return an attribute of the tokens, with `pad_value` at the pads."""
        return scatter_columns(self._concatenate(name), self._columns, self._width, pad_value)

    def _concatenate(self, name: str) -> Tensor:
        """Return an attribute of all parts, (S, B, F)."""
        return torch.cat([getattr(part, name).flatten(2) for part in self._parts], dim=-1)


def make_full_rows(text: Text, start: int | None, width: int, shift_SB: Tensor | None = None) -> TokenRows:
    """Return full rows in reading order; shift_SB: added to the position ids of states."""
    state_start = text.state_length.cumsum(dim=-1) - text.state_length
    first_id = _find_first_id(text, start) + (0 if shift_SB is None else shift_SB)
    return TokenRows(
        [*_make_shared_tokens(text, start), _make_state_tokens(text, first_id[..., None] + state_start)], width
    )


def make_masked_rows(text: Text, start: int | None, width: int, *, fix_first_state: bool = True) -> TokenRows:
    """Return rows with a copy of each state before the next one.

    A question that is the first state has no copy. `fix_first_state` lets the second state see it; in the authors' code
    it does not.
    """
    # All states begin at the same position id, wherever they are in the row.
    first_id = _find_first_id(text, start)[..., None]
    length = text.state_length
    is_question_a_state = text.question.shape[-1] == 0
    states = _make_state_tokens(text, first_id.expand(length.shape))
    first = states.map_all(lambda tensor: tensor[:, :, :1])
    if is_question_a_state and fix_first_state:
        first = replace(first, group=torch.full_like(first.group, 2))

    # A copy has the group of the next state, which alone sees it, and the position ids before that state's.
    copies = states.map_all(lambda tensor: tensor[:, :, :-1])
    next_states = states.map_all(lambda tensor: tensor[:, :, 1:])
    is_copied = next_states.used.any(dim=-1, keepdim=True) & copies.used
    if is_question_a_state:
        is_copied = is_copied & (next_states.state > 1)
    copies = replace(copies, used=is_copied, role=torch.full_like(copies.role, COPY), group=next_states.group)
    next_states = replace(next_states, id=next_states.id + length[..., :-1, None])
    pairs = Tokens(*(torch.stack([getattr(copies, name), getattr(next_states, name)], dim=3) for name in vars(copies)))
    return TokenRows([*_make_shared_tokens(text, start), first, pairs], width)


def make_transition_rows(text: Text, start: int | None, width: int, index_SB: Tensor) -> TokenRows:
    """Return rows with a single transition each: the state with number `index_SB`, after the state before it.

    The question and the start mark are trained only with the first state. A row without this state is empty.
    """
    first_id = _find_first_id(text, start)[..., None]
    states = _make_state_tokens(text, first_id.expand(text.state_length.shape))
    current = states.map_all(lambda tensor: _select_state(tensor, index_SB))
    previous = states.map_all(lambda tensor: _select_state(tensor, (index_SB - 1).clamp(min=0)))

    # The first state has no state before it, and a missing state leaves the row empty.
    is_first = (index_SB == 0)[..., None]
    exists = current.used.any(dim=-1, keepdim=True)
    previous = replace(previous, used=previous.used & exists & ~is_first, role=torch.full_like(previous.role, COPY))
    current = replace(current, id=current.id + previous.used.sum(dim=-1, keepdim=True))
    shared = [
        replace(part, used=part.used & exists, role=torch.where(is_first, part.role, COPY))
        for part in _make_shared_tokens(text, start)
    ]
    return TokenRows([*shared, previous, current], width)


def make_batch(rows: TokenRows, *, loss_on_question: bool, ids: bool = False, groups: bool = False) -> Batch:
    """Return the batch of rows: inputs are all tokens except the last, targets all except the first.

    ids, groups: whether the batch has them. Targets of copies are masked, and without `loss_on_question` also the
    question's.
    """
    tokens = rows.tokens()
    role = rows.join_attribute("role", COPY)[..., 1:]
    return Batch(
        tokens[..., :-1],
        torch.where(role == COPY, IGNORED, tokens[..., 1:]),
        ids=rows.join_attribute("id", 0)[..., :-1] if ids else None,
        groups=rows.join_attribute("group", 0)[..., :-1] if groups else None,
        weight=(role >= (GIVEN if loss_on_question else ANSWER)).float(),
    )


def make_test_batch(
    text: Text, start: int | None, widths: Widths, *, loss_on_question: bool, fix_first_state: bool | None
) -> ScratchpadBatch:
    """Return a test batch: rows with copies, or full rows if `fix_first_state` is None."""
    # Generation by states leaves as much room for each state as the longest one needs.
    prompt_length = widths.question if text.given is None else text.given
    is_inductive = fix_first_state is not None
    if fix_first_state is None:
        rows = make_full_rows(text, start, widths.full)
        answer_width = widths.full - prompt_length
    else:
        rows = make_masked_rows(text, start, widths.masked, fix_first_state=fix_first_state)
        answer_width = widths.shared - prompt_length + len(widths.states) * max(widths.states)
    batch = make_batch(rows, loss_on_question=loss_on_question, ids=is_inductive, groups=is_inductive)

    # Prompt and answer have no copies; only targets that the model would generate are scored.
    tokens = make_full_rows(text, start, prompt_length + answer_width).tokens()
    is_generated = rows.join_attribute("role", COPY)[..., 1:] == ANSWER
    field, state = (
        torch.where(is_generated, rows.join_attribute(name, unscored)[..., 1:], unscored)
        for name, unscored in (("field", NOT_JUDGED), ("state", NO_STATE))
    )
    prompt, answer = tokens[..., :prompt_length], tokens[..., prompt_length:]
    return ScratchpadBatch(**vars(batch), prompt=prompt, answer=answer, field=field, state=state)


def _find_first_id(text: Text, start: int | None) -> Tensor:
    """Return the position id of the first token after the question and the start mark, (S, B)."""
    return text.question_length + (start is not None)


def _make_shared_tokens(text: Text, start: int | None) -> list[Tokens]:
    """Return the tokens visible to every state: the question and the start mark."""
    length = text.question_length
    position = torch.arange(text.question.shape[-1], device=length.device)
    role = torch.where(position < (length[..., None] if text.given is None else text.given), GIVEN, ANSWER)
    parts = [Tokens.build(text.question, length, torch.zeros_like(length), role=role)]
    if start is not None:
        parts.append(Tokens.build(*repeat_token(start, length), length))
    return parts


def _make_state_tokens(text: Text, first_SBK: Tensor) -> Tokens:
    """Return all states, (S, B, K, W), each with a group of its own; first_SBK: position ids of their first tokens."""
    # Without a question the prompt ends within the first state.
    _, _, k, w = text.states.shape
    number, position = (torch.arange(size, device=first_SBK.device) for size in (k, w))
    prompt_tokens = 0 if text.question.shape[-1] or text.given is None else text.given  # in the first state
    role = torch.where((number[:, None] == 0) & (position < prompt_tokens), GIVEN, ANSWER)

    field = 0 if text.field is None else text.field
    numbers = number[:, None]
    return Tokens.build(
        text.states, text.state_length, first_SBK, role=role, group=numbers + 1, state=numbers, field=field
    )


def _select_state(values_SBKW: Tensor, index_SB: Tensor) -> Tensor:
    """Return the values of a state of each row, (S, B, W)."""
    index = index_SB[..., None, None].expand(*index_SB.shape, 1, values_SBKW.shape[-1])
    return values_SBKW.gather(2, index)[:, :, 0]


def _as_tensor(value: Tensor | int, like: Tensor) -> Tensor:
    """Return a number as a tensor on the device of `like`."""
    return value if isinstance(value, Tensor) else like.new_full((), value)
