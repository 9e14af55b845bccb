"""Check the output files of a command: their endings and folders, and that none is replaced without --force."""

from collections.abc import Collection
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.text.wording import join_first_few


def check_ending(option: str, path: Path | None, ending: str) -> None:
    """Raise UserError if the file of an option is given without this ending."""
    if path is not None and path.suffix != ending:
        raise UserError(f"--{option} {path}: does not end with {ending}")


def check_targets(paths: list[Path], *, force: bool, new_folders: Collection[Path | None] = ()) -> None:
    """Raise UserError for files that exist, unless `force`, and for paths where no file can be written.

    The caller creates missing `new_folders`.
    """
    # For a folder that the caller will create, check its nearest existing parent.
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
        raise UserError(f"{join_first_few(existing)}: exists already; choose another name, or --force to replace it")
