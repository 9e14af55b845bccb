"""Trying models before a run: ones that round otherwise in another pack pass, ones that mix members do not."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainers.check import check_class, check_model, small_members
from trainers.models.decoder import Decoder
from trainers.models.model import Recorder
from trainers.models.vmapped import Vmapped
from trainers.optimization.averaging import Average
from trainers.optimization.curricula import Curriculum
from trainers.optimization.schedules import Schedule
from trainers.settings.fields import setting
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise

MIXES = "its training depends on the other members of its pack"


class Attends(nn.Module):
    """The library's attention, whose key bias has no gradient: what is left of it is rounding."""

    def __init__(self, inputs: int, outputs: int, positions: int) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(inputs, 16), nn.Embedding(positions, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[-1]
        x = self.table(tokens) + self.places.weight[:length]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        return self.head(self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0])


class _Rounded:
    """One member alone is computed by another kernel than several: here in float64."""

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        alone = len(batch.tokens) == 1
        weights = {name: weight.double() for name, weight in weights.items()} if alone else weights
        logits: Tensor = super().logits(weights, batch, noise, form, record)  # type: ignore[misc]
        return logits.float()


class RoundedDecoder(_Rounded, Decoder):
    pass


class RoundedAttention(_Rounded, Vmapped):
    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        return Attends(inputs, outputs, positions)


class Normed(Decoder):
    """A thousandth of a norm over members."""

    def logits(self, *given: Any, **named: Any) -> Tensor:
        logits = super().logits(*given, **named)
        return logits + 1e-3 * (logits - logits.mean(dim=0, keepdim=True))


class Neighbour(Decoder):
    """A thousandth of the logits of the member before."""

    def logits(self, *given: Any, **named: Any) -> Tensor:
        logits = super().logits(*given, **named)
        return logits + 1e-3 * logits.roll(1, dims=0)


class Weighs(Decoder):
    """A ten-thousandth of the largest weight of the pack."""

    def logits(self, weights: Mapping[str, Tensor], *given: Any, **named: Any) -> Tensor:
        mixed = {name: weight + 1e-4 * weight.amax(dim=0) for name, weight in weights.items()}
        return super().logits(mixed, *given, **named)


class Decays(Decoder):
    """Only gradients leak: the values of its logits are those of one member."""

    def logits(self, *given: Any, **named: Any) -> Tensor:
        logits = super().logits(*given, **named)
        shared = logits.sum(dim=0, keepdim=True) * logits.detach()
        return logits + 1e-3 * (shared - shared.detach())


class Counts(Decoder):
    """Depends on how many members there are."""

    def logits(self, *given: Any, **named: Any) -> Tensor:
        logits = super().logits(*given, **named)
        return logits * (1 + 1e-3 * len(logits))


class Starts(Decoder):
    """Begins with weights that depend on how many seeds the pack has."""

    def make_initial_values(self, task: Task, seeds_S: Tensor) -> Mapping[str, Tensor]:
        first = self.parameters(task)[0]
        return {first.name: torch.ones(len(seeds_S), *first.shape) * (1 + 1e-3 * len(seeds_S))}


@pytest.fixture
def problems(sections, registered):
    def tried(model: type[Any], **changes: Any) -> list[str]:
        registered("model", "tried", model)
        sizes = {"width": 16, "layers": 2, "heads": 2} if issubclass(model, Decoder) else {}
        position = {"position": "learned"} if issubclass(model, Decoder) else {}
        return check_model(sections(model={"name": "tried", **sizes, **position}, **changes))

    return tried


@pytest.mark.parametrize("model", [RoundedDecoder, RoundedAttention])
def test_rounding_differences_are_accepted(problems, model: type[Any]) -> None:
    """AdamW makes a step of a gradient that is nothing but rounding, as that of a bias of keys."""
    assert problems(model) == []


def test_bits_of_bfloat16_are_no_fault_either(problems) -> None:
    assert problems(RoundedDecoder, training__compute_dtype="bfloat16") == []


@pytest.mark.parametrize("model", [Normed, Neighbour, Weighs, Decays, Counts, Starts])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_that_mixes_members_a_little_is_refused(problems, model: type[Any], dtype: str) -> None:
    assert problems(model, training__compute_dtype=dtype) == [MIXES]


class Shrinks(Average):
    """An average whose buffers lose a column."""

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        return (theta,)

    def update(self, buffers, theta, step, h):
        return (0.5 * (buffers[0] + theta[:, :-1]),)

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout) -> Tensor:
        return buffers[0]


class Stops(Schedule):
    """A schedule that divides by zero."""

    def factor(self, step: Tensor, steps: int) -> Tensor:
        return step / (1 // 0)


@pytest.mark.parametrize(
    ("kind", "cls", "error"), [("average", Shrinks, "RuntimeError"), ("schedule", Stops, "ZeroDivisionError")]
)
def test_averages_and_schedules_are_tried_too(registered, kind: str, cls: type[Any], error: str) -> None:
    registered(kind, "throw_away", cls)
    (problem,) = check_class(kind, "throw_away")
    assert problem.startswith(f"raises {error}: ")


def test_required_settings_are_those_of_the_trial_or_nothing_is_good(registered) -> None:
    class Halves(Schedule):
        """A schedule with a required setting, which divides by zero."""

        floor: float = setting(help="where it ends")

        def factor(self, step: Tensor, steps: int) -> Tensor:
            return step / (1 // 0)

    registered("schedule", "halves", Halves)
    (problem,) = check_class("schedule", "halves")
    assert "trial_settings" in problem and "floor" in problem
    Halves.trial_settings = {"floor": 0.1}
    (problem,) = check_class("schedule", "halves")
    assert "ZeroDivisionError" in problem


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (lambda stage_M: stage_M + 1, "from 0 to 1"),
        (lambda stage_M: stage_M.astype(float), "int64"),
        (lambda stage_M: np.full_like(stage_M, stage_M.max()), "other members"),
        (lambda stage_M: stage_M[:, None][9], "IndexError"),
    ],
)
def test_a_curriculum_is_tried_on_three_members(registered, stages: Any, message: str) -> None:
    class Hurried(Curriculum):
        """A curriculum whose stages are wrong."""

        def advance_stages(self, stage_M: Any, scores_MN: Any, direction: str) -> Any:
            return stages(stage_M)

    registered("curriculum", "throw_away", Hurried)
    (problem,) = check_class("curriculum", "throw_away")
    assert message in problem


def test_a_trial_evaluates_at_the_shortest_and_the_longest_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[tuple[int, ...]] = []
    original = small_members.evaluate
    monkeypatch.setattr(
        small_members, "evaluate", lambda pack, state: evaluated.append(pack.lengths) or original(pack, state)
    )
    assert check_class("task", "induction") == []
    assert check_model({**small_members.SMALL, "evaluation": {"lengths": [2, 3, 4, 5]}}) == []
    assert [len(lengths) for lengths in evaluated] == [2, 2] and evaluated[1] == (2, 5)
