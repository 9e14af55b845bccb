"""A class that lacks a member of its kind, or has one of another form, is refused by name."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import Last
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.models.decoder import Decoder
from trainers.optimization.averaging import Ema
from trainers.optimization.optimizer import Optimizer, Update
from trainers.optimization.optimizers.adamw import AdamW
from trainers.optimization.schedules import Constant
from trainers.positions.position import Position
from trainers.settings import registry
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import find_class_problems
from trainers.tasks.task import Task
from trainers.tensors.parameters import Parameter, ParameterLayout


class Half(Task):
    """A task with a method in the place of a property, and little else."""

    inputs: int = setting(help="a field without a default is a value too")
    outputs: int = setting(4, help="so is one with")
    causal = False
    compiles = True  # a name that said something once
    loss = 0.5  # type: ignore[assignment]

    def lengths(self) -> tuple[int, ...]:  # type: ignore[override]
        return (1, 2)

    def sample(self, stream: Any, rows: int) -> Any:
        return None

    def score_rows(self, logits: Tensor, batch: Any) -> Any:  # type: ignore[override]
        return {}


def refused(name: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict({"task": {"name": name}, "model": {"name": "attention_only"}})
    problems = [problem for problem in caught.value.problems if problem.key.startswith("task")]
    assert {problem.key for problem in problems} == {"task.name"}
    assert all(f"task {name!r} of " in problem.message for problem in problems)
    return [problem.message.split(": ", 1)[1] for problem in problems]


def test_a_hook_under_its_name_until_2_0_0_is_still_called(own_code_forgotten) -> None:
    class Mine(Constant):
        def step_problems(self, steps: int) -> Iterator[Problem]:
            yield from super().step_problems(steps)
            yield Problem(key="warmup", message="mine")

    class Momentum(AdamW):
        def problems_of_new(self, parameters: Any) -> Iterator[Problem]:
            yield Problem(key="beta1", message="mine, too")

    registry.register("schedule", "mine")(Mine)
    registry.register("optimizer", "momentum")(Momentum)
    assert [problem.message for problem in Mine().find_step_problems(5)] == ["mine"]
    assert [problem.message for problem in Momentum().find_new_member_problems(list)] == ["mine, too"]


def test_methods_of_a_base_class_have_their_names_until_2_0_0_too() -> None:
    class Halved(AdamW):
        def start(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
            return {name: value + 0.5 for name, value in super().start(theta, layout).items()}

    class Plain(Optimizer):
        checked: float = setting(0.25, help="a field may have the old name of a method")  # type: ignore[assignment]

        def start(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
            return {}

        def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
            return inputs.theta, {}

    layout = ParameterLayout([Parameter(name="a", shape=(2,), std=1.0)])
    state = Halved().make_initial_state(torch.zeros(1, 2), layout)
    assert state and all((value == 0.5).all() for value in state.values())
    assert (Plain().make_initial_state(torch.zeros(1, 2), layout), Plain().checked) == ({}, 0.25)
    assert not [*find_class_problems("optimizer", Halved), *find_class_problems("optimizer", Plain)]
    assert AdamW().operations(3.0, []) == AdamW().count_operations(3.0, []) == 3.0


def test_every_absent_or_mistaken_member_is_named(registered) -> None:
    registered("task", "half", Half)
    messages = refused("half")
    assert "Half.lengths is a method; write @property above it" in messages
    assert "Half.loss is not a method" in messages
    assert "Half.score_rows takes (logits, batch), but is called with (logits_MBTV, batch, lengths)" in messages
    assert "Half has no trained_lengths" in messages
    assert "Half has no method draw_rows; allowed: draw_rows, or both sample and evaluation_batches" in messages
    assert not any(
        re.search(rf"\b{name}\b", text) for text in messages for name in ("inputs", "outputs", "causal", "compiles")
    )


def test_a_position_that_takes_other_arguments_is_refused_with_the_method() -> None:
    class Old(Position):
        """Takes what the hook was given before."""

        def score(self, q: Tensor, tokens: Tensor, weights: Any, name: str, causal: bool) -> Tensor | None:  # type: ignore[override]
            return None

    assert any(
        problem.startswith("Old.score takes (q, tokens, weights, name, causal), but is called with (")
        for problem in find_class_problems("position", Old)
    )


def test_a_class_of_another_base_is_refused() -> None:
    class Loose(Settings):
        """Derives from nothing that says what a task is."""

    assert list(find_class_problems("task", Loose)) == ["Loose does not derive from trainers.tasks.task.Task"]


@pytest.mark.parametrize("kind", registry.KINDS)
def test_what_is_registered_lacks_nothing(kind: str) -> None:
    assert registry.list_names(kind)
    for name in registry.list_names(kind):
        assert list(find_class_problems(kind, registry.get_class(kind, name))) == []


@pytest.mark.parametrize("kind", ["task", "model", "position", "schedule"])
def test_a_member_hyperparameter_that_nothing_hands_on_is_refused(kind: str) -> None:
    class Own(registry.get_class(kind, registry.list_names(kind)[0])):  # type: ignore[misc]
        """One whose field would be the first member's for all of a pack."""

        power: float = setting(1.0, member=True)

    assert any("Own.power is declared with member=True" in problem for problem in find_class_problems(kind, Own))


