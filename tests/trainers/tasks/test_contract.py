"""Every registered task, model, position, average and schedule keeps the contract that the loop relies on."""

from typing import Any

import pytest
import torch

from tests.trainers.runs import stepped
from trainers import MemberConfig
from trainers.check import check_class
from trainers.evaluation.evaluate import evaluate
from trainers.packs.pack import Pack
from trainers.random import Stream
from trainers.settings import registry
from trainers.settings.descriptions import describe_kind

CLASSES = [(kind, name) for kind in registry.KINDS for name in registry.list_names(kind) if name != "vmapped"]


@pytest.mark.parametrize(("kind", "name"), CLASSES)
def test_a_shipped_class_keeps_the_contract(kind: str, name: str) -> None:
    assert check_class(kind, name) == []
    assert kind != "task" or (registry.get_class(kind, name).__doc__ or "").count(">>> ") >= 2


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_task_is_described_with_its_metrics(kind: str) -> None:
    described = describe_kind(kind)
    assert described and all(description.metrics for description in described if kind == "task")
    assert all(description.summary.endswith(".") for description in described)
    assert all(text.split(" (")[0] for description in described for text in description.fields.values()), (
        "every field has a help"
    )
    assert not any(description.metrics for description in described if kind in ("average", "schedule"))


STRINGS: dict[str, Any] = {"train_length": 6, "test_lengths": [9, 13], "symbols": 5}
FLIPS: dict[str, Any] = {"name": "flip_flop", "pairs": 6, "test_pairs": [12], "measured_distances": [1, 4]}


@pytest.mark.parametrize(
    ("seed", "task"),
    [
        (0, FLIPS),
        (2**40, FLIPS),
        (4, {"name": "copy_string", **STRINGS}),
        (4, {"name": "induction", **STRINGS}),
        (4, {"name": "multi_instruction", **STRINGS}),
        (4, {"name": "language", "train_window": 8, "test_windows": [16]}),
        (4, {"name": "dataset", **registry.get_class("task", "dataset").trial_settings}),
        (4, {"name": "parity", "canvas": 4, "train_bits": 2, "slices": 2}),
    ],
    ids=str,
)
def test_a_member_alone_is_the_same_as_in_a_pack(seed: int, task: dict[str, Any]) -> None:
    def member(seed: int, rate: float) -> MemberConfig:
        return MemberConfig.from_dict(
            {
                "task": task,
                "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "rope", "dropout": 0.1},
                "training": {"steps": 4, "batch_size": 8, "learning_rate": rate, "compile": False},
                "evaluation": {"samples": 16},
                "seed": seed,
            }
        )

    members = [member(seed, 0.01), member(seed, 0.03), member(9, 0.02)]
    results = []
    for some in (members[:1], members):
        pack = Pack(some, torch.device("cpu"))
        state = stepped(pack, 4)
        results.append((state.theta[0].numpy().tobytes(), evaluate(pack, state)[1][0].tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "task",
    [
        {"name": "flip_flop", "pairs": 12},
        {"name": "copy_string", "train_length": 20, "shortest": 10},
        {"name": "parity", "canvas": 12, "train_bits": 12, "slices": 2},
        {"name": "parity", "canvas": 12, "train_bits": 12, "slices": 2, "row_form": "transition"},
        {"name": "random_space_addition", "canvas": 4, "train_digits": 2, "test_digits": []},
        {"name": "shift_addition", "canvas": 4, "train_digits": 2, "test_digits": []},
    ],
    ids=str,
)
def test_every_row_of_a_fixed_set_is_visited_once_in_every_epoch(task: dict[str, Any]) -> None:
    built, epochs = registry.build("task", {**task, "fixed_set": 24}), []
    for epoch in range(2):
        seen = list[tuple[int, ...]]()
        for step in (1, 2, 3, 4):
            for batch in built.training_batches(Stream(torch.tensor([5]), "data", torch.tensor(4 * epoch + step)), 6):
                seen += map(tuple, torch.cat([batch.tokens, batch.targets], dim=-1)[0].tolist())
        assert len({*seen}) == 24
        epochs.append(seen)
    assert sorted(epochs[0]) == sorted(epochs[1]) and epochs[0] != epochs[1]
