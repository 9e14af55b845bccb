"""Describe the machine and the package versions that a sweep is started with."""

import importlib.metadata
import os
import platform
import socket
import sys
from typing import Any

PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna", "mlflow", "pandas", "pyarrow")


def provenance() -> dict[str, Any]:
    """Return the machine and its packages as fields of the ledger."""
    return {
        "versions": {name: installed for name in PACKAGES if (installed := version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
        "gpus": _gpus(),
    }


def version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Return the names of the GPUs of this machine; empty if torch is not imported."""
    torch = sys.modules.get("torch")
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if torch else []
