"""The base of graph tasks: tokens, node names, and answers that end with a label and an end mark.

An answer is `1 .` without a scratchpad, `a > b > c ; 1 .` with a full and `a # b # c ; 1 .` with an inductive
scratchpad, where each node is a state. Shapes: S seeds, M members, B rows, P nodes of the longest path, K states,
W tokens of a state, G tokens of an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.settings.fields import setting
from trainers.tasks.scratchpad.graphs import DIGIT, EDGE, END, PAD, SEPARATOR, SPECIALS, START, STATE, list_vocabulary
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.scratchpad_task import INDUCTIVE, ScratchpadTask
from trainers.tasks.scratchpad.text import Text

_MARK, _LABEL = 1, 2  # indices of `state_fields`
_ANSWER_TOKENS = 2  # tokens of the answer: the label and the end mark
_LAST_STATE_TOKENS = 4  # tokens of the last state: a node, ;, the label and the end mark


class GraphTask(ScratchpadTask):
    """Base of tasks that ask whether a path leads from one node of a graph to another."""

    trial_settings: ClassVar[Mapping[str, Any]] = {"names": 30}

    names: int = setting(1000, low=2, help="number of distinct node names")

    state_fields = ("node", "mark", "label")
    # exact_match: of whole answers. label: of the first end mark and the label before it.
    generation_metrics: ClassVar[tuple[str, ...]] = ("exact_match", "label")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens as text; the first is the pad."""
        return list_vocabulary(self.names)

    @property
    def start(self) -> str | None:
        """The token between the question and the first state of an inductive scratchpad."""
        return SPECIALS[START] if self.scratchpad == INDUCTIVE else None

    def score_generated(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Return for each of `generation_metrics` whether each generated row is right, (M, B)."""
        (ended, label) = _read_label(written_MBG)
        (_, true_label) = _read_label(batch.answer)
        return {**super().score_generated(written_MBG, batch), "label": ended & (label == true_label)}

    def answer_mask(self, text: Tensor) -> Tensor:
        """Return which tokens of texts (..., G) are the answer: the label and the end mark."""
        in_last_state = super().answer_mask(text)
        tokens_left = in_last_state.flip(-1).cumsum(dim=-1).flip(-1)  # from each token to the end of the state
        return in_last_state & (tokens_left <= _ANSWER_TOKENS)

    def find_name_problems(self, nodes: int) -> Iterator[Problem]:
        """Yield a problem if the largest graph has more nodes than there are names."""
        if self.names < nodes:
            yield self._make_problem(
                "names", f"{self.names} is less than the {nodes} nodes of the largest graph", f">= {nodes}"
            )


def write_answers(
    question: tuple[Tensor, Tensor], label_SB: Tensor, nodes_SBP: Tensor, steps_SB: Tensor, form: str
) -> Text:
    """Return the text of questions with their labels and paths.

    question: the tokens (S, B, Q) and their number (S, B). nodes_SBP: nodes of the paths, of which steps + 1 are used.
    form: none, full or inductive.
    """
    label = DIGIT + label_SB[..., None]
    if form == "none":
        answer = torch.cat([label, torch.full_like(label, END)], dim=-1)[:, :, None]
        return Text(*question, answer, torch.full_like(label, 2))

    # The whole answer in reading order, (S, B, 2 P + 2): nodes at even positions, marks between them.
    nodes, steps = nodes_SBP.shape[-1], steps_SB[..., None]
    position = torch.arange(2 * nodes + 2, device=label.device).expand(*label.shape[:2], -1)
    node = nodes_SBP.gather(-1, (position // 2).clamp(max=nodes - 1))
    tokens = torch.where(position % 2 == 0, node, EDGE if form == "full" else STATE)
    fields = torch.where(position <= 2 * steps, position % 2, _MARK)
    tokens = torch.where(position == 2 * steps + 1, SEPARATOR, tokens)
    tokens = torch.where(position == 2 * steps + 2, label, tokens)
    tokens = torch.where(position == 2 * steps + 3, END, tokens)
    fields = torch.where(position == 2 * steps + 2, _LABEL, fields)

    # States are windows that begin at every second token; all but the last use only half of their window.
    number = torch.arange(nodes, device=label.device)
    length = torch.where(number < steps, 2, torch.where(number == steps, _LAST_STATE_TOKENS, 0))
    states, fields = (tensor.unfold(-1, _LAST_STATE_TOKENS, 2).clone() for tensor in (tokens, fields))
    is_used = torch.arange(_LAST_STATE_TOKENS, device=label.device) < length[..., None]
    return Text(*question, torch.where(is_used, states, PAD), length, None, fields)


def _read_label(text: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether a text has an end mark after another token, and the token before its first end mark, (M, B)."""
    position = torch.arange(text.shape[-1], device=text.device)
    first = torch.where(text == END, position, text.shape[-1]).amin(dim=-1)
    previous = (first - 1).clamp(min=0)
    return (first > 0) & (first < text.shape[-1]), text.gather(-1, previous[..., None])[..., 0]
