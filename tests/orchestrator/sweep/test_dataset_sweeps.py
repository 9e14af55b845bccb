"""Sweeps on files of data: found beside the sweep file, copied for workers, pinned by their contents."""

import csv
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine import engine
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.ledgers import curves, cut_ledger, ledger_kinds, records
from trainers.files import data_folders
from trainers.tasks.dataset import dataset

SWEEP = """name: stored
study: tests
task: {name: dataset, train: data/train.csv, test: data/test.csv, tokens: text, answer: out, tokenizer: characters}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: rope}
training: {steps: 4, batch_size: 4, learning_rate: 0.01, compile: false}
space: {training.learning_rate: {grid: [0.01, 0.03]}}
seeds: 2
evaluation: {every: 2, samples: 4}
objective: {metric: exact_match, lengths: [4]}
resources: {scheduler: inline, keep_weights: true}
tracking: {enabled: false}
"""


def write_rows(folder: Path, shift: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for name, lengths in (("train", (2, 3)), ("test", (2, 3, 4, 5))):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "out"])
            texts = [
                "".join("abc"[(row + shift) * i % 3] for i in range(1, n + 1)) for n in lengths for row in range(6)
            ]
            writer.writerows([text, text[-1]] for text in texts)


@pytest.fixture
def anew(lengthwise, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a verb as in a new process, which has searched and read nothing; it must end with exit code 0."""

    def run(*words: Any, **options: Any) -> Any:
        monkeypatch.setattr("trainers.files.data_folders._sweep_folders", [])
        dataset._read_files.cache_clear()
        return lengthwise.succeeds(*words, **options)

    return run


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep file with its data; those of other tests are not searched."""
    monkeypatch.setattr(data_folders, "_sweep_folders", [])
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "stored.yaml").write_text(SWEEP)
    write_rows(folder / "data")
    return folder


def test_a_sweep_keeps_its_data_and_goes_on_with_the_copies(study: Path, tmp_path: Path, lengthwise, anew) -> None:
    storage = tmp_path / "sweeps"
    anew("run", study / "stored.yaml", "--storage", storage, cwd=tmp_path)
    folder = storage / "stored"
    (data,) = records(folder, "sweep")[0].fields["code"]["modules"]
    assert (data["module"], data["root"], data["installed"]) == ("(data)", str(study), False)
    copy = folder / "code" / data["sha256"][:12]
    for name in ("data/train.csv", "data/test.csv"):
        assert (copy / name).read_bytes() == (study / name).read_bytes()
    assert {*data["files"]} == {"data/train.csv", "data/test.csv"}
    hashes = {r.fields["resolved"]["task"]["sha256"] for r in read_records(folder) if r.kind == "configuration"}
    assert len(hashes) == 1 and len(hashes.pop()) == 64

    # The same sweep without interruption, and one that is resumed after its data have changed.
    whole = curves(folder)
    cut_ledger(folder, ledger_kinds(folder).index("pack_end"))
    write_rows(study / "data", shift=1)
    anew("resume", folder, cwd=tmp_path)
    assert curves(folder).equals(whole)
    assert SweepState.load(folder).modules[0]["root"] == str(copy.resolve())

    # Everything else works without them, too.
    shutil.rmtree(study)
    anew("run", folder / "sweep.yaml", "--name", "again", "--storage", storage, cwd=tmp_path)
    assert curves(storage / "again")["value"].tolist() == whole["value"].tolist()
    anew("extend", folder, "--seeds", 3, cwd=tmp_path)
    anew("evaluate", folder, 0, "--lengths", "3,5", cwd=tmp_path)
    anew("confirm", folder, "--top", 1, "--seeds", 2, cwd=tmp_path)

    shutil.rmtree(folder / "code")
    dataset._read_files.cache_clear()
    lengthwise.refuses("extend", folder, "--seeds", 4, message="train.csv cannot be read", cwd=tmp_path)
    anew("report", folder, cwd=tmp_path)


def test_large_data_are_read_where_they_are(
    study: Path, tmp_path: Path, lengthwise, anew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_DATA_COPY_BYTES", 10)
    anew("run", study / "stored.yaml", "--storage", tmp_path)
    folder = tmp_path / "stored"
    assert records(folder, "sweep")[0].fields["code"]["modules"][0]["installed"] is True
    assert not list(folder.rglob("*train.csv"))
    anew("extend", folder, "--seeds", 3)
    assert SweepState.load(folder).modules[0]["installed"] is True
    write_rows(study / "data", shift=1)
    dataset._read_files.cache_clear()
    lengthwise.refuses("extend", folder, "--seeds", 4, message="differs from the recorded files")


def test_data_may_be_in_the_data_folder(study: Path, tmp_path: Path, lengthwise, anew, monkeypatch) -> None:
    (study / "data").rename(tmp_path / "shared")
    lengthwise.refuses("validate", study / "stored.yaml", message="stored.yaml:3: task.train: there is no file")
    (tmp_path / "shared").rename(study / "data")
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_DATA", str(study))
    (tmp_path / "alone.yaml").write_text(SWEEP)
    anew("validate", tmp_path / "alone.yaml", cwd=tmp_path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.train=data/trian.csv", "task.train: there is no file"),
        (
            "task.answer=outt",
            "task.answer: 'outt' is not a column of data/train.csv (did you mean out?); allowed: text, out",
        ),
        ("task.tokenizer=none", "task.train: 'data/train.csv' column text, row 1: 'aa' is neither an integer"),
        (
            "task.vocabulary=ab",
            "task.train: 'data/train.csv' column text, row 2: has the unknown token 'c'; allowed: tokens",
        ),
        ("evaluation.lengths=[4, 9]", "evaluation.lengths: the task has no length 9; allowed: 2-5"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(
    study: Path, tmp_path: Path, lengthwise, override: str, message: str
) -> None:
    words = ["run", study / "stored.yaml", "--storage", tmp_path / "sweeps", "--set", override]
    done = lengthwise(*words, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "sweeps").exists()
    assert message in done.stderr


def test_rows_are_shown_as_text(study: Path, lengthwise) -> None:
    lines = lengthwise.succeeds("data", study / "stored.yaml").stdout.splitlines()
    pairs = [(lines[i], lines[i + 1]) for i in range(5, len(lines) - 1, 3)]
    assert len(pairs) >= 4 and all(targets == "_" * (len(text) - 1) + text[-1] for text, targets in pairs)


EXAMPLES = Path(__file__).parents[3] / "search_spaces" / "examples"


def test_the_example_runs_on_the_files_that_its_script_writes(tmp_path: Path, run_inline) -> None:
    script = shutil.copy(EXAMPLES / "data" / "make_largest.py", tmp_path)
    runpy.run_path(str(script))
    for name in ("largest_train.csv", "largest_test.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / "data" / name).read_bytes()
    small = ("training.steps=2", "training.compile=false", "evaluation.samples=4", "seeds=1")
    folder = run_inline(EXAMPLES / "dataset.yaml", *small, "evaluation.every=null")
    assert {*curves(folder)["length"]} == {2, 4, 8, 12, 16, 24, 32}
    assert len((EXAMPLES / "dataset.yaml").read_text().splitlines()) <= 60
