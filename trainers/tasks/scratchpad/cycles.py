"""Does one node of a graph of cycles lead to another? (Abbe et al., arXiv:2406.06467, Figs. 1, 4, 8 and 9.)

Shapes: S seeds, B rows, N nodes of the largest graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import draw_below
from trainers.tasks.scratchpad.graph_task import GraphTask, write_answers
from trainers.tasks.scratchpad.graphs import draw_names, make_cycle_graph
from trainers.tasks.scratchpad.lengths import Slice
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import make_constant


@dataclass(frozen=True)
class _StagedDraws:
    """Random words of rows that have both labels up to length `longest_S1`, and only label 0 above it."""

    draws: Draws
    longest_S1: Tensor

    def bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return the integers of `draws`."""
        return self.draws.bits(site, shape)


@register("task", "cycles")
class Cycles(GraphTask):
    """Input: edges and two nodes. Output: whether both nodes are on a single cycle (label 1) or on two (label 0).

    Length: with two cycles, the number of nodes of the first node's cycle; with a single cycle, the number of steps
    from the first node to the second. So the path to the second node, or back to the first, has the same number of
    steps for both labels, which are equally frequent. Names of nodes are drawn without replacement.

    In an inductive scratchpad # follows each node; ~ is a masked target:

    >>> task, seed = Cycles(size=2, names=9), Stream(torch.tensor([2]), "data", torch.tensor(1))
    >>> [" ".join(symbols[20:]) for symbols in task.format_row(task.sample(seed, 1)[0], 0)]
    [': v007 # v007 # v003 # v003 # v002 ; 1', 'v007 # ~ ~ v003 # ~ ~ v002 ; 1 .']
    >>> task = Cycles(size=2, names=9, scratchpad="full")
    >>> " ".join(task.format_row(task.sample(seed, 1)[0], 0)[0])
    'v002 > v006 ; v006 > v007 ; v007 > v003 ; v003 > v002 ; v007 ? v002 ; v007 > v003 > v002 ; 1'
    """

    size: int = setting(5, low=2, help="the trained length, or the largest one")
    smallest: int | None = setting(None, low=2, help="the smallest trained length; null: only one length")
    test_sizes: tuple[int, ...] = setting((), low=2, help="other evaluated lengths")
    nodes: int | None = setting(None, low=4, help="nodes of every graph; null: twice its length")
    forget: bool = setting(False, help="a stage of a curriculum trains only on its own length, not on earlier ones")
    grow_both: bool = setting(
        True,
        help="the stages of a curriculum also add pairs of cycles; false: all pairs from the start, as in the authors' "
        "code",
    )

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of lengths out of order, graphs without a second cycle and too few names."""
        yield from super().find_combination_problems()
        if self.smallest is not None and self.smallest > self.size:
            message = f"{self.smallest} is more than the largest length"
            yield self._make_problem("smallest", message, f"<= size ({self.size})")
            return
        if self.nodes is not None and self.nodes < max(self.lengths) + 2:
            message = f"{self.nodes} leaves the second cycle fewer than two nodes if the first has {max(self.lengths)}"
            yield self._make_problem("nodes", message, f">= {max(self.lengths) + 2}, or null")
        yield from self.find_name_problems(self.count_nodes(max(self.lengths)))

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths seen in training."""
        return tuple(range(self.smallest or self.size, self.size + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated."""
        return tuple(sorted({*self.trained_lengths, *self.test_sizes}))

    @property
    def stages(self) -> tuple[int, ...]:
        """The length that each stage of a curriculum adds."""
        return self.trained_lengths

    def count_nodes(self, length: int) -> int:
        """Return the number of nodes of a graph of this length."""
        return 2 * length if self.nodes is None else self.nodes

    def question_width(self, length: int) -> int:
        """Return the number of tokens of a question: four per edge, and four for the two nodes."""
        return 4 * self.count_nodes(length) + 4

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of each state: a node and a mark; the last one also has the label."""
        if self.scratchpad == NONE:
            return (2,)
        return (*[2] * length, 4)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn questions of given lengths with answers; takes three sites."""
        label = draw_below(draws, site, tuple(length_SB.shape[1:]), 2)
        if isinstance(draws, _StagedDraws):
            label = torch.where(length_SB > draws.longest_S1, 0, label)
        return self.draw_question(draws, site + 1, length_SB, label, longest)

    def draw_question(self, draws: Draws, site: int, length_SB: Tensor, label_SB: Tensor, longest: int) -> Text:
        """Return drawn questions of given lengths and labels with answers; takes two sites."""
        # A cycle has consecutive nodes: the first node and the size of each node's cycle describe the graph.
        max_nodes = self.count_nodes(longest)
        nodes_SB = 2 * length_SB if self.nodes is None else torch.full_like(length_SB, self.nodes)
        length, label, nodes = (tensor[..., None] for tensor in (length_SB, label_SB, nodes_SB))
        node = torch.arange(max_nodes, device=length.device)
        in_second = (node >= length) & (label == 0)
        first = torch.where(in_second, length, 0)
        size = torch.where(label > 0, nodes, torch.where(in_second, (nodes - length).clamp(min=1), length))

        # Node `length` is that many steps away on a single cycle; with two cycles it is the first node of the second.
        graph = make_cycle_graph(first, size, nodes_SB, torch.zeros_like(length_SB), length_SB)

        # With two cycles the path leads back to the first node.
        name = draw_names(draws, site, length_SB.shape[1], max_nodes, self.names)
        step = torch.arange(longest + 1, device=length.device)
        path = name.gather(-1, torch.where(label > 0, step.clamp(max=max_nodes - 1), step % length))
        question = graph.shuffle_edges(draws, site + 1).write_question(name)
        return write_answers(question, label_SB, path, length_SB, self.scratchpad)

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch:
        """Return a training batch for seeds at different stages, int64 (S,), in a single slice.

        A stage has the lengths of all stages up to it, with `forget` only the length that it adds, and both labels
        equally often. Without `grow_both` pairs of cycles have every length, and every combination of length and label
        is equally frequent.
        """
        masses = tuple(tuple(self._weigh_length(stage, size) for size in self.stages) for stage in self.stages)
        rows_slice = Slice(0, 0, rows, self.stages, masses, stage_S)
        longest_S1 = make_constant(self.stages, stage_S.device)[stage_S][:, None]
        draws = _StagedDraws(rows_slice.make_draws(stream, rows, self.fixed_set), longest_S1)
        return self.training_rows(rows_slice, draws)

    def find_staged_problems(self) -> Iterator[Problem]:
        """Yield a problem of several slices, because all rows of a batch with stages have the same width."""
        if self.slices > 1:
            message = f"{self.slices} slices have no effect: with a curriculum all rows are as wide as the longest"
            yield self._make_problem("slices", message, "1, or no training.curriculum")

    def _weigh_length(self, stage: int, length: int) -> Fraction:
        """Return the weight of a length at the stage that adds the length `stage`."""
        # Without `grow_both` lengths beyond the stage have only label 0, so half as many rows.
        added_weight, later_weight = (1, 0) if self.forget or self.grow_both else (2, 1)
        weight = added_weight if length == stage or (length < stage and not self.forget) else later_weight
        return Fraction(weight * self.examples(length))
