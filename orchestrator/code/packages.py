"""Import the packages of lengthwise, even if a folder of the user has the same name."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]  # the folder that lengthwise was loaded from
IMPORTED = ("trainers", "search_spaces")  # packages that orchestrator imports

_START = """
import sys
sys.path.insert(0, {here!r})
import orchestrator
del sys.path[0], sys.argv[0]
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class _Finder:
    """Finds IMPORTED in HERE, before the search path."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        # A script may have a copy of the client `lengthwise` beside it.
        return PathFinder.find_spec(name, [str(HERE)]) if name in (*IMPORTED, "lengthwise") else None


def claim_names() -> None:
    """Make this process import IMPORTED from HERE. Raises ImportError if others of these names are imported."""
    # Refuse other packages of these names.
    for name in IMPORTED:
        module = sys.modules.get(name)
        folder = Path(next(iter(getattr(module, "__path__", ())), None) or getattr(module, "__file__", None) or HERE)
        if not folder.resolve().is_relative_to(HERE):
            raise ImportError(
                f"{folder}: its name {name} is that of a package of lengthwise; rename it, or import lengthwise first"
            )

    # Later imports go through the finder.
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def make_module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of lengthwise in a new process, without the current folder on its path."""
    return [sys.executable, "-P", "-c", _START.format(here=str(HERE)), module, *arguments]
