"""Fused draws have the bits of the reference, and where they cannot be made the reference draws.

The real kernels are tested on a GPU (tests/gpu); here the compiler follows the same programs, which serve any size, and
they run operator by operator.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.random import fused, reference, said

PROGRAM = fused._program


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    monkeypatch.setattr(fused, "_program", lambda function: PROGRAM(function, "eager"))
    monkeypatch.setattr(fused, "_outcome", fused._Outcome())


@settings(max_examples=25, deadline=None)
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
    whole = reference.words(seeds, step, stream, site, count)
    assert torch.equal(fused.words(seeds, step, stream, site, count), whole)
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    assert torch.equal(fused.some_words(seeds, step, stream, site, count, (first, last)), whole[:, first:last])
    assert fused.said() is None


def test_where_no_kernel_can_be_made_the_reference_draws_and_it_is_said_once(monkeypatch):
    def broken(function):
        def call(*arguments):
            raise RuntimeError("no C compiler\nand more")

        return call

    monkeypatch.setattr(fused, "_program", broken)
    fused.fuse()
    drawn = torch.tensor([3, 4]), torch.tensor(5), 2, 0, 17
    assert torch.equal(fused.words(*drawn), reference.words(*drawn))
    assert (
        said() == "random numbers are drawn in many kernels, slower and to the same bits: RuntimeError: no C compiler"
    )
    assert said() is None
    fused.fuse()
    assert not fused._outcome.wanted


def test_kernels_that_draw_other_numbers_are_not_used(monkeypatch):
    monkeypatch.setattr(fused, "_program", lambda function: lambda *arguments: function(*arguments) + 1)
    fused.fuse()
    drawn = torch.tensor([3, 4]), torch.tensor(5), 2, 0, 17
    assert torch.equal(fused.words(*drawn), reference.words(*drawn))
    assert said() == (
        "random numbers are drawn in many kernels, slower and to the same bits: "
        "the kernels of torch's compiler draw others"
    )
    assert not fused._outcome.wanted


def test_memory_that_runs_out_is_no_reason_to_go_on_without_kernels(monkeypatch):
    def full(function):
        def call(*arguments):
            raise torch.OutOfMemoryError("CUDA out of memory")

        return call

    monkeypatch.setattr(fused, "_program", full)
    with pytest.raises(torch.OutOfMemoryError):
        fused.words(torch.tensor([3]), torch.tensor(5), 2, 0, 17)
    assert fused.said() is None


def test_a_cpu_has_its_own_draws():
    fused.fuse()
    assert not fused.wanted(torch.tensor([3])) and fused.wanted(torch.empty(1, device="meta")) is False
