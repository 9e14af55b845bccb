"""Files of an export: all are checked against existing ones before the first is written."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.wording import first_few
from trainers.files.atomic_file import write_atomic

Files = Mapping[Path, Callable[[], bytes]]
"""The content of each file, made when it is written."""


def check_targets(paths: Iterable[Path], *, force: bool, new_folders: Collection[Path | None] = ()) -> None:
    """Raise UserError for a file that exists, unless `force`, and for a path where no file can be written.

    `new_folders` will be made if they are missing.
    """
    paths = list(paths)
    if twice := sorted({str(path) for path in paths if paths.count(path) > 1}):
        raise UserError(f"{first_few(twice)}: asked for twice; give each file a name of its own")
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path}: is a folder; give the name of a file")
        folder = path.parent.parent if path.parent in new_folders and not path.parent.exists() else path.parent
        if not folder.is_dir():
            raise UserError(f"{path}: there is no folder {folder}")
    if existing := [str(path) for path in paths if path.exists() and not force]:
        raise UserError(f"{first_few(existing)}: exists already; choose another name, or --force to replace it")


def write_files(files: Files) -> None:
    """Write each file whole; raises UserError naming one that cannot be written."""
    for path, content in files.items():
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, [content()])
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error
