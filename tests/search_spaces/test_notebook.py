"""The notebook that is shipped: without outputs, and every cell runs on a sweep."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "search_spaces" / "examples" / "reading_a_sweep.ipynb"


def test_the_notebook_has_no_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


@pytest.mark.slow
def test_every_cell_runs_on_a_sweep(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    shutil.copytree(ROOT / "tests" / "sweeps" / "1.0.0" / "finished", tmp_path / "sweeps" / "quickstart")
    read = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(read)
    client = nbclient.NotebookClient(
        read, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert sum("<table" in output.get("data", {}).get("text/html", "") for output in outputs) == 4
