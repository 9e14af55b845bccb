"""Does one node of a graph of cycles lead to another? (Abbe et al., arXiv:2406.06467, Figs. 1, 4, 8 and 9.)

Shapes: S seeds, B rows, N nodes of the largest graph.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.graph_task import GraphTask
from trainers.tasks.scratchpad.graphs import cycles, named
from trainers.tasks.scratchpad.lengths import StagedSlice
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.scratchpad.training_rows import training_rows
from trainers.tasks.scratchpad.walks import told
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import constant


@dataclass(frozen=True)
class _Grown:
    """Random words of seeds whose graphs have one cycle up to a length of their own, (S, 1), and always two above."""

    draws: Draws
    longest_S1: Tensor

    def bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        return self.draws.bits(site, shape)


@register("task", "cycles")
class Cycles(GraphTask):
    """Edges of two cycles and two nodes of different ones, or of one cycle of as many nodes and two of its nodes.

    Of two cycles the one with the first node has as many nodes as the length says; in the one cycle the second node is
    as many steps ahead. So the way there, or back to the first node, has as many steps in both cases, which are equally
    frequent. The label is 1 for one cycle, 0 for two. Names of nodes are drawn without replacement.

    With # behind a node in an inductive scratchpad, and ~ where no target counts:

    >>> task, seed = Cycles(size=2, names=9), Stream(torch.tensor([2]), "data", torch.tensor(1))
    >>> [" ".join(of[20:]) for of in task.shown(task.sample(seed, 1)[0], 0)]
    [': v007 # v007 # v003 # v003 # v002 ; 1', 'v007 # ~ ~ v003 # ~ ~ v002 ; 1 .']
    >>> task = Cycles(size=2, names=9, scratchpad="full")
    >>> " ".join(task.shown(task.sample(seed, 1)[0], 0)[0])
    'v002 > v006 ; v006 > v007 ; v007 > v003 ; v003 > v002 ; v007 ? v002 ; v007 > v003 > v002 ; 1'
    """

    size: int = setting(5, low=2, help="the length that is trained on, or the largest one")
    smallest: int | None = setting(None, low=2, help="the smallest length that is trained on; null: one length alone")
    test_sizes: tuple[int, ...] = setting((), low=2, help="other lengths that are evaluated")
    nodes: int | None = setting(None, low=4, help="nodes of every graph; null: twice its length")
    forget: bool = setting(False, help="a stage of a curriculum trains on its own length alone, not on those before")
    grow_both: bool = setting(
        True,
        help="the stages of a curriculum add pairs of cycles as well; false: all pairs are there from the start, as in "
        "the authors' code",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Problems unless lengths are in order, graphs have a second cycle and names are enough."""
        yield from super().cross_checks()
        if self.smallest is not None and self.smallest > self.size:
            message = f"{self.smallest} is more than the largest length"
            yield Problem(key="smallest", given=self.smallest, message=message, allowed=f"<= size ({self.size})")
            return
        if self.nodes is not None and self.nodes < max(self.lengths) + 2:
            message = (
                f"{self.nodes} leaves the second cycle fewer than two nodes where the first has {max(self.lengths)}"
            )
            yield Problem(
                key="nodes", given=self.nodes, message=message, allowed=f">= {max(self.lengths) + 2}, or null"
            )
        yield from self.name_problems(self.nodes_of(max(self.lengths)))

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The lengths that are trained on."""
        return tuple(range(self.smallest or self.size, self.size + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated."""
        return tuple(sorted({*self.trained_lengths, *self.test_sizes}))

    @property
    def stages(self) -> tuple[int, ...]:
        """The length that each stage of a curriculum adds."""
        return self.trained_lengths

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
        return (*[2] * length, 4)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Questions of given lengths and their answers; takes three sites."""
        label = draws.bits(site, tuple(length_SB.shape[1:])) >> 31
        if isinstance(draws, _Grown):
            label = torch.where(length_SB > draws.longest_S1, 0, label)
        return self.asked(draws, site + 1, length_SB, label, longest)

    def asked(self, draws: Draws, site: int, length_SB: Tensor, label_SB: Tensor, longest: int) -> Text:
        """Questions of given lengths and labels and their answers; takes two sites."""
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

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch:
        """A training batch of seeds that stand at stages of their own, int64 (S,), in one slice.

        A stage has the lengths up to its own, or its own alone with `forget`, and both labels equally often. Without
        `grow_both` pairs of cycles have every length; each kind, a length with a label, is then equally frequent.
        """
        laws = tuple(tuple(map(self._law(stage), self.stages)) for stage in self.stages)
        part = StagedSlice(0, 0, rows, self.stages, laws[-1], laws, stage_S)
        longest_S1 = constant(self.stages, stage_S.device)[stage_S][:, None]
        return training_rows(self, part, _Grown(part.draws(stream, rows, self.fixed_set), longest_S1))

    def staged_problems(self) -> Iterator[Problem]:
        """A problem with slices: a batch of members at several stages is one."""
        if self.slices > 1:
            message = f"{self.slices} are not heeded: in stages all rows are as wide as the longest of the last stage"
            yield Problem(key="slices", given=self.slices, message=message, allowed="1, or no training.curriculum")

    def _law(self, stage: int) -> Callable[[int], Fraction]:
        """The weight of each length at the stage that adds the length `stage`."""
        early, late = (1, 0) if self.forget or self.grow_both else (2, 1)  # later lengths have the one label alone

        def weight(size: int) -> Fraction:
            kept = early if size == stage or (size < stage and not self.forget) else late
            return Fraction(kept * self.examples(size))

        return weight
