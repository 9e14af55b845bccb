"""The base of tasks on graphs: tokens, names of nodes, and the answer, whose last tokens are the label and end mark.

An answer is `1 .` without a scratchpad, `a > b > c ; 1 .` with a full one, and `a # b # c ; 1 .` with an inductive one,
where each node is a state. Shapes: S seeds, M members, B rows, P nodes of the longest path, K states, W tokens of a
state, G tokens of an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.settings.fields import setting
from trainers.tasks.scratchpad.graphs import DIGIT, EDGE, END, PAD, SEPARATOR, SPECIALS, START, STATE, vocabulary
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.scratchpad_task import INDUCTIVE, NONE, ScratchpadTask
from trainers.tasks.scratchpad.text import Text

FIELDS = ("node", "mark", "label")
_NODE, _MARK, _LABEL = range(len(FIELDS))
_TAIL = 4  # tokens of the last state: a node, ;, the label and the end mark


class GraphTask(ScratchpadTask):
    """The base of tasks that ask whether one node of a graph leads to another."""

    trial_settings: ClassVar[Mapping[str, Any]] = {"names": 30}

    names: int = setting(1000, low=2, help="number of names of nodes")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens as text; the first one is the pad."""
        return vocabulary(self.names)

    @property
    def start(self) -> str | None:
        """The token between the question and the first state of an inductive scratchpad."""
        return SPECIALS[START] if self.scratchpad == INDUCTIVE else None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of a state."""
        return FIELDS if self.scratchpad != NONE else ()

    @property
    def generation_metrics(self) -> tuple[str, ...]:
        """exact_match: of whole answers. label: of the first end mark and the label before it."""
        return ("exact_match", "label")

    def score_generated(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Return whether each generated row is right by each of `generation_metrics`, (M, B)."""
        assert batch.answer is not None
        return {**super().score_generated(written_MBG, batch), "label": is_label_right(written_MBG, batch.answer)}

    def name_problems(self, nodes: int) -> Iterator[Problem]:
        """Yield a problem if the largest graph has more nodes than there are names."""
        if self.names < nodes:
            message = f"{self.names} are too few for a graph of {nodes} nodes"
            yield Problem(key="names", given=self.names, message=message, allowed=f">= {nodes}")


def write_answers(
    question: tuple[Tensor, Tensor], label_SB: Tensor, nodes_SBP: Tensor, steps_SB: Tensor, form: str
) -> Text:
    """Return the text of questions with their labels and paths.

    question: tokens and their number. nodes_SBP: nodes of the paths, of which steps + 1 are used. form: none, full or
    inductive.
    """
    label = DIGIT + label_SB[..., None]
    if form == "none":
        answer = torch.cat([label, torch.full_like(label, END)], dim=-1)[:, :, None]
        return Text(*question, answer, torch.full_like(label, 2), None)
    way, fields = _way(label, nodes_SBP, steps_SB, EDGE if form == "full" else STATE)
    number = torch.arange(nodes_SBP.shape[-1], device=way.device)
    steps = steps_SB[..., None]
    length = torch.where(number < steps, 2, torch.where(number == steps, _TAIL, 0))
    states, fields = (of.unfold(-1, _TAIL, 2).clone() for of in (way, fields))
    place = torch.arange(_TAIL, device=way.device)
    states = torch.where(place < length[..., None], states, PAD)
    return Text(*question, states, length, None, fields)


def _way(label: Tensor, nodes: Tensor, steps_SB: Tensor, mark: int) -> tuple[Tensor, Tensor]:
    """Return nodes with marks between them, `;`, the label and the end mark, and the field of each, (S, B, 2 P + 2)."""
    width = 2 * nodes.shape[-1] + 2
    place = torch.arange(width, device=nodes.device).expand(*nodes.shape[:2], -1)
    last = 2 * steps_SB[..., None]  # place of the last node
    node = nodes.gather(-1, (place // 2).clamp(max=nodes.shape[-1] - 1))
    text = torch.where(place % 2 == 0, node, mark)
    text = torch.where(place == last + 1, SEPARATOR, text)
    text = torch.where(place == last + 2, label, text)
    text = torch.where(place == last + 3, END, text)
    field = torch.where(place <= last, place % 2, _MARK)
    return torch.where(place < last + _TAIL, text, PAD), torch.where(place == last + 2, _LABEL, field)


def is_label_right(written_MBG: Tensor, answer_MBG: Tensor) -> Tensor:
    """Return whether the label before the first end mark is that of the answer, bool (M, B)."""
    ended, label = _label(written_MBG)
    return ended & (label == _label(answer_MBG)[1])


def _label(text: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether there is an end mark after another token, and the token before the first one, (M, B)."""
    place = torch.arange(text.shape[-1], device=text.device)
    first = torch.where(text == END, place, text.shape[-1]).amin(dim=-1)
    before = (first - 1).clamp(min=0)
    return (first > 0) & (first < text.shape[-1]), text.gather(-1, before[..., None])[..., 0]
