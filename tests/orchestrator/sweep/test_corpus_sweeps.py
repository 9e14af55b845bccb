"""Sweeps on a text: planned by its hash, killed and resumed, and refused where the text is missing or another one."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.orchestrator.running.ledgers import cut_ledger, ledger_kinds
from trainers.tasks.language.corpus import write_corpus

SWEEP = """name: text
study: tests
task: {name: language, corpus: mine, train_window: 8, test_windows: [16]}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: rope, dropout: 0.1}
training: {steps: 80, batch_size: 8, learning_rate: 0.01, compile: false}
space: {training.learning_rate: {grid: [0.01, 0.03]}}
seeds: 2
evaluation: {every: 20, samples: 20}
objective: {metric: perplexity.validation, average: raw, lengths: [8], direction: minimize}
resources: {scheduler: inline, pack: 2, checkpoint_seconds: null, checkpoint_steps: 10}
tracking: {enabled: false}
"""


def write_text(folder: Path, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    draw = np.random.default_rng(seed)
    sizes = {"train": 3000, "validation": 200, "test": 300}
    splits = {split: np.cumsum(draw.integers(0, 3, size)) % 11 for split, size in sizes.items()}
    write_corpus(folder / "mine.tokens", [f"t{i}" for i in range(11)], splits, {})


@pytest.fixture
def text(tmp_path: Path, lengthwise, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a sweep on a text that is in the data folder."""
    (tmp_path / "text.yaml").write_text(SWEEP)
    write_text(tmp_path / "data", seed=0)
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_DATA", str(tmp_path / "data"))
    return tmp_path / "text.yaml"


@pytest.mark.slow
def test_a_sweep_is_not_resumed_on_another_text(text: Path, tmp_path: Path, lengthwise) -> None:
    lengthwise.succeeds("run", text, "--storage", tmp_path, "--set", "training.steps=20")
    folder = tmp_path / "text"
    cut_ledger(folder, ledger_kinds(folder).index("pack_end"))
    unfinished = (folder / "events.jsonl").read_bytes()
    write_text(tmp_path / "data", seed=1)
    lengthwise.refuses("resume", folder, message="another version of the corpus 'mine'")
    assert (folder / "events.jsonl").read_bytes() == unfinished
    write_text(tmp_path / "data", seed=0)
    assert lengthwise("resume", folder).returncode == 0
    write_text(tmp_path / "data", seed=1)
    assert lengthwise("report", folder).returncode == 0, "a report needs no text"
    lengthwise.refuses("confirm", folder, "--top", 1, message="another version of the corpus 'mine'")
    write_text(tmp_path / "data", seed=0)
    lengthwise.succeeds("confirm", folder, "--top", 1, "--set", "resources.scheduler=inline")


def test_a_text_that_is_missing_is_one_clear_error_before_anything_is_written(
    text: Path, tmp_path: Path, lengthwise
) -> None:
    done = lengthwise("run", text, "--storage", tmp_path / "sweeps", "--set", "task.corpus=yours")
    assert done.returncode == 2 and done.stderr.count("\n") < 8, done.stderr
    message = " ".join(done.stderr.split())
    assert "corpus 'yours': " in message and "lengthwise data FILE --fetch" in message
    assert "task.corpus" in message and "Traceback" not in message and not (tmp_path / "sweeps").exists()
    assert lengthwise("validate", text, "--set", "task.corpus=yours").returncode == 0, "its values are good"


def test_its_rows_are_shown_in_words(text: Path, lengthwise) -> None:
    shown = lengthwise(
        "data", text, "--set", "task={name: language, train_window: 20}", "--set", "objective.lengths=[20]"
    )
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in shown.stdout.splitlines() if len(line) == 20 and "␣" in line]
    assert len(rows) >= 8 and all(above[1:] == below[:-1] for above, below in zip(rows[::2], rows[1::2], strict=True))
    fetched = lengthwise("data", text, "--fetch")
    assert fetched.returncode == 0 and "exists already" in fetched.stdout


def test_what_is_planned_is_in_the_file_of_the_sweep(text: Path, tmp_path: Path, lengthwise) -> None:
    assert lengthwise("run", text, "--storage", tmp_path, "--set", "training.steps=4").returncode == 0
    kept = yaml.safe_load((tmp_path / "text" / "sweep.yaml").read_text())
    assert kept["task"]["corpus"] == "mine"
