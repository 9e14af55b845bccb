"""Graphs of cycles: worked examples, a solver that reads the words, what is drawn, and what counts as right."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.trainers.tasks.scratchpad.graph_solver import answer, distances, following, read, solver, words
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.scratchpad.cycles import Cycles
from trainers.tasks.scratchpad.graph_task import write_answers
from trainers.tasks.scratchpad.graphs import Graph

FORMS = ("none", "full", "inductive")
DATA = Stream(torch.tensor([1]), "data", torch.tensor(1))
EVAL = Stream(torch.tensor([1]), "eval", torch.tensor(0))
TEXT = "v859 > v298 ; v298 > v993 ; v672 > v971 ; v971 > v553 ; v553 > v672 ; v993 > v859 ; v993 ? v553 ;"
QUESTION = TEXT.split()
WAY = ["v993", "v859", "v298", "v993"]


def task_of(**settings: Any) -> Cycles:
    return build("task", {"name": "cycles", **settings})


def worked(task: Cycles):
    """The example of n = 3 as a batch of one row, as it is trained on and as it is tested."""
    node = [task.token(word) for word in WAY[:3]] + [task.token(word) for word in ("v672", "v971", "v553")]
    edges, source, target = read(QUESTION)
    number = {task.vocabulary[token]: index for index, token in enumerate(node)}
    tails, heads = (torch.tensor([[[number[edge[end]] for edge in edges]]]) for end in (0, 1))
    ones = torch.ones(1, 1, dtype=torch.int64)
    graph = Graph(tails, heads, 6 * ones, number[source] * ones, number[target] * ones)
    way = torch.tensor([[[task.token(word) for word in WAY]]])
    text = write_answers(graph.write_question(torch.tensor([[node]])), 0 * ones, way, 3 * ones, task.scratchpad)
    return task.test_batch(text, 3)


def test_the_worked_example_in_inductive_form() -> None:
    """39 tokens, 45 with copies; the last one is no input. Groups, ids and trained targets, token by token."""
    task = task_of(size=3)
    batch = worked(task)
    states = ["v993", "#", "v993", "#", "v859", "#", "v859", "#", "v298", "#", "v298", "#", "v993", ";", "0"]
    assert words(task, batch.tokens[0, 0]) == [*QUESTION, ":", *states] and batch.tokens.shape[-1] == 44
    assert batch.ids[0, 0].tolist() == [*range(29), 29, 30, *[29, 30, 31, 32] * 2, 29, 30, 31, 32, 33]
    assert batch.groups[0, 0].tolist() == [0] * 29 + [1] * 2 + [2] * 4 + [3] * 4 + [4] * 5
    assert batch.weight[0, 0].tolist() == [1.0] * 30 + [0.0, 0.0, 1.0, 1.0] * 2 + [0.0, 0.0] + [1.0] * 4
    expected = [":", "v993", "#", "v859", "#", "v298", "#", "v993", ";", "0", "."]
    assert words(task, batch.answer[0, 0]) == expected == answer(QUESTION, "inductive")
    assert words(task, batch.prompt[0, 0]) == QUESTION and len(QUESTION) + len(expected) == 39


def test_the_worked_example_in_the_other_forms() -> None:
    full, none = task_of(size=3, scratchpad="full"), task_of(size=3, scratchpad="none")
    expected = ["v993", ">", "v859", ">", "v298", ">", "v993", ";", "0", "."]
    assert words(full, worked(full).tokens[0, 0]) == [*QUESTION, *expected[:-1]]
    assert words(full, worked(full).answer[0, 0]) == expected == answer(QUESTION, "full")
    assert words(none, worked(none).tokens[0, 0]) == [*QUESTION, "0"]
    assert words(none, worked(none).answer[0, 0]) == ["0", "."] == answer(QUESTION, "none")
    assert worked(full).groups is None and worked(full).ids is None


@pytest.mark.parametrize("length", [2, 3, 5, 7])
def test_lengths_of_rows(length: int) -> None:
    inductive, full, none = (task_of(size=length, scratchpad=form) for form in reversed(FORMS))
    assert inductive.widths(length).full == 10 * length + 9
    assert inductive.widths(length).masked == 12 * length + 9 == inductive.train_positions + 1
    assert full.widths(length).full == 10 * length + 8 == full.train_positions + 1
    assert none.widths(length).full == 8 * length + 6
    assert len(inductive.vocabulary) == 1018
    out = task_of(size=6, test_sizes=[12], nodes=24)
    assert [out.widths(size).full for size in (6, 12)] == [117, 129] and out.widths(6).masked == 129


CASES: dict[str, dict[str, Any]] = {
    "one length": {"size": 4},
    "mixed": {"smallest": 2, "size": 4, "names": 12},
    "as many nodes": {"smallest": 2, "size": 3, "test_sizes": [4], "nodes": 8, "names": 9},
}


def rows_of(task: Cycles, batch) -> list[list[str]]:
    assert batch.tokens.shape[0] == 1
    rows = (words(task, row) for row in batch.tokens[0])
    return [row[:-1] if row[-1] == "." else row for row in rows]  # an end mark is an input of shorter rows alone


def checked(task: Cycles, question: list[str], length: int, nodes: int) -> str:
    """The label of a question, whose graph has the form that is promised."""
    edges, source, target = read(question)
    tails, heads = zip(*edges, strict=True)
    assert len(edges) == nodes and len(set(tails)) == nodes and set(tails) == set(heads) <= set(task.vocabulary[18:])
    steps = distances(edges, source)
    if target in steps:
        assert steps[target] == length and len(steps) == nodes
        return "1"
    assert len(steps) == length and len(distances(edges, target)) == nodes - length
    return "0"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_who_reads_the_question_knows_the_answer_at_every_length(case: str, form: str) -> None:
    task = task_of(**CASES[case], scratchpad=form)
    for test in task.evaluation_batches(EVAL, 200, task.lengths):
        (length,) = test.lengths
        labels = Counter[str]()
        for row in range(200):
            question = words(task, test.batch.prompt[0, row])
            labels[checked(task, question, length, task.count_nodes(length))] += 1
            assert words(task, test.batch.answer[0, row]) == answer(question, form)
        assert 70 < labels["1"] < 130
        scores = task.reduce(task.score_batch(solver(task), test.batch, test.lengths), test.batch, test.lengths)
        assert set(scores) == {name for name in task.metrics if not name.startswith("steps_to")}
        assert all((value == 1).all() for name, value in scores.items() if not name.endswith("_loss"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_training_rows_read_back_state_by_state(case: str, form: str) -> None:
    """Every node on a way follows from the one before; lengths and labels occur equally often; names, too."""
    task = task_of(**CASES[case], scratchpad=form)
    seen, first = Counter[tuple[int, str]](), Counter[str]()
    for batch in task.sample(DATA, 600):
        for row in rows_of(task, batch):
            cut = row.index("?") + 3
            edges, source, target = read(row[:cut])
            length = distances(edges, source).get(target) or len(distances(edges, source))
            label = checked(task, row[:cut], length, task.count_nodes(length))
            assert row[-1] == label
            if form != "none":
                nodes = [word for word in row[cut:] if word.startswith("v")]
                way = nodes if form == "full" else [nodes[0], *nodes[2::2]]
                assert all(after == following(edges, before) for before, after in pairwise(way))
                assert way[0] == source and way[-1] == (target if label == "1" else source) and len(way) == length + 1
                assert form == "full" or nodes[1::2] == way[:-1]
            seen[length, label] += 1
            first[source] += 1
    each = 600 / (2 * len(task.trained_lengths))
    assert len(seen) == 2 * len(task.trained_lengths) and all(
        abs(count - each) < 5 * each**0.5 for count in seen.values()
    )
    if task.names < 20:
        assert len(first) == task.names


def test_training_has_no_graph_of_the_test() -> None:
    """(3, 9) and a cycle of 12 asked at 3 in training, (6, 6) and 12 at 6 in the test: as many edges, other cycles."""
    task = task_of(size=3, test_sizes=[6], nodes=12, names=64)
    (batch,) = task.sample(DATA, 300)
    steps = Counter()
    for row in rows_of(task, batch):
        edges, source, target = read(row[: row.index("?") + 3])
        reached = distances(edges, source)
        steps[reached.get(target), len(reached)] += 1
    assert set(steps) == {(3, 12), (None, 3)}
    (test,) = task.evaluation_batches(EVAL, 300, (6,))
    for prompt in test.batch.prompt[0]:
        edges, source, target = read(words(task, prompt))
        reached = distances(edges, source)
        assert (reached.get(target), len(reached)) in {(6, 12), (None, 6)}


@pytest.mark.parametrize("form", FORMS)
def test_what_counts_as_right(form: str) -> None:
    """A wrong label, no end mark, a wrong node on the way with the right label, and a token after the end mark."""
    task = task_of(size=4, scratchpad=form)
    (test,) = task.evaluation_batches(EVAL, 6, (4,))
    written = test.batch.answer.clone()
    end = (written[0] == task.token(".")).int().argmax(dim=-1)
    zero = task.token("0")
    for row in range(6):
        assert written[0, row, end[row]] == task.token(".")
    written[0, 1, end[1] - 1] = 2 * zero + 1 - written[0, 1, end[1] - 1]  # the other label
    written[0, 2, end[2]] = 0  # no end mark
    if form != "none":
        written[0, 3, end[3] - 5] = task.token("v000")  # a wrong node
    written[0, 4] = 0  # nothing
    written[0, 5] = torch.tensor([task.token("."), *[0] * (written.shape[-1] - 1)])
    right = {name: value[0].tolist() for name, value in task.score_generated(written, test.batch).items()}
    assert right["label"] == [True, False, False, True, False, False]
    assert right["exact_match"] == [True, False, False, form == "none", False, False]


def test_a_label_counts_only_before_the_first_end_mark() -> None:
    task = task_of(size=4, scratchpad="none")
    (test,) = task.evaluation_batches(EVAL, 2, (4,))
    written = torch.cat([test.batch.answer, test.batch.answer], dim=-1)
    written[0, 0, 0] = task.token("v001")
    assert task.score_generated(test.batch.answer, test.batch)["label"].tolist() == [[True, True]]
    short = written[..., :2]
    assert task.score_generated(short, test.batch)["label"].tolist() == [[False, True]]
    unended = torch.cat([test.batch.answer[..., :1]] * 2, dim=-1)
    assert task.score_generated(unended, test.batch)["label"].tolist() == [[False, False]]


STAGES = {
    "growing": {},
    "growing in one cycle": {"grow_both": False},
    "one at a time": {"forget": True},
}


def kinds(task: Cycles, seeds: list[int], stages: list[int], rows: int) -> list[Counter[tuple[int, str]]]:
    """For each seed, how often its training rows have each length with each label."""
    batch = task.sample_staged(Stream(torch.tensor(seeds), "data", torch.tensor(1)), rows, torch.tensor(stages))
    counts = []
    for seed in batch.tokens:
        counted = Counter[tuple[int, str]]()
        for row in seed:
            row_words = words(task, row)
            edges, source, target = read(row_words[: row_words.index("?") + 3])
            reached = distances(edges, source)
            counted[(reached[target], "1") if target in reached else (len(reached), "0")] += 1
        counts.append(counted)
    return counts


@pytest.mark.parametrize("form", [("none", "mask"), ("inductive", "mask"), ("inductive", "transition")])
@pytest.mark.parametrize("case", STAGES)
def test_stages_of_a_curriculum_train_on_what_they_should(case: str, form: tuple[str, str]) -> None:
    task = task_of(smallest=2, size=4, names=12, scratchpad=form[0], row_form=form[1], **STAGES[case])
    assert task.stages == (2, 3, 4)
    for stage, counted in enumerate(kinds(task, [4, 4, 4], [0, 1, 2], 400)):
        ones = task.trained_lengths[stage : stage + 1] if case == "one at a time" else task.trained_lengths[: stage + 1]
        pairs = task.trained_lengths if case == "growing in one cycle" else ones
        weight = {(size, label): size + 1 for label, of in (("1", ones), ("0", pairs)) for size in of}
        assert set(counted) == set(weight)
        total = sum(weight.values()) if form[1] == "transition" else len(weight)
        for kind, count in counted.items():
            each = 400 * (weight[kind] if form[1] == "transition" else 1) / total
            assert abs(count - each) < 5 * each**0.5


def test_what_a_stage_trains_on_depends_on_all_ended_else() -> None:
    task = task_of(smallest=2, size=4, names=12, fixed_set=50)
    stream = Stream(torch.tensor([4, 7]), "data", torch.tensor([1, 3]))
    both = task.sample_staged(stream, 20, torch.tensor([2, 1]))
    for seed, step, stage in ((0, 1, 2), (1, 3, 1)):
        alone = Stream(stream.seeds_S[seed : seed + 1], "data", torch.tensor(step))
        mine = task.sample_staged(alone, 20, torch.tensor([stage]))
        assert all(torch.equal(a[0], b[seed]) for a, b in zip(mine.tensors(), both.tensors(), strict=True))
        assert mine.tokens.shape == task.sample_staged(alone, 20, torch.tensor([0])).tokens.shape
