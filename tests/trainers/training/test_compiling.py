"""Programs that serve packs of any size, and processes that wait for each other to compile them."""

import os
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
import torch

from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.noise import Noise
from trainers.training.compiling import (
    compile_once,
    compile_or_load,
    estimate_seconds,
    mark_dynamic,
    should_compile,
    should_fuse_draws,
)
from trainers.training.step import make_contiguous_batches, sample_batches, train_step

CPU = torch.device("cpu")


def enter(folder: str, first: bool, dies: bool) -> None:
    """The first stays inside until the second says that it waits."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    log, waits = Path(folder) / "log", Path(folder) / "waits"
    with compile_once("a program", waits.touch):
        write(log, f"in {first}")
        until(lambda: not first or waits.exists())
        if dies:
            os._exit(1)
        write(log, "out")


def write(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(f"{text}\n")


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)


def entered(tmp_path: Path, make: Callable[..., Any], dies: bool) -> list[str]:
    """Return what two processes or threads, made by `make`, log of their time inside."""
    both = [make(target=enter, args=(str(tmp_path), first, dies and first)) for first in (True, False)]
    for each in both:
        each.start()
        until((tmp_path / "log").exists)
    for each in both:
        each.join()
    return (tmp_path / "log").read_text().splitlines()


def test_the_second_waits_for_the_first_to_compile(tmp_path, monkeypatch) -> None:
    """Threads, because a process would import the compiler: each opens the lock itself, as processes do."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # restored after `enter` has set it
    assert entered(tmp_path, threading.Thread, dies=False) == ["in True", "out", "in False", "out"]


@pytest.mark.slow
def test_who_dies_lets_the_next_one_in(tmp_path, processes: ForkServerContext) -> None:
    assert entered(tmp_path, processes.Process, dies=True) == ["in True", "in False", "out"]


def test_what_is_compiled_is_not_waited_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with compile_once("a program", pytest.fail):
        pass
    with compile_once("a program", pytest.fail), compile_once("a program", pytest.fail):
        pass


@pytest.mark.parametrize("folder", ["cache", "elsewhere"])
def test_half_a_library_in_the_cache_is_made_again_and_no_other_file_is_touched(tmp_path, monkeypatch, folder) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    library, calls = tmp_path / folder / "a.main.so", []
    library.parent.mkdir()
    library.touch()

    def program(state: int) -> None:
        calls.append(state)
        if library.exists():
            raise RuntimeError(f"InductorError: ImportError: {library}: file too short")

    if folder == "cache":
        compile_or_load(program, 3)
        assert calls == [3, 3] and not library.exists()
    else:
        with pytest.raises(RuntimeError, match="file too short"):
            compile_or_load(program, 3)
        assert library.exists()


def test_whether_to_compile_depends_on_the_member_alone(member) -> None:
    short, long = (member(0, training__compile="auto", training__steps=steps) for steps in (100, 100_000))
    assert not should_compile(short) and should_compile(long)
    assert estimate_seconds(short) < 1.0 < estimate_seconds(long)
    assert should_compile(member(0, training__compile=True))


def test_on_a_gpu_steps_are_compiled_where_that_is_asked_for_and_draws_are_fused_in_long_trainings(member) -> None:
    long, asked = member(0, training__compile="auto", training__steps=100_000), member(0, training__compile=True)
    assert not should_compile(long, "cuda")
    assert should_compile(asked, "cuda")
    assert should_fuse_draws(long, "cuda") and not should_fuse_draws(long, "cpu")
    assert not should_fuse_draws(member(0, training__steps=100), "cuda")


MODELS = {
    "attention_only": {"model__dropout": 0.1},
    "decoder, two slices": {
        "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "dropout": 0.1, "position": "t5"},
        "training__accumulation": 2,
    },
    "encoder": {
        "task": {"name": "ring_regression", "ring": 8, "window": 4},
        "model": {"name": "linear_attention", "width": 8},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_one_program_serves_packs_of_all_sizes(member, changes) -> None:
    """Seeds that repeat or not, in order or not: the compiler is called once."""
    labels = {"raw": {}, "ema": {"decay": 0.9}, "bema": {}}
    changes = {**changes, "training__averages": labels}
    calls = []
    torch._dynamo.reset()
    compiled = torch.compile(
        train_step, dynamic=False, fullgraph=True, backend=lambda graph, _: calls.append(graph) or graph.forward
    )
    first = Pack([member(0, **changes)] * 2, CPU).select([0, 0, 0])
    state = TrainingState.make_initial(first)
    batches = make_contiguous_batches(first, sample_batches(first, state.step + 1, 4))
    mark_dynamic(
        [*first.list_tensors(), *state.list_tensors(), *(tensor for batch in batches for tensor in batch.tensors())]
    )
    compiled(first, state, batches)
    for seeds in [(0, 0), (0, 1), (4, 1, 1, 2), (1, 2, 3, 4, 5)]:
        pack = Pack([member(seed, **changes) for seed in seeds], CPU)
        compiled_state, eager_state = TrainingState.make_initial(pack), TrainingState.make_initial(pack)
        batches = make_contiguous_batches(pack, sample_batches(pack, compiled_state.step + 1, 4))
        compiled(pack, compiled_state, batches)
        train_step(pack, eager_state, batches)
        torch.testing.assert_close(compiled_state.theta, eager_state.theta)
    assert len(calls) == 1


def test_the_noise_of_a_pass_has_a_hash_before_it_is_filled() -> None:
    """torch 2.11 asks for it while it traces the making of one inside a compiled program."""
    assert isinstance(hash(object.__new__(Noise)), int)
