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
    """Return the machine and its packages as ledger fields; its GPUs only if torch is imported, which lists them."""
    fields: dict[str, Any] = {
        "versions": {name: installed for name in PACKAGES if (installed := read_version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
    }
    # Sweeps of programs do without torch; without the key their GPUs count as unknown, not as none.
    if torch := sys.modules.get("torch"):
        fields["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return fields


@cache
def read_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed. Read once, as packages are imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
