"""Precision of a forward pass: bfloat16 products if configured, float32 at least where rounding matters.

Also checks that MKL sums in an order that does not depend on the pack.
"""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_VECTOR_ELEMENTS = 64  # a multiple of the vector width of every CPU, in elements
_CBWR_OFF = 1  # the branch that MKL reports if it has not read MKL_CBWR


def autocast(compute_dtype: str, device: str) -> AbstractContextManager[object]:
    """Return a context in which matrix products are computed in `compute_dtype`; float32 changes nothing.

    With bfloat16 the weights, the residual stream and its norms stay float32.
    """
    if compute_dtype == "float32":
        return nullcontext()
    return torch.autocast(device, getattr(torch, compute_dtype), cache_enabled=False)


def upcast(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype, or float32 if it is narrower: for sums, positions, thresholds and the softmax."""
    return torch.promote_types(dtype, torch.float32)


def matmul(matrix: Tensor, other: Tensor) -> Tensor:
    """Return `torch.matmul` in the precision of the pass, with bits that do not depend on the pack.

    On a CPU bfloat16 factors are multiplied and summed in float32 and the sums rounded, as on a GPU: torch chooses its
    bfloat16 kernels on a CPU by the number of matrices. The product of a lone member with a single row or column is
    computed twice, because torch would sum it in another order than in a pack.
    """
    # A batch of one matrix takes another kernel than several, which sums single rows and columns in another order.
    if len(matrix) == len(other) == 1 and matrix.dim() == other.dim() == 3 and 1 in (matrix.shape[1], other.shape[2]):
        return matmul(matrix.expand(2, -1, -1), other.expand(2, -1, -1))[:1]

    multiply = torch.bmm if matrix.dim() == other.dim() == 3 else torch.matmul
    device = matrix.device.type
    if device != "cpu" or not torch.is_autocast_enabled(device):
        return multiply(matrix, other)

    # Emulate bfloat16 on a CPU.
    narrow = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return multiply(matrix.to(narrow).float(), other.to(narrow).float()).to(narrow)


product = matmul  # its name in version 2.0.0, imported by modules of users


def sigmoid(values_M: Tensor) -> Tensor:
    """Return `torch.sigmoid` of values (M, ...), with bits that do not depend on the pack.

    On a CPU torch rounds the last elements of a tensor, which do not fill a vector, differently from the others.
    """
    size = values_M[0].numel()
    if values_M.device.type != "cpu" or torch.compiler.is_compiling() or size % _VECTOR_ELEMENTS == 0:
        return torch.sigmoid(values_M)
    padded = torch.nn.functional.pad(values_M.flatten(1), (0, -size % _VECTOR_ELEMENTS))
    return torch.sigmoid(padded)[:, :size].reshape(values_M.shape)


@cache
def find_mkl_order_problem() -> str | None:
    """Return a warning if MKL ignores MKL_CBWR, which it reads at its first product; None if it obeys or is absent."""
    # Ask the MKL that torch bundles which branch it uses; some builds of torch have no MKL.
    requested = os.environ.get("MKL_CBWR", "")
    try:
        branch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).mkl_serv_cbwr_get(-1)
    except (OSError, AttributeError):
        return None

    if not requested or "OFF" in requested.upper() or branch != _CBWR_OFF:
        return None
    return (
        f"MKL_CBWR={requested} was set too late, after torch computed: results may differ in their last bits between "
        "packs; import lengthwise before torch computes, or set the variable before Python starts"
    )
