"""Batches of several steps in one draw are those of one step at a time, for every task, wherever training stops."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tests.side_by_side.cases import EAGER
from tests.trainers.own_tasks import TOKENS, Bag, Last, Ragged
from tests.trainers.runs import check_resumed
from trainers import train
from trainers.packs import batches as step_batches
from trainers.packs.batches import StepBatches, choose_steps_per_draw, count_elements_per_row
from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.training.step import sample_batches

CPU = torch.device("cpu")
SHIPPED = {str(members[0]["task"]): members[0]["task"] for members in EAGER.values()}.values()


@dataclass(frozen=True)
class Marked(Batch):
    """A batch with more tensors, and something that is none."""

    marks: Tensor | None = None
    kinds: tuple[str, ...] = ()


class Rich(Last):
    """Every field that a batch may have."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        tokens, weight = stream.integers(0, (rows, 4), TOKENS), stream.uniform(1, (rows, 4))
        ids, marks = stream.integers(2, (rows, 4), 9), stream.normal(3, (rows, 2))
        return Marked(tokens, tokens, ids=ids, groups=ids % 2, weight=weight, marks=marks, kinds=("a",))


class Stepped(Last):
    """Looks at the step as one number."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        return self.batch_of(stream.integers(0, (rows, self.train_length), 2 + min(int(stream.step), 5)))


class Later(Last):
    """Looks at the step as a tensor that is broadcast, which goes unnoticed until it is late."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        drawn = stream.integers(0, (rows, 6), TOKENS)
        return self.batch_of(torch.where(stream.step > 1000, 0, drawn))


class Crowded(Last):
    """Looks at how many seeds there are."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        return self.batch_of(stream.integers(len(stream.seeds_S), (rows, 4), TOKENS))


class Shared(Last):
    """Gives one tensor for all seeds."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        tokens = stream.integers(0, (rows, 4), TOKENS)
        return replace(self.batch_of(tokens), weight=torch.ones(1, rows, 4))


class Broken(Last):
    """Cannot be drawn at all."""

    compiles: ClassVar[bool] = True  # a name that said something once

    def sample(self, stream: Stream, rows: int) -> Batch:
        raise ArithmeticError("no batch today")


def same(some: Sequence[Batch], others: Sequence[Batch]) -> None:
    assert [type(batch) for batch in some] == [type(batch) for batch in others]
    for batch, other in zip(some, others, strict=True):
        for name, value in vars(batch).items():
            theirs = vars(other)[name]
            if isinstance(value, Tensor):
                assert value.dtype == theirs.dtype and torch.equal(value, theirs), name
            else:
                assert value == theirs


def packed(member, task: Task, seeds: tuple[int, ...] = (3, 5, 2**40), **changes: Any) -> Pack:
    return Pack([replace(member(seed, **changes), task=task, model=Bag()) for seed in seeds], CPU)


OWN = (Rich(), Ragged(), Ragged(two=True))


@pytest.mark.parametrize(
    ("task", "seeds"),
    # A task knows seeds, not members, so members of one seed need not be tried with every task.
    [*((task, (3, 5, 2**40)) for task in (*SHIPPED, *OWN)), *((task, (5, 3, 5, 5)) for task in OWN)],
    ids=str,
)
def test_a_draw_of_many_steps_has_the_batches_of_each(member, task: Any, seeds: tuple[int, ...]) -> None:
    task = build("task", task) if isinstance(task, dict) else task
    pack = packed(member, task, seeds)
    many = StepBatches(pack)
    assert many.steps_at_once > 1
    many.steps_at_once = 3
    for done in (0, 2, 3, 7, 1):  # whole draws, one that begins elsewhere, and back
        wanted = sample_batches(pack, torch.tensor(done + 1), pack.training.batch_size)
        same(many.get_batches(done, 100), wanted)
    many.steps_at_once = 1
    same(many.get_batches(7, 100), sample_batches(pack, torch.tensor(8), pack.training.batch_size))


@pytest.mark.parametrize("task", [Stepped(), Later(), Crowded(), Shared()], ids=lambda task: type(task).__name__)
def test_a_task_that_looks_at_step_or_seeds_is_asked_step_by_step(member, task: Task) -> None:
    pack = packed(member, task)
    drawn = StepBatches(pack)
    assert count_elements_per_row(task) is None and drawn.steps_at_once == 1
    for done in (0, 1, 2000):
        same(drawn.get_batches(done, 5000), sample_batches(pack, torch.tensor(done + 1), pack.training.batch_size))


def test_an_exception_of_a_task_is_raised_unchanged(member) -> None:
    with pytest.raises(ArithmeticError, match="no batch today"):
        StepBatches(packed(member, Broken()))


def counted(monkeypatch: pytest.MonkeyPatch, task: type[Task]) -> list[int]:
    """The numbers of seeds that batches are drawn for from now on."""
    seen, whole = list[int](), task.training_batches
    monkeypatch.setattr(
        task,
        "training_batches",
        lambda self, stream, *more: seen.append(len(stream.seeds_S)) or whole(self, stream, *more),
    )
    return seen


def test_nothing_is_drawn_beyond_a_stop(member, recorder, monkeypatch) -> None:
    seen = counted(monkeypatch, Last)
    members = [replace(member(s, training__steps=50, evaluation__every=20), task=Last(), model=Bag()) for s in (1, 2)]
    train(members, recorder)
    assert seen[4:] == [2 * 20, 2 * 20, 2 * 10], "after the four draws that are compared"


def test_a_draw_is_bounded(member, monkeypatch) -> None:
    few, many = (StepBatches(packed(member, Last(), training__batch_size=rows)).steps_at_once for rows in (16, 2000))
    assert few == step_batches.MAX_STEPS and many == step_batches.MAX_ELEMENTS // (
        3 * 4 * 2000 * 3
    )  # tokens, targets, weight of 4 positions
    assert StepBatches(packed(member, Last(), training__batch_size=10**6)).steps_at_once == 1
    assert [choose_steps_per_draw(10**6, device) for device in ("cpu", "cuda")] == [1, 4]  # launches are dear on a GPU


@pytest.mark.parametrize("task", [Rich(), Ragged(two=True)], ids=str)
@pytest.mark.parametrize("accumulation", [1, 3])
def test_training_is_the_same_however_far_ahead(member, recorder, monkeypatch, task: Task, accumulation: int) -> None:
    changes = {"training__steps": 12, "evaluation__every": 5, "training__accumulation": accumulation}
    members = [replace(member(seed, **changes), task=task, model=Bag(shaken=True)) for seed in (1, 2, 1)]
    for most in (1, 4, 64):
        monkeypatch.setattr(step_batches, "MAX_STEPS", most)
        train(members, recorder)
    first, *others = (recorder.evaluations[i : i + 3] for i in (0, 3, 6))
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            assert mine.values_MAKL.tobytes() == theirs.values_MAKL.tobytes()
            assert mine.loss_M.tobytes() == theirs.loss_M.tobytes()


def test_a_pack_resumed_in_the_middle_of_a_draw_goes_on_with_the_same_batches(member, tmp_path) -> None:
    members = [replace(member(seed, training__steps=12), task=Rich(), model=Bag()) for seed in (1, 2)]
    check_resumed(members, tmp_path, 5, every_seconds=0.0)
