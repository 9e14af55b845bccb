"""Run a sweep: plan, schedule, record, report.

>>> from orchestrator import open_sweep, run
>>> sweep = run("search_spaces/quickstart.yaml", seeds=2)          # doctest: +SKIP
>>> sweep = open_sweep("sweeps/quickstart")                        # doctest: +SKIP
>>> sweep.configurations, sweep.curves, sweep.effects, sweep.best  # doctest: +SKIP

Importing this, and reading and drawing a sweep, needs neither torch nor Ray nor MLflow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.code.packages import protect_package_names

if TYPE_CHECKING:
    from orchestrator.api.import_table import import_table
    from orchestrator.api.run import run
    from orchestrator.api.sweep import Sweep, open_sweep

__all__ = ["Sweep", "import_table", "open_sweep", "run"]
_MODULES = {
    "Sweep": "orchestrator.api.sweep",
    "import_table": "orchestrator.api.import_table",
    "open_sweep": "orchestrator.api.sweep",
    "run": "orchestrator.api.run",
}

protect_package_names()


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
