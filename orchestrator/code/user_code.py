"""Find, digest and import the user's own modules, which a sweep names under `imports`.

Their tasks, models and other classes register as shipped ones do. A module is searched beside the sweep file, in the
current folder, then on Python's path. Its digest covers its Python files, and the files beside it that they import,
directly or indirectly. The digest of an installed package covers only its own files.

UserCodeError (a UserError)    a module cannot be found, read or imported, or has changed
"""

import ast
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from orchestrator.code.time_limit import time_limit
from orchestrator.errors import UserError
from search_spaces import FileProblem, SweepFileError, SweepSpec
from trainers.errors import describe_briefly, locate_in_user_code
from trainers.files.data_folders import add_search_folder
from trainers.settings import registry

LENGTHWISE_PACKAGES = frozenset({"trainers", "orchestrator", "search_spaces", "cluster", "lengthwise"})
SCRIPT_ADVICE = '; importing runs the whole file: move script code below `if __name__ == "__main__":`'


class UserCodeError(UserError):
    """A module of the user cannot be found or imported, or has changed."""


@dataclass(frozen=True, kw_only=True)
class CodeSource:
    """The Python files of a module: SHA-256 by path below `root`. Unless `installed`, workers import a copy.

    Files of a program and data files are recorded in the same way; data too large to copy count as `installed`.
    """

    module: str
    root: Path
    installed: bool
    files: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The digest of all file names and contents, independent of the root."""
        return hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()

    @property
    def title(self) -> str:
        """The module as messages name it."""
        return {PROGRAM: "the program", DATA: "the data"}.get(self.module, self.module)

    def to_fields(self) -> dict[str, Any]:
        """Return the fields for the ledger and for workers."""
        return {
            "module": self.module,
            "root": str(self.root),
            "installed": self.installed,
            "sha256": self.sha256,
            "files": dict(self.files),
        }

    @classmethod
    def from_recorded(cls, fields: Mapping[str, Any]) -> Self:
        """Return the source from the fields that `to_fields` returned."""
        return cls(
            module=fields["module"], root=Path(fields["root"]), installed=fields["installed"], files=fields["files"]
        )


# Module names of sources that are not imported: the files of a program, and data files.
PROGRAM, DATA = "(program)", "(data)"
_loaded_sources: dict[str, CodeSource] = {}


def import_spec_modules(spec: SweepSpec) -> tuple[CodeSource, ...]:
    """Import every module under `imports`; a module that is already imported must have the same files.

    Data files are searched beside the sweep file from now on. Raises SweepFileError with a problem for each module that
    cannot be found or imported.
    """
    if spec.folder is not None:
        add_search_folder(spec.folder)

    # Continue after a failure, so that one message names all modules that cannot be imported.
    sources, problems = [], []
    for index, module in enumerate(spec.imports):
        try:
            source = _find_source(
                module, [spec.folder, Path.cwd(), *_list_copy_folders(module, spec.folder)] if spec.folder else []
            )
            load_module(source)
            sources.append(source)
        except UserCodeError as error:
            # `program.function` adds its module to `imports`, which the user did not write.
            location = spec.format_location(f"imports[{index}]")
            is_function = "program" in spec.sections and location == spec.format_location("program.function")
            key = "program.function" if is_function else f"imports[{index}]"
            problems.append(FileProblem(location, key, str(error)))
    if problems:
        raise SweepFileError(problems)
    return tuple(sources)


def locate_in_spec_modules(error: BaseException, spec: SweepSpec) -> str:
    """Return the last traceback line in the modules of `imports` as " (FILE:LINE, FUNCTION)", "" if there is none."""
    sources = import_spec_modules(spec)
    return locate_in_user_code(error, {str(source.root / name) for source in sources for name in source.files})


def read_files(root: Path, names: Iterable[str]) -> CodeSource:
    """Return the current files `names` in `root`, as the module PROGRAM. Raises UserCodeError for missing files."""
    files = {}
    for name in names:
        try:
            with (root / name).open("rb") as file:
                files[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UserCodeError(f"{root / name} cannot be read: {error.strerror}") from error
    return CodeSource(module=PROGRAM, root=root, installed=False, files=files)


def _list_copy_folders(module: str, folder: Path) -> list[Path]:
    """Return the folder of a module's copy in the sweep folder `folder`, as a list; empty without a copy.

    The copy is used if the module is neither beside the sweep file nor in the current folder. Raises UserCodeError for
    several copies.
    """
    top = module.partition(".")[0]
    copies = sorted(path.parent for path in folder.glob(f"code/*/{top}.py"))
    copies += sorted(path.parent.parent for path in folder.glob(f"code/*/{top}/__init__.py"))
    if len(copies) > 1 and not any(_has_module(root, top) for root in (folder, Path.cwd())):
        copy_list = ", ".join(map(str, copies))
        raise UserCodeError(f"{module}: several copies in the sweep ({copy_list}); run in the folder of the module")
    return copies[:1]


def _find_source(module: str, folders: list[Path]) -> CodeSource:
    """Return a module's source: in the folders, else already imported by a resumed sweep, else on Python's path."""
    has_file = any(_has_module(folder, module.partition(".")[0]) for folder in folders)
    return (None if has_file else get_loaded_module(module)) or find_module(module, folders)


def find_module(module: str, folders: Iterable[Path]) -> CodeSource:
    """Return the source of a module in the first of `folders` with it, else on Python's path. Raises UserCodeError."""
    # Python would import its own module of such a name, or lengthwise would break.
    top = module.partition(".")[0]
    if top in LENGTHWISE_PACKAGES or top in sys.stdlib_module_names or top == "__main__":
        owner = "lengthwise" if top in LENGTHWISE_PACKAGES else "Python"
        raise UserCodeError(f"{module}: {owner} has a module of this name; rename yours")

    searched = []
    for folder in dict.fromkeys(folders):
        if _has_module(folder, top):
            return _read_source(module, folder, installed=False)
        searched.append(str(folder))

    # A namespace package has folders, others have a file as their origin.
    module_spec = importlib.util.find_spec(top)
    folders_of_package = list(module_spec.submodule_search_locations or ()) if module_spec else []
    origin = folders_of_package[0] if folders_of_package else module_spec.origin if module_spec else None
    if origin is None or not Path(origin).exists():
        packages = " and the installed packages" if searched else "the installed packages"
        raise UserCodeError(f"{module}: module not found; searched {', '.join(searched)}{packages}")
    root = Path(origin).resolve().parent
    return _read_source(module, root, installed=is_installed(root))


