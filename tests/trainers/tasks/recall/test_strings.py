"""Copying, induction and instructions on strings: a solver that reads the tokens, and what is drawn."""

from collections import Counter
from typing import Any

import pytest
import torch

from tests.trainers.own_tasks import scores_of
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.recall.strings import Strings
from trainers.tasks.supervised import IGNORED

SMALL: dict[str, Any] = {"train_length": 6, "test_lengths": [9, 13], "symbols": 5}
TASKS: dict[str, dict[str, Any]] = {
    "copy": {"name": "copy_string", **SMALL},
    "copy of nothing too": {"name": "copy_string", **SMALL, "shortest": 0},
    "induction": {"name": "induction", **SMALL},
    "induction with repeats": {"name": "induction", **SMALL, "repeats": True},
    "instructions": {"name": "multi_instruction", **SMALL},
    "instructions, the first marked": {"name": "multi_instruction", **SMALL, "marked": 1},
    "instructions, the fourth marked": {"name": "multi_instruction", **SMALL, "marked": 4},
    "instructions, more marked than there are": {"name": "multi_instruction", **SMALL, "marked": 8},
}


def task_of(case: str) -> Strings:
    return build("task", TASKS[case])


def solved(case: str, prompt: list[str]) -> list[str]:
    """The answer to a prompt in words, worked out on the words."""
    string = prompt[prompt.index("B") + 1 : prompt.index("|")]
    if case.startswith("copy"):
        return [*string, "E"]
    if case.startswith("induction"):
        (asked,) = prompt[prompt.index("|") + 1 :]
        places = [i for i in range(len(string) - 1) if string[i] == asked]
        assert len(places) == 1 or "repeats" in case
        return [string[places[-1] + 1]]
    instruction, *string = string
    plain, marked = [word.rstrip("*") for word in string], [i for i, word in enumerate(string) if word.endswith("*")]
    k, n = int(TASKS[case].get("marked", 2)), len(string)
    assert len(marked) == {"K": min(k + 1, n), "S": min(1, max(n - 1, 0))}.get(instruction, 0)
    answers = {
        "C": plain,
        "R": plain[::-1],
        "F": plain[:1],
        "L": plain[-1:],
        "K": [plain[marked[k - 1]]] if len(marked) >= k else [],
        "S": [plain[marked[0] + 1]] if instruction == "S" and marked else [],
        "X": plain if n < 2 else [plain[-1], *plain[1:-1], plain[0]],
    }
    return [*answers[instruction], "E"]


def length_of(case: str, prompt: list[str]) -> int:
    return prompt.index("|") - (2 if case.startswith("instructions") else 1)


def words_of(task: Strings, batch, row: int) -> tuple[list[str], list[str]]:
    """Prompt and answer of a row."""
    tokens, targets = task.format_row(batch, row)
    answer = [word for word in targets if word != "_"]
    prompt = tokens[: len(tokens) - len(answer) + 1]
    assert targets == ["_"] * (len(prompt) - 1) + answer and tokens == prompt + answer[:-1]
    return prompt, answer


@pytest.mark.parametrize("case", TASKS)
def test_who_reads_the_prompt_knows_every_answer_in_every_bucket(case: str) -> None:
    task = task_of(case)
    fewest = dict(zip((6, 9, 13), (TASKS[case].get("shortest", task.shortest), 7, 10), strict=True))
    stream = Stream(torch.tensor([3]), "eval", torch.tensor(0))
    for test in task.evaluation_batches(stream, 300, task.lengths):
        seen, logits = set(), torch.zeros(1, 300, test.batch.tokens.shape[-1], task.outputs)
        known = {task.format_symbol(token): token for token in range(task.outputs)}
        for row in range(300):
            prompt, answer = words_of(task, test.batch, row)
            seen.add(length_of(case, prompt))
            assert solved(case, prompt) == answer
            for position, word in enumerate(solved(case, prompt), len(prompt) - 1):
                logits[0, row, position, known[word]] = 1.0
        (length,) = test.lengths
        assert seen == set(range(fewest[length], length + 1))
        scores = scores_of(task, logits, test.batch, test.lengths)
        assert set(scores) == set(task.metrics) and all((value == 1).all() for value in scores.values())


