"""How wide numbers are in a pass of a model: as the member asks, and never narrower than float32 where it matters.

And whether MKL adds them up in one order, whatever the pack.
"""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_OFF = 1  # what MKL says of itself where it has read no MKL_CBWR


def computing(compute_dtype: str, device: str) -> AbstractContextManager[object]:
    """A context in which products of matrices are computed in `compute_dtype`, float32 or bfloat16; float32: as given.

    In bfloat16 the weights, what is summed along a residual stream and normalised there stay float32.
    """
    if compute_dtype == "float32":
        return nullcontext()
    return torch.autocast(device, getattr(torch, compute_dtype), cache_enabled=False)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type itself, float32 at least: for sums, positions, thresholds and the softmax."""
    return torch.promote_types(dtype, torch.float32)


def product(one: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul`, in the numbers of the pass.

    On a CPU narrow factors are multiplied and summed in float32, and the sums rounded, as a GPU does: torch chooses its
    CPU kernels for bfloat16 by how many matrices there are, so that bits would depend on the pack.
    """
    multiply = torch.bmm if one.dim() == other.dim() == 3 else torch.matmul
    device = one.device.type
    if device != "cpu" or not torch.is_autocast_enabled(device):
        return multiply(one, other)
    narrow = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return multiply(one.to(narrow).float(), other.to(narrow).float()).to(narrow)


@cache
def unordered() -> str | None:
    """Why MKL does not compute as MKL_CBWR says, which it reads at its first product; None: it does, or is absent."""
    wanted = os.environ.get("MKL_CBWR", "")
    try:
        branch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).mkl_serv_cbwr_get(-1)
    except (OSError, AttributeError):
        return None
    if not wanted or "OFF" in wanted.upper() or branch != _OFF:
        return None
    return (
        f"MKL_CBWR={wanted} was set too late: torch had computed before lengthwise was imported, so that results may "
        "differ in the last bits with the pack; import lengthwise first, or set the variable before Python starts"
    )
