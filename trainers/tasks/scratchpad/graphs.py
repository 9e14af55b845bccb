"""Directed graphs as text: named nodes, edges in random order, and the question whether a node leads to another.

An edge is `a > b ;` and the question `x ? y ;`, each word a token; so a graph of E edges has 4 E + 4 tokens. The label
is 1 if there is a path from x to y, else 0 (Abbe et al., arXiv:2406.06467, in the layout of the authors' code).
Shapes: S seeds, B rows, N nodes, E edges.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from trainers.random.draws import argsort_smallest, draw_prefixes
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import join_parts

SPECIALS = (" ", "#", ".", ":", ";", ">", "?", "|")
PAD, STATE, END, START, SEPARATOR, EDGE, ASKED, _ = range(len(SPECIALS))
DIGIT = len(SPECIALS)  # the token of the digit 0
FIRST_NAME = DIGIT + 10
_LAST_WORD = 2**32 - 1  # sorts unused edges last


@dataclass(frozen=True)
class Graph:
    """Directed edges of each row, and the nodes of its question; nodes are numbers from 0.

    tails, heads: the nodes where edges begin and end, int64 (S, B, E), of which the first `edges` (S, B) are used.
    source, target: the nodes of the question, (S, B).
    """

    tails: Tensor
    heads: Tensor
    edges: Tensor
    source: Tensor
    target: Tensor

    def shuffle_edges(self, draws: Draws, site: int) -> "Graph":
        """Return the graph with its edges in random order; takes one site."""
        rows, edges = self.tails.shape[1:]
        number = torch.arange(edges, device=self.tails.device)
        word = torch.where(number < self.edges[..., None], draws.bits(site, (rows, edges)), _LAST_WORD)
        order = argsort_smallest(word, edges)  # stable, so unused edges stay last
        return replace(self, tails=self.tails.gather(-1, order), heads=self.heads.gather(-1, order))

    def write_question(self, name_SBN: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of the question, (S, B, 4 E + 4), and their number (S, B); name_SBN: names of the nodes.

        >>> two, name = torch.tensor([[2]]), torch.tensor([[[20, 30]]])
        >>> graph = Graph(torch.tensor([[[1, 0]]]), torch.tensor([[[0, 1]]]), two, two - 2, two - 1)
        >>> graph.write_question(name)[0].tolist()
        [[[30, 5, 20, 4, 20, 5, 30, 4, 20, 6, 30, 4]]]
        """
        tail = name_SBN.gather(-1, self.tails)
        head = name_SBN.gather(-1, self.heads)
        edge = torch.stack([tail, torch.full_like(tail, EDGE), head, torch.full_like(tail, SEPARATOR)], dim=-1)
        source, target = (name_SBN.gather(-1, node[..., None]) for node in (self.source, self.target))
        query = [source, torch.full_like(source, ASKED), target, torch.full_like(source, SEPARATOR)]

        # Rows may have fewer edges than the widest row: only used ones come before the question.
        four = torch.full_like(self.edges, 4)
        width = 4 * self.tails.shape[-1] + 4
        text = join_parts([(edge.flatten(-2), 4 * self.edges), (torch.cat(query, dim=-1), four)], width)
        return text, 4 * self.edges + 4


@lru_cache
def list_vocabulary(names: int) -> tuple[str, ...]:
    """Return all tokens as text: special tokens, digits and names of nodes (v000, ...), each group sorted.

    >>> words = list_vocabulary(1000)
    >>> len(words), words[PAD], words[DIGIT], words[FIRST_NAME], words[-1]
    (1018, ' ', '0', 'v000', 'v999')
    """
    width = max(3, len(str(names - 1)))
    return (*SPECIALS, *"0123456789", *(f"v{number:0{width}}" for number in range(names)))


def draw_names(draws: Draws, site: int, rows: int, nodes: int, names: int) -> Tensor:
    """Return drawn distinct names for the nodes of each row, tokens (S, B, nodes); takes one site."""
    return FIRST_NAME + draw_distinct(draws, site, (rows, nodes), names)


def draw_distinct(draws: Draws, site: int, shape: tuple[int, ...], high: int) -> Tensor:
    """Return drawn integers below `high`, int64 (S, *shape), distinct in the last dimension; takes one site."""
    word = draws.bits(site, shape)
    flat = word.flatten(1, -2).transpose(1, 2).contiguous()
    return draw_prefixes(flat, high).reshape(word.shape)


def make_cycle_graph(
    first_SBN: Tensor, size_SBN: Tensor, nodes_SB: Tensor, source_SB: Tensor, target_SB: Tensor
) -> Graph:
    """Return a graph of cycles of consecutive nodes, given the first node and the size of each node's cycle.

    >>> first, size = torch.tensor([[[0, 0, 2, 2, 2]]]), torch.tensor([[[2, 2, 3, 3, 3]]])
    >>> make_cycle_graph(first, size, torch.tensor([[5]]), torch.tensor([[0]]), torch.tensor([[2]])).heads.tolist()
    [[[1, 0, 3, 4, 2]]]
    """
    node = torch.arange(first_SBN.shape[-1], device=first_SBN.device).expand_as(first_SBN)
    following = first_SBN + (node - first_SBN + 1) % size_SBN
    return Graph(node, following, nodes_SB, source_SB, target_SB)
