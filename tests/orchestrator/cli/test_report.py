"""`report`: what it imports, and what is in its way."""

import shutil
from pathlib import Path

import pytest

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"


@pytest.mark.slow
def test_a_driver_imports_what_it_drives_with_and_a_report_what_it_shows(lengthwise, tiny, tmp_path):
    """What draws, publishes and reads tables is for the process that ends a sweep; what trains is for workers."""
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    driving = "import orchestrator.sweep.sweep, orchestrator.cli.main\n"
    verb = "from orchestrator.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
    for code, what, heavy in (
        (driving, "report", ("ray", "mlflow", "pandas", "scipy", "matplotlib")),
        (verb, "report", ("torch", "ray", "mlflow")),
        (verb, "status", ("torch", "ray", "mlflow", "scipy", "optuna", "matplotlib")),
        (verb, "delete", ("torch", "ray", "mlflow", "matplotlib")),
    ):
        program = f"{code}import sys; print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
        sure = ["--yes"] if what == "delete" else []
        done = lengthwise.process(what, tmp_path / "tiny", *sure, program=program, anew=True, FIGURES="drawn")
        assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize("name", ["report.html", "report.csv", "curves.parquet"])
def test_a_folder_where_a_report_is_written_is_named(lengthwise, tmp_path, name):
    folder = Path(shutil.copytree(FINISHED, tmp_path / "finished"))
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    done = lengthwise("report", folder)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
    assert f"{folder / name}: " in done.stderr and "Is a directory" in done.stderr
