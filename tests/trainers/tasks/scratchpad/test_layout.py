"""Rows of scratchpads against the worked examples of the paper's code and against a slow reading of the rules."""

from dataclasses import dataclass, field

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.tasks.scratchpad.layout import (
    ANSWER,
    COPY,
    GIVEN,
    TokenRows,
    Widths,
    make_batch,
    make_full_rows,
    make_masked_rows,
    make_transition_rows,
)
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.supervised import IGNORED

START = 99


@dataclass
class Token:
    token: int
    id: int
    group: int = 0
    role: int = ANSWER
    state: int = -1


@dataclass
class Row:
    """A row in plain numbers: a question and states, and how many tokens are given."""

    question: list[int]
    states: list[list[int]]
    given: int | None = None
    start: int | None = START
    tokens: list[Token] = field(default_factory=list)

    def role(self, position: int) -> int:
        return GIVEN if position < (len(self.question) if self.given is None else self.given) else ANSWER

    def shared(self) -> list[Token]:
        tokens = [Token(token, position, 0, self.role(position)) for position, token in enumerate(self.question)]
        return tokens + ([Token(self.start, len(tokens))] if self.start is not None else [])

    def make_state_tokens(self, state: int, first: int, group: int = 0, *, copy: bool = False) -> list[Token]:
        tokens = []
        for position, token in enumerate(self.states[state]):
            role = self.role(position) if not self.question and state == 0 else ANSWER
            tokens.append(Token(token, first + position, group, COPY if copy else role, state))
        return tokens

    def full(self, shift: int = 0) -> list[Token]:
        tokens = self.shared()
        for state in range(len(self.states)):
            tokens += self.make_state_tokens(state, shift + len(tokens))
        return tokens

    def masked(self, fix: bool) -> list[Token]:
        tokens, alone = self.shared(), not self.question
        begin = len(tokens)
        tokens += self.make_state_tokens(0, begin, 2 if alone and fix else 1)
        for state in range(1, len(self.states)):
            if not (alone and state == 1):
                tokens += self.make_state_tokens(state - 1, begin, state + 1, copy=True)
            tokens += self.make_state_tokens(state, begin + len(self.states[state - 1]), state + 1)
        return tokens

    def transition(self, state: int) -> list[Token]:
        tokens, begin = self.shared(), len(self.shared())
        if state >= len(self.states):
            return []
        if state:
            tokens = [Token(token.token, token.id, role=COPY) for token in tokens]
            tokens += self.make_state_tokens(state - 1, begin, copy=True)
        return tokens + self.make_state_tokens(state, len(tokens))


def text_of(rows: list[Row], spare: int = 0) -> Text:
    """The text of some rows, with so much room that is not used."""
    asked = max(len(row.question) for row in rows)
    asked += spare if asked else 0
    count = max(len(row.states) for row in rows) + spare
    width = max(len(state) for row in rows for state in row.states) + spare

    def padded(tokens: list[int], to: int) -> list[int]:
        return tokens + [0] * (to - len(tokens))

    states = [[padded(state, width) for state in (row.states + [[]] * count)[:count]] for row in rows]
    lengths = [[len(state) for state in (row.states + [[]] * count)[:count]] for row in rows]
    return Text(
        question=torch.tensor([[padded(row.question, asked) for row in rows]], dtype=torch.int64),
        question_length=torch.tensor([[len(row.question) for row in rows]]),
        states=torch.tensor([states]),
        state_length=torch.tensor([lengths]),
        given=rows[0].given,
    )


def read(rows: TokenRows, row: int, count: int) -> list[Token]:
    """The first tokens of a row; what follows is pads."""
    names = ("token", "id", "group", "role", "state")
    attributes = {name: rows.join_attribute(name, -7)[0, row].tolist() for name in names}
    assert all(set(values[count:]) <= {-7} for values in attributes.values())
    return [Token(*values) for values in zip(*(attributes[name][:count] for name in names), strict=True)]


