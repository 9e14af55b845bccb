"""Where a sweep came from: commit, uncommitted changes, package versions, machine."""

import importlib.metadata
import os
import platform
import socket
import sys
from collections.abc import Sequence
from typing import Any

from orchestrator.code.work_tree import WorkTree

PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna", "mlflow", "pandas", "pyarrow")


def provenance(trees: Sequence[WorkTree]) -> dict[str, Any]:
    """What the ledger keeps of the machine, and of the first work tree that has a commit; None where none has."""
    tree = next((tree for tree in trees if tree.commit), None)
    return {
        "git_commit": tree.commit if tree else None,
        "git_dirty": tree.dirty if tree else None,
        "git_diff_sha": tree.diff_sha256[:16] if tree and tree.diff_sha256 else None,
        "versions": {name: found for name in PACKAGES if (found := version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
        "gpus": _gpus(),
    }


def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Of this machine; none where torch was not needed so far."""
    torch = sys.modules.get("torch")
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if torch else []
