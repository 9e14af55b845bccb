"""A real repository of the user's."""

import subprocess
from pathlib import Path

import pytest


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
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "mine")
