"""Does one node of a graph of cycles lead to another? (Abbe et al., arXiv:2406.06467, Figs. 1, 4, 8 and 9.)

Shapes: S seeds, B rows, N nodes of the largest graph.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from trainers.batch import Batch
from trainers.config.registry import register
from trainers.config.settings import setting
from trainers.errors import Problem
from trainers.random import Stream
from trainers.tasks.fixed_set import Draws, training_draws
from trainers.tasks.parts import below
from trainers.tasks.scratchpad.graph_task import GraphTask
from trainers.tasks.scratchpad.graphs import cycles, named
from trainers.tasks.scratchpad.scratchpad_task import INDUCTIVE, NONE
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.scratchpad.walks import told

SITES = 4  # of the draws of a text


@register("task", "cycles")
class Cycles(GraphTask):
    """Edges of two cycles and two nodes of different ones, or of one cycle of as many nodes and two of its nodes.

    Length is the number of nodes of the cycle that the first node is in, where there are two; in the one cycle the second
    node is as many steps ahead. So the way there, or back to the first node, has as many steps in both cases, which are
    equally frequent. The label is 1 for one cycle. Names of nodes are drawn without replacement.
    """

    sizes: tuple[int, ...] = setting((5,), low=2, help="lengths that are trained on, the smallest first")
    test_sizes: tuple[int, ...] = setting((), low=2, help="other lengths that are evaluated")
    nodes: int | None = setting(None, low=4, help="nodes of every graph; null: twice its length")
    forget: bool = setting(False, help="a stage of a curriculum trains on its own length alone, not on those before")
    grow_both: bool = setting(
        True,
        help="the stages of a curriculum add pairs of cycles as well; false: all pairs are there from the start, as in "
        "the authors' code",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Problems unless lengths ascend, graphs have a second cycle and names are enough."""
        yield from super().cross_checks()
        if any(first >= second for first, second in pairwise(self.sizes)) or not self.sizes:
            yield Problem(
                key="sizes",
                given=list(self.sizes),
                message="do not ascend" if self.sizes else "is empty",
                allowed="different lengths, the smallest first",
            )
            return
        if self.nodes is not None and self.nodes < max(self.lengths) + 2:
            message = f"{self.nodes} leaves the second cycle fewer than two nodes where the first has {max(self.lengths)}"
            yield Problem(key="nodes", given=self.nodes, message=message, allowed=f">= {max(self.lengths) + 2}, or null")
        yield from self.name_problems(self.nodes_of(max(self.lengths)))

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The lengths that are trained on."""
        return self.sizes

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated."""
        return tuple(sorted({*self.sizes, *self.test_sizes}))

    @property
    def stages(self) -> tuple[int, ...]:
        """The length that each stage of a curriculum adds."""
        return self.sizes

    def nodes_of(self, length: int) -> int:
        """Nodes of a graph of this length."""
        return 2 * length if self.nodes is None else self.nodes

    def question_width(self, length: int) -> int:
        """Tokens of a question: four for each edge, and four that ask."""
        return 4 * self.nodes_of(length) + 4

    def state_widths(self, length: int) -> tuple[int, ...]:
        """The label and the end mark; before them the nodes on the way, with a mark behind each."""
        if self.scratchpad == NONE:
            return (2,)
        return (*[2] * length, 4) if self.scratchpad == INDUCTIVE else (2 * length + 4,)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Questions of given lengths and their answers; takes SITES sites."""
        label = draws.bits(site, tuple(length_SB.shape[1:])) >> 31
        return self.asked(draws, site + 1, length_SB, label, longest)

    def asked(self, draws: Draws, site: int, length_SB: Tensor, label_SB: Tensor, longest: int) -> Text:
        """Questions of given lengths and labels and their answers; takes SITES - 1 sites."""
        most = self.nodes_of(longest)
        nodes_SB = 2 * length_SB if self.nodes is None else torch.full_like(length_SB, self.nodes)
        length, label, nodes = (of[..., None] for of in (length_SB, label_SB, nodes_SB))
        node = torch.arange(most, device=length.device)
        second = (node >= length) & (label == 0)
        first = torch.where(second, length, 0)
        size = torch.where(label > 0, nodes, torch.where(second, (nodes - length).clamp(min=1), length))
        graph = cycles(first, size, nodes_SB, torch.zeros_like(length_SB), length_SB)  # pairs: the first of the second
        name = named(draws, site, length_SB.shape[1], most, self.names)
        step = torch.arange(longest + 1, device=length.device)
        way = name.gather(-1, torch.where(label > 0, step.clamp(max=most - 1), step % length))
        question = graph.shuffled(draws, site + 1).question(name)
        return told(question, label_SB, way, length_SB, self.scratchpad)
