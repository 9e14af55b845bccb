"""Machines that share a bucket, here a folder (file://), each with a cache folder of its own."""

from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.addresses import find_local_copy

FIRST = {"name": "s", "study": "tests", "spec": {}, "spec_hash": "f" * 16, "provenance": {}}


class Machine:
    """A cache folder of its own; `with` makes this process a machine that has it."""

    def __init__(self, cache: Path, storage: Path) -> None:
        self._cache, self.bucket = cache, storage / "s"
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Path:
        self._patch.setenv("XDG_CACHE_HOME", str(self._cache))
        return find_local_copy(f"file://{self.bucket}")

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def copied_bytes(bucket: Path) -> int:
    sizes = [0]
    for path in bucket.glob("ledger/*"):
        with suppress(FileNotFoundError):  # replaced by a longer copy
            sizes.append(path.stat().st_size)
    return max(sizes)
