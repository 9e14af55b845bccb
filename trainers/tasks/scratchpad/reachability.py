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
from trainers.tasks.parts import draw_below
from trainers.tasks.scratchpad.graph_task import GraphTask, write_answers
from trainers.tasks.scratchpad.graphs import DIGIT, Graph, draw_names, make_cycle_graph
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.random_graphs import draw_graphs, make_planted_graph
from trainers.tasks.scratchpad.scratchpad_task import NONE, SITES_PER_DRAW
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.task import Batch, Distribution, EvaluationBatch
from trainers.tensors.device_constants import make_constant

CYCLES = "cycles"  # name of the second test distribution
_BY_LABEL = ("unconnected", "connected")


@register("task", "reachability")
class Reachability(GraphTask):
    """Input: a random directed graph and two of its nodes. Output: whether a path leads from the first to the second.

    A graph has `edges` distinct edges, all graphs equally likely. Half of the questions have label 0: no path. The
    shortest path of the others has 1 to `farthest` steps, equally often; length is this number. At each length half of
    the test questions have label 0, so the mean over lengths is the accuracy in training.

    If none of eight graphs has a pair at the distance of a row, the row gets a fixed graph (`make_planted_graph`). So
    choose sizes for which pairs at `farthest` are common: 95 % of graphs with 24 nodes and edges have a pair at
    distance 4, but only 8 % of graphs with 12 nodes and 6 edges, so that half of the rows would be the same graph.

    A second distribution, `cycles`, has the same numbers of nodes and edges, but the degrees of nodes carry no
    information: at distance d the two nodes are on two cycles of d nodes (label 0), or on a cycle of 2 d nodes
    (label 1). The other nodes form equal cycles.

    >>> task = Reachability(nodes=4, edges=3, farthest=2, probes=(), other_cycles=(), names=9)
    >>> batch = task.sample(Stream(torch.tensor([2]), "data", torch.tensor(1)), 1)[0]
    >>> " ".join(task.format_row(batch, 0)[0])
    'v000 > v003 ; v002 > v000 ; v006 > v002 ; v002 ? v003 ; 1'
    >>> Reachability().cycle_sizes(3)
    ((3, 3, 6, 6, 6), (6, 6, 6, 6))
    """

    scratchpad: str = setting(NONE, choices=(NONE,), help="none, as in the paper")
    nodes: int = setting(24, low=3, help="nodes of a graph")
    edges: int = setting(24, low=1, help="edges of a graph")
    farthest: int = setting(4, low=1, help="largest distance of two connected nodes")
    probes: tuple[int, ...] = setting((2, 3, 4), low=2, help="test distances in the distribution `cycles`")
    other_cycles: tuple[int, ...] = setting((2, 3, 2), low=0, help="for each probe, number of cycles of other nodes")

    generation_metrics = ("exact_match", *_BY_LABEL)  # of label and end mark: in total, and for each label

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of graphs that do not exist, and of too few names."""
        yield from super().find_combination_problems()
        yield from self.find_name_problems(self.nodes)
        try:
            make_planted_graph(self.nodes, self.edges, self.farthest)
        except ValueError as error:
            sizes, _, allowed = str(error).partition("; allowed: ")
            yield self._make_problem("edges", f"no graph has {sizes}", allowed)

        # Every node of a graph of cycles has one edge to the next node.
        if self.probes and self.nodes != self.edges:
            message = f"{self.edges} edges do not make cycles of all {self.nodes} nodes"
            yield self._make_problem("edges", message, f"{self.nodes}, or probes: []")
        if len(self.other_cycles) != len(self.probes) or len({*self.probes}) != len(self.probes):
            message = f"does not match the probes {list(self.probes)}"
            yield self._make_problem("other_cycles", message, "one number for each probe, and distinct probes")
            return
        for distance, count in zip(self.probes, self.other_cycles, strict=True):
            nodes = self.nodes - 2 * distance
            is_impossible = nodes != 0 if count == 0 else nodes < 2 * count or nodes % count != 0
            if is_impossible:
                message = f"{count} equal cycles cannot have the {max(nodes, 0)} other nodes at distance {distance}"
                allowed = "divisors of the number of other nodes, with cycles of 2 nodes or more"
                yield self._make_problem("other_cycles", message, allowed)

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The distances of connected pairs."""
        return tuple(range(1, self.farthest + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Distances that can be evaluated, in either distribution."""
        return tuple(sorted({*self.trained_lengths, *self.probes}))

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """Random graphs as in training, and graphs of cycles."""
        random = Distribution("random", self.trained_lengths, self.trained_lengths)
        return (random, Distribution(CYCLES, tuple(sorted(self.probes)))) if self.probes else (random,)

    def score_generated(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Return whether each row is right by each of `generation_metrics`, (M, B); NaN for rows of the other label."""
        exact = (written_MBG == batch.answer).all(dim=-1).float()
        label = batch.answer[..., 0] - DIGIT
        by_label = {name: torch.where(label == number, exact, torch.nan) for number, name in enumerate(_BY_LABEL)}
        return {"exact_match": exact, **by_label}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return shares of right rows, of all rows and of the rows of each label, (M, 1)."""
        return {**super().reduce(rows, batch, lengths), **{name: rows[name].nanmean(dim=1) for name in _BY_LABEL}}

    def cycle_sizes(self, distance: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sizes of the cycles of a probe for label 0 and for label 1; the first cycle has the first node."""
        count = self.other_cycles[self.probes.index(distance)]
        lengths = ((self.nodes - 2 * distance) // count,) * count if count else ()
        return (distance, distance, *lengths), (2 * distance, *lengths)

    def question_width(self, length: int) -> int:
        """Return the number of tokens of a question."""
        return 4 * self.edges + 4

    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the number of tokens of the label and the end mark."""
        return (2,)

    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn questions on random graphs, half of them at these distances; uses sites `site` to `site + 2`."""
        label = draw_below(draws, site, tuple(length_SB.shape[1:]), 2)
        return self.draw_question(draws, site + 1, length_SB, label)

    def draw_question(self, draws: Draws, site: int, length_SB: Tensor, label_SB: Tensor) -> Text:
        """Return drawn questions on random graphs with these labels; uses sites `site` and `site + 1`."""
        graph = draw_graphs(draws, site, length_SB * label_SB, self.nodes, self.edges, self.farthest)
        return self._write_text(draws, site + 1, graph, label_SB)

    def draw_probe(self, draws: Draws, site: int, length: int, label_SB: Tensor) -> Text:
        """Return drawn questions on graphs of cycles with these labels; uses sites `site` and `site + 1`."""
        # The cycles of both labels are constants, so a row only selects the cycles of its label.
        device = label_SB.device
        is_one = label_SB[..., None] > 0
        (first_0, size_0), (first_1, size_1) = map(_list_node_cycles, self.cycle_sizes(length))
        first = torch.where(is_one, make_constant(first_1, device), make_constant(first_0, device))
        size = torch.where(is_one, make_constant(size_1, device), make_constant(size_0, device))

        # Node `length` has this distance from node 0; with label 0 it is the first node of the second cycle.
        nodes = torch.full_like(label_SB, self.nodes)
        target = torch.full_like(label_SB, length)
        graph = make_cycle_graph(first, size, nodes, torch.zeros_like(label_SB), target)
        return self._write_text(draws, site, graph.shuffle_edges(draws, site + 1), label_SB)

    def _write_text(self, draws: Draws, site: int, graph: Graph, label_SB: Tensor) -> Text:
        """Return questions on graphs with random names, answered by their labels; takes one site."""
        name = draw_names(draws, site, label_SB.shape[1], self.nodes, self.names)
        return write_answers(graph.write_question(name), label_SB, name[..., :1], torch.zeros_like(label_SB), NONE)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a batch of every distribution at every distance; every second row has label 0."""
        label = (torch.arange(samples, device=stream.seeds_S.device) % 2).expand(len(stream.seeds_S), -1)
        for number, distribution in enumerate(self.distributions):
            for length in lengths:
                if length in distribution.lengths:
                    site = SITES_PER_DRAW * (2 * length + number)
                    if distribution.name == CYCLES:
                        text = self.draw_probe(stream, site, length, label)
                    else:
                        text = self.draw_question(stream, site, torch.full_like(label, length), label)
                    yield EvaluationBatch(self.test_batch(text, length), (length,), distribution.name)


def _list_node_cycles(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return for each node the first node of its cycle, and the size of the cycle.

    >>> _list_node_cycles((2, 3))
    ((0, 0, 2, 2, 2), (2, 2, 3, 3, 3))
    """
    cycles = [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]
    firsts = tuple(first for first, size in cycles for _ in range(size))
    return firsts, tuple(size for size in sizes for _ in range(size))
