"""The user's files that a command needs: those that its words name, and the local modules that these import."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def find_files(words: Sequence[str], folder: Path) -> list[Path]:
    """Return the files below `folder` that a command needs, relative to it and sorted.

    A word names a file as it is, after `=`, or as a module after `-m`. Imports are read from the source, without
    running it, and searched beside the script and in `folder`; other modules belong to the environment.
    """
    folder = folder.absolute()
    # Each waits with the folder in which its absolute imports are searched first.
    waiting: list[tuple[Path, Path]] = []
    for before, word in zip(["", *words], words, strict=False):
        for path in (folder / word, folder / (word.partition("=")[2] or word)):
            waiting.append((path, path.parent))
        if before == "-m":
            waiting += [(path, folder) for path in _find_module(folder, f"{word}.__main__")]

    files: set[Path] = set()
    while waiting:
        path, script_folder = waiting.pop()
        path = Path(os.path.normpath(path))
        if path in files or not path.is_file() or not path.is_relative_to(folder):
            continue
        files.add(path)
        if path.suffix == ".py":
            for name, level in _read_imports(path):
                # A relative import of level 1 starts in the folder of its file.
                bases = [path.parents[level - 1]] if level else [script_folder, folder]
                modules = next(filter(None, (_find_module(base, name) for base in bases)), [])
                waiting += [(module, script_folder) for module in modules]
    return sorted(path.relative_to(folder) for path in files)


def _read_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the dotted names that a file imports, each with the level of a relative import, 0 if it is absolute."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # it fails when it is run, with the better message
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = [node.module] if node.module else []
            yield from ((".".join([*module, alias.name]), node.level) for alias in node.names)


def _find_module(base: Path, name: str) -> list[Path]:
    """Return the files that importing a dotted name reads below `base`: of its packages, and of the module itself."""
    files: list[Path] = []
    for part in name.split("."):
        package, module = base / part / "__init__.py", base / f"{part}.py"
        if module.is_file() and not package.is_file():
            return [*files, module]
        files += [package] if package.is_file() else []
        base = base / part
    return files
