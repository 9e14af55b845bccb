"""Ways in random graphs: a solver that reads the words, shares of distances, probes of cycles, and what is scored."""

from collections import Counter
from typing import Any

import pytest
import torch

from tests.trainers.tasks.scratchpad.graph_solver import answer, distances, read, solver, words
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.scratchpad.reachability import Reachability

DATA = Stream(torch.tensor([1]), "data", torch.tensor(1))
EVAL = Stream(torch.tensor([1]), "eval", torch.tensor(0))
SMALL: dict[str, Any] = {"nodes": 8, "edges": 8, "farthest": 2, "probes": [2], "other_cycles": [2], "names": 12}


def task_of(**settings: Any) -> Reachability:
    return build("task", {"name": "reachability", **settings})


def distance(question: list[str]) -> int:
    """Steps of the shortest way; 0: there is none."""
    edges, source, target = read(question)
    assert source != target
    return distances(edges, source).get(target, 0)


@pytest.mark.parametrize("case", [{}, SMALL])
def test_training_rows_are_right_and_have_every_distance_as_often_as_they_should(case: dict[str, Any]) -> None:
    task = task_of(**case)
    (batch,) = task.sample(DATA, 800)
    seen = Counter[int]()
    for row in batch.tokens[0]:
        row_words = words(task, row)
        assert [*row_words[-1:], "."] == answer(row_words[:-1], "none") and len(row_words) == 4 * task.edges + 5
        edges, _, _ = read(row_words[:-1])
        assert len(set(edges)) == task.edges and all(tail != head for tail, head in edges)
        seen[distance(row_words[:-1])] += 1
    assert set(seen) == set(range(task.farthest + 1))
    for steps, count in seen.items():
        each = 400 if steps == 0 else 400 / task.farthest
        assert abs(count - each) < 5 * each**0.5


@pytest.mark.parametrize("case", [{}, SMALL])
def test_tests_ask_for_their_distance_and_who_reads_the_graph_answers_all(case: dict[str, Any]) -> None:
    task = task_of(**case)
    given = []
    for test in task.evaluation_batches(EVAL, 40, task.lengths):
        (length,) = test.lengths
        given.append((test.distribution, length))
        for row, prompt in enumerate(test.batch.prompt[0]):
            question = words(task, prompt)
            assert distance(question) == (length if row % 2 else 0)
            assert words(task, test.batch.answer[0, row]) == answer(question, "none")
        scores = task.reduce(task.score_batch(solver(task), test.batch, test.lengths), test.batch, test.lengths)
        assert all((value == 1).all() for name, value in scores.items() if not name.endswith("_loss"))
    probes = [("cycles", length) for length in task.probes]
    assert given == [("random", length) for length in task.trained_lengths] + probes


def test_probes_are_the_cycles_of_the_paper() -> None:
    task = task_of()
    for test in task.evaluation_batches(EVAL, 6, task.lengths):
        if test.distribution == "random":
            continue
        for row, prompt in enumerate(test.batch.prompt[0]):
            edges, source, target = read(words(task, prompt))
            following = dict(edges)
            sizes = Counter(len(distances(edges, node)) for node in following)
            connected, pairs = {
                2: ([4, 10, 10], [2, 2, 10, 10]),
                3: ([6] * 4, [3, 3, 6, 6, 6]),
                4: ([8] * 3, [4, 4, 8, 8]),
            }[test.lengths[0]]
            wanted = connected if row % 2 else pairs
            assert sizes == Counter(size for size in wanted for _ in range(size))
            assert len(distances(edges, source)) == wanted[0]
            assert row % 2 or len(distances(edges, target)) == wanted[1]


def test_each_label_is_scored_apart() -> None:
    task = task_of(**SMALL)
    (test, *_) = task.evaluation_batches(EVAL, 8, (1,))
    written = test.batch.answer.clone()
    written[0, 1, 0] = task.token("0")  # a question with a way is answered wrongly
    written[0, 2, 1] = 0  # no end mark
    written[0, 4, 1] = task.token(";")
    rows = {name: value[..., None] for name, value in task.score_generated(written, test.batch).items()}
    solved = task.score_rows(solver(task)(test.batch), test.batch, (1,))
    scores = task.reduce({**rows, **solved}, test.batch, (1,))
    assert [float(scores[name]) for name in task.generation_metrics] == [5 / 8, 2 / 4, 3 / 4]


def test_metrics_of_both_distributions_are_recorded(member) -> None:
    changes = {
        "task": {"name": "reachability", **SMALL, "probes": [2, 3], "other_cycles": [2, 1]},
        "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2},
    }
    pack = Pack([member(0, **changes)], torch.device("cpu"))
    names, values = evaluate(pack, TrainingState.make_initial(pack))
    there = {name: values[0, 0, column] for column, name in enumerate(names)}
    assert pack.lengths == (1, 2, 3)
    for name in ("exact_match", "connected", "unconnected"):
        assert [value == value for value in there[name].tolist()] == [True, True, False]
        assert [value == value for value in there[f"{name}.cycles"].tolist()] == [False, True, True]


def test_probes_may_use_all_nodes_or_be_none() -> None:
    assert task_of(**{**SMALL, "probes": [4], "other_cycles": [0]}).cycle_sizes(4) == ((4, 4), (8,))
    task = task_of(**{**SMALL, "probes": [], "other_cycles": []})
    assert [distribution.name for distribution in task.distributions] == ["random"]