def load_module(source: CodeSource) -> None:
    """Import a module from its root, or search data files there. Raises UserCodeError with the failing line."""
    # The files of a program's command, and data files, are not modules.
    if source.module == DATA:
        add_search_folder(source.root)
    if source.module in (PROGRAM, DATA):
        return

    # A module whose files have not changed is imported already.
    loaded = _loaded_sources.get(source.module)
    if loaded is not None and loaded.sha256 == source.sha256:
        return

    # After an error remove everything that was imported, so that another attempt imports it again.
    _refuse_conflicts(source)
    modules_before = set(sys.modules)
    sys.path.insert(0, str(source.root))
    importlib.invalidate_caches()
    try:
        with time_limit(f"importing {source.module}{SCRIPT_ADVICE}"), registry.rollback_on_error():
            importlib.import_module(source.module)
    except BaseException as error:
        for name in set(sys.modules) - modules_before:
            if name.partition(".")[0] not in LENGTHWISE_PACKAGES and _is_below(sys.modules[name], source.root):
                del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        advice = SCRIPT_ADVICE if isinstance(error, SystemExit) else ""
        raise UserCodeError(
            f"{source.module} cannot be imported: {_describe_exception(error, source.root)}{advice}"
        ) from error
    finally:
        sys.path.remove(str(source.root))
    sys.path.append(str(source.root))  # for later imports, after installed packages
    _loaded_sources[source.module] = source


def _refuse_conflicts(source: CodeSource) -> None:
    """Raise UserCodeError if this process has imported a different file with the name of a file in `source`."""
    # Python imports each name once, so a module of the same name would silently replace this one.
    for loaded in _loaded_sources.values():
        for name in source.files.keys() & loaded.files.keys():
            if source.files[name] != loaded.files[name]:
                raise UserCodeError(
                    f"{source.module}: {source.root / name}: another {name} is already imported, from {loaded.root} "
                    f"(with {loaded.module}); use a new process"
                )

    # The same holds for modules that other code has imported.
    for top in sorted({name.partition("/")[0].removesuffix(".py") for name in source.files} - sys.stdlib_module_names):
        file = getattr(sys.modules.get(top), "__file__", None)
        if file is None or _is_below(sys.modules[top], source.root):
            continue
        name = f"{top}/__init__.py" if Path(file).name == "__init__.py" else f"{top}.py"
        if hashlib.sha256(Path(file).read_bytes()).hexdigest() != source.files.get(name):
            message = f"{source.module}: another module {top} is already imported ({file}); use a new process"
            raise UserCodeError(message)


