"""A class that lacks a member of its kind is refused by name when it is asked for."""

from collections.abc import Iterator
from typing import Any

import pytest

from trainers.config import registry
from trainers.config.contract import METHODS, VALUES, missing
from trainers.config.member import MemberConfig
from trainers.config.settings import Settings, setting
from trainers.errors import ConfigError


@pytest.fixture
def half_a_task() -> Iterator[type[Settings]]:
    """A task with a method in the place of a property, and little else."""

    @registry.register("task", "half")
    class Half(Settings):
        """Half a task."""

        inputs: int = setting(help="a field without a default is a value too")
        outputs: int = setting(4, help="so is one with")
        compiles = False
        loss = 0.5

        def lengths(self) -> tuple[int, ...]:
            return (1, 2)

        def sample(self, stream: Any, batch: int) -> Any:
            return None

    yield Half
    registry._classes["task"].pop("half")


def test_every_absent_or_mistaken_member_is_named(half_a_task: type[Settings]) -> None:
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict({"task": {"name": "half"}, "model": {"name": "attention_only"}})
    found = [problem for problem in caught.value.problems if problem.key.startswith("task")]
    assert {problem.key for problem in found} == {"task.name"}
    said = [problem.message.split(": ", 1)[1] for problem in found]
    assert "Half.lengths is a method; write @property above it" in said
    assert "Half.loss is not a method" in said
    assert {"Half has no metrics", "Half has no positions", "Half has no method derived"} <= set(said)
    assert not any(name in text for text in said for name in ("inputs", "outputs", "compiles", "sample"))
    assert f"task 'half' of {__name__}" in found[0].message


@pytest.mark.parametrize("kind", VALUES)
def test_what_is_registered_lacks_nothing(kind: str) -> None:
    for name in registry.names(kind):
        assert list(missing(kind, registry.lookup(kind, name))) == []
        for member in METHODS[kind]:
            assert callable(getattr(registry.lookup(kind, name), member))


@pytest.mark.parametrize("kind", ["task", "model", "position", "schedule"])
def test_a_member_hyperparameter_that_nothing_hands_on_is_refused(kind: str) -> None:
    class Own(registry.lookup(kind, registry.names(kind)[0])):  # type: ignore[misc]
        """One whose field would be the first member's for all of a pack."""

        power: float = setting(1.0, member=True)

    assert any("Own.power is declared with member=True" in said for said in missing(kind, Own))
