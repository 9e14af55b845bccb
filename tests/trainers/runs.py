"""What many tests do with packs: take steps, compare a member with itself in other packs, kill a run and resume it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainers import Checkpoints, train
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.results import Evaluation, MemberResult, Progress
from trainers.optimization.optimizer import Update
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.parameters import Parameter, ParameterLayout
from trainers.training.step import make_train_step, sample_batches, train_step


class Recorder:
    """A reporter that keeps everything."""

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []
        self.beats: list[Progress] = []
        self.notices: list[str] = []

    def report(self, evaluation: Evaluation) -> None:
        self.evaluations.append(evaluation)

    def progress(self, progress: Progress) -> None:
        self.beats.append(progress)

    def notice(self, text: str) -> None:
        self.notices.append(text)


def make_stepper(pack: Pack) -> Callable[[TrainingState], None]:
    """A function that draws a batch and trains one step."""
    run_step = make_train_step(pack)
    return lambda state: run_step(state, sample_batches(pack, state.step + 1, pack.training.batch_size, state.stage))


def stepped(pack: Pack, steps: int = 8) -> TrainingState:
    """The state of a pack after so many steps."""
    state, step = TrainingState.make_initial(pack), make_stepper(pack)
    for _ in range(steps):
        step(state)
    return state


def everything(pack: Pack, state: TrainingState, index: int) -> torch.Tensor:
    """Weights, moments, averages, loss and curves of one member."""
    averages = [buffer for buffers in state.averages for buffer in buffers]
    optimizer = [buffer.flatten(1) for buffer in state.optimizer.values()]
    buffers = [state.theta, *optimizer, *averages, state.loss_sum[:, None], state.failed_at[:, None]]
    curves = torch.from_numpy(evaluate(pack, state)[1][index])
    return torch.cat([*(tensor[index].double() for tensor in buffers), curves.double().flatten().nan_to_num()])


def check_alone(
    pack_of: Callable[[tuple[int, ...]], Pack],
    packs: Sequence[tuple[int, ...]] = ((7,), (2, 7, 5, 2)),
    steps: int = 8,
) -> tuple[Pack, TrainingState]:
    """Seed 7 has the same bits in packs of these seeds; return the last of them and its state."""
    values = []
    for seeds in packs:
        pack = pack_of(seeds)
        state = stepped(pack, steps)
        values.append(everything(pack, state, seeds.index(7)))
    assert all(torch.equal(values[0], other) for other in values[1:]) and torch.isfinite(values[0]).all()
    return pack, state


def train_recorded(members: Sequence[MemberConfig], **more: Any) -> tuple[list[Evaluation], list[MemberResult]]:
    """Train a pack; return its evaluations and its results."""
    recorder = Recorder()
    return recorder.evaluations, train(members, recorder, **more)


def same(some: Sequence[Evaluation], others: Sequence[Evaluation]) -> None:
    """The same evaluations but for how long they took."""
    first, second = ([replace(each, seconds=0.0).to_bytes() for each in given] for given in (some, others))
    assert first == second


class KilledError(Exception):
    """The process is gone."""


def killed(members: Sequence[MemberConfig], folder: Path, at: int, **when: Any) -> None:
    """Train up to a step at which the process is gone; `when` says when checkpoints are written."""

    class Dies(Recorder):
        def progress(self, progress: Progress) -> None:
            if progress.step >= at:
                raise KilledError

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KilledError):
        patched.setattr(sys.modules["trainers.training.loop"], "_HEARTBEAT_SECONDS", -1.0)
        train(members, Dies(), checkpoints=Checkpoints(folder=folder, **when))


def check_resumed(members: Sequence[MemberConfig], folder: Path, at: int, **when: Any) -> list[Evaluation]:
    """A run killed at a step and resumed ends as one that was not; return its evaluations."""
    killed(members, folder, at, **when)
    evaluations, results = train_recorded(members, checkpoints=Checkpoints(folder=folder, **when))
    whole, expected = train_recorded(members)
    same(evaluations, whole)
    assert results == expected
    return evaluations


def update_of(
    theta: Tensor,
    gradient: Tensor,
    state: Mapping[str, Tensor],
    step: int,
    rate: Tensor,
    h: Mapping[str, Tensor],
    layout: ParameterLayout | None = None,
    decay_mask: Tensor | None = None,
) -> Update:
    """What an optimizer sees of a step; without a layout of a single parameter."""
    return Update(
        theta=theta,
        gradient=gradient,
        state=state,
        step=torch.tensor(step),
        rate=rate,
        hyperparameters=h,
        layout=layout or ParameterLayout([Parameter(name="all", shape=tuple(theta.shape[1:]), std=0.0)]),
        decay_mask=decay_mask,
        seeds_M=torch.arange(len(theta)),
        compute_gradient=lambda theta: gradient,
    )


def check_one_program(pack: Pack) -> None:
    """The compiler can follow a step from end to end, in the same numbers; what it would make of it is not asked."""
    states = [TrainingState.make_initial(pack), TrainingState.make_initial(pack)]
    batches = sample_batches(pack, torch.tensor(1), 4)
    torch.compile(train_step, fullgraph=True, backend="eager")(pack, states[0], batches)
    train_step(pack, states[1], batches)
    first, second = ([state.theta, *state.optimizer.values(), state.loss_sum] for state in states)
    torch.testing.assert_close(first, second)
