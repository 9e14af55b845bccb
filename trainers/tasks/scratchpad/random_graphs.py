"""Random directed graphs with a pair of nodes at a given distance (Erdos and Renyi, On random graphs, 1959).

A graph has E distinct edges of the N (N - 1) possible ones, all such graphs equally likely. Graphs are redrawn until
one has a pair at the given distance; its first pair by node number is used, as in the authors' code of
arXiv:2406.06467. Names are assigned at random, so node numbers carry no information.

Shapes must not depend on the draw, so TRIES graphs are drawn at once and the first with such a pair is used; a row
without such a graph gets one from `make_planted_graph`. Otherwise this is rejection sampling. With 24 nodes and edges a
graph has a pair at distance 4 with probability 0.95 (of 20,000 graphs; 0.999 at distance 3, 1 below and for unconnected
pairs), so one row in 2 * 10^10 at this distance is planted.
Shapes: S seeds, B rows, C drawn graphs, N nodes, E edges.
"""

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad.graphs import Graph, draw_distinct
from trainers.tensors.device_constants import make_constant

TRIES = 8  # graphs drawn for each row


def draw_graphs(draws: Draws, site: int, distance_SB: Tensor, nodes: int, edges: int, farthest: int) -> Graph:
    """Return drawn graphs with a pair of nodes at distance `distance_SB`, 0 for no path; takes one site.

    farthest: the largest distance. Raises ValueError if no such graph exists.
    """
    # A number below N (N - 1) is an edge: its tail, and its head among the other nodes.
    rows = distance_SB.shape[1]
    number = draw_distinct(draws, site, (rows, TRIES, edges), nodes * (nodes - 1))
    tails = number // (nodes - 1)
    heads = number % (nodes - 1)
    heads = heads + (heads >= tails)
    pair = find_first_pair(tails, heads, distance_SB[..., None], nodes, farthest)

    # The first graph with such a pair is as good as any; a row without one gets the planted graph.
    no_pair = nodes * nodes
    first_match = torch.where(pair < no_pair, torch.arange(TRIES, device=pair.device), TRIES).amin(dim=-1)
    planted = make_planted_graph(nodes, edges, farthest)
    graph = first_match.clamp(max=TRIES - 1)[..., None]
    has_match = (first_match < TRIES)[..., None]
    edge_index = graph[..., None].expand(*graph.shape, edges)
    tails, heads = (
        torch.where(has_match, drawn.gather(-2, edge_index)[..., 0, :], make_constant(fallback, pair.device))
        for drawn, fallback in zip((tails, heads), zip(*planted, strict=True), strict=True)
    )
    planted_pair = torch.where(distance_SB > 0, distance_SB, nodes - 1)  # from node 0
    asked_pair = torch.where(has_match[..., 0], pair.gather(-1, graph)[..., 0], planted_pair)
    return Graph(tails, heads, torch.full_like(distance_SB, edges), asked_pair // nodes, asked_pair % nodes)


def find_first_pair(tails: Tensor, heads: Tensor, distance: Tensor, nodes: int, farthest: int) -> Tensor:
    """Return N a + b for the first pair of nodes (a, b) at `distance` (...), 0 for no path; N^2 without a pair.

    tails, heads: nodes of the edges, (..., E). Distances follow from powers of the adjacency matrix.

    >>> line = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])
    >>> [int(find_first_pair(*line, torch.tensor(distance), 4, 3)) for distance in (0, 1, 2, 3)]
    [4, 1, 2, 3]
    """
    # A pair is at distance d > 0 if it is reached in d steps and not in d - 1; a step may also stay at its node.
    shape = (*tails.shape[:-1], nodes * nodes)
    step = torch.zeros(shape, device=tails.device).scatter_(-1, tails * nodes + heads, 1.0)
    step = step.reshape(*shape[:-1], nodes, nodes) + torch.eye(nodes, device=tails.device)
    distance = distance[..., None, None]
    is_reached = step > 0.0
    is_match = torch.zeros_like(is_reached)
    is_reached_before = torch.eye(nodes, device=tails.device) > 0.0
    for steps in range(1, farthest + 1):
        is_match = torch.where(distance == steps, is_reached & ~is_reached_before, is_match)
        if steps < farthest:
            is_reached_before = is_reached
            is_reached = torch.matmul(is_reached.float(), step) > 0.0

    # Squaring doubles the number of steps; a path never needs more than N - 1.
    steps = farthest
    while steps < nodes - 1:
        is_reached = torch.matmul(is_reached.float(), is_reached.float()) > 0.0
        steps = 2 * steps
    is_match = torch.where(distance == 0, ~is_reached, is_match).flatten(-2)
    return torch.where(is_match, torch.arange(nodes * nodes, device=tails.device), nodes * nodes).amin(dim=-1)


def make_planted_graph(nodes: int, edges: int, farthest: int) -> tuple[tuple[int, int], ...]:
    """Return edges of a graph with distance k from node 0 to node k, k up to `farthest`, and no path to the last node.

    Raises ValueError for too few edges or nodes, or too many edges.

    >>> make_planted_graph(4, 5, 2)
    ((0, 1), (1, 2), (1, 0), (2, 0), (2, 1))
    """
    # These edges keep the distances: the line, edges back along it, and edges away from the last node.
    line = [(k, k + 1) for k in range(farthest)]
    back = [(a, b) for a in range(nodes - 1) for b in range(a)]
    away = [(nodes - 1, b) for b in range(nodes - 1)]
    possible = [*line, *back, *away]
    if not farthest < nodes - 1 or not farthest <= edges <= len(possible):
        raise ValueError(
            f"{edges} edges of {nodes} nodes with distances up to {farthest}; allowed: at least {farthest + 2} nodes "
            f"and {farthest} to {len(possible)} edges"
        )
    return tuple(possible[:edges])