def get_loaded_module(module: str) -> CodeSource | None:
    """Return the source from which this process has imported a module of the user; None if it has not been imported."""
    return _loaded_sources.get(module)


def _read_source(module: str, root: Path, *, installed: bool) -> CodeSource:
    """Return the source of a module in `root`. Raises UserCodeError if a file is missing or cannot be read."""
    root = root.resolve()
    files = {}
    for path in _list_module_files(module, root, beside=not installed):
        try:
            files[path.relative_to(root).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UserCodeError(f"{module}: {path} cannot be read: {error.strerror}") from error
    if not files.keys() & {f"{module.replace('.', '/')}{ending}" for ending in (".py", "/__init__.py")}:
        raise UserCodeError(f"{module}: module not found in {root}")
    return CodeSource(module=module, root=root, installed=installed, files=files)


def _list_module_files(module: str, root: Path, *, beside: bool) -> list[Path]:
    """Return the files of a module and, with `beside`, of modules beside it that it imports, directly or indirectly."""
    # A module beside it can change results as well, so its files count for the digest.
    tops_to_visit = [module.partition(".")[0]]
    visited = set[str]()
    files = list[Path]()
    while tops_to_visit:
        top = tops_to_visit.pop()
        if top in visited or top in LENGTHWISE_PACKAGES:
            continue
        visited.add(top)
        module_files = list(_list_package_files(root, top))
        files += module_files
        for path in module_files if beside else ():
            imported_tops = {name.partition(".")[0] for name, level in read_imports(path) if level == 0}
            tops_to_visit += [name for name in imported_tops if _has_module(root, name) or _is_namespace(root, name)]
    return sorted(files)


def _has_module(folder: Path, top: str) -> bool:
    """Return whether a folder has the top-level module, as a file or as a package with __init__.py."""
    return (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file()


def _list_package_files(root: Path, top: str) -> Iterator[Path]:
    """Yield the Python files of a top-level module or package; the path of a missing module as well."""
    if (not (root / top / "__init__.py").is_file() and (root / f"{top}.py").exists()) or not (root / top).is_dir():
        if (path := root / f"{top}.py").is_file() or not path.exists():  # skips pipes, because reading them would block
            yield path
        return

    # Links between folders may form a cycle.
    visited = set[str]()
    for folder, folders, names in os.walk(root / top, followlinks=True):
        if (real_path := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real_path)
        folders[:] = [name for name in folders if name.isidentifier()]
        yield from (path for name in names if name.endswith(".py") and (path := Path(folder, name)).is_file())


def _is_namespace(root: Path, top: str) -> bool:
    """Return whether importing `top` from `root` gives a namespace package."""
    if not (root / top).is_dir() or top in sys.stdlib_module_names:
        return False
    module_spec = PathFinder.find_spec(top)
    return module_spec is None or module_spec.origin is None


def read_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (dotted name, level) of every import in a file; level 0 is absolute, 1 starts in the file's folder.

    `from a import b` gives a.b, because b may be a module. Nothing for a syntax error, which running the file reports.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = [node.module] if node.module else []
            yield from ((".".join([*module, alias.name]), node.level) for alias in node.names)


def _is_below(module: ModuleType, root: Path) -> bool:
    """Return whether a module was imported from a file below `root`."""
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(root)


@cache
def _list_installed_folders() -> tuple[str, ...]:
    """Return the folders of installed packages and of the standard library, with a final separator."""
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")}
    return tuple(f"{folder}{os.sep}" for folder in folders)


def is_installed(path: Path | str) -> bool:
    """Return whether a path is in a folder of installed packages, of this or another environment."""
    # Folders of another environment are not in sysconfig, but have the usual names.
    text = f"{path}{os.sep}"
    is_in_packages = any(f"{os.sep}{name}{os.sep}" in text for name in ("site-packages", "dist-packages"))
    return is_in_packages or text.startswith(_list_installed_folders())


def _describe_exception(error: BaseException, root: Path) -> str:
    """Return a one-line description of an exception, with the last line of the user's code in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    location = f" ({user_frames[-1].filename}:{user_frames[-1].lineno})" if user_frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        location = f" ({error.filename}:{error.lineno})"
    return f"{describe_briefly(error)}{location}"
