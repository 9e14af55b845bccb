"""`report`: what it imports, and what is in its way."""

import shutil
from pathlib import Path

import pytest

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"


DRIVING = """
import sys
import orchestrator.sweep.run_and_resume, orchestrator.cli.main
print([name for name in ("ray", "mlflow", "pandas", "scipy", "matplotlib") if name in sys.modules])
"""
# Each verb may import what the one before it may, and more.
VERBS = """
import sys
from orchestrator.__main__ import command

folder = sys.argv[1]
for words, *heavy in (
    (["status", folder], "torch", "ray", "mlflow", "scipy", "optuna", "matplotlib"),
    (["delete", f"{folder} copied", "--yes"], "torch", "ray", "mlflow", "matplotlib"),
    (["report", folder], "torch", "ray", "mlflow"),
):
    sys.argv[1:] = words
    try:
        command()
    except SystemExit as end:
        assert not end.code
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.slow
def test_a_driver_imports_what_it_drives_with_and_a_report_what_it_shows(lengthwise, tiny, tmp_path):
    """What draws, publishes and reads tables is for the process that ends a sweep; what trains is for workers."""
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    shutil.copytree(tmp_path / "tiny", tmp_path / "tiny copied")
    assert lengthwise.process(program=DRIVING, anew=True).stdout == "[]\n"
    done = lengthwise.process(tmp_path / "tiny", program=VERBS, anew=True, FIGURES="drawn")
    assert (done.returncode, done.stderr) == (0, "[]\n" * 3)
    assert not (tmp_path / "tiny copied").exists()


@pytest.mark.parametrize("name", ["report.html", "report.csv", "curves.parquet"])
def test_a_folder_where_a_report_is_written_is_named(lengthwise, tmp_path, name):
    folder = Path(shutil.copytree(FINISHED, tmp_path / "finished"))
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    done = lengthwise("report", folder)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
    assert f"{folder / name}: " in done.stderr and "Is a directory" in done.stderr
