"""Find the user's files that a command needs: files that its words name, and local modules that these import."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.code.user_code import read_imports


def find_files(words: Sequence[str], folder: Path) -> list[Path]:
    """Return the files below `folder` that a command needs, relative to it and sorted.

    A word names a file by itself, after `=`, or as a module after `-m`. Imports are read from the source, without
    running it, and searched beside the script and in `folder`; other modules belong to the environment.
    """
    # Pairs of a file and the folder of its script, where Python searches absolute imports first.
    folder = folder.absolute()
    pending: list[tuple[Path, Path]] = []
    for previous, word in zip(["", *words], words, strict=False):
        for path in (folder / word, folder / (word.partition("=")[2] or word)):
            pending.append((path, path.parent))
        if previous == "-m":
            pending += [(path, folder) for path in _find_module(folder, f"{word}.__main__")]

    # Files outside of the folder are not copied, so their imports do not matter either.
    files: set[Path] = set()
    while pending:
        path, script_folder = pending.pop()
        path = Path(os.path.normpath(path))
        if path in files or not is_file(path) or not path.is_relative_to(folder):
            continue
        files.add(path)
        if path.suffix == ".py":
            for name, level in read_imports(path):
                # A relative import of level 1 starts in the folder of its file.
                bases = path.parents[level - 1 : level] if level else [script_folder, folder]
                modules = next(filter(None, (_find_module(base, name) for base in bases)), [])
                pending += [(module, script_folder) for module in modules]
    return sorted(path.relative_to(folder) for path in files)


def is_file(path: Path) -> bool:
    """Return whether a path is a file; False for a word that is too long for a name, such as a script for bash -c."""
    try:
        return path.is_file()
    except OSError:
        return False


def describe_uncopied(error: str, folder: Path, copy_folder: Path) -> str:
    """Return a remedy if an error names a module or file that is in `folder`, but was not copied; else ""."""
    candidates: list[Path] = []
    if module := re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", error):
        path = module[1].replace(".", "/")
        candidates = [file for start in ("", "*/") for file in folder.glob(f"{start}{path}.py")]
        candidates += [file.parent for start in ("", "*/") for file in folder.glob(f"{start}{path}/*.py")]
    elif file := re.search(rf"{re.escape(str(copy_folder))}/([^'\"]+)", error):
        candidates = [folder / file[1]]
    names = [path.relative_to(folder) for path in candidates if path.exists()]
    return f"; {names[0]} was not copied: list it in program.files, with all other files of the script" if names else ""


def _find_module(base: Path, name: str) -> list[Path]:
    """Return the files below `base` that Python reads to import a dotted name: __init__.py of packages, the module."""
    files: list[Path] = []
    for part in name.split("."):
        package, module = base / part / "__init__.py", base / f"{part}.py"
        if is_file(module) and not is_file(package):
            return [*files, module]
        files += [package] if is_file(package) else []
        base = base / part
    return files
