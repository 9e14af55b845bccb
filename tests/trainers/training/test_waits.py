"""What would make the host wait for a GPU, looked for on the CPU: numbers that are read, constants that are copied."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import trainers
from tests.side_by_side.cases import EAGER
from tests.trainers.runs import check_one_program
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.packs.batches import StepBatches
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings import registry
from trainers.training.step import train_next_step

ENGINE = str(Path(trainers.__file__).parent)
READ = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero")
COPIED = ("lift_fresh",)  # what torch.tensor ends with
# Functions that may wait: one looks at the end of an evaluation, the others on a CPU alone.
MAY = {"_derive_metrics", "play", "_are_all_known_alive", "_all_ended", "_are_all_digits"}
CASES = (
    "set_complement: sampled",
    "othello: soft",
    "decoder: t5 buckets 8 max_distance 6",
    "padded_addition: measured apart",
    "padded_multiplication: fixed set",
    "encoder: significance, in text",
    "encoder: upe, 1 digits",
    "cycles: inductive",
    "reachability",
    "shift_addition",
    "ring_regression: relative",
    "parity: split rows, in slices",
    "optimizer: sgd nesterov True",
    "optimizer: lion",
    "optimizer: muon",
    "optimizer: adafactor",
    "training: regularized",
    "average: bema",
    "average: norm_matched",
)
PROGRAMS = (  # positions and optimizers have tests of their own
    "set_complement: sampled",
    "othello: soft",
    "padded_addition: measured apart",
    "encoder: upe, 1 digits",
    "cycles: inductive",
    "ring_regression: relative",
    "parity: split rows, in slices",
    "training: regularized",
    "average: bema",
    "average: norm_matched",
)


class Watch(TorchDispatchMode):
    """Keeps the function and line of everything that reads a number or copies a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.partition(".")[0] in READ + COPIED:
            frame = next(frame for frame in reversed(traceback.extract_stack()) if frame.filename.startswith(ENGINE))
            if frame.name not in MAY and "] = " not in str(frame.line):  # a number written into a slice is no copy
                self.seen.add(f"{frame.filename}:{frame.lineno} {frame.line}")
        return func(*args, **(kwargs or {}))


def waits(call: Callable[[], Any]) -> set[str]:
    call()  # constants are copied once
    with Watch() as watch:
        call()
    return watch.seen


def evaluated_anew(pack: Pack, state: TrainingState) -> None:
    """An evaluation that draws its inputs, as the first one does."""
    pack.cached_inputs.clear()
    evaluate(pack, state)


def pack_of(name: str) -> Pack:
    return Pack([MemberConfig.from_dict(settings) for settings in EAGER[name]], torch.device("cpu"))


@pytest.mark.parametrize("name", CASES)
def test_neither_a_step_nor_an_evaluation_waits(name: str) -> None:
    pack = pack_of(name)
    state = TrainingState.make_initial(pack)
    assert waits(lambda: train_next_step(pack, state)) == set()
    assert waits(lambda: evaluated_anew(pack, state)) == set()


def test_rounds_of_products_are_measured_without_waiting() -> None:
    (settings, *_) = EAGER["padded_multiplication: fixed set"]
    task = {**settings["task"], "measured_rounds": [1, 2]}
    pack = Pack(
        [MemberConfig.from_dict({**settings, "task": task, "seed": seed}) for seed in (3, 4)], torch.device("cpu")
    )
    assert waits(lambda: evaluated_anew(pack, TrainingState.make_initial(pack))) == set()


@pytest.mark.parametrize("name", CASES)
def test_batches_of_several_steps_are_drawn_without_waiting(name: str) -> None:
    drawn = StepBatches(pack_of(name))
    drawn.steps_at_once = 3
    assert waits(lambda: [drawn.get_batches(done, 7) for done in range(7)]) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_is_one_program(name: str) -> None:
    check_one_program(pack_of(name))


def test_stages_are_drawn_without_waiting() -> None:
    settings = {"name": "cycles", "smallest": 2, "size": 4, "names": 9, "grow_both": False}
    task = registry.build("task", settings)
    stream, stage = Stream(torch.tensor([1, 2]), "data", torch.tensor(1)), torch.tensor([0, 2])
    assert waits(lambda: task.sample_staged(stream, 6, stage)) == set()
