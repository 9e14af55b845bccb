"""What is said of a question on a graph: its label, and before it the nodes on the way (arXiv:2406.06467, appendix C).

`none`: `1 .`; `full`: `a > b > c ; 1 .`; `inductive`: `a # b # c ; 1 .`. Each node is a state.
Shapes: S seeds, B rows, P nodes of the longest way, K states, W tokens of a state.
"""

import torch
from torch import Tensor

from trainers.tasks.scratchpad.graphs import DIGIT, EDGE, END, PAD, SEPARATOR, STATE
from trainers.tasks.scratchpad.text import Text

FIELDS = ("node", "mark", "label")
_NODE, _MARK, _LABEL = range(len(FIELDS))
_TAIL = 4  # tokens of the last state: a node, ;, the label and the end mark


def told(question: tuple[Tensor, Tensor], label_SB: Tensor, nodes_SBP: Tensor, steps_SB: Tensor, form: str) -> Text:
    """The text of questions: their tokens and how many count, their labels, and the ways of so many steps.

    form: none, full or inductive.
    """
    label = DIGIT + label_SB[..., None]
    if form == "none":
        said = torch.cat([label, torch.full_like(label, END)], dim=-1)[:, :, None]
        return Text(*question, said, torch.full_like(label, 2), None)
    way, fields = _way(label, nodes_SBP, steps_SB, EDGE if form == "full" else STATE)
    number = torch.arange(nodes_SBP.shape[-1], device=way.device)
    steps = steps_SB[..., None]
    length = torch.where(number < steps, 2, torch.where(number == steps, _TAIL, 0))
    states, fields = (of.unfold(-1, _TAIL, 2).clone() for of in (way, fields))
    place = torch.arange(_TAIL, device=way.device)
    states = torch.where(place < length[..., None], states, PAD)
    return Text(*question, states, length, None, fields)


def _way(label: Tensor, nodes: Tensor, steps_SB: Tensor, mark: int) -> tuple[Tensor, Tensor]:
    """Nodes with marks between them, `;`, the label and the end mark, and the field of each, (S, B, 2 P + 2)."""
    width = 2 * nodes.shape[-1] + 2
    place = torch.arange(width, device=nodes.device).expand(*nodes.shape[:2], -1)
    last = 2 * steps_SB[..., None]  # where the last node stands
    node = nodes.gather(-1, (place // 2).clamp(max=nodes.shape[-1] - 1))
    said = torch.where(place % 2 == 0, node, mark)
    said = torch.where(place == last + 1, SEPARATOR, said)
    said = torch.where(place == last + 2, label, said)
    said = torch.where(place == last + 3, END, said)
    field = torch.where(place <= last, place % 2, _MARK)
    return torch.where(place < last + _TAIL, said, PAD), torch.where(place == last + 2, _LABEL, field)


def labelled(said_MBG: Tensor, answer_MBG: Tensor) -> Tensor:
    """Whether the first end mark of what is said follows the label that it follows in the answer, bool (M, B)."""
    ended, label = _label(said_MBG)
    return ended & (label == _label(answer_MBG)[1])


def _label(text: Tensor) -> tuple[Tensor, Tensor]:
    """Whether there is an end mark behind another token, and the token before the first one, (M, B)."""
    place = torch.arange(text.shape[-1], device=text.device)
    first = torch.where(text == END, place, text.shape[-1]).amin(dim=-1)
    before = (first - 1).clamp(min=0)
    return (first > 0) & (first < text.shape[-1]), text.gather(-1, before[..., None])[..., 0]
