"""What the command line says of itself: help, version, names and schemas."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def test_help_imports_nothing_heavy(lengthwise):
    done = lengthwise.process("--help", anew=True)
    assert done.returncode == 0 and "resume" in done.stdout
    heavy = ("torch", "ray", "mlflow", "optuna", "pandas")
    code = f"import sys, orchestrator.cli.main; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version_is_that_of_the_package(lengthwise):
    output = lengthwise("--version").stdout
    assert output.startswith(f"lengthwise {version('lengthwise')}, torch {version('torch')}, ") and "mlflow " in output


def test_a_closed_output_is_no_fault_and_gets_into_no_file(lengthwise, tmp_path):
    closed, opened = tmp_path / "closed" / "study", tmp_path / "opened" / "study"
    line = f'exec "{sys.executable}" -m orchestrator init "{closed}" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", line], env=lengthwise.environment, cwd=Path(__file__).parents[3], check=True)
    lengthwise.succeeds("init", opened)
    assert sorted(path.name for path in closed.iterdir()) == sorted(path.name for path in opened.iterdir()) != []
    for path in closed.iterdir():
        assert path.read_text().replace(str(closed), "") == (opened / path.name).read_text().replace(str(opened), "")