@pytest.mark.parametrize("case", TASKS)
def test_one_wrong_token_makes_a_row_wrong_and_the_others_not(case: str) -> None:
    task = task_of(case)
    (test,) = task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), 200, (6,))
    targets = test.batch.targets
    predicted = torch.where(targets == IGNORED, 0, targets)
    answer = (targets != IGNORED).long()
    last = (answer * torch.arange(1, targets.shape[-1] + 1)).argmax(dim=-1)
    predicted[0, :50].scatter_(-1, last[0, :50, None], 0)  # a pad in place of the last token
    logits = torch.nn.functional.one_hot(predicted, task.outputs).float()
    scores = scores_of(task, logits, test.batch, (6,))
    assert float(scores["accuracy"]) == pytest.approx(0.75)
    assert float(scores["token_accuracy"]) == pytest.approx(1 - 50 / int(answer.sum()))
    if case == "instructions":
        rows = [task.format_row(test.batch, row)[0][1] for row in range(200)]
        for letter, name in zip("CRFLKSX", (m for m in task.metrics if m.startswith("accuracy_")), strict=True):
            mine = [row >= 50 for row, of in enumerate(rows) if of == letter]
            assert float(scores[name]) == pytest.approx(sum(mine) / len(mine))


@pytest.mark.parametrize("case", TASKS)
def test_training_strings_have_every_length_equally_often(case: str) -> None:
    task = task_of(case)
    batch = task.sample(Stream(torch.tensor([1]), "data", torch.tensor(1)), 3500)
    assert batch.tokens.shape == (1, 3500, task.train_positions)
    counts = Counter(length_of(case, words_of(task, batch, row)[0]) for row in range(3500))
    assert set(counts) == set(range(task.shortest, 7))
    expected = 3500 / len(counts)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


def test_instructions_and_marks_are_drawn_evenly() -> None:
    task = build("task", {"name": "multi_instruction", "train_length": 4, "test_lengths": [5], "shortest": 4})
    batch = task.sample(Stream(torch.tensor([1]), "data", torch.tensor(1)), 7000)
    prompts = [words_of(task, batch, row)[0] for row in range(7000)]
    counts = Counter(prompt[1] for prompt in prompts)
    assert set(counts) == set("CRFLKSX") and all(abs(count - 1000) < 150 for count in counts.values())
    for letter, places, ways in (("K", 4, 4), ("S", 3, 3)):  # three of four places; one of the first three
        marks = Counter(tuple(word.endswith("*") for word in prompt[2:-1]) for prompt in prompts if prompt[1] == letter)
        assert len(marks) == ways and all(abs(n - counts[letter] / places) < 80 for n in marks.values())


def test_the_symbol_that_is_asked_for_is_any_but_the_last() -> None:
    task = build("task", {"name": "induction", "train_length": 5, "test_lengths": [6], "shortest": 5})
    batch = task.sample(Stream(torch.tensor([1]), "data", torch.tensor(1)), 4000)
    prompts = (words_of(task, batch, row)[0] for row in range(4000))
    counts = Counter(prompt[1:6].index(prompt[-1]) for prompt in prompts)
    assert set(counts) == {0, 1, 2, 3} and all(abs(count - 1000) < 150 for count in counts.values())


def test_what_the_first_rows_of_a_seed_are_stays() -> None:
    """Sweeps are compared over years: the same seed has the same rows for good."""
    rows = []
    for case in TASKS:
        task = task_of(case)
        batch = task.sample(Stream(torch.tensor([0]), "data", torch.tensor(1)), 1)
        test = next(iter(task.evaluation_batches(Stream(torch.tensor([0]), "eval", torch.tensor(0)), 1, (9,))))
        rows += [" ".join(words_of(task, of, 0)[0]) for of in (batch, test.batch)]
    assert rows == [
        "B d b e b e c |",
        "B a c b b a a e a |",
        "B d b e b e c |",
        "B a c b b a a e a |",
        "B a d e a c a | e",
        "B d c b d a a a a | c",
        "B d b e b e c | e",
        "B a c b b a a e a | c",
        "B S b e e a* d a |",
        "B C a b e a c d d d |",
        "B S b e e a* d a |",
        "B C a b e a c d d d |",
        "B S b e e a* d a |",
        "B C a b e a c d d d |",
        "B S b e e a* d a |",
        "B C a b e a c d d d |",
    ]
