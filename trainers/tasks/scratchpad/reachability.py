"""Does one node of a random graph lead to another? (Abbe et al., arXiv:2406.06467, Fig. 7.)

Shapes: S seeds, M members, B rows, N nodes.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.graph_task import GraphTask
from trainers.tasks.scratchpad.graphs import DIGIT, Graph, cycles, named
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.random_graphs import at_distance, planted
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.scratchpad.training_rows import SITES
from trainers.tasks.scratchpad.walks import told
from trainers.tasks.task import Batch, Distribution, EvaluationBatch
from trainers.tensors.device_constants import constant

CYCLES = "cycles"  # the distribution of the probes
_BY_LABEL = ("unconnected", "connected")


@register("task", "reachability")
class Reachability(GraphTask):
    """A random directed graph and two of its nodes in; out, whether there is a way from the first to the second.

    A graph has `edges` different edges, all graphs equally likely. Half of the questions have label 0: no way at all.
    The shortest way of the others has 1 to `farthest` steps, equally often; length is this number. At each length half
    of the test questions have label 0, so the mean over lengths is the accuracy as in training.

    A second distribution, `cycles`, has as many nodes and edges, and asks what no degree of a node tells: at distance d
    there are two cycles of d nodes, each with one of the two (label 0), or one of 2 d nodes with both. The other nodes
    form equal cycles.

    >>> task = Reachability(nodes=4, edges=3, farthest=2, probes=(), other_cycles=(), names=9)
    >>> batch = task.sample(Stream(torch.tensor([2]), "data", torch.tensor(1)), 1)[0]
    >>> " ".join(task.shown(batch, 0)[0])
    'v000 > v003 ; v002 > v000 ; v006 > v002 ; v002 ? v003 ; 1'
    >>> Reachability().cycles_of(3)
    ((3, 3, 6, 6, 6), (6, 6, 6, 6))
    """

    scratchpad: str = setting(NONE, choices=(NONE,), help="none, as in the paper")
    nodes: int = setting(24, low=3, help="nodes of a graph")
    edges: int = setting(24, low=1, help="edges of a graph")
    farthest: int = setting(4, low=1, help="most steps between two nodes with a way")
    probes: tuple[int, ...] = setting((2, 3, 4), low=2, help="distances that are asked for in graphs of cycles")
    other_cycles: tuple[int, ...] = setting((2, 3, 2), low=0, help="for each probe, cycles of the other nodes")

    def cross_checks(self) -> Iterator[Problem]:
        """Problems unless there are such graphs, and enough names."""
        yield from super().cross_checks()
        yield from self.name_problems(self.nodes)
        try:
            planted(self.nodes, self.edges, self.farthest)
        except ValueError as error:
            found, _, allowed = str(error).partition("; allowed: ")
            yield Problem(key="edges", given=self.edges, message=f"there are no graphs of {found}", allowed=allowed)
        if self.probes and self.nodes != self.edges:
            message = f"{self.edges} edges do not make cycles of all {self.nodes} nodes"
            yield Problem(key="edges", given=self.edges, message=message, allowed=f"{self.nodes}, or probes: []")
        given = list(self.other_cycles)
        if len(self.other_cycles) != len(self.probes) or len({*self.probes}) != len(self.probes):
            message, allowed = f"goes with the probes {list(self.probes)}", "one number for each probe, all different"
            yield Problem(key="other_cycles", given=given, message=message, allowed=allowed)
            return
        for distance, count in zip(self.probes, self.other_cycles, strict=True):
            others = self.nodes - 2 * distance
            if others != 0 if count == 0 else others < 2 * count or others % count:
                message = (
                    f"{count} equal cycles do not have the {max(others, 0)} nodes that are left at distance {distance}"
                )
                allowed = "numbers that divide what is left of the nodes, cycles of 2 nodes or more"
                yield Problem(key="other_cycles", given=given, message=message, allowed=allowed)

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The distances of pairs with a way."""
        return tuple(range(1, self.farthest + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Distances that can be evaluated, in one distribution or the other."""
        return tuple(sorted({*self.trained_lengths, *self.probes}))

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """Random graphs as in training; graphs of cycles."""
        random = Distribution("random", self.trained_lengths, self.trained_lengths)
        return (random, Distribution(CYCLES, tuple(sorted(self.probes)))) if self.probes else (random,)

    @property
    def judged(self) -> tuple[str, ...]:
        """exact_match: label and end mark; of questions with a way, and of those with none."""
        return ("exact_match", *_BY_LABEL)

    def right(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Whether each row is right by each metric of `judged`, (M, B); NaN where it does not count."""
        assert batch.answer is not None
        exact = (written_MBG == batch.answer).all(dim=-1).float()
        label = batch.answer[..., 0] - DIGIT
        return {
            "exact_match": exact,
            **{name: torch.where(label == number, exact, torch.nan) for number, name in enumerate(_BY_LABEL)},
        }

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Shares of rows, and of those of each label, (M, 1)."""
        return {**super().reduce(rows, batch, lengths), **{name: rows[name].nanmean(dim=1) for name in _BY_LABEL}}

    def cycles_of(self, distance: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of the cycles of a probe, for label 0 and for label 1; the first node is in the first one."""
        count = self.other_cycles[self.probes.index(distance)]
        others = ((self.nodes - 2 * distance) // count,) * count if count else ()
        return (distance, distance, *others), (2 * distance, *others)

    def question_width(self, length: int) -> int:
        """Tokens of a question."""
        return 4 * self.edges + 4

    def state_widths(self, length: int) -> tuple[int, ...]:
        """The label and the end mark."""
        return (2,)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Questions on random graphs, half of them at these distances; takes three sites."""
        label = draws.bits(site, tuple(length_SB.shape[1:])) >> 31
        return self.asked(draws, site + 1, length_SB, label)

    def asked(self, draws: Draws, site: int, length_SB: Tensor, label_SB: Tensor) -> Text:
        """Questions on random graphs with these labels; takes two sites."""
        graph = at_distance(draws, site, length_SB * label_SB, self.nodes, self.edges, self.farthest)
        return self._told(draws, site + 1, graph, label_SB)

    def probed(self, draws: Draws, site: int, length: int, label_SB: Tensor) -> Text:
        """Questions on graphs of cycles with these labels; takes two sites."""
        device, one = label_SB.device, label_SB[..., None] > 0
        (first_0, size_0), (first_1, size_1) = map(_by_node, self.cycles_of(length))
        first = torch.where(one, constant(first_1, device), constant(first_0, device))
        size = torch.where(one, constant(size_1, device), constant(size_0, device))
        nodes = torch.full_like(label_SB, self.nodes)
        target = torch.full_like(label_SB, length)  # label 0: the first node of the second cycle
        graph = cycles(first, size, nodes, torch.zeros_like(label_SB), target)
        return self._told(draws, site, graph.shuffled(draws, site + 1), label_SB)

    def _told(self, draws: Draws, site: int, graph: Graph, label_SB: Tensor) -> Text:
        name = named(draws, site, label_SB.shape[1], self.nodes, self.names)
        return told(graph.question(name), label_SB, name[..., :1], torch.zeros_like(label_SB), NONE)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """A batch of every distribution at every distance; every second row has label 0."""
        label = (torch.arange(samples, device=stream.seeds_S.device) % 2).expand(len(stream.seeds_S), -1)
        for number, distribution in enumerate(self.distributions):
            for length in lengths:
                if length in distribution.lengths:
                    site = SITES * (2 * length + number)
                    if distribution.name == CYCLES:
                        text = self.probed(stream, site, length, label)
                    else:
                        text = self.asked(stream, site, torch.full_like(label, length), label)
                    yield EvaluationBatch(self.test_of(text, length), (length,), distribution.name)


def _by_node(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each node the first node of its cycle, and the size of the cycle.

    >>> _by_node((2, 3))
    ((0, 0, 2, 2, 2), (2, 2, 3, 3, 3))
    """
    firsts = [sum(sizes[:place]) for place in range(len(sizes))]
    return tuple(first for first, size in zip(firsts, sizes, strict=True) for _ in range(size)), tuple(
        size for size in sizes for _ in range(size)
    )
