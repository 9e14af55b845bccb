"""Where sweeps are kept, and which files a sweep folder made by somebody else may name: those within it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import NotASweep, UserError
from orchestrator.wording import command
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
    """What is wrong with a folder that holds no ledger, with the sweep beside it that has the nearest name.

    Without such a sweep it says where a relative path or a name was looked for: the command may be typed elsewhere.
    """
    said = f"holds no sweep: there is no {LEDGER_FILE} in it" if folder.is_dir() else "does not exist"
    if folder.exists() and not folder.is_dir():
        said = "is a file; a sweep is a folder"
    beside = [*sweep_folders(folder.parent), *(sweep_folders(default_storage()) if len(folder.parts) == 1 else [])]
    hint = nearest_name(folder.name, [one.name for one in beside])
    meant = next((f"; did you mean {one}?" for one in beside if one.name == hint), "")
    if not meant and not folder.exists() and not folder.is_absolute():
        named = f" or {default_storage().resolve()} ({STORAGE_VARIABLE} names another folder)"
        meant = f"; it is not in {folder.resolve().parent}{named if len(folder.parts) == 1 else ''}"
    return NotASweep(f"{folder} {said}{meant}")


def check_storage(storage: Path) -> None:
    """Raise UserError if `storage` holds no sweeps; creates nothing."""
    if sweep_folders(storage):
        return
    if (storage / LEDGER_FILE).exists():
        raise UserError(
            f"{storage} is itself a sweep; did you mean {command('ui --storage', storage.resolve().parent)}?"
        )
    raise UserError(f"no sweeps in {storage}; did you mean --storage?")


@dataclass(frozen=True)
class Within:
    """Holds the paths that the records of a sweep name inside its folder, also where symbolic links lead elsewhere.

    Folders are looked into once, when a record first names a file in them.
    """

    folder: Path
    _links: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    def refuse_outside(self, path: str) -> None:
        """Raise ValueError, in words that go on from the path, for one that is not relative, plain and inside."""
        *parents, name = parts = path.split("/")
        if not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in parts):
            raise ValueError("is no plain path inside the sweep folder")
        parent = "/".join(parents)
        if parent not in self._links:
            self._links[parent] = self._links_in(self.folder / parent)
        if name in self._links[parent]:
            self._refuse_leading_out(self.folder / path)

    def _links_in(self, folder: Path) -> frozenset[str]:
        self._refuse_leading_out(folder)
        try:
            with os.scandir(folder) as entries:
                return frozenset(entry.name for entry in entries if entry.is_symlink())
        except OSError:  # reading the file itself will say it
            return frozenset()

    def _refuse_leading_out(self, path: Path) -> None:
        try:
            inside = path.resolve().is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError):  # a link to itself
            inside = False
        if not inside:
            raise ValueError("leads out of the sweep folder")
