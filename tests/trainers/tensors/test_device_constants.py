"""Constants are copied to a device once, and have the type that was asked for."""

import torch

from trainers.tensors.device_constants import make_constant

CPU = torch.device("cpu")


def test_equal_numbers_of_other_types_are_told_apart() -> None:
    whole, real = make_constant((1, 2), CPU), make_constant((1.0, 2.0), CPU, torch.float32)
    assert (whole.dtype, real.dtype) == (torch.int64, torch.float32)
    assert make_constant((1.0, 2.0), CPU).dtype == torch.int64
    assert make_constant((1, 2), CPU) is whole and make_constant(((1, 2), (3, 4)), CPU).shape == (2, 2)


def test_what_a_recorded_step_reads_stays_however_many_there_are() -> None:
    first = make_constant((1, 2, 3), CPU)
    for number in range(1100):
        make_constant((number,), CPU)
    assert make_constant((1, 2, 3), CPU) is first
