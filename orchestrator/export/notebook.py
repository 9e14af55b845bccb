"""A notebook that opens a sweep and draws its first figure."""

import json
from pathlib import Path
from typing import Any

from orchestrator.results.summary import Summary


def notebook_text(folder: Path, result: Summary) -> str:
    """Return the text of a Jupyter notebook (format 4.5) on the sweep in `folder`, not executed."""
    keys = [key for key in result.searched if sum(key in row.values for row in result.rows) > 1]
    cells = [
        ("markdown", f"# {result.name}\n\n{result.score_label}, median over seeds."),
        ("code", f"from orchestrator import open_sweep\n\nsweep = open_sweep({str(folder.resolve())!r})\nsweep"),
        ("code", "axes = sweep.plot_curves()"),
        ("code", "sweep.configurations.head()"),
        *([("code", f"axes = sweep.plot_effect({keys[0]!r})")] if keys else []),
        ("code", "sweep.curves.head()"),
    ]
    written = [_cell(number, kind, source) for number, (kind, source) in enumerate(cells)]
    kernel = dict(display_name="Python 3", language="python", name="python3")  # noqa: C408 (a key that tasks have, too)
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": written, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.splitlines(keepends=True)}
