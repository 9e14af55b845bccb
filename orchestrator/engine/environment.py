"""The environment of a worker: versions, device, threads and settings that change the last bits of a number.

An environment is a flat table of texts and numbers. The ledger has each environment once, by its digest, and every
evaluation refers to it. Whether a pack was compiled is not part of it: every evaluation records that as `compiled`.
"""

import os
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.code.code_record import compute_engine_digest
from orchestrator.code.provenance import read_version

ENGINE = "engine"  # the key of the digest of trainers
MODULE = "module "  # begins the keys of the digests of user modules
PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna")
VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_DYNAMIC", "OMP_DYNAMIC", "MKL_CBWR"),
    *("MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "NPY_DISABLE_CPU_FEATURES"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
    *("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
)


def read_environment(code: Iterable[Mapping[str, Any]], *, gpus: float) -> dict[str, str | int | bool]:
    """Return the environment of this process, which trains a pack; `code` has the imported user modules.

    Variables that are not set are left out. `threads` is the number that torch uses in one operation.
    """
    import torch

    from trainers.tensors.precision import find_mkl_order_problem

    settings: dict[str, str | int | bool | None] = {"python": platform.python_version(), **_read_versions()}
    uses_cuda = bool(gpus) and torch.cuda.is_available()
    settings["cuda"] = torch.version.cuda if uses_cuda else None
    if uses_cuda:
        settings["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]

    # Everything that may change the last bits of a number, so that reports can name the differences of two workers.
    settings |= {
        "device": torch.cuda.get_device_name() if uses_cuda else "cpu",
        "processor": _read_processor(),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "float32 products": torch.get_float32_matmul_precision(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        **{name: os.environ.get(name) for name in VARIABLES},
        ENGINE: compute_trainers_digest(),
        **{f"{MODULE}{fields['module']}": fields["sha256"][:16] for fields in code},
    }

    # MKL reads the variable at its first product; set later it has no effect, so its value alone would mislead.
    if find_mkl_order_problem():
        settings["MKL_CBWR"] = f"{settings['MKL_CBWR']}, too late"
    return {name: value for name, value in settings.items() if value is not None}


@cache
def compute_trainers_digest() -> str:
    """Return the digest of `trainers` at the first call.

    Every process calls this between the import of `trainers` and the training, because the files may be edited later.
    """
    return compute_engine_digest("trainers")


@cache
def _read_versions() -> dict[str, str | None]:
    """Return the installed versions of PACKAGES, None for a missing package."""
    return {name: read_version(name) for name in PACKAGES}


@cache
def _read_processor() -> str:
    """Return the name of the processor, from /proc/cpuinfo on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    model_names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(model_names, platform.processor() or platform.machine())
