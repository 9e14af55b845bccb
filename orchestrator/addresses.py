"""Map an address such as s3://bucket/prefix/name to a folder of this machine, the local copy, and back.

The copy of SCHEME://REST is ~/.cache/lengthwise/storage/SCHEME/REST, so that the driver, its children and every verb
work with a folder.
"""

import re
from pathlib import Path

IN_TEMPORARY_COPY = "is relative, and the folder of a job is a temporary copy"
LASTING_STORAGES = "an absolute path on the cluster such as /srv/sweeps, or an address such as s3://bucket/prefix"
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,3}([^/].*)")  # pathlib makes one slash of several


def is_address(text: str | Path) -> bool:
    """Return whether a text is an address, not the path of a folder."""
    return _ADDRESS.fullmatch(str(text)) is not None


def is_absolute(storage: str) -> bool:
    """Return whether a storage is an absolute path or an address, independent of the current folder."""
    return storage.startswith("/") or is_address(storage)


def find_local_copy(text: str | Path) -> Path:
    """Return the local copy of an address, or a given folder unchanged.

    find_local_copy("s3://bucket/a") -> ~/.cache/lengthwise/storage/s3/bucket/a. Raises OSError without a home.
    """
    address = _ADDRESS.fullmatch(str(text))
    if address is None:
        return Path(text)
    return _find_root().joinpath(address[1], *(part for part in address[2].split("/") if part not in ("", ".", "..")))


def find_address(folder: Path) -> str | None:
    """Return the address of a local copy; None for any other folder."""
    try:
        root = _find_root().resolve()
        scheme, *rest = folder.resolve().relative_to(root).parts
    except (ValueError, OSError):
        return None
    return f"{scheme}://{'/' if scheme == 'file' else ''}{'/'.join(rest)}" if rest else None


def get_address_or_path(folder: Path) -> str:
    """Return the address of a folder if it is a local copy, otherwise its path."""
    return find_address(folder) or str(folder)


def _find_root() -> Path:
    """Return the folder of all local copies. Raises OSError without a home folder."""
    from trainers.files.cache_folder import find_cache_path  # imports numpy, which `--help` need not

    return find_cache_path("storage")
