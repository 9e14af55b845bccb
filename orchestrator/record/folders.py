"""Where sweeps are kept."""

import os
from pathlib import Path

from orchestrator.errors import NotASweep, UserError
from search_spaces import nearest_name

LEDGER_FILE = "events.jsonl"
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
    return sorted(ledger.parent for ledger in storage.glob(f"*/{LEDGER_FILE}"))


def found_in_storage(folder: Path) -> Path:
    """A sweep's folder as it was given; where only its name was, and it is not here, the one in the storage folder."""
    stored = default_storage() / folder
    here, alone = (folder / LEDGER_FILE).exists(), len(folder.parts) == 1 and folder.name not in ("", "..")
    return stored if not here and alone and (stored / LEDGER_FILE).exists() else folder


def no_sweep(folder: Path) -> NotASweep:
    """What is wrong with a folder that holds no ledger, with the sweep beside it that has the nearest name."""
    said = f"holds no sweep: there is no {LEDGER_FILE} in it" if folder.is_dir() else "does not exist"
    if folder.exists() and not folder.is_dir():
        said = "is a file; a sweep is a folder"
    beside = [*sweep_folders(folder.parent), *(sweep_folders(default_storage()) if len(folder.parts) == 1 else [])]
    hint = nearest_name(folder.name, [one.name for one in beside])
    meant = next((f"; did you mean {one}?" for one in beside if one.name == hint), "")
    return NotASweep(f"{folder} {said}{meant}")


def check_storage(storage: Path) -> None:
    """Raise UserError if `storage` holds no sweeps; creates nothing."""
    if sweep_folders(storage):
        return
    if (storage / LEDGER_FILE).exists():
        raise UserError(f"{storage} is itself a sweep; its storage folder is --storage {storage.resolve().parent}")
    raise UserError(f"no sweeps in {storage}; did you mean --storage?")
