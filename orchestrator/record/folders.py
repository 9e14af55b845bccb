"""Where sweeps are kept."""

import os
from pathlib import Path

from orchestrator.errors import UserError

STORAGE_VARIABLE = "LENGTHWISE_STORAGE"


def inside_ray_job() -> bool:
    """Whether this process was started by `ray job submit`; its working folder is then a temporary copy."""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


def default_storage() -> Path:
    """LENGTHWISE_STORAGE if it is set, ~/lengthwise-sweeps inside a Ray job, otherwise ./sweeps."""
    chosen = os.environ.get(STORAGE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path.home() / "lengthwise-sweeps" if inside_ray_job() else Path("sweeps")


def sweep_folders(storage: Path) -> list[Path]:
    """The sweep directories in a storage folder, by name."""
    return sorted(ledger.parent for ledger in storage.glob("*/events.jsonl"))


def check_storage(storage: Path) -> None:
    """Raise UserError if `storage` holds no sweeps; creates nothing."""
    if sweep_folders(storage):
        return
    if (storage / "events.jsonl").exists():
        raise UserError(f"{storage} is itself a sweep; its storage folder is --storage {storage.resolve().parent}")
    raise UserError(f"no sweeps in {storage}; did you mean --storage?")
