"""The rows that a scratchpad is trained on, and the sites of their random numbers.

Shapes: S seeds, B rows.
"""

from dataclasses import replace
from typing import Protocol

from torch import Tensor

from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.scratchpad.layout import full_rows, make_batch, masked_rows, transition_rows
from trainers.tasks.scratchpad.lengths import LENGTH_SITES, Slice
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.batch import Batch

FULL, MASK, SPLIT, TRANSITION = "full", "mask", "split", "transition"  # forms of rows
SITES = 64  # of random words that a draw of rows may take
_TRANSITION_SITE, _SHIFT_SITE, TEXT_SITE = range(LENGTH_SITES, LENGTH_SITES + 3)
TEXT_SITES = SITES - TEXT_SITE  # of them for the text


class RowSettings(Protocol):
    """What training rows depend on; `ScratchpadTask` has it."""

    @property
    def loss_on_question(self) -> bool:
        """Whether the question is trained."""

    @property
    def fix_first_state(self) -> bool:
        """Whether the second state sees a question that is the first state."""

    @property
    def random_offsets(self) -> bool:
        """Whether the position ids of states have a random offset."""

    @property
    def form(self) -> str:
        """The form of training rows."""

    @property
    def start_token(self) -> int | None:
        """The number of the start mark, None without one."""

    @property
    def positions(self) -> int:
        """Positions of the longest row."""

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths of training rows."""

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return rows of these lengths."""

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the most tokens of each state."""

    def transitions(self, length: int) -> int:
        """Return the number of states of a row."""

    def width_of(self, length: int, form: str) -> int:
        """Return the tokens of the longest row of this length and form."""


def training_rows(task: RowSettings, part: Slice, draws: Draws) -> Batch:
    """Return the rows of one slice of a training batch, in the form of the task."""
    site, start = SITES * part.number, task.start_token
    width = max(task.width_of(length, task.form) for length in part.lengths)
    on_question = task.loss_on_question
    if task.form == SPLIT:
        length_SE, example_SB, index_SB = part.draw_transitions(draws, site, task.transitions)
        text = task.text(draws, site + TEXT_SITE, length_SE, part.longest).select_rows(example_SB)
        return make_batch(transition_rows(text, start, width, index_SB), loss_on_question=on_question)
    length_SB = part.draw_lengths(draws, site, part.rows)
    text = task.text(draws, site + TEXT_SITE, length_SB, part.longest)
    if task.form == TRANSITION:
        index_SB = draw_below(draws, site + _TRANSITION_SITE, (part.rows,), part.look_up(length_SB, task.transitions))
        return make_batch(transition_rows(text, start, width, index_SB), loss_on_question=on_question)
    if task.form == MASK:
        rows = masked_rows(text, start, width, fix_first_state=task.fix_first_state)
        return make_batch(rows, loss_on_question=on_question, ids=True, groups=True)
    if not task.random_offsets:
        return make_batch(full_rows(text, start, width), loss_on_question=on_question)
    rows = full_rows(text, start, width, _shift(task, text, draws, site + _SHIFT_SITE))
    batch = make_batch(rows, loss_on_question=on_question, ids=True)
    assert batch.ids is not None
    return replace(batch, ids=batch.ids.clamp(max=task.positions - 1))  # the last token's, which is no input


def _shift(task: RowSettings, text: Text, draws: Draws, site: int) -> Tensor:
    """Draw the offset (S, B) of the position ids of states: a multiple of a state that keeps all ids in range."""
    tokens = text.question_length + text.state_length.sum(dim=-1)
    step = min(task.state_widths(task.trained_lengths[0]))
    free = task.positions + 1 - int(task.start_token is not None) - tokens
    return step * draw_below(draws, site, (tokens.shape[1],), free // step + 1)
