"""Both additions as tasks: their rows, what counts as right, how lengths and fixed sets are drawn, what is refused."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from search_spaces import load_sweep
from tests.trainers.tasks.scratchpad.sum_rules import (
    answer_by_shifts,
    answer_in_space,
    ids_of,
    numbers_of,
    text_of,
)
from tests.trainers.tasks.scratchpad.writer import Writer
from tests.trainers.training.test_waits import waits
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.scratchpad import random_space_addition as random_space
from trainers.tasks.scratchpad import shift_addition as shift
from trainers.tasks.scratchpad.operands import NOWHERE, TOKEN
from trainers.tasks.scratchpad.sums import SumBatch, Sums
from trainers.tasks.supervised import IGNORED

SMALL: dict[str, Any] = {"canvas": 4, "train_digits": 2, "test_digits": (3, 4)}
NAMES = ("random_space_addition", "shift_addition")
ANSWERS = {"random_space_addition": answer_in_space, "shift_addition": answer_by_shifts}
SWEEPS = Path(__file__).parents[4] / "search_spaces" / "inductive_scratchpad"
EACH = pytest.mark.parametrize("name", NAMES)


def task_of(name: str, **settings: Any) -> Sums:
    return build("task", {"name": name, **SMALL, **settings})


def stream(name: str, step: int = 0, seeds: tuple[int, ...] = (3, 8)) -> Stream:
    return Stream(torch.tensor(seeds), name, torch.tensor(step))


def test_of(task: Sums, length: int, samples: int = 20) -> SumBatch:
    ((test),) = task.evaluation_batches(stream("eval"), samples, (length,))
    assert isinstance(test.batch, SumBatch) and test.lengths == (length,)
    return test.batch


test_of.__test__ = False


@EACH
def test_the_vocabulary_is_the_papers(name: str) -> None:
    task = task_of(name)
    assert task.inputs == task.outputs == 51 == len(set(task.vocabulary))
    assert task.vocabulary[0] == " " and list(task.vocabulary[4:]) == sorted(task.vocabulary[4:])


@pytest.mark.parametrize("fixed", [True, False])
def test_shifted_rows_have_the_papers_ids_losses_and_groups(fixed: bool) -> None:
    task = task_of("shift_addition", canvas=2, train_digits=1, test_digits=(2,), fix_first_state=fixed)
    batch = task.test_batch(shift.make_states(numbers_of(9, 4, 2), ids_of("p-w-lh"), 1), 1)
    text = "p$9+w$4=$lh|0#9p$+4w$=3$l|1#9p$+4w$=3$l|1#13$l."
    loss = [1] * 14 + [1] * 14 + [0] * 14 + [1] * 5
    assert text_of(batch.tokens[0, 0].tolist()) == text[:-1]
    assert batch.ids is not None and batch.groups is not None and batch.weight is not None
    assert batch.ids[0, 0].tolist() == [*range(14), *range(14, 28), *range(14), *range(14, 18)]
    assert ((batch.targets[0, 0] != IGNORED) & (batch.weight[0, 0] == 1)).int().tolist() == loss[1:]
    assert batch.groups[0, 0].tolist() == [2 if fixed else 1] * 14 + [2] * 14 + [3] * 18
    assert text_of(batch.prompt[0, 0].tolist()) == "p$9+w$4="
    assert text_of(batch.answer[0, 0].tolist()).rstrip() == ("$lh|0#9p$+4w$=3$l|1#13$l.")


def test_rows_in_a_canvas_have_the_papers_ids_losses_and_groups() -> None:
    task = task_of("random_space_addition", canvas=3, test_digits=(3,))
    places = torch.tensor([[[1, 2, 3, 5, 6, 7, 7]]])
    batch = task.test_batch(random_space.make_states(numbers_of(57, 48, 3), places, ids_of("$keam"), 2), 2)
    first, second, third = "[02]7[06]8c1r5$kea#", "[01]5[05]4c1r05$ke#", "[-1]_[03]_c0r105$k."
    text = f"_57+_48=$keam:{first}{first}{second}{second}{third}"
    loss = [1] * 14 + [1] * 19 + [0] * 19 + [1] * 19 + [0] * 19 + [1] * 19
    assert text_of(batch.tokens[0, 0].tolist()) == text[:-1]
    assert batch.ids is not None and batch.groups is not None and batch.weight is not None
    here, after = [*range(14, 33)], [*range(33, 52)]
    assert batch.ids[0, 0].tolist() == [*range(14), *here, *here, *after, *here, *after[:-1]]
    assert ((batch.targets[0, 0] != IGNORED) & (batch.weight[0, 0] == 1)).int().tolist() == loss[1:]
    assert batch.groups[0, 0].tolist() == [0] * 14 + [1] * 19 + [2] * 38 + [3] * 37
    assert text_of(batch.prompt[0, 0].tolist()) == "_57+_48="
    assert text_of(batch.answer[0, 0].tolist()) == f"$keam:{first}{second}{third}"


@pytest.mark.parametrize(("name", "largest"), [("random_space_addition", 186), ("shift_addition", 195)])
def test_the_largest_ids_of_a_full_canvas_are_the_papers(name: str, largest: int) -> None:
    task = build("task", {"name": name})
    assert isinstance(task, Sums) and task.lengths[-1] == task.canvas == 30
    ids = test_of(task, 30, 4).ids
    assert ids is not None and int(ids.max()) in (largest, largest - 1)  # the last token, a mark, is no input
    assert task.position_ids == largest + 1


def _digits(name: str, text: str) -> int:
    """The digits of the first number of a row that begins with its question."""
    question = text.split("=")[0].split("+")[0]
    return len(question.replace("_", "")) if name == "random_space_addition" else len(question.rsplit("$", 1)[1])


@EACH
@pytest.mark.parametrize("scratchpad", ["none", "full", "inductive"])
def test_training_has_digits_in_proportion_to_their_number(name: str, scratchpad: str) -> None:
    task = task_of(name, train_digits=4, test_digits=(), scratchpad=scratchpad)
    (batch,) = task.training_batches(stream("data", 1), 2000)
    counts = Counter(_digits(name, text_of(row)) for row in batch.tokens.flatten(0, 1).tolist())
    assert set(counts) == {1, 2, 3, 4}
    assert sum((many - 400 * digits) ** 2 / (400 * digits) for digits, many in counts.items()) < 16.3  # one in 1,000


def answers_of(name: str, task: Sums, batch: SumBatch) -> list[str]:
    """The answer to every prompt, worked out on characters, with other filler than the batch has."""
    source, answers = random.Random(5), []
    for prompt, answer in zip(batch.prompt.flatten(0, 1).tolist(), batch.answer.flatten(0, 1).tolist(), strict=True):
        if task.scratchpad == "none":
            numbers = [part.rsplit("$", 1)[-1].replace("_", "") for part in text_of(prompt)[:-1].split("+")]
            total = str(sum(map(int, numbers)))
            answers.append(f"{total if name == 'random_space_addition' else total.zfill(len(numbers[0]) + 1)}.")
        else:
            answers.append(ANSWERS[name](text_of(prompt), task.canvas, source))
            assert len(answers[-1]) == len(text_of(answer).rstrip())
    return answers


def scores_of(task: Sums, batch: SumBatch, texts: list[str], length: int) -> dict[str, float]:
    writer = Writer(task.outputs, lambda row, prompt: [TOKEN[character] for character in texts[row]])
    scores = task.reduce(task.score_batch(writer, batch, (length,)), batch, (length,))  # type: ignore[arg-type]
    return {metric: float(value.mean()) for metric, value in scores.items()}


@EACH
@pytest.mark.parametrize("scratchpad", ["none", "full", "inductive"])
def test_who_applies_the_rule_is_right_at_every_length(name: str, scratchpad: str) -> None:
    task = task_of(name, scratchpad=scratchpad)
    for length in task.lengths:
        batch = test_of(task, length)
        scores = scores_of(task, batch, answers_of(name, task, batch), length)
        shares = {metric for metric in task.metrics if "steps_to" not in metric and "_loss" not in metric}
        assert {metric: scores[metric] for metric in shares} == dict.fromkeys(shares, 1.0)


def _wrong_digit(text: str, task: Sums) -> str:
    first = len(text) - 1 - (task.canvas + 2)
    return f"{text[:first]}{(int(text[first]) + 1) % 10}{text[first + 1 :]}"


def _wrong_carry(text: str, task: Sums) -> str:
    at = 1 + (text.index("c", text.index("[")) if "[" in text else text.index("|", text.index("#")))
    return f"{text[:at]}{1 - int(text[at])}{text[at + 1 :]}"


def _no_stop(text: str, task: Sums) -> str:
    at = text.index("$", len(text) - 1 - (task.canvas + 2))
    return f"{text[:at]}a{text[at + 1 :]}"


def _without_a_token(text: str, task: Sums) -> str:
    at = text.index("#") + 1
    return text[:at] + text[at + 1 :]


def _last_filler(text: str, task: Sums) -> str:
    return f"{text[:-2]}{'b' if text[-2] == 'a' else 'a'}."


def _all_of_a_filler(by: str) -> Any:
    """The first filler replaced wherever it stands."""

    def change(text: str, task: Sums) -> str:
        sources = (*task.list_sources(3), *[NOWHERE] * len(text))
        return "".join(by if source == 1 else token for token, source in zip(text, sources, strict=False))

    return change


@EACH
@pytest.mark.parametrize("scratchpad", ["full", "inductive"])
@pytest.mark.parametrize(
    ("change", "exact", "total"),
    [
        (lambda text, task: text, 1, 1),
        (_all_of_a_filler("q"), 1, 1),
        (_wrong_digit, 0, 0),
        (lambda text, task: f"{text[:-1]}x", 0, 0),  # no end mark
        (lambda text, task: text[:-1], 0, 0),
        (lambda text, task: f"{text[:-1]}x.", 0, 0),  # it comes later
        (_without_a_token, 0, 0),  # it comes sooner
        (_no_stop, 0, 0),
        (_wrong_carry, 0, 1),
        (_last_filler, 0, 1),  # not what was written first
        (_all_of_a_filler("_"), 0, 1),  # no filler
    ],
)
def test_what_counts_as_right(name: str, scratchpad: str, change: Any, exact: int, total: int) -> None:
    task = task_of(name, scratchpad=scratchpad, canvas=6, test_digits=(3,))
    batch = test_of(task, 3)
    texts = [change(text, task) for text in answers_of(name, task, batch)]
    scores = scores_of(task, batch, texts, 3)
    assert (scores["exact_match"], scores["sum"]) == (exact, total)
    assert scores["state_accuracy"] == scores["token_accuracy"] == 1.0


@EACH
def test_a_row_that_is_wrong_leaves_the_others_right(name: str) -> None:
    task = task_of(name, canvas=6)
    batch = test_of(task, 2)
    texts = answers_of(name, task, batch)
    texts[:10] = [_wrong_digit(text, task) for text in texts[:10]]
    scores = scores_of(task, batch, texts, 2)
    assert scores["sum"] == scores["exact_match"] == 0.75


@EACH
@pytest.mark.parametrize("settings", [{}, {"fixed_set": 24}, {"scratchpad": "none"}, {"row_form": "transition"}])
def test_rows_are_drawn_and_scored_without_waiting(name: str, settings: dict[str, Any]) -> None:
    task, training, tests = task_of(name, **settings), stream("data", 1), stream("eval")
    assert waits(lambda: task.sample(training, 6)) == set()
    assert waits(lambda: [*task.evaluation_batches(tests, 3, task.lengths)]) == set()
    batch = test_of(task, 2)
    answer = batch.answer
    assert waits(lambda: task.score_generated(answer, batch)) == set()


@pytest.mark.parametrize(
    ("name", "steps", "rate"),
    [("fig5b_addition_random_space", 2250, 1.86e-4), ("fig5b_addition_shift", 2000, 9.75e-5)],
)
def test_the_sweeps_end_at_the_papers_learning_rates(name: str, steps: int, rate: float) -> None:
    training = load_sweep(SWEEPS / f"{name}.yaml").training
    schedule = build("schedule", training["schedule"])
    assert training["steps"] == steps
    assert training["learning_rate"] * float(schedule.factor(torch.tensor(steps), steps)) == pytest.approx(
        rate, rel=2e-3
    )


@EACH
def test_filler_alone_is_drawn_where_the_states_are_greedy(name: str) -> None:
    task = task_of(name, temperature=0.5, top_k=100, greedy_states=True)
    initial = {"random_space_addition": 6, "shift_addition": 5}[name]  # `$` and filler
    assert task.decoding.sampled_tokens == initial and task.decoding.is_sampled
    assert replace(task, greedy_states=False).decoding.sampled_tokens is None
