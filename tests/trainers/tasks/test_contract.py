"""Every registered task, model, position, average and schedule keeps the contract that the loop relies on."""

import pytest

from trainers.check.classes import check_class
from trainers.settings import registry
from trainers.settings.descriptions import describe

CLASSES = [(kind, name) for kind in registry.KINDS for name in registry.names(kind) if name != "vmapped"]


@pytest.mark.parametrize(("kind", "name"), CLASSES)
def test_a_shipped_class_keeps_the_contract(kind: str, name: str) -> None:
    assert list(check_class(kind, name)) == []


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_task_is_described_with_its_metrics(kind: str) -> None:
    described = describe(kind)
    assert described and all(one.metrics for one in described if kind == "task")
    assert not any(one.metrics for one in described if kind in ("average", "schedule"))
