"""Locate sweep folders; refuse paths that lead out of them, because somebody else may have made the folder."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.addresses import (
    IN_TEMPORARY_COPY,
    LASTING_STORAGES,
    find_address,
    find_local_copy,
    get_address_or_path,
    is_absolute,
    is_address,
)
from orchestrator.errors import NotASweep, UnexpectedEntry, UserError
from orchestrator.interface.work import CHECKPOINTS_FOLDER
from orchestrator.text.wording import format_command, join_first_few
from search_spaces import find_nearest_name
from search_spaces.grammar.passwords import has_password

LEDGER_FILE = "events.jsonl"
LOCK_FILE = ".lock"
OWNER_FILE = ".owner.json"
PUBLISH_LOCK_FILE = ".publish.lock"
# These files are opened in place; other files are replaced atomically.
IN_PLACE_FILES = (LEDGER_FILE, LOCK_FILE, OWNER_FILE, PUBLISH_LOCK_FILE)
WEIGHTS_FOLDER = "weights"
SWEEP_FOLDERS = (CHECKPOINTS_FOLDER, "code", "curves", "figures", WEIGHTS_FOLDER)
REPORT_HTML = "report.html"
STOP_FILE = f"{CHECKPOINTS_FOLDER}/stop"  # stops all packs at their next evaluation
STORAGE_VARIABLE = "LENGTHWISE_STORAGE"
FIRST_SWEEP = "`lengthwise run quickstart` makes one"
MAX_NAMED_SWEEPS = 5  # in a message
_chosen_storage = ""  # the value of --storage


def is_inside_ray_job() -> bool:
    """Return whether `ray job submit` started this process; its working folder is then a temporary copy."""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


@contextmanager
def use_storage(storage: str) -> Iterator[None]:
    """Within the context, look for sweeps given by name only in this folder or at this address."""
    global _chosen_storage
    _chosen_storage = storage
    try:
        yield
    finally:
        _chosen_storage = ""


def resolve_folder(location: str | Path) -> Path:
    """Return the folder of a storage or sweep, for an address its local copy.

    Raises UserError for an address with a password, because the path of the copy would contain it.
    """
    folder = find_local_copy(location)
    if is_address(location) and has_password(address := get_address_or_path(folder)):
        variable = f"FSSPEC_{address.partition(':')[0].upper()}_PASSWORD"
        raise UserError(
            f"{address} has a password, which would appear in paths and messages; remove it and set {variable}, "
            "or configure it in ~/.config/fsspec"
        )
    return folder


def find_storage(storage: str | Path) -> Path:
    """Return the folder of a storage, for an address its local copy.

    Raises UserError for a relative folder inside a Ray job, and what `resolve_folder` raises.
    """
    if is_inside_ray_job() and not is_absolute(str(storage)):
        raise UserError(f"the storage {storage} {IN_TEMPORARY_COPY}; allowed: {LASTING_STORAGES}")
    return resolve_folder(storage)


def find_default_storage() -> Path:
    """Return the chosen storage, LENGTHWISE_STORAGE, ~/lengthwise-sweeps inside a Ray job, otherwise ./sweeps.

    For an address, its local copy. Raises what `find_storage` raises.
    """
    chosen = _chosen_storage or os.environ.get(STORAGE_VARIABLE)
    if chosen:
        return find_storage(chosen)
    return Path.home() / "lengthwise-sweeps" if is_inside_ray_job() else Path("sweeps")


def list_sweep_folders(storage: Path) -> list[Path]:
    """Return the sweep folders in a storage folder, sorted by name."""
    return sorted(ledger.parent for ledger in storage.glob(f"*/{LEDGER_FILE}"))


def find_in_storage(sweep: str | Path) -> Path:
    """Return a sweep's folder as given; for a bare name without such a folder here, the folder in the storage.

    If a storage is chosen, a bare name always refers to it.
    """
    folder = resolve_folder(sweep)
    if folder.is_absolute():
        return folder
    stored = find_default_storage() / folder
    if _chosen_storage and is_bare_name(sweep):
        return stored
    is_bare = is_bare_name(str(sweep).rstrip("/"))  # ./NAME is a folder here
    return stored if is_bare and not has_ledger(folder) and has_ledger(stored) else folder


def is_bare_name(sweep: str | Path) -> bool:
    """Return whether a sweep is given by a bare name, not by a path or an address."""
    return "/" not in str(sweep) and str(sweep) not in ("", ".", "..")


def has_ledger(folder: Path) -> bool:
    """Return whether the folder has a ledger, valid or not; False if the folder cannot be read."""
    return _read_file_mode(folder / LEDGER_FILE) != 0


def make_no_sweep_error(folder: Path) -> NotASweep:
    """Return the error for a folder without a ledger, with the sweep of the nearest name.

    If no name is near, the error lists the searched folders and their sweeps, because the working folder may be wrong.
    """
    reason = f"is not a sweep: no {LEDGER_FILE} in it" if folder.is_dir() else "does not exist"
    if folder.exists() and not folder.is_dir():
        reason = "is a file; a sweep is a folder"

    # The name may be misspelt; a bare name may also mean a sweep in the default storage.
    nearby = [
        *list_sweep_folders(folder.parent),
        *(list_sweep_folders(find_default_storage()) if len(folder.parts) == 1 else []),
    ]
    hint = find_nearest_name(folder.name, [sweep.name for sweep in nearby])
    suggestion = next((f" (did you mean {sweep}?)" for sweep in nearby if sweep.name == hint), "")

    # A study as `init` writes it has the name of its sweep, which may not have been run yet.
    if not suggestion and (folder / "sweep.yaml").is_file():
        suggestion = f"; its sweep file may not have been run: {format_command('run', folder / 'sweep.yaml')}"

    # Without a similar name the command may have been run in another folder than intended.
    if not suggestion and not folder.exists() and not folder.is_absolute():
        here, storage = folder.resolve().parent, find_default_storage().resolve()
        default_folder = f" and {storage} (set {STORAGE_VARIABLE} for another folder)"
        names = join_first_few([sweep.name for sweep in nearby], MAX_NAMED_SWEEPS)
        suggestion = f"; searched {here}{default_folder if len(folder.parts) == 1 and storage != here else ''}"
        suggestion += f"; sweeps there: {names}" if names else ""
    return NotASweep(f"{folder} {reason}{suggestion}")


def describe_no_sweeps(storage: Path) -> str:
    """Return that the default storage has no sweeps yet, and how to make one."""
    return f"no sweeps in {get_address_or_path(storage)}{'' if find_address(storage) else '/'} yet; {FIRST_SWEEP}"


def refuse_empty_storage(storage: Path, *, is_default: bool = False) -> None:
    """Raise UserError if `storage` has no sweeps; creates nothing. `is_default`: the user did not name the folder."""
    if list_sweep_folders(storage):
        return
    if has_ledger(storage):
        raise UserError(
            f"{storage} is itself a sweep; did you mean {format_command('ui --storage', storage.resolve().parent)}?"
        )
    if is_default:
        raise UserError(describe_no_sweeps(storage))
    if not storage.exists():
        raise UserError(f"{get_address_or_path(storage)} does not exist; --storage is the folder of the sweeps")
    raise UserError(f"{get_address_or_path(storage)} has no sweeps; --storage is the folder of the sweeps")


def is_plain_sweep_path(path: str) -> bool:
    """Return whether a recorded path is FOLDER/FILE, a plain path inside the sweep folder."""
    folder, _, name = path.partition("/")
    is_plain = path.isprintable() and not {"\\", "/"} & set(name) and name not in ("", ".", "..")
    return folder in SWEEP_FOLDERS and is_plain


def refuse_unexpected_files(folder: Path) -> None:
    """Raise UnexpectedEntry if a link, a pipe or a folder has the name of one of IN_PLACE_FILES."""
    for path in (folder / name for name in IN_PLACE_FILES):
        mode = _read_file_mode(path)
        if stat.S_ISLNK(mode):
            raise UnexpectedEntry(f"{path} is a link; replace it by the file itself")
        if mode and not stat.S_ISREG(mode):
            raise UnexpectedEntry(f"{path} is not a regular file; remove it, or restore the file from a copy")


def refuse_unexpected_folders(folder: Path) -> None:
    """Raise UnexpectedEntry if one of SWEEP_FOLDERS is a file, or if a link in it points out of the sweep folder.

    The sweep folder may itself be a link, and so may any folder above it.
    """
    for path in (folder / name for name in SWEEP_FOLDERS):
        mode = _read_file_mode(path)
        if stat.S_ISLNK(mode):
            _refuse_outside_link(folder, path)
        elif mode and not stat.S_ISDIR(mode):
            raise UnexpectedEntry(f"{path} is not a folder; remove it")
        with suppress(OSError), os.scandir(path) as entries:
            for link in [path / entry.name for entry in entries if entry.is_symlink()]:
                _refuse_outside_link(folder, link)


def _read_file_mode(path: Path) -> int:
    """Return the file mode of a path; 0 if it does not exist or cannot be read: opening it reports the error."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _refuse_outside_link(folder: Path, path: Path) -> None:
    """Raise UnexpectedEntry if the link `path` points out of the sweep folder."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link to itself
        inside = False
    if not inside:
        raise UnexpectedEntry(
            f"{path} is a link to {path.readlink()}, outside the sweep folder; replace it by its target, or move the "
            "sweep folder and link to that"
        )
