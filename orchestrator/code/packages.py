"""Where the packages of lengthwise are, whatever folder of the user's has the name of one of them."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]  # where lengthwise was loaded from
IMPORTED = ("trainers", "search_spaces")  # by this package

_START = """
import sys
sys.path.insert(0, {here!r})
import orchestrator
del sys.path[0], sys.argv[0]
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class _Finder:
    """Finds IMPORTED beside this package before the search path is asked."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        # A copy of the client, of any version, may lie beside a script.
        return PathFinder.find_spec(name, [str(HERE)]) if name in (*IMPORTED, "lengthwise") else None


def claim_names() -> None:
    """Import IMPORTED from HERE from now on. Raises ImportError if this process has others of these names."""
    for name in IMPORTED:
        module = sys.modules.get(name)
        folder = Path(next(iter(getattr(module, "__path__", ())), None) or getattr(module, "__file__", None) or HERE)
        if not folder.resolve().is_relative_to(HERE):
            raise ImportError(
                f"{folder} was imported as {name}, the name of a package of lengthwise; rename it, or import "
                "lengthwise first"
            )
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of lengthwise in a new process; the current folder hides no module."""
    return [sys.executable, "-P", "-c", _START.format(here=str(HERE)), module, *arguments]
