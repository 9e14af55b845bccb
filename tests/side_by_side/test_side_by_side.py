"""The cases cover everything that is registered, they can be built, and what changed is seen: bits, or moved curves."""

from collections.abc import Iterator

import numpy as np
import pytest
from cases import COMPILED, EAGER, Member
from compare import difference

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
        for metric in built.evaluation.added.values():
            yield "metric", metric.name
        for average in built.training.averages.values():
            yield "average", average.name


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_registered_name_is_in_a_case(kind: str) -> None:
    used = {name for members in CASES.values() for of, name in names_in(members) if of == kind}
    elsewhere = {"vmapped"}  # trains modules of the user's own
    assert used == set(registry.names(kind)) - elsewhere


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_one_pack_of_different_members(name: str) -> None:
    built = [MemberConfig.from_dict(member) for member in CASES[name]]
    assert len({member.structural_key for member in built}) == 1
    assert len({(member.config_id, member.seed) for member in built}) == len(built)
    assert len({member.config_id for member in built}) == 2 or len(built) == 1


LENGTHS = np.array([1, 4])


def test_one_changed_bit_of_a_weight_is_seen() -> None:
    before = {"weights": np.array([[1.0, np.nan], [0.0, 2.0]], dtype=np.float32)}
    now = {"weights": before["weights"].copy()}
    assert difference(before, now, {}) is None
    now["weights"][1, 0] = -0.0
    assert difference(before, now, {}) == "weights: 1 of 4 differ, first at [1, 0]: 0.0 before, -0.0 now"


@pytest.mark.parametrize(
    ("metric", "old", "new", "same"),
    [
        ("kl", 0.5, 0.500004, True),
        ("kl", 0.5, 0.500006, False),
        ("kl", 1e-9, 1.9e-6, True),
        ("kl", 1e-9, 2.1e-6, False),
        ("kl", np.nan, np.nan, True),
        ("kl", np.nan, 0.5, False),
        ("kl", 0.5, np.nan, False),
        ("kl", np.inf, np.inf, True),
        ("kl", np.inf, 0.5, False),
        ("displacement", 0.5, 0.500015, True),
        ("displacement", 0.5, 0.500025, False),
    ],
)
def test_a_curve_may_be_off_by_rounding(metric: str, old: float, new: float, same: bool) -> None:
    name = f"step 3, curve {metric}"
    before, now = ({name: np.array([[0.5, value]], np.float32), "lengths": LENGTHS} for value in (old, new))
    moved: dict[str, float] = {}
    assert (difference(before, now, moved) is None) == same
    if np.isfinite([old, new]).all():
        assert moved == {metric: pytest.approx(abs(new - old), rel=0.05)}
    else:
        assert not np.isfinite(moved.get(metric, 0.0)) or not moved.get(metric)


def test_a_missing_array_and_another_type_are_seen() -> None:
    before = {"curves": np.zeros(3, dtype=np.float32)}
    assert difference(before, {}, {}) == "curves: only before"
    assert difference(before, {"curves": np.zeros(3)}, {}) == "curves: float32[3] before, float64[3] now"
    assert difference(before, {**before, "weights": np.zeros(3)}, {}) == "weights: only now"


def test_a_metric_that_is_new_is_no_difference_and_one_that_is_gone_is() -> None:
    before = {"step 3, curve kl": np.zeros((1, 2), np.float32), "lengths": LENGTHS}
    assert difference(before, {**before, "step 3, curve loss": before["step 3, curve kl"]}, {}) is None
    assert difference(before, {"lengths": LENGTHS}, {}) == "step 3, curve kl: only before"
