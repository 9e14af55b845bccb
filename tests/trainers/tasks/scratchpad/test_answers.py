"""What counts of a generated text when answers are compared: read from the text by plain Python."""

from typing import Any

import pytest
import torch

from tests.trainers.training.test_waits import waits
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.parts import PAD
from trainers.tasks.scratchpad.scratchpad_task import ScratchpadTask

ADDITION: dict[str, Any] = {"canvas": 6, "train_digits": 2, "test_digits": (3,)}
TASKS: dict[str, dict[str, Any]] = {
    "parity": {"canvas": 6, "train_bits": 3},
    "half_parity": {"size": 3},
    "cycles": {},
    "reachability": {},
    "random_space_addition": ADDITION,
    "shift_addition": ADDITION,
}
FORMS = dict.fromkeys(TASKS, ("none", "full", "inductive")) | {
    "half_parity": ("none", "full"),
    "reachability": ("none",),
}
CASES = [(name, form) for name, forms in FORMS.items() for form in forms]


def read(task: ScratchpadTask, text: list[str]) -> list[str]:
    """The last state of a text that ends; of sums the number, of graphs the label."""
    if task.end not in text:
        return []
    text = text[: text.index(task.end) + 1]
    if task.name in ("cycles", "reachability"):
        return text[-2:]
    marks = [position for position, token in enumerate(text) if token == task.mark]
    state = text[marks[-1] + 1 if marks else 0 :]
    if task.name in ("parity", "half_parity") or task.scratchpad == "none":
        return state
    number = state[:-1][-8:]
    return number[: number.index("$") + 1] if "$" in number else number


@pytest.mark.parametrize(("name", "form"), CASES, ids=["-".join(case) for case in CASES])
def test_the_answer_is_that_of_plain_python(name: str, form: str) -> None:
    task: ScratchpadTask = build("task", {"name": name, **TASKS[name], "scratchpad": form})
    stream, length = Stream(torch.tensor([3, 8]), "eval", torch.tensor(0)), task.lengths[0]
    ((test),) = task.evaluation_batches(stream, 12, (length,))
    true = test.batch.answer
    # Beside the true texts some with other tokens, and some that never end.
    other = torch.randint(1, task.inputs, true.shape, generator=torch.Generator().manual_seed(0))
    ended = (true == task.token(task.end)).cumsum(dim=-1) > 0
    noisy = torch.where((stream.uniform(5, true.shape[1:]) < 0.3) & ~ended, other, true)
    first = (noisy == task.token(task.end)).cumsum(dim=-1)
    noisy = torch.where((first == 0) | ((first == 1) & (noisy == task.token(task.end))), noisy, PAD)
    endless = torch.where(ended, task.token(task.mark) if task.mark in task.vocabulary else 1, true)
    texts = torch.stack([true, noisy, endless], dim=2)
    answers = task._read_answers(texts)
    assert answers.shape == texts.shape and torch.equal(answers[:, :, 0], task.true_answers(test.batch, (length,)))
    for text, answer in zip(texts.flatten(0, 2).tolist(), answers.flatten(0, 2).tolist(), strict=True):
        expected = [task.token(token) for token in read(task, [task.vocabulary[token] for token in text])]
        assert answer == expected + [PAD] * (len(text) - len(expected))
    assert bool((answers[:, :, 0] != answers[:, :, 1]).any())
    assert waits(lambda: task._read_answers(texts)) == set()
