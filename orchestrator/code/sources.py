"""The code a sweep is run with: the Python files of its working folders, and what git does not hold of them.

A working folder is the work tree (without git, the folder itself) that the sweep file, the current folder, the modules
of `imports` or lengthwise lie in. What is installed as a package is none. The ledger gets the commit of each and the
hash of each imported file; what the commit does not hold, the diff and untracked files, goes into a `CodeArchive`.

Training goes on only with the files it was begun with. Those that count are the user's own and, of lengthwise, what
draws and trains. An installed lengthwise, or another version of it, is no edit of a working folder.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.code.code_archive import CodeArchive
from orchestrator.code.own_code import Source, is_installed
from orchestrator.code.provenance import version
from orchestrator.code.work_tree import WorkTree, WorkTrees

HERE = Path(__file__).resolve().parents[2]  # where lengthwise was loaded from
PACKAGES = ("trainers", "search_spaces", "orchestrator")
ENGINE = ("trainers/", "search_spaces/", "orchestrator/plan/", "orchestrator/running/", "orchestrator/results/")
DIFF = "changes.diff"


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """What `gather` found, as the ledger is to have it; `archive` is written into the sweep folder beside it."""

    trees: Sequence[WorkTree]
    recorded: dict[str, Any]
    archive: CodeArchive

    def unless_known(self, states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """What a ledger with these states is given: of one of them only the name."""
        name = self.recorded["name"]
        return {"name": name} if any(known["name"] == name for known in states) else self.recorded


def begin_reading(*folders: Path | None) -> WorkTrees:
    """Have git asked of these folders, the current one, and lengthwise's own unless it is installed."""
    return WorkTrees([*filter(None, folders), Path.cwd(), *([] if is_installed(HERE) else [HERE])])


