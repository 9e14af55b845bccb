"""Every README of the repository, taken apart: blocks of code, prose, links, headings and the tree of folders."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """One README.md; `name` is its path from the root."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def folder(self) -> Path:
        return self.path.parent

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The text without its blocks of code."""
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.M | re.S)

    def blocks(self, language: str) -> list[str]:
        """The blocks of code marked with `language`, in their order."""
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, re.M | re.S)
        return [text for name, text in blocks if name == language]

    @cached_property
    def links(self) -> list[str]:
        """Where links and pictures lead, as written."""
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)

    @cached_property
    def anchors(self) -> set[str]:
        """What a link into this page may name after its #, by the rules of GitHub."""
        headings = re.findall(r"^#+ (.*)$", self.prose, re.M)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def tree(self) -> Iterator[str]:
        """Every folder of the page's tree, relative to the page's own folder."""
        folders: list[str] = []
        for line in "".join(self.blocks("text")).splitlines():
            depth = (len(line) - len(line.lstrip())) // 2
            names = re.split(r"\s{2,}", line.strip())[0].split()
            assert depth <= len(folders), f"{self.name}: {line!r} is indented below nothing"
            folders = folders[:depth]
            yield from ("".join(folders) + name for name in names)
            if names[-1].endswith("/"):
                folders.append(names[-1])


def committed() -> list[Path]:
    """Every file of the repository, relative to its root; new ones too, unless git ignores them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()})


def depth(path: Path) -> int:
    return len(path.parts)


PAGES = [Page(ROOT / path) for path in sorted(committed(), key=depth) if path.name == "README.md"]
"""The README of the repository first, then those of its folders, then what lies deeper."""

FOLDERS = [page for page in PAGES if len(Path(page.name).parts) == 2]
"""The README of each folder at the top."""


def page(name: str) -> Page:
    """The README with this path from the root."""
    (match,) = (page for page in PAGES if page.name == name)
    return match
