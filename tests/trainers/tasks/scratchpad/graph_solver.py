"""Questions on graphs answered in plain Python from their words, and a model that answers them so."""

from collections import deque
from typing import TypeVar

from torch import Tensor

from tests.trainers.tasks.scratchpad.writer import Writer
from trainers.tasks.scratchpad.graph_task import GraphTask

Edge = tuple[str, str]
Node = TypeVar("Node")


def read(question: list[str]) -> tuple[list[Edge], str, str]:
    """The edges of a question, and the nodes that are asked for."""
    parts = [question[first : first + 4] for first in range(0, len(question), 4)]
    assert all(mark == ">" and end == ";" for _, mark, _, end in parts[:-1])
    source, asked, target, end = parts[-1]
    assert (asked, end) == ("?", ";")
    return [(tail, head) for tail, _, head, _ in parts[:-1]], source, target


def distances(edges: list[tuple[Node, Node]], source: Node) -> dict[Node, int]:
    """Steps of the shortest way to every node that there is a way to."""
    steps, waiting = {source: 0}, deque([source])
    while waiting:
        at = waiting.popleft()
        for tail, head in edges:
            if tail == at and head not in steps:
                steps[head] = steps[at] + 1
                waiting.append(head)
    return steps


def following(edges: list[Edge], node: str) -> str:
    """The only node that an edge leads to from here."""
    (head,) = (head for tail, head in edges if tail == node)
    return head


def answer(question: list[str], scratchpad: str) -> list[str]:
    """What is to be said behind a question."""
    edges, source, target = read(question)
    label = ["1" if target in distances(edges, source) else "0", "."]
    if scratchpad == "none":
        return label
    way = [source, following(edges, source)]
    while way[-1] not in (source, target):
        way.append(following(edges, way[-1]))
    mark = ">" if scratchpad == "full" else "#"
    path = [word for node in way for word in (node, mark)][:-1]
    return [*([":"] if mark == "#" else []), *path, ";", *label]


def words(task: GraphTask, tokens: Tensor) -> list[str]:
    """The tokens of a row as one reads them, without the pads on its right."""
    written = [task.vocabulary[token] for token in tokens.tolist()]
    return written[: max((position + 1 for position, word in enumerate(written) if word != " "), default=0)]


def solver(task: GraphTask) -> Writer:
    """The models of members that write what follows from the question."""

    def write(row: int, prompt: Tensor) -> list[int]:
        return [task.token(word) for word in answer(words(task, prompt), task.scratchpad)]

    return Writer(task.outputs, write)
