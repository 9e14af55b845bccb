"""Where a sweep came from: commit, uncommitted changes, package versions, machine."""

import hashlib
import importlib.metadata
import os
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("lengthwise", "torch", "numpy", "ray", "optuna", "mlflow", "pandas", "pyarrow")


def provenance(source: Path | None = None) -> dict[str, Any]:
    """What the ledger keeps of the code and the machine; git fields are None outside a repository.

    `source` is the folder whose repository counts, by default the one this package was loaded from.
    """
    source = source or Path(__file__).resolve().parent
    commit = _git(source, "rev-parse", "HEAD")
    diff = _git(source, "diff", "HEAD", "--binary") if commit else None
    status = _git(source, "status", "--porcelain") if commit else None
    return {
        "git_commit": commit.decode().strip() if commit else None,
        "git_dirty": bool(status.strip()) if status is not None else None,
        "git_diff_sha": hashlib.sha256(diff).hexdigest()[:16] if diff else None,
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
        "gpus": _gpus(),
    }


def _git(folder: Path, *arguments: str) -> bytes | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=20, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
