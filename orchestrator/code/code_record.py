"""Record the code of a sweep: commit and diff, own modules, imported files, engine digests.

The record is written to the ledger when a sweep is started or resumed. The folder `code/` of the sweep gets the diff,
and copies of the modules of `imports` and of other imported Python files in the working folders. These are the git work
trees (without git, the folders themselves) of the sweep file, of the current folder and of lengthwise. Installed
packages are not copied.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.code.packages import LENGTHWISE_FOLDER
from orchestrator.code.provenance import read_version
from orchestrator.code.repository import Repository, RepositoryReader, is_credential_name
from orchestrator.code.user_code import LENGTHWISE_PACKAGES, CodeSource, UserCodeError, is_installed
from orchestrator.errors import LedgerError, convert_write_errors
from trainers.files.atomic_file import write_atomic

CODE_FOLDER = "code"
DIGESTED_PARTS = (  # packages and a module of lengthwise; records of earlier versions have only some of them
    "trainers",
    "search_spaces",
    *(f"orchestrator/{name}" for name in ("plan", "running", "results")),
    *(f"orchestrator/{name}" for name in ("statistics", "engine", "program", "interface")),
    "lengthwise.py",
)
MAX_CODE_COPY_BYTES = 2**20  # total of imported files per folder, without the modules of `imports`


@dataclass(frozen=True, kw_only=True)
class CodeRecord:
    """The `fields` of the ledger's record, and the contents of `copies` by path in the sweep folder."""

    fields: dict[str, Any]
    copies: Mapping[str, bytes]

    def write_copies(self, folder: Path) -> None:
        """Write the files that the sweep folder lacks. Raises LedgerError if a file cannot be written."""
        # The path has the digest of the content, so an existing file is the same.
        for name, content in self.copies.items():
            target = folder / name
            with convert_write_errors(target, LedgerError):
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(target, [content])


def start_repository_reader(*folders: Path | None) -> RepositoryReader:
    """Start git on the repositories of `folders`, of the current folder, and of lengthwise unless it is installed."""
    checkout = [] if is_installed(LENGTHWISE_FOLDER) else [LENGTHWISE_FOLDER]
    return RepositoryReader([*filter(None, folders), Path.cwd(), *checkout])


