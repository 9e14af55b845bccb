"""A sweep folder, a real repository of the user's, and a small disk."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.record.ledger.ledger import Ledger
from tests.orchestrator.record.ledgers import FIRST


class Repository:
    """A git work tree with one commit of `task.py` and `notes.md`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q")
        (root / "task.py").write_text("SIZE = 1\n")
        (root / "notes.md").write_text("notes\n")
        self.commit()

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(self.root), *who, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "as it is")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sweep of five records."""
    with Ledger.create(tmp_path / "sweep", FIRST) as ledger:
        for number in range(4):
            ledger.append("attempt", pack_id="p", attempt=number, error="worker died")
    return tmp_path / "sweep"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "mine")


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, or of the size that the test asks for."""
    disk, size = tmp_path / "disk", getattr(request, "param", "64k")
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)
