"""How much `ray job submit --working-dir .` would upload; clusters refuse more than 100 MiB."""

import logging
import os
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

    def describe(self) -> str:
        """Return a sentence with the size and the largest entries."""
        entries = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in self.largest[:4])
        return (
            f"`ray job submit --working-dir {self.folder}` would upload {self.size / 2**20:.0f} MiB, and the limit is "
            f"{LIMIT_BYTES // 2**20} MiB ({entries}); name what is not needed in .rayignore"
        )


def measure(folder: Path) -> Upload:
    """Return the size of all files that .gitignore and .rayignore do not exclude, by Ray's own rules."""
    from ray._private.runtime_env.packaging import get_excludes_from_ignore_files

    folder = folder.resolve()
    rules = get_excludes_from_ignore_files(folder, include_gitignore=True, logger=_log)
    sizes: dict[str, int] = {}
    for path, names, files in os.walk(folder):
        here = Path(path)
        # a rule such as `.venv/` matches its files: test an imagined file instead of walking the folder
        names[:] = [name for name in names if not any(rule(here / name / PROBE) for rule in rules)]
        for name in files:
            file = here / name
            if file.is_file() and not any(rule(file) for rule in rules):
                top = file.relative_to(folder).parts[0]
                sizes[top] = sizes.get(top, 0) + file.stat().st_size
    largest = sorted(sizes.items(), key=lambda entry: -entry[1])
    return Upload(folder=folder, size=sum(sizes.values()), largest=tuple(largest))
