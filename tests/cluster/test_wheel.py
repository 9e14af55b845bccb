"""lengthwise without its clone: an unpacked wheel runs a study in a folder of the user's."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.command_line import STARTUP

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[2]
TASK = '''"""A task of my own."""

from trainers import register
from trainers.tasks.set_complement import SetComplement


@register("task", "mine")
class Mine(SetComplement):
    """Set complement."""
'''
SWEEP = """\
name: mine
study: tests
imports: [my_tasks]
task: {name: mine, vocabulary: 6, train_length: 3, target: soft}
model: {name: attention_only, width: 8, value_width: 4}
training: {steps: 4, batch_size: 4, learning_rate: 0.01, averages: {raw: {}}}
seeds: 1
evaluation: {samples: 20}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {scheduler: local}
tracking: {enabled: false}
"""
# A sweep, and what needs files of the package that are no modules, in one process.
VERBS = """
import sys
import orchestrator
from orchestrator.__main__ import command

print(orchestrator.__file__)
storage = sys.argv[1]
for words in (
    ["run", "mine.yaml", "--storage", storage],
    ["list", "sweeps", "--storage", storage],
    ["init", "own"],
    ["validate", "own/sweep.yaml"],
    ["init", "script", "--program"],
    ["validate", "script/sweep.yaml"],
    ["validate", "quickstart"],
):
    sys.argv[1:] = words
    try:
        command()
    except SystemExit as end:
        if end.code:
            raise
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files in git, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*command, str(folder / "source")], check=True, capture_output=True)
    (wheel,) = folder.glob("lengthwise-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_a_study_runs_from_a_wheel(unpacked: Path, tmp_path: Path) -> None:
    assert (unpacked / "trainers" / "random" / "draws.c").is_file()
    study, storage = tmp_path / "study", tmp_path / "sweeps"
    study.mkdir()
    (study / "my_tasks.py").write_text(TASK)
    (study / "mine.yaml").write_text(SWEEP)
    path = os.pathsep.join([str(unpacked), str(STARTUP)])  # it is before the installed clone; figures are left blank
    environment = {**os.environ, "PYTHONPATH": path}

    command = [sys.executable, "-c", VERBS, str(storage)]
    done = subprocess.run(command, cwd=study, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(unpacked)) and "Finished: 1 configuration " in done.stdout
    assert (storage / "mine" / "report.html").is_file()
    listed = done.stdout[done.stdout.index("Finished: 1 configuration ") :]
    assert any(line.split()[:1] == ["mine"] for line in listed.splitlines()), done.stdout
    assert (study / "own" / "my_task.py").is_file() and (study / "script" / "train.py").is_file()