tokens = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@st.composite
def several(draw: st.DrawFn) -> list[Row]:
    alone = draw(st.booleans())
    start = None if alone else draw(st.sampled_from([None, START]))
    rows = [
        Row([] if alone else draw(tokens), draw(st.lists(tokens, min_size=1, max_size=4)), start=start)
        for _ in range(draw(st.integers(1, 3)))
    ]
    most = min(len(row.states[0] if alone else row.question) for row in rows)
    some = draw(st.sampled_from([None, *range(1, most + 1)])) if not alone else draw(st.integers(1, most))
    for row in rows:
        row.given = some
    return rows


@settings(max_examples=30)
@given(several(), st.integers(0, 2), st.booleans(), st.integers(0, 3))
def test_rows_are_what_a_slow_reading_makes_of_them(rows: list[Row], spare: int, fix: bool, shift: int) -> None:
    text, start, shifts = text_of(rows, spare), rows[0].start, torch.full((1, len(rows)), shift)
    for number, row in enumerate(rows):
        assert read(make_full_rows(text, start, 40, shifts), number, len(row.full())) == _grouped(row.full(shift), row)
        assert read(make_masked_rows(text, start, 60, fix_first_state=fix), number, len(row.masked(fix))) == row.masked(
            fix
        )
        for state in range(text.states.shape[2]):
            wanted = row.transition(state)
            tokens = read(make_transition_rows(text, start, 40, torch.full((1, len(rows)), state)), number, len(wanted))
            assert [_plain(token) for token in tokens] == [_plain(token) for token in wanted]


def _grouped(wanted: list[Token], row: Row) -> list[Token]:
    """Whole rows keep the numbers of groups, which nothing uses."""
    for token in wanted:
        token.group = token.state + 1
    return wanted


def _plain(token: Token) -> tuple[int, ...]:
    return token.token, token.id, token.role


def test_the_worked_example_of_parity() -> None:
    symbols = " :#.0123456789_=[],"
    states = ("[00]1,1#", "[01]1,0#", "[03]1,1#", "[06]_,1.")
    text = text_of([Row([*map(symbols.index, "11_1__=")], [[*map(symbols.index, state)] for state in states])])
    widths, start = Widths(7, 1, (8,) * 4), symbols.index(":")
    assert (widths.full, widths.masked, widths.transition) == (40, 64, 24)
    whole = "".join(symbols[token] for token in make_full_rows(text, start, 40).tokens()[0, 0])
    assert whole == "11_1__=:[00]1,1#[01]1,0#[03]1,1#[06]_,1."
    rows = make_masked_rows(text, start, 64)
    row = "".join(symbols[token] for token in rows.tokens()[0, 0])
    assert row == "11_1__=:[00]1,1#[00]1,1#[01]1,0#[01]1,0#[03]1,1#[03]1,1#[06]_,1."
    eight, sixteen = [*range(8)], [*range(8, 16)]
    later = [*range(16, 24)]
    ids = [*eight, *sixteen, *sixteen, *later, *sixteen, *later, *sixteen, *later]
    groups = [0] * 8 + [1] * 8 + [2] * 16 + [3] * 16 + [4] * 16
    loss = [1] * 16 + ([0] * 8 + [1] * 8) * 3
    batch = make_batch(rows, loss_on_question=True, ids=True, groups=True)
    assert batch.ids is not None and batch.groups is not None and batch.weight is not None
    assert batch.ids[0, 0].tolist() == ids[:-1] and batch.groups[0, 0].tolist() == groups[:-1]
    assert batch.weight[0, 0].tolist() == loss[1:]
    targets = ["~" if target == IGNORED else symbols[target] for target in batch.targets[0, 0]]
    assert "".join(targets) == "1_1__=:[00]1,1#~~~~~~~~[01]1,0#~~~~~~~~[03]1,1#~~~~~~~~[06]_,1."
    without = make_batch(rows, loss_on_question=False)
    assert without.weight is not None and without.ids is None and without.groups is None
    assert without.weight[0, 0].tolist() == [0] * 6 + loss[7:]  # the start mark is part of the answer


def test_widths_of_rows_whose_question_is_the_first_state() -> None:
    widths = Widths(0, 0, (14, 14, 5))
    assert (widths.full, widths.masked, widths.transition) == (33, 47, 28)
    assert Widths(0, 0, (*(98,) * 5, 33)).masked == 915
