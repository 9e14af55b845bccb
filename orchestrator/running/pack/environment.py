"""What a worker computes with: versions, device, threads and settings that change the last bits of a number.

A flat table of texts and numbers. The ledger has each different one once, by its digest, and an evaluation names the
one it was made under. Whether a pack was compiled is no part of it: each evaluation says that itself (`form`).
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.code.own_code import Source
from orchestrator.code.provenance import version
from orchestrator.results.ran_under import ENGINE, MODULE
from orchestrator.wording import differing, first_few

PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna")
VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_DYNAMIC", "OMP_DYNAMIC", "MKL_CBWR"),
    *("MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "NPY_DISABLE_CPU_FEATURES"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
    *("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
)


def facts_for(work: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker tells the driver before it trains: the table, and its engine's files if they are not the driver's.

    `work` has the modules as `code`, the number of `gpus`, and the digest of the driver's files as `engine`.
    """
    table = environment(work["code"], gpus=work["gpus"])
    return {"environment": table, **({} if table[ENGINE] == work["engine"] else {"engine_files": engine_files()})}


def environment(code: Iterable[Mapping[str, Any]], *, gpus: float) -> dict[str, str | int | bool]:
    """The table of this process, for a pack that is about to be trained here; `code` are its own modules.

    Variables that are not set are left out. Threads are those that torch uses in one operation.
    """
    import torch

    from trainers.tensors.precision import unordered

    found: dict[str, str | int | bool | None] = {"python": platform.python_version(), **_versions()}
    cuda = bool(gpus) and torch.cuda.is_available()
    found["cuda"] = torch.version.cuda if cuda else None
    if cuda:
        found["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    found |= {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "processor": _processor(),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "float32 products": torch.get_float32_matmul_precision(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        **{name: os.environ.get(name) for name in VARIABLES},
        ENGINE: digest(engine_files()),
        **{f"{MODULE}{fields['module']}": fields["sha256"][:16] for fields in code},
    }
    if unordered():
        found["MKL_CBWR"] = f"{found['MKL_CBWR']}, too late"
    return {name: value for name, value in found.items() if value is not None}


def digest(table: Mapping[str, Any]) -> str:
    """Names a table by its content: 16 hex digits."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


class Environments:
    """What the packs of a driver are trained with, as their workers tell it."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Any]] = {}
        self._of: dict[str, str] = {}
        self._said: set[str] = set()

    def take(self, pack_id: str, facts: Mapping[str, Any]) -> str | None:
        """Keep the facts of a pack; a sentence, once, where its worker's engine is not that of this process."""
        table = facts["environment"]
        self._of[pack_id] = digest(table)
        self._tables[self._of[pack_id]] = table
        if "engine_files" not in facts or table[ENGINE] in self._said:
            return None
        self._said.add(table[ENGINE])
        names = first_few(differing(facts["engine_files"], engine_files()))
        return f"its worker trains with other code of lengthwise than the driver has ({names}); the report says which"

    def fields(self, pack_id: str, known: Mapping[str, Any]) -> dict[str, Any]:
        """What is recorded of a pack's environment: its digest, and the table unless it is `known`."""
        name = self._of.get(pack_id)
        if name is None:
            return {}
        new = {} if name in known else {"environment_in_full": {name: self._tables[name]}}
        return {"environment": name, **new}


@cache
def engine_files() -> dict[str, str]:
    """The Python files of `trainers` by name with their hashes, as they were when first asked for.

    A process asks before it trains and soon after it has imported them: what is edited later is not what it runs.
    """
    import trainers

    folder = Path(trainers.__file__).parent
    return {
        path.relative_to(folder.parent).as_posix(): Source.sha256_of(path.read_bytes())[:16]
        for path in sorted(folder.rglob("*.py"))
    }


@cache
def _versions() -> dict[str, str | None]:
    return {name: version(name) for name in PACKAGES}


@cache
def _processor() -> str:
    """Its name, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
