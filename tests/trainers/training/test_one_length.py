"""`training.one_length_per_batch`: all rows of a step have one length, which the step alone decides."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainers.models.own_modules import Net
from tests.trainers.own_tasks import mean_loss
from tests.trainers.runs import check_alone, stepped
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.packs.batches import StepBatches
from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.training.compiling import should_compile
from trainers.training.cost import count_activation_bytes, measure_seconds_per_step
from trainers.training.step import sample_batches

CPU = torch.device("cpu")


class Running(Task):
    """Random tokens in; the largest so far out."""

    train_length: int = setting(6, low=1)
    inputs = property(lambda self: 7)
    trained_lengths = property(lambda self: tuple(range(2, self.train_length + 1)))
    lengths = property(lambda self: tuple(range(2, self.train_length + 3)))

    def draw_rows(self, stream: Stream, rows: int, length: int) -> Batch:
        tokens = stream.integers(0, (rows, length), 7)
        return Batch(tokens, tokens.cummax(dim=-1).values)


@pytest.fixture(autouse=True)
def _running(registered) -> None:
    registered("task", "running", Running)


def sections(seed: int = 0, **training: Any) -> dict[str, Any]:
    return {
        "task": {"name": "running"},
        "model": {"name": "vmapped", "module": f"{Net.__module__}.Net"},
        "training": {"steps": 12, "batch_size": 8, "learning_rate": 0.01, "one_length_per_batch": True, **training},
        "evaluation": {"samples": 9, "every": 3},
        "seed": seed,
    }


def pack_of(seeds: tuple[int, ...], **training: Any) -> Pack:
    return Pack([MemberConfig.from_dict(sections(seed, **training)) for seed in seeds], CPU)


def test_every_member_trains_as_a_plain_script() -> None:
    pack = pack_of((3, 5))
    state, task = stepped(pack, 8), Running()
    stream, lengths = Stream(torch.tensor([0]), "length", torch.arange(1, 9)), list[int]()
    for m, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        module = Net(7, 7, 8)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.0)
        for step in range(1, 9):
            of_step = Stream(torch.tensor([0]), stream.name, torch.tensor(step))
            lengths.append(2 + (int(of_step.bits(0, (1,))) * 5 >> 32))
            batch = task.draw_rows(Stream(torch.tensor([seed]), "data", torch.tensor(step)), 8, lengths[-1])
            optimizer.zero_grad()
            mean_loss(task, module(batch.tokens[0])[None], batch).sum().backward()
            optimizer.step()
        for name, value in module.named_parameters():
            torch.testing.assert_close(pack.layout.split(state.theta)[name][m], value.detach(), rtol=1e-3, atol=1e-5)
    assert len({*lengths}) > 2


def test_lengths_follow_from_the_step_and_are_uniform() -> None:
    drawn, rows = StepBatches(pack_of((3, 5, 3))), 8
    assert drawn.steps_at_once == 1
    for done in (0, 1, 2, 7, 3):
        (batch,) = drawn.get_batches(done, 5000)
        (wanted,) = sample_batches(drawn.pack, torch.tensor(done + 1), rows)
        assert torch.equal(batch.tokens, wanted.tokens)
        assert batch.tokens.shape == (3, rows, Running().draw_step_length(done + 1))
    counts = Counter(Running().draw_step_length(step) for step in range(1, 2001))
    assert {*counts} == {2, 3, 4, 5, 6} and all(abs(count - 400) < 80 for count in counts.values())


def test_a_member_trains_alone_as_in_a_pack() -> None:
    check_alone(pack_of)


def test_memory_is_estimated_at_the_longest_length_and_time_is_measured() -> None:
    pack = pack_of((0,))
    lengths = [Running().draw_step_length(step) for step in (1, 2, 3)]
    assert min(lengths) < 6
    whole = count_activation_bytes(pack_of((0,), one_length_per_batch=False), 4)
    assert count_activation_bytes(pack, 4) == whole
    assert measure_seconds_per_step(pack.members[0], 2, 0.01) > 0


def test_a_shipped_model_is_not_compiled_and_its_identity_follows_from_the_setting() -> None:
    decoder = {"model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2}}
    long, cut = (
        MemberConfig.from_dict({**sections(steps=10**6, one_length_per_batch=value), **decoder})
        for value in (False, True)
    )
    assert should_compile(long) and not should_compile(cut)
    without = sections(steps=10**6)
    del without["training"]["one_length_per_batch"]
    assert MemberConfig.from_dict({**without, **decoder}).config_id == long.config_id != cut.config_id
    check_alone(lambda seeds: Pack([MemberConfig.from_dict({**sections(seed), **decoder}) for seed in seeds], CPU))


class Sampled(Running):
    """Draws training rows and test rows without `draw_rows`."""

    draw_rows = Task.draw_rows

    def sample(self, stream: Stream, rows: int) -> Batch:
        return Running().draw_rows(stream, rows, self.train_length)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Any:
        return Running().evaluation_batches(stream, samples, lengths)


class Staged(Running):
    stages = (2, 3)

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch:
        return self.draw_rows(stream, rows, 3)


CURRICULUM = {"curriculum": {"name": "threshold", "metric": "accuracy", "threshold": 0.9, "samples": 4}}


@pytest.mark.parametrize(
    ("task", "training", "key"),
    [
        (Sampled, {}, "training.one_length_per_batch"),
        (Staged, CURRICULUM, "training.one_length_per_batch"),
        (Running, {"compile": True}, "training.compile"),
    ],
)
def test_what_does_not_fit_is_refused(registered, task: type[Task], training: dict[str, Any], key: str) -> None:
    registered("task", "running", task)
    decoder = {"name": "decoder", "layers": 1, "width": 8, "heads": 2}
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict({**sections(**training), "model": decoder})
    assert [problem.key for problem in caught.value.problems] == [key]
    MemberConfig.from_dict({**sections(**{**training, "one_length_per_batch": False}), "model": decoder})