def test_a_member_hyperparameter_of_an_average_is_a_number() -> None:
    class Own(Ema):
        """Two that become columns, and two that cannot."""

        power: float = setting(1.0, member=True)
        count: int = setting(1, member=True)
        pair: tuple[float, ...] = setting((1.0,), member=True)
        perhaps: float | None = setting(None, member=True)

    assert [problem.split()[0] for problem in find_class_problems("average", Own)] == ["Own.pair", "Own.perhaps"]


def test_a_rate_of_dropout_that_would_not_reach_the_model_is_refused() -> None:
    class Fixed(Decoder):
        """No member hyperparameter: the noise of the engine never hears of it."""

        dropout: float = setting(0.5)

    class Mixed(Decoder):
        """Zero and not zero in one pack: a member alone would be computed otherwise than beside others."""

        dropout: float = setting(0.5, member=True)

    assert [problem for cls in (Decoder, Fixed, Mixed) for problem in find_class_problems("model", cls)] == [
        f"{name}.dropout is not declared with trainers.models.dropout.dropout_rate(), so it would not reach the model"
        for name in ("Fixed", "Mixed")
    ]


def test_arguments_by_name_alone_and_methods_for_values_are_refused() -> None:
    class Named(Last):
        def score_rows(self, logits_MBTV: Tensor, *, batch: Any, lengths: Any) -> Any:  # type: ignore[override]
            return {}

        def loss(self, logits_MBTV: Tensor, batch: Any, *, smoothing: float = 0.0) -> Any:
            return super().loss(logits_MBTV, batch)

        def reduce(self, rows: Any, batch: Any, **more: Any) -> Any:  # type: ignore[override]
            return {}

        def causal(self) -> bool:  # type: ignore[override]
            return False

    assert list(find_class_problems("task", Named)) == [
        "Named.causal is a method; write @property above it",
        "Named.reduce takes (rows, batch, **more), but is called with (rows, batch, lengths)",
        "Named.score_rows takes (logits_MBTV, *, batch, lengths), but is called with (logits_MBTV, batch, lengths)",
    ]


def test_allowed_items_of_a_list_are_described_in_words() -> None:
    class Lists(Settings):
        flags: tuple[bool, ...] = setting((True,))
        counts: tuple[int, ...] = setting((1,), low=1)
        names: tuple[str, ...] = setting(("a",))

    with pytest.raises(ConfigError) as caught:
        Lists(flags=(1,), counts=(0,), names=(2,))
    assert [problem.allowed for problem in caught.value.problems] == [
        "a list of true or false values", "a list of integers >= 1", "a list of strings",
    ]  # fmt: skip
