"""How much of a folder a job would upload; clusters refuse more than 100 MiB."""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LIMIT_BYTES = 100 * 2**20
_log = logging.getLogger(__name__)

PROBE = "any-file"


@dataclass(frozen=True, kw_only=True)
class Upload:
    """Size of an upload in bytes, and its largest entries at the top level, largest first."""

    folder: Path
    size: int
    largest: tuple[tuple[str, int], ...]

    @property
    def too_large(self) -> bool:
        """Whether the cluster would refuse it."""
        return self.size > LIMIT_BYTES

    def describe(self, command: str) -> str:
        """Return a sentence with the size and the largest entries; `command` is what would upload them."""
        entries = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in self.largest[:4])
        return (
            f"`{command}` would upload {self.size / 2**20:.0f} MiB, and the limit is "
            f"{LIMIT_BYTES // 2**20} MiB ({entries}); name what is not needed in .rayignore"
        )


def uploaded_files(folder: Path, unneeded: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the files of `folder` that .gitignore and .rayignore do not exclude, by Ray's own rules.

    A file or folder for which `unneeded` is True is left out, too.
    """
    from ray._private.runtime_env.packaging import get_excludes_from_ignore_files

    rules = get_excludes_from_ignore_files(folder, include_gitignore=True, logger=_log)
    for path, names, files in os.walk(folder):
        here = Path(path)
        # a rule such as `.venv/` matches its files: test an imagined file instead of walking the folder
        names[:] = [
            name for name in names if not any(rule(here / name / PROBE) for rule in rules) and not unneeded(here / name)
        ]
        for file in map(here.joinpath, files):
            if file.is_file() and not any(rule(file) for rule in rules) and not unneeded(file):
                yield file


def measure(folder: Path, unneeded: Callable[[Path], bool] = lambda path: False) -> Upload:
    """Return the size of the `uploaded_files` of a folder."""
    folder = folder.resolve()
    sizes: dict[str, int] = {}
    for file in uploaded_files(folder, unneeded):
        top = file.relative_to(folder).parts[0]
        sizes[top] = sizes.get(top, 0) + file.stat().st_size
    largest = sorted(sizes.items(), key=lambda entry: -entry[1])
    return Upload(folder=folder, size=sum(sizes.values()), largest=tuple(largest))
