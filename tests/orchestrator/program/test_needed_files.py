"""The user's files that are copied by default."""

from pathlib import Path

import pytest

from orchestrator.program.needed_files import find_files

FILES = {
    "train.py": "import os, model\nfrom parts import layers\nfrom parts.data import load\nraise SystemExit(1)",
    "model.py": "def build():\n    import late",
    "late.py": "import train",
    "unused.py": "",
    "parts/__init__.py": "from . import norms\nfrom .more.deep import thing",
    "parts/layers.py": "from ..outside import x",
    "parts/norms.py": "",
    "parts/data.py": "import model, numpy, os.path",
    "parts/more/deep.py": "",
    "parts/more/other.py": "",
    "broken.py": "import model\ndef (",
    "scripts/run.py": "import beside, model",
    "scripts/beside.py": "",
    "module/__main__.py": "import late",
    "module/__init__.py": "",
    "conf.yaml": "x: 1",
}
TRAIN = ["late.py", "model.py", "parts/__init__.py", "parts/data.py", "parts/layers.py", "parts/more/deep.py"]
TRAIN += ["parts/norms.py", "train.py"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "study" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "study" / name).write_text(text)
    (tmp_path / "outside.py").write_text("")
    return tmp_path / "study"


def test_a_script_in_the_command_is_no_file(folder: Path) -> None:
    assert find_files(["bash", "-c", "true; " * 100], folder) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "train.py", "${args}", "--lr=1"], TRAIN),
        (["python", "./train.py"], TRAIN),
        (["python", "broken.py"], ["broken.py"]),
        (["python", "scripts/run.py"], [*TRAIN[:-1], "scripts/beside.py", "scripts/run.py", "train.py"]),
        (["python", "-m", "module"], ["late.py", "model.py", "module/__init__.py", "module/__main__.py", *TRAIN[2:]]),
        (["torchrun", "--nproc-per-node=2", "unused.py", "--conf=conf.yaml"], ["conf.yaml", "unused.py"]),
        (["python", "../outside.py", "missing.py", "parts", "/etc/hostname", ""], []),
        ([], []),
    ],
)
def test_files(words: list[str], expected: list[str], folder: Path) -> None:
    assert [str(path) for path in find_files(words, folder)] == expected


def test_absolute_words(folder: Path) -> None:
    assert find_files([str(folder / "conf.yaml")], folder) == [Path("conf.yaml")]
