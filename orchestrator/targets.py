"""Files that a command writes where its user says: with the usual ending, and none is replaced without --force."""

from collections.abc import Collection
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.text.wording import first_few


def check_ending(option: str, path: Path | None, ending: str) -> None:
    """Raise UserError unless the file of an option, if it is given, has this ending."""
    if path is not None and path.suffix != ending:
        raise UserError(f"--{option} {path}: allowed: a name that ends with {ending}")


def check_targets(paths: list[Path], *, force: bool, new_folders: Collection[Path | None] = ()) -> None:
    """Raise UserError for a file that exists, unless `force`, and for a path where no file can be written.

    `new_folders` will be made if they are missing.
    """
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path}: is a folder; give the name of a file")
        folder = path.parent
        while folder in new_folders and not folder.exists():
            folder = folder.parent
        if folder.is_file():
            raise UserError(f"{path}: {folder} is a file, not a folder")
        if not folder.is_dir():
            raise UserError(f"{path}: there is no folder {folder}")
    if existing := [str(path) for path in paths if path.exists() and not force]:
        raise UserError(f"{first_few(existing)}: exists already; choose another name, or --force to replace it")
