"""Folders that are made once for all processes of pytest."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def fill_once(tmp_path_factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of this name; the first process that asks for it calls `fill(folder)`, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    filled = folder.with_suffix(".filled")
    with FileLock(folder.with_suffix(".lock")):
        if not filled.exists():
            folder.mkdir(exist_ok=True)
            fill(folder)
            filled.touch()
    return folder
