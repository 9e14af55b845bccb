"""The notebooks that are shipped: without outputs, and every cell runs on a sweep."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "search_spaces" / "examples"
SWEEPS = ROOT / "tests" / "sweeps" / "1.0.0"


@pytest.mark.parametrize("notebook", [path.name for path in sorted(EXAMPLES.glob("*.ipynb"))])
def test_a_notebook_has_no_outputs(notebook):
    cells = json.loads((EXAMPLES / notebook).read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("notebook", "sweep", "figures", "tables"),
    [("attention.ipynb", "kept_weights", 1, 0), ("reading_a_sweep.ipynb", "finished", 1, 4)],
)
def test_every_cell_runs_on_a_sweep(notebook, sweep, figures, tables, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    shutil.copytree(SWEEPS / sweep, tmp_path / "sweeps" / "quickstart")
    read = nbformat.read(EXAMPLES / notebook, as_version=4)
    nbformat.validate(read)
    client = nbclient.NotebookClient(
        read, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == figures
    assert sum("<table" in output.get("data", {}).get("text/html", "") for output in outputs) == tables
