"""The folders where data files are searched: folders of sweep files, the current folder, the data folder."""

import os
from pathlib import Path

from trainers.errors import CorpusError
from trainers.files.cache_folder import make_cache_folder

DATA_VARIABLE = "LENGTHWISE_DATA"
_sweep_folders: list[Path] = []  # of this process, the latest first


def find_data_folder() -> Path:
    """Return the data folder: LENGTHWISE_DATA, else a cache folder, created if missing. Raises CorpusError."""
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder)
    try:
        return make_cache_folder("data")
    except OSError as error:
        raise CorpusError(f"cannot create the data folder: {error}; set {DATA_VARIABLE} to another folder") from error


def add_search_folder(folder: Path) -> None:
    """Put a folder, such as the current sweep file's, before all others in `list_search_folders`."""
    folder = folder.resolve()
    _sweep_folders[:] = [folder, *(earlier for earlier in _sweep_folders if earlier != folder)]


def list_search_folders() -> tuple[Path, ...]:
    """Return the folders to search, in order. Raises CorpusError if the data folder cannot be created."""
    return tuple(dict.fromkeys((*_sweep_folders, Path.cwd(), find_data_folder())))