def folders_of(states: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The folders of the last recorded state that are still there."""
    roots = [Path(tree["root"]) for tree in states[-1]["trees"]] if states else []
    return [root for root in roots if root.is_dir()]


def gather(reading: WorkTrees, code: Sequence[Source]) -> Gathered:
    """Everything this process has imported from the working folders, but for `code`, which has copies of its own."""
    reading.add(source.root for source in code if not source.installed)
    tables = [_Table(tree) for tree in reading.read()]
    ours = {} if is_installed(HERE) else _contents(HERE, _of_lengthwise())
    elsewhere = {*(source.root / name for source in code for name in source.files), *(HERE / name for name in ours)}
    for path in sorted(_imported_below([table.root for table in tables]) - elsewhere):
        table = _innermost(tables, path)
        if table is not None:
            table.own |= _contents(table.root, [path])
    archive, home = CodeArchive(), _innermost(tables, HERE)
    for number, table in enumerate(tables):
        table.put_into(archive, f"{number + 1}-{table.root.name}")
    below = "" if home is None or home.root == HERE else f"{HERE.relative_to(home.root).as_posix()}/"
    for name, content in ours.items():
        if home is None or not home.holds(below + name):
            archive.put(f"lengthwise/{name}", content)
    lengthwise = {
        "version": version("lengthwise"),
        "root": str(HERE),
        "installed": is_installed(HERE),
        "files": {name: _short(content) for name, content in ours.items()},
        "uncommitted": [name for name in ours if home is not None and home.changes(below + name)],
    }
    recorded: dict[str, Any] = {
        "trees": [table.recorded() for table in tables if table.own or table.tree.commit or table.tree.why],
        "lengthwise": lengthwise,
        "archive": archive.recorded(),
        "left_out": archive.left_out,
    }
    named = {"name": _name(recorded), **recorded}
    return Gathered(trees=[table.tree for table in tables], recorded=named, archive=archive)


def changed_since(recorded: Mapping[str, Any]) -> list[str]:
    """The files that count and are no longer what they were, in words.

    Of a folder that is gone nothing is known: that of a job is a copy, and was removed.
    """
    then, found = recorded["lengthwise"], dict[Path, str]()
    if not then["installed"] and not is_installed(HERE) and then["version"] == version("lengthwise"):
        found |= {HERE / name: short for name, short in then["files"].items() if name.startswith(ENGINE)}
    for tree in recorded["trees"]:
        root = Path(tree["root"])
        if root.is_dir():
            found |= {root / name: short for name, short in tree["files"].items() if name != tree["main"]}
    changed = []
    for path, short in found.items():
        try:
            if not path.is_file():  # a record of somebody else's may name a device that can be read for ever
                changed.append(f"{path} is gone")
            elif _short(path.read_bytes()) != short:
                changed.append(f"{path} has changed")
        except OSError:
            changed.append(f"{path} is gone")
    return changed


def counting(*states: Mapping[str, Any]) -> list[dict[str, list[str]]]:
    """Of each recorded state the files that count: by name, the hashes of all that are called so below their folders.

    Where one of them is of an installed lengthwise, only the user's own.
    """
    shared = all(state["lengthwise"]["files"] for state in states)
    found = []
    for state in states:
        table: dict[str, list[str]] = {}
        for name, short in state["lengthwise"]["files"].items() if shared else ():
            if name.startswith(ENGINE):
                table.setdefault(name, []).append(short)
        for tree in state["trees"]:
            for name, short in tree["files"].items():
                if name != tree["main"]:
                    table.setdefault(name, []).append(short)
        found.append(table)
    return found


def version_change(states: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The version of lengthwise in the last recorded state and today's, where they are known and differ."""
    then, now = states[-1]["lengthwise"]["version"] if states else None, version("lengthwise")
    return (then, now) if then and now and then != now else None


class _Table:
    """A work tree and the files that were imported from it, by their names below its root."""

    def __init__(self, tree: WorkTree) -> None:
        self.tree, self.root = tree, tree.root
        self.own: dict[str, bytes] = {}

    def changes(self, name: str) -> bool:
        """Whether git tells that a file is not what the commit has."""
        tree = self.tree
        return tree.tracked is not None and (name not in tree.tracked or name in (tree.modified or ()))

    def holds(self, name: str) -> bool:
        """Whether the commit has the file, or the commit and a diff that is kept."""
        tree = self.tree
        if tree.tracked is None or tree.modified is None:
            return False
        return name in tree.tracked and (name not in tree.modified or tree.diff is not None)

    def put_into(self, archive: CodeArchive, folder: str) -> None:
        """Keep the diff and the files that are not held otherwise."""
        if self.tree.diff is not None:
            archive.put(f"{folder}/{DIFF}", self.tree.diff)
        elif self.tree.diff_bytes:
            archive.leave_out(f"{folder}/{DIFF}", self.tree.diff_bytes, "it is too large")
        for name, content in self.own.items():
            if not self.holds(name):
                archive.put(f"{folder}/{name}", content)

    def recorded(self) -> dict[str, Any]:
        """What the ledger is told. `main` is the script that was started: it may change, since it trains nothing."""
        tree, main = self.tree, getattr(sys.modules.get("__main__"), "__file__", None)
        return {
            "root": str(self.root),
            "commit": tree.commit,
            "dirty": tree.dirty,
            "diff": {"sha256": tree.diff_sha256, "bytes": tree.diff_bytes} if tree.diff_bytes else None,
            "by": tree.by,
            "why": tree.why,
            "files": {name: _short(content) for name, content in self.own.items()},
            "uncommitted": [name for name in self.own if self.changes(name)],
            "main": next((name for name in self.own if main and self.root / name == Path(main).absolute()), None),
        }


def _innermost(tables: Iterable[_Table], path: Path) -> _Table | None:
    around = (table for table in tables if path.is_relative_to(table.root))
    return max(around, key=lambda table: len(table.root.parts), default=None)


def _name(recorded: Mapping[str, Any]) -> str:
    """A hash of everything but the places where the folders lie."""
    trees = [{**tree, "root": None} for tree in recorded["trees"]]
    placeless = {**recorded, "trees": trees, "lengthwise": {**recorded["lengthwise"], "root": None}}
    return hashlib.sha256(json.dumps(placeless, sort_keys=True).encode()).hexdigest()[:12]


def _of_lengthwise() -> list[Path]:
    """Its Python files, imported so far or not: which are imported when depends on the command."""
    return [path for package in PACKAGES for path in (HERE / package).rglob("*.py")]


def _imported_below(roots: Iterable[Path]) -> set[Path]:
    """The files of imported modules below these folders, without installed packages and without tests."""
    starts = tuple(f"{root}{os.sep}" for root in roots)
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not is_installed(file):
            real = os.path.realpath(file)
            found |= {Path(real) for start in starts if real.startswith(start) and not _is_test(real[len(start) :])}
    return found


def _is_test(name: str) -> bool:
    *folders, last = Path(name).parts
    return "tests" in folders or last == "conftest.py" or last.startswith("test_")


def _contents(root: Path, paths: Iterable[Path]) -> dict[str, bytes]:
    """By name below `root`, in order; what can no longer be read is left out."""
    found = {}
    for path in sorted(paths):
        try:
            found[path.relative_to(root).as_posix()] = path.read_bytes()
        except OSError:
            continue
    return found


def _short(content: bytes) -> str:
    return Source.sha256_of(content)[:16]
