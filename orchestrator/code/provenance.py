"""Describe the machine and the package versions that a sweep is started with."""

import importlib.metadata
import os
import platform
import socket
import sys
from functools import cache
from typing import Any

PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna", "mlflow", "pandas", "pyarrow")


def read_provenance() -> dict[str, Any]:
    """Return the machine and its packages as ledger fields."""
    return {
        "versions": {name: installed for name in PACKAGES if (installed := read_version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
        "gpus": _list_gpu_names(),
    }


@cache
def read_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed. Read once, as packages are imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _list_gpu_names() -> list[str]:
    """Return the names of the GPUs of this machine; empty if torch is not imported."""
    torch = sys.modules.get("torch")
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if torch else []
