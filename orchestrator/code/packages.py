"""Import the packages of lengthwise, even if a folder of the user has the same name."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

LENGTHWISE_FOLDER = Path(__file__).resolve().parents[2]  # the folder that lengthwise was loaded from
SIBLING_PACKAGES = ("trainers", "search_spaces")  # packages that orchestrator imports

_RUN_MODULE = """
import sys
sys.path.insert(0, {folder!r})
import orchestrator
del sys.path[0], sys.argv[0]
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class _Finder:
    """A finder of SIBLING_PACKAGES in LENGTHWISE_FOLDER, which comes before the search path."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        # A script may have a copy of the client `lengthwise` beside it.
        if name not in (*SIBLING_PACKAGES, "lengthwise"):
            return None
        return PathFinder.find_spec(name, [str(LENGTHWISE_FOLDER)])


def protect_package_names() -> None:
    """Make this process import SIBLING_PACKAGES from LENGTHWISE_FOLDER, whatever is on its path.

    Raises ImportError if other packages of these names are imported already.
    """
    for name in SIBLING_PACKAGES:
        module = sys.modules.get(name)
        location = next(iter(getattr(module, "__path__", ())), None) or getattr(module, "__file__", None)
        folder = Path(location or LENGTHWISE_FOLDER)
        if not folder.resolve().is_relative_to(LENGTHWISE_FOLDER):
            raise ImportError(
                f"{folder}: the name {name} clashes with a package of lengthwise; rename the folder, or import "
                "lengthwise first"
            )
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def make_module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of lengthwise in a new process, without the current folder on its path."""
    return [sys.executable, "-P", "-c", _RUN_MODULE.format(folder=str(LENGTHWISE_FOLDER)), module, *arguments]
