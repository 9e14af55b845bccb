"""Fused draws have the bits of the reference, and where they cannot be made the reference draws.

The real kernels are tested on a GPU (tests/gpu); here the compiler follows the same programs, which serve any size, and
they run operator by operator.
"""

import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers import train
from trainers.random import draws, fused, pop_warning, reference

PROGRAM = fused._compile_draw


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    monkeypatch.setattr(fused, "_compile_draw", lambda function: PROGRAM(function, "eager"))
    monkeypatch.setattr(fused, "fused_state", fused._FusedState())


@pytest.mark.slow
@settings(max_examples=25)
@given(
    seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
    step=st.integers(0, 2**31),
    stream=st.integers(0, 4),
    site=st.integers(0, 2**31),
    count=st.integers(1, 99),
    each=st.booleans(),
    data=st.data(),
)
def test_fused_draws_are_those_of_the_reference(seeds, step, stream, site, count, each, data):
    seeds = torch.tensor(seeds)
    step = torch.arange(step, step + len(seeds)) if each else torch.tensor(step)
    whole = reference.draw_words(seeds, step, stream, site, count)
    assert torch.equal(fused.call_fused(reference.draw_words, seeds, step, stream, site, count), whole)
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    assert torch.equal(
        fused.call_fused(reference.draw_word_range, seeds, step, stream, site, count, (first, last)),
        whole[:, first:last],
    )
    assert pop_warning() is None


def test_where_no_kernel_can_be_made_the_reference_draws_and_it_is_said_once(monkeypatch):
    def broken(function):
        def call(*arguments):
            raise RuntimeError("no C compiler\nand more")

        return call

    monkeypatch.setattr(fused, "_compile_draw", broken)
    fused.enable_fused_draws()
    drawn = torch.tensor([3, 4]), torch.tensor(5), 2, 0, 17
    assert torch.equal(fused.call_fused(reference.draw_words, *drawn), reference.draw_words(*drawn))
    assert str(pop_warning()).endswith("RuntimeError: no C compiler")
    assert pop_warning() is None
    fused.enable_fused_draws()
    assert not fused.fused_state.is_enabled


@pytest.mark.slow
@pytest.mark.parametrize("every", [True, False], ids=["all", "some"])
def test_kernels_that_draw_other_numbers_are_not_used(monkeypatch, every):
    """Also where only those for draws of some sizes are wrong, which are made later."""

    def wrong(seeds, step, stream, site, count):
        drawn = reference.draw_words(seeds, step, stream, site, count)
        return drawn + 1 if every or count % 4 == 0 else drawn

    program = PROGRAM(wrong, "eager")
    monkeypatch.setattr(fused, "_compile_draw", lambda function: program)
    fused.enable_fused_draws()
    for count in (17, 19, 20, 24):
        drawn = torch.tensor([3, 4]), torch.tensor(5), 2, 9, count
        assert torch.equal(fused.call_fused(reference.draw_words, *drawn), reference.draw_words(*drawn))
        assert fused.fused_state.is_enabled is (count < 20 and not every)
        if not fused.fused_state.is_enabled:
            break
    assert "other numbers" in str(pop_warning())


def test_draws_are_fused_on_a_gpu_once_that_is_asked_for(monkeypatch):
    seeds = torch.tensor([3])
    there = SimpleNamespace(device=torch.device("cuda"))
    assert not fused.should_fuse(there)
    fused.enable_fused_draws()
    assert fused.should_fuse(there)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not fused.should_fuse(there)
    monkeypatch.undo()

    asked = []
    monkeypatch.setattr(draws, "_uses_library", lambda given: False)
    monkeypatch.setattr(fused, "should_fuse", lambda given: True)
    monkeypatch.setattr(fused, "call_fused", lambda draw, *drawn: asked.append((draw.__name__, *drawn[2:])))
    draws.draw_words(seeds, torch.tensor(5), 2, 7, 17, None)
    draws.draw_words(seeds, torch.tensor(5), 2, 7, 17, (3, 9))
    assert asked == [("draw_words", 2, 7, 17), ("draw_word_range", 2, 7, 17, (3, 9))]


@pytest.mark.parametrize("wanted", [True, False])
def test_long_trainings_ask_for_it(member, recorder, monkeypatch, wanted):
    asked, module = [], sys.modules["trainers.training.loop"]
    monkeypatch.setattr(
        module, "should_fuse_draws", lambda stream, device: (stream.seed, device) == (4, "cpu") and wanted
    )
    monkeypatch.setattr(module, "enable_fused_draws", lambda: asked.append(True))
    train([member(4)], recorder)
    assert asked == [True] * wanted


def test_memory_that_runs_out_is_no_reason_to_go_on_without_kernels(monkeypatch):
    def full(function):
        def call(*arguments):
            raise torch.OutOfMemoryError("CUDA out of memory")

        return call

    monkeypatch.setattr(fused, "_compile_draw", full)
    with pytest.raises(torch.OutOfMemoryError):
        fused.call_fused(reference.draw_words, torch.tensor([3]), torch.tensor(5), 2, 0, 17)
    assert pop_warning() is None


def test_a_cpu_has_its_own_draws():
    fused.enable_fused_draws()
    assert not fused.should_fuse(torch.tensor([3])) and fused.should_fuse(torch.empty(1, device="meta")) is False
