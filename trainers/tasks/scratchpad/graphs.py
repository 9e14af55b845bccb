"""Directed graphs as text: named nodes, edges in random order, and the question whether one node leads to another.

An edge is `a > b ;` and the question `x ? y ;`, each word a token; so a graph of E edges has 4 E + 4 tokens. The label
is 1 where there is a way from x to y, else 0 (Abbe et al., arXiv:2406.06467, in the layout of the authors' code).
Shapes: S seeds, B rows, N nodes, E edges.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from trainers.random.draws import order, sequential
from trainers.tasks.fixed_set import Draws
from trainers.tasks.parts import laid_out

SPECIALS = (" ", "#", ".", ":", ";", ">", "?", "|")
PAD, STATE, END, START, SEPARATOR, EDGE, ASKED, _ = range(len(SPECIALS))
DIGIT = len(SPECIALS)  # the token of the digit 0
FIRST_NAME = DIGIT + 10
_LARGEST = 2**32 - 1


@dataclass(frozen=True)
class Graph:
    """Edges of each row from the node `tails` to the node `heads`, int64 (S, B, E), of which `edges` (S, B) count.

    source and target (S, B): is there a way from the one to the other? Nodes are numbers from 0 on.
    """

    tails: Tensor
    heads: Tensor
    edges: Tensor
    source: Tensor
    target: Tensor

    def shuffled(self, draws: Draws, site: int) -> "Graph":
        """The same with its edges in random order; takes one site."""
        rows, edges = self.tails.shape[1:]
        place = torch.arange(edges, device=self.tails.device)
        word = torch.where(place < self.edges[..., None], draws.bits(site, (rows, edges)), _LARGEST)
        at = order(word, edges)  # of equal words the earlier first, so edges that do not count stay behind
        return replace(self, tails=self.tails.gather(-1, at), heads=self.heads.gather(-1, at))

    def question(self, name_SBN: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (S, B, 4 E + 4) and how many of them count (S, B), where each node has its name.

        >>> two, name = torch.tensor([[2]]), torch.tensor([[[20, 30]]])
        >>> Graph(torch.tensor([[[1, 0]]]), torch.tensor([[[0, 1]]]), two, two - 2, two - 1).question(name)[0].tolist()
        [[[30, 5, 20, 4, 20, 5, 30, 4, 20, 6, 30, 4]]]
        """
        tail, head = name_SBN.gather(-1, self.tails), name_SBN.gather(-1, self.heads)
        edge = torch.stack([tail, torch.full_like(tail, EDGE), head, torch.full_like(tail, SEPARATOR)], dim=-1)
        source, target = (name_SBN.gather(-1, of[..., None]) for of in (self.source, self.target))
        asked = [source, torch.full_like(source, ASKED), target, torch.full_like(source, SEPARATOR)]
        four = torch.full_like(self.edges, 4)
        width = 4 * self.tails.shape[-1] + 4
        text = laid_out([(edge.flatten(-2), 4 * self.edges), (torch.cat(asked, dim=-1), four)], width)
        return text, 4 * self.edges + 4


@lru_cache
def vocabulary(names: int) -> tuple[str, ...]:
    """Special tokens, digits and the names of nodes, v000 and so on; each kind sorted.

    >>> words = vocabulary(1000)
    >>> len(words), words[PAD], words[DIGIT], words[FIRST_NAME], words[-1]
    (1018, ' ', '0', 'v000', 'v999')
    """
    width = max(3, len(str(names - 1)))
    return (*SPECIALS, *"0123456789", *(f"v{number:0{width}}" for number in range(names)))


def named(draws: Draws, site: int, rows: int, nodes: int, names: int) -> Tensor:
    """The names of the nodes of each row, tokens (S, B, nodes), all different; takes one site."""
    return FIRST_NAME + distinct(draws, site, (rows, nodes), names)


def distinct(draws: Draws, site: int, shape: tuple[int, ...], high: int) -> Tensor:
    """Random numbers below `high`, int64 (S, *shape), those of the last dimension all different; takes one site."""
    word = draws.bits(site, shape)
    flat = word.flatten(1, -2).transpose(1, 2).contiguous()
    return sequential(flat, high).reshape(word.shape)


def cycles(first_SBN: Tensor, size_SBN: Tensor, nodes_SB: Tensor, source_SB: Tensor, target_SB: Tensor) -> Graph:
    """A graph of cycles: for each node the first node of its cycle, whose nodes are neighbours, and how many it has.

    >>> first, size = torch.tensor([[[0, 0, 2, 2, 2]]]), torch.tensor([[[2, 2, 3, 3, 3]]])
    >>> cycles(first, size, torch.tensor([[5]]), torch.tensor([[0]]), torch.tensor([[2]])).heads.tolist()
    [[[1, 0, 3, 4, 2]]]
    """
    node = torch.arange(first_SBN.shape[-1], device=first_SBN.device).expand_as(first_SBN)
    following = first_SBN + (node - first_SBN + 1) % size_SBN
    return Graph(node, following, nodes_SB, source_SB, target_SB)
