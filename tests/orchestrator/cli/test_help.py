"""What the command line says of itself: help, version, names and schemas."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def test_help_imports_nothing_heavy(lengthwise):
    heavy = ("torch", "ray", "mlflow", "optuna", "pandas")
    program = "import sys, orchestrator.__main__ as one\ntry: one.command()\n"
    program += f"except SystemExit as end: print(end.code, [name for name in {heavy} if name in sys.modules])"
    done = lengthwise.process("--help", program=program, anew=True)
    assert "resume" in done.stdout and done.stdout.endswith("\n0 []\n")


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
