"""When a step is recorded, replayed or left as it is.

Real CUDA graphs are tested on a GPU (tests/gpu); here a record is a list of what would be done.
"""

import contextlib
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from trainers.models.model import Model
from trainers.packs.pack import Pack
from trainers.tensors.batch import Batch
from trainers.training.cuda_graph import MAX_GRAPHS, MAX_MEMORY_SHARE, CudaGraphStep
from trainers.training.step import make_train_step


def batch(value, rows=2):
    tokens = torch.full((1, rows, 3), value)
    return Batch(tokens=tokens, targets=tokens)


class Graph:
    """Replays the last call that was made while it recorded."""

    recording = None

    def __init__(self):
        self.calls = []

    def replay(self):
        for call in self.calls:
            call()

    def pool(self):
        return "the pool of the first"


@pytest.fixture
def cuda(monkeypatch):
    seen = SimpleNamespace(pools=[], peak=0.0, fraction=1.0, failing=False, resets=0)
    monkeypatch.setattr(CudaGraphStep, "has_failed", False)

    @contextlib.contextmanager
    def graph(into, pool):
        seen.pools.append(pool)
        Graph.recording = into
        try:
            yield
            if seen.failing:
                raise RuntimeError("operation not permitted when stream is capturing\nand more")
        finally:
            Graph.recording = None

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: setattr(seen, "resets", seen.resets + 1))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: seen.peak if seen.resets else 1e9)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda: seen.fraction)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=100.0))
    return seen


class State(SimpleNamespace):
    """What steps have summed, and how many of them were run by Python."""


@pytest.fixture
def state():
    return State(theta=torch.zeros(1), plain=0)


def train_step(state, batches):
    """Adds up tokens; while a graph records, it keeps that for later."""

    def step():
        state.theta += sum(batch.tokens.sum() for batch in batches)

    if Graph.recording is not None:
        Graph.recording.calls.append(step)
    else:
        state.plain += 1
        step()


def test_the_first_step_runs_as_it_is_and_later_ones_are_replayed_on_their_own_batches(cuda, state):
    run = CudaGraphStep(train_step, pytest.fail)
    for value in (1, 10, 100, 1000):
        run(state, [batch(value)])
    assert state.theta.item() == 6 * 1111 and state.plain == 1


def test_batches_of_other_shapes_are_recorded_apart_in_one_pool(cuda, state):
    run = CudaGraphStep(train_step, pytest.fail)
    for value, rows in ((1, 2), (1, 4), (10, 2), (10, 4), (100, 4), (100, 2)):
        run(state, [batch(value, rows)])
    assert state.theta.item() == (6 + 12) * 111 and state.plain == 2
    assert cuda.pools == [None, "the pool of the first"]


def test_a_record_has_batches_of_its_own(cuda, state):
    """The one that was recorded is not written over, and what the caller does with it changes nothing."""
    run, second = CudaGraphStep(train_step, pytest.fail), batch(10)
    for given in (batch(1), second, batch(100)):
        run(state, [given])
    assert state.theta.item() == 6 * 111 and (second.tokens == 10).all()
    second.tokens.fill_(5000)
    run(state, [batch(1000)])
    assert state.theta.item() == 6 * 1111


@dataclass(frozen=True)
class Kinds(Batch):
    kind: str = "a"


class Same(Batch):
    """Another class with the same fields, on which a task may decide."""


@pytest.mark.parametrize(
    "other",
    [
        Same(batch(1).tokens, batch(1).targets),
        replace(batch(1), tokens=batch(1).tokens.int()),
        replace(batch(1), ids=batch(1).tokens),
        Kinds(batch(1).tokens, batch(1).targets),
        Kinds(batch(1).tokens, batch(1).targets, kind="b"),
    ],
    ids=["class alone", "type of numbers", "more tensors", "class", "no tensor"],
)
def test_batches_that_differ_in_more_than_numbers_are_recorded_apart(cuda, state, other):
    run = CudaGraphStep(train_step, pytest.fail)
    like = Kinds(other.tokens, other.targets) if isinstance(other, Kinds) and other.kind == "b" else batch(1)
    for given in (like, other, like, other):
        run(state, [given])
    assert state.theta.item() == 24 and state.plain == 2 and len(run.graphs) == 2


def test_many_shapes_are_not_all_recorded_which_is_said_once(cuda, state):
    warnings = []
    run = CudaGraphStep(train_step, warnings.append)
    for rows in (*range(1, 11), *range(1, 11)):
        run(state, [batch(1, rows)])
    shapes = f"batches have more than {MAX_GRAPHS} different shapes"
    assert len(warnings) == 1 and warnings[0].endswith(shapes)
    assert state.theta.item() == 2 * 3 * sum(range(1, 11)) and len(cuda.pools) == 8 and state.plain == 12


def test_another_state_is_recorded_anew(cuda, state):
    run, other = CudaGraphStep(train_step, pytest.fail), State(theta=torch.zeros(1), plain=0)
    for to in (state, state, other, other):
        run(to, [batch(1)])
    assert state.theta.item() == other.theta.item() == 12 and state.plain == other.plain == 1


def test_what_cannot_be_recorded_goes_on_as_it_is_and_is_said_once(cuda, state):
    cuda.failing = True
    warnings = []
    run = CudaGraphStep(train_step, warnings.append)
    for value in (1, 10, 100):
        run(state, [batch(value)])
    assert state.theta.item() == 6 * 111 and state.plain == 3
    why = "operation not permitted when stream is capturing"
    assert len(warnings) == 1 and warnings[0].endswith(why)
    cuda.failing, recorded = False, len(cuda.pools)
    again = CudaGraphStep(train_step, pytest.fail)
    for value in (1, 10, 100):
        again(state, [batch(value)])
    assert not again.graphs and len(cuda.pools) == recorded, "this process has failed, and does not try again"


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_a_step_that_takes_much_of_the_memory_it_may_use_is_not_recorded(cuda, state, fraction):
    cuda.fraction, cuda.peak = fraction, 100.0 * fraction * MAX_MEMORY_SHARE + 1
    run = CudaGraphStep(train_step, pytest.fail)
    for value in (1, 10, 100):
        run(state, [batch(value)])
    assert state.theta.item() == 6 * 111 and state.plain == 3 and not cuda.pools


@pytest.mark.parametrize("compiling", ["auto", "asked", "never"])
def test_steps_on_a_gpu_are_recorded_unless_a_model_may_be_any_code(member, monkeypatch, compiling):
    pack = Pack([member(0, training__compile=False)], torch.device("cpu"))
    assert not isinstance(make_train_step(pack), CudaGraphStep)
    pack.device = torch.device("cuda")
    monkeypatch.setattr(Model, "compiling", compiling)
    assert isinstance(make_train_step(pack), CudaGraphStep) == (compiling != "never")