def list_recorded_folders(codes: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Return the existing working folders of the latest code record."""
    roots = [Path(tree["root"]) for tree in codes[-1]["folders"]] if codes else []
    return [root for root in roots if root.is_dir()]


def record_code(trees: Sequence[Repository], modules: Sequence[CodeSource]) -> CodeRecord:
    """Return the record of the code of this process. Raises UserCodeError if a module was edited after its import."""
    # Modules of `imports` are copied in full, unless they are installed.
    copies = {}
    for module in modules:
        for name in module.files if not module.installed else ():
            copies[f"{name_copy_folder(module.sha256)}/{name}"] = _read_unchanged_file(module, name)

    # Other imported files are recorded by the work tree that they are in.
    copied_paths = {module.root / name for module in modules for name in module.files}
    imported = _read_imported_files([tree.root for tree in trees], copied_paths)
    folders = []
    for tree in trees:
        files = dict(sorted(imported[tree.root].items()))
        if not (files or tree.commit or tree.problem):
            continue

        # Copy them, except credentials and large ones.
        digests = {name: _compute_short_digest(content) for name, content in files.items()}
        copy_folder = name_copy_folder(compute_mapping_digest(digests))
        bytes_left = MAX_CODE_COPY_BYTES
        not_copied = []
        for name, content in files.items():
            if is_credential_name(name) or len(content) > bytes_left:
                not_copied.append(name)
            else:
                bytes_left -= len(content)
                copies[f"{copy_folder}/{name}"] = content

        # All other tracked files of the tree can be restored from its commit and the diff of uncommitted changes.
        diff = None
        if tree.diff_sha256:
            file = f"{CODE_FOLDER}/{tree.diff_sha256[:12]}.diff"
            diff = {"sha256": tree.diff_sha256, "bytes": tree.diff_bytes, "file": None if tree.diff is None else file}
            if tree.diff is not None:
                copies[file] = tree.diff
        folders.append({
            "root": str(tree.root),
            "commit": tree.commit,
            "dirty": tree.dirty,
            "diff": diff,
            "source": tree.source,
            "problem": tree.problem,
            "files": digests,
            "not_copied": not_copied,
        })  # fmt: skip

    # The digest of the fields names the record, so that equal code of several runs has one name.
    fields: dict[str, Any] = {
        "version": read_version("lengthwise"),
        "root": str(LENGTHWISE_FOLDER),
        "engine": compute_part_digests(),
        "modules": [module.to_fields() for module in modules],
        "folders": folders,
    }
    return CodeRecord(fields={"name": compute_mapping_digest(fields)[:12], **fields}, copies=copies)


def name_copy_folder(sha256: str) -> str:
    """Return the folder, relative to the sweep folder, of the copies with this digest."""
    return f"{CODE_FOLDER}/{sha256[:12]}"


def find_changed_code(recorded: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each part of the engine and each imported file that has changed since it was recorded.

    The engine is not compared if the version of lengthwise differs. Folders that no longer exist are not compared,
    because the folder of a job is a temporary copy.
    """
    # Another version always has other code, which `find_version_change` reports.
    changes = []
    if recorded["version"] == read_version("lengthwise"):
        current = compute_part_digests()
        changes += [
            f"{LENGTHWISE_FOLDER / part} has changed"
            for part, digest in recorded["engine"].items()
            if current.get(part) != digest
        ]

    # Files that the user's modules imported may change results as well.
    for tree in recorded["folders"]:
        root = Path(tree["root"])
        for name, digest in tree["files"].items() if root.is_dir() else ():
            path = root / name
            try:
                if not path.is_file():  # another user's ledger may name an endless device
                    changes.append(f"{path} is gone")
                elif _compute_short_digest(path.read_bytes()) != digest:
                    changes.append(f"{path} has changed")
            except OSError:
                changes.append(f"{path} cannot be read")
    return changes


def find_version_change(codes: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the versions of lengthwise in the latest record and now, if both are known and differ."""
    recorded = codes[-1]["version"] if codes else None
    current = read_version("lengthwise")
    return (recorded, current) if recorded and current and recorded != current else None


def merge_file_digests(recorded: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of imported files by path in the working folder; digests of equal paths are joined."""
    digests: dict[str, str] = {}
    for tree in recorded["folders"]:
        for name, digest in tree["files"].items():
            digests[name] = digests.get(name, "") + digest
    return digests


def compute_part_digests() -> dict[str, str]:
    """Return the current digest of each part of lengthwise by which members are planned, trained and scored."""
    return {part: compute_engine_digest(part) for part in DIGESTED_PARTS}


def compute_engine_digest(part: str) -> str:
    """Return the digest of the Python files of a part of lengthwise, imported or not."""
    # Skip examples, whose scripts belong to users, and the locks of Emacs, which are broken links ending with .py.
    root = LENGTHWISE_FOLDER / part
    paths = sorted(path for path in [root, *root.rglob("*.py")] if path.is_file())
    names = {path.relative_to(LENGTHWISE_FOLDER).as_posix(): path for path in paths if "examples" not in path.parts}
    return compute_mapping_digest({name: _compute_short_digest(path.read_bytes()) for name, path in names.items()})


def compute_mapping_digest(table: Mapping[str, Any]) -> str:
    """Return the digest of a mapping, 16 hex digits."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def _read_imported_files(roots: Sequence[Path], copied_paths: Iterable[Path]) -> dict[Path, dict[str, bytes]]:
    """Return the imported files below each root, except lengthwise, installed packages, tests and the main script."""
    files: dict[Path, dict[str, bytes]] = {root: {} for root in roots}
    skipped = {*copied_paths, Path(getattr(sys.modules.get("__main__"), "__file__", None) or "").absolute()}
    for module, loaded in list(sys.modules.items()):  # a list, because threads may import meanwhile
        file = getattr(loaded, "__file__", None)
        if module.partition(".")[0] in LENGTHWISE_PACKAGES or not isinstance(file, str) or not file.endswith(".py"):
            continue

        path = _resolve_file(file if file.startswith(os.sep) else str(Path(file).absolute()))
        if path is None or path in skipped:
            continue
        enclosing_roots = [root for root in roots if str(path).startswith(f"{root}{os.sep}")]
        if not enclosing_roots:
            continue

        # A file belongs to the innermost work tree; tests do not influence results.
        root = max(enclosing_roots, key=lambda root: len(root.parts))
        *folders, file_name = path.relative_to(root).parts
        if not ("tests" in folders or file_name == "conftest.py" or file_name.startswith("test_")):
            try:
                files[root][path.relative_to(root).as_posix()] = path.read_bytes()
            except OSError:
                continue  # removed after its import
    return files


@cache
def _resolve_file(file: str) -> Path | None:
    """Return an imported file without symbolic links, None if it is installed; cached, because there are thousands."""
    path = Path(file)
    path = _resolve_folder(path.parent) / path.name
    path = path.resolve() if path.is_symlink() else path
    return None if is_installed(path) else path


@cache
def _resolve_folder(folder: Path) -> Path:
    """Return a folder without symbolic links; cached, because many files are in a folder."""
    return folder.resolve()


def _read_unchanged_file(module: CodeSource, name: str) -> bytes:
    """Return the content of a module's file. Raises UserCodeError if it has changed since the import."""
    path = module.root / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserCodeError(f"{module.module}: {path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != module.files[name]:
        raise UserCodeError(f"{module.module}: {path} was edited while the sweep was starting; start again")
    return content


def _compute_short_digest(content: bytes) -> str:
    """Return the first 16 hex digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]
