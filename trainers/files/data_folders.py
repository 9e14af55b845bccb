"""The folders where data files are searched: folders of sweep files, the current folder, the data folder."""

import os
from pathlib import Path

from trainers.errors import CorpusError
from trainers.files.cache_folder import cache_folder

DATA_VARIABLE = "LENGTHWISE_DATA"
_sweep_folders: list[Path] = []  # of this process, the latest first


def data_folder() -> Path:
    """Return the data folder: LENGTHWISE_DATA, else a cache folder, created if missing. Raises CorpusError."""
    if chosen := os.environ.get(DATA_VARIABLE):
        return Path(chosen)
    try:
        return cache_folder("data")
    except OSError as error:
        raise CorpusError(f"cannot create the data folder: {error}; set {DATA_VARIABLE} to another folder") from error


def search_first(folder: Path) -> None:
    """Put a folder, such as that of the current sweep file, before all others in `search_folders`."""
    folder = folder.resolve()
    _sweep_folders[:] = [folder, *(other for other in _sweep_folders if other != folder)]


def search_folders() -> tuple[Path, ...]:
    """Return the folders to search, in order. Raises CorpusError if the data folder cannot be created."""
    return tuple(dict.fromkeys((*_sweep_folders, Path.cwd(), data_folder())))
