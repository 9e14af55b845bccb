"""The cases cover everything that is registered, they can be built, and what changed is seen: bits, or moved curves."""

from collections.abc import Iterator
from functools import cache

import pytest
from cases import COMPILED, EAGER, Member

from trainers import MemberConfig
from trainers.settings import registry

CASES = EAGER | COMPILED


def names_in(members: list[Member]) -> Iterator[tuple[str, str]]:
    """The (kind, name) of everything registered that a pack uses, defaults included."""
    for member in members:
        built = MemberConfig.from_dict(member)
        yield "task", built.task.name
        yield "model", built.model.name
        yield "schedule", built.training.schedule.name
        yield "optimizer", built.training.optimizer.name
        if built.training.loss is not None:
            yield "loss", built.training.loss.name
        if built.training.curriculum is not None:
            yield "curriculum", built.training.curriculum.name
        if hasattr(built.model, "position"):
            yield "position", built.model.position.name
        for metric in built.evaluation.added_metrics.values():
            yield "metric", metric.name
        for average in built.training.averages.values():
            yield "average", average.name


@cache
def names_in_cases() -> set[tuple[str, str]]:
    """The kind and name of every class that a case uses; building all members takes a second."""
    return {kind_and_name for members in CASES.values() for kind_and_name in names_in(members)}


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_registered_name_is_in_a_case(kind: str) -> None:
    used = {name for name_kind, name in names_in_cases() if name_kind == kind}
    elsewhere = {"vmapped"}  # trains modules of the user's own
    assert used == set(registry.list_names(kind)) - elsewhere


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_one_pack_of_different_members(name: str) -> None:
    built = [MemberConfig.from_dict(member) for member in CASES[name]]
    assert len({member.structural_key for member in built}) == 1
    assert len({(member.config_id, member.seed) for member in built}) == len(built)
    assert len({member.config_id for member in built}) == 2 or len(built) == 1
