"""Graphs as text, and random graphs with a pair at a wanted distance: against rejection sampling in plain Python."""

import random
from collections import Counter

import pytest
import torch

from tests.trainers.tasks.scratchpad.graph_solver import distances
from trainers.random import Stream, draws, reference
from trainers.tasks.scratchpad.graphs import FIRST_NAME, Graph, draw_distinct, draw_names
from trainers.tasks.scratchpad.random_graphs import draw_graphs, find_first_pair, make_planted_graph

STREAM = Stream(torch.tensor([3, 8]), "data", torch.tensor(1))


def edges_of(graph: Graph, seed: int, row: int) -> list[tuple[int, int]]:
    pairs = zip(graph.tails[seed, row].tolist(), graph.heads[seed, row].tolist(), strict=True)
    return list(pairs)[: int(graph.edges[seed, row])]


def pairs_at(edges: list[tuple[int, int]], wanted: int, nodes: int) -> list[tuple[int, int]]:
    pairs = [(a, b, distances(edges, a).get(b, -1)) for a in range(nodes) for b in range(nodes)]
    return [(a, b) for a, b, steps in pairs if steps == (wanted or -1)]


@pytest.mark.parametrize("take", [3, 24, draws.c_library.MAX_ENTRIES, draws.c_library.MAX_ENTRIES + 1])
def test_names_are_all_different_and_every_one_occurs(take: int) -> None:
    name = draw_names(STREAM, 5, 200, take, 70)
    assert name.shape == (2, 200, take) and not torch.equal(name[0], name[1])
    assert all(len(set(row)) == take for row in name.flatten(0, 1).tolist())
    assert set(name.flatten().tolist()) == set(range(FIRST_NAME, FIRST_NAME + 70))
    words = STREAM.bits(5, (200, take)).transpose(1, 2).contiguous()
    assert torch.equal(name - FIRST_NAME, reference.draw_prefixes(words, 70))


def test_distinct_numbers_of_several_dimensions_differ_in_the_last_one() -> None:
    numbers = draw_distinct(STREAM, 5, (40, 3, 6), 7)
    assert numbers.shape == (2, 40, 3, 6)
    assert all(len(set(row)) == 6 for row in numbers.flatten(0, 2).tolist())


def test_edges_are_shuffled_and_those_that_do_not_count_stay_behind() -> None:
    line = torch.arange(5).expand(2, 6000, 5)
    count = 1 + torch.arange(6000).expand(2, 6000) % 5
    graph = Graph(line, line + 1, count, count, count).shuffle_edges(STREAM, 7)
    assert torch.equal(graph.heads, graph.tails + 1)
    seen = Counter(tuple(graph.tails[0, row, : row % 5 + 1].tolist()) for row in range(6000))
    assert all(sorted(order) == list(range(len(order))) for order in seen)
    assert {len(order): sum(len(other) == len(order) for other in seen) for order in seen} == {
        1: 1, 2: 2, 3: 6, 4: 24, 5: 120
    }  # fmt: skip


@pytest.mark.parametrize(("nodes", "edges", "farthest"), [(6, 6, 3), (5, 8, 2), (24, 24, 4)])
def test_a_random_graph_has_its_pair_at_the_wanted_distance(nodes: int, edges: int, farthest: int) -> None:
    wanted = (torch.arange(60) % (farthest + 1)).expand(2, 60)
    graph = draw_graphs(STREAM, 3, wanted, nodes, edges, farthest)
    for seed in range(2):
        for row in range(60):
            drawn = edges_of(graph, seed, row)
            assert len(set(drawn)) == edges and all(a != b for a, b in drawn)
            pair = int(graph.source[seed, row]), int(graph.target[seed, row])
            assert pair == pairs_at(drawn, row % (farthest + 1), nodes)[0]


@pytest.mark.slow
def test_random_graphs_follow_rejection_sampling() -> None:
    """Every graph of 4 nodes and 3 edges with a pair at distance 2 occurs as often as when one draws until it fits."""
    rows = 20000
    graph = draw_graphs(STREAM, 3, torch.full((2, rows), 2), 4, 3, 2)
    seen = Counter(frozenset(edges_of(graph, seed, row)) for seed in range(2) for row in range(rows))
    possible = [(a, b) for a in range(4) for b in range(4) if a != b]
    generator, fitting = random.Random(0), set()
    for _ in range(4000):
        edges = frozenset(generator.sample(possible, 3))
        if pairs_at(list(edges), 2, 4):
            fitting.add(edges)
    assert set(seen) == fitting
    each = 2 * rows / len(fitting)
    chi = sum((count - each) ** 2 / each for count in seen.values())
    assert chi < len(fitting) + 5 * (2 * len(fitting)) ** 0.5


def test_where_no_graph_fits_the_planted_one_stands_in() -> None:
    """Distance 10 of 12 nodes and 11 edges: none of a few graphs fits."""
    for wanted in range(11):
        graph = draw_graphs(STREAM, 3, torch.full((2, 2), wanted), 12, 11, 10)
        drawn = edges_of(graph, 1, 1)
        pair = int(graph.source[1, 1]), int(graph.target[1, 1])
        assert pair in pairs_at(drawn, wanted, 12)
    assert drawn == list(make_planted_graph(12, 11, 10)) and pair == (0, 10)


@pytest.mark.parametrize(("nodes", "edges", "farthest"), [(5, 3, 4), (5, 2, 3), (5, 99, 3)])
def test_a_graph_that_cannot_be_is_refused(nodes: int, edges: int, farthest: int) -> None:
    with pytest.raises(ValueError, match="allowed: at least"):
        make_planted_graph(nodes, edges, farthest)


@pytest.mark.parametrize("farthest", [1, 2, 3, 4])
def test_planted_graphs_have_every_distance(farthest: int) -> None:
    for edges in range(farthest, farthest + 15):
        graph = list(make_planted_graph(7, edges, farthest))
        assert len(set(graph)) == edges
        steps = distances(graph, 0)
        assert all(steps[step] == step for step in range(farthest + 1)) and 6 not in steps


def test_the_first_matching_pair_is_found_and_a_missing_one_is_marked() -> None:
    tails, heads = torch.tensor([[0, 1], [0, 0]]), torch.tensor([[1, 2], [1, 2]])
    assert find_first_pair(tails, heads, torch.tensor([2, 2]), 3, 2).tolist() == [2, 9]
    assert find_first_pair(tails, heads, torch.tensor([0, 0]), 3, 2).tolist() == [3, 3]
