"""The client of programs: what it reads from a sweep, what it writes, and what it does without a sweep."""

import ast
import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lengthwise
from orchestrator.program.reports import DeclaredReports
from tests.orchestrator.machine.test_full_disk import files_no_larger_than
from tests.orchestrator.program.attempts import merge_attempts

DECLARED = DeclaredReports(
    steps=250,
    evaluation_interval=100,
    averages=("raw", "ema"),
    metrics={"accuracy": (5, 10), "f1": (1,)},
    lengths=(1, 5, 10),
)


@pytest.fixture
def in_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "config.json").write_text('{"lr": 0.003, "optimizer": {"name": "adamw"}}')
    values = {"REPORTS": "reports", "CONFIG": "config.json", "CHECKPOINTS": "kept", "FOLDER": "", "STOP": "stop"}
    variables = {name: str(tmp_path / value) for name, value in values.items()}
    variables |= {"SEED": "3", "STEPS": "250", "EVERY": "100", "REPORTED": "100", "STOP_AT": ""}
    for name, value in variables.items():
        monkeypatch.setenv(f"LENGTHWISE_{name}", value)
    for name in lengthwise.RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield tmp_path


def test_values_of_the_sweep(in_sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {"lr": 1, "width": 16, "optimizer": {"name": "sgd", "momentum": 0.9}}
    run = lengthwise.member(defaults, 7, steps=9, every=2)
    optimizer = {"name": "adamw"}  # of another optimizer the defaults would be wrong
    assert (run.config, run.seed) == ({"lr": 0.003, "width": 16, "optimizer": optimizer}, 3)
    assert defaults["lr"] == 1
    assert (run.steps, run.every, run.reported, run.stop_at) == (250, 100, 100, None)
    assert run.checkpoints == in_sweep / "kept"
    assert [step for step in range(260) if run.due(step)] == [100, 200, 250]
    monkeypatch.setenv("LENGTHWISE_EVERY", "")
    monkeypatch.setenv("LENGTHWISE_STOP_AT", "200")
    run = lengthwise.member(every=2)
    assert (run.every, run.stop_at) == (None, 200)
    assert [step for step in range(260) if run.due(step)] == [250]


def test_defaults_that_the_sweep_does_not_set_are_reported(in_sweep: Path) -> None:
    lengthwise.member({"lr": 1, "optimizer": {}})
    assert not (in_sweep / "reports").exists()
    lengthwise.member({"lr": 1, "width": 16, "data": Path("rows"), "scale": {"up": [1.5]}})
    (fields,) = map(json.loads, (in_sweep / "reports").read_text().splitlines())
    assert fields == {"defaults": {"width": 16, "data": "rows", "scale": {"up": [1.5]}}}
    assert merge_attempts({"r": (in_sweep / "reports").read_text()}, DECLARED)[1].defaults == fields["defaults"]


@pytest.mark.parametrize(
    ("key", "default", "is_refused"),
    [
        ("learning_rat", "learning_rate", True),
        ("learning_ratee", "learning_rate", True),
        ("learnign_rate", "learning_rate", True),
        ("widths", "width", True),
        ("widht", "width", True),
        ("width", "depth", False),
        ("beta1", "beta2", False),
        ("dim_q", "dim_k", False),
        ("layer1_width", "layer2_width", False),
        ("layer1_width", "layer10_width", False),
        ("train_length", "test_length", False),
        ("min_lr", "max_lr", False),
        ("batch", "batch_size", False),
        ("kv", "k", False),
    ],
)
def test_only_a_misspelt_key_of_the_sweep_ends_the_program(
    key: str, default: str, is_refused: bool, in_sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, defaults in ((key, {default: 1}), (default, {key: 1})):
        (in_sweep / "config.json").write_text(json.dumps({given: 64}))
        if is_refused:
            with pytest.raises(SystemExit) as ended:
                lengthwise.member({**defaults, "seeds": 16})
            assert ended.value.code == 2
            (message,) = capsys.readouterr().err.splitlines()
            assert f"config.{given}:" in message and f"{next(iter(defaults))}, seeds" in message
        else:
            assert lengthwise.member(defaults).config == {given: 64, **defaults}
        assert lengthwise.member({**defaults, given: 2}).config == {
            given: 64,
            **defaults,
        }  # both are keys of the program


def test_a_loss_with_its_graph(in_sweep: Path, recwarn: pytest.WarningsRecorder) -> None:
    lengthwise.member().report(100, {"f1": 1.0}, loss=torch.tensor(2.0, requires_grad=True))
    assert not recwarn.list and '"loss": 2.0' in (in_sweep / "reports").read_text()


def test_checkpoints_outside_of_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LENGTHWISE_REPORTS", raising=False)
    monkeypatch.chdir(tmp_path)
    run = lengthwise.member()
    (run.checkpoints / "last").touch()
    assert (run.checkpoints / "last").is_file() and (tmp_path / "checkpoints" / "last").is_file()
    assert capsys.readouterr().err == ""
    again = lengthwise.member()
    assert again.checkpoints == again.checkpoints
    (warning,) = capsys.readouterr().err.splitlines()  # an earlier run left it
    assert "checkpoints/" in warning


def test_reports_are_read_back(in_sweep: Path) -> None:
    run = lengthwise.member()
    tensor = torch.tensor([0.5, float("nan")])
    run.report(100, {"accuracy": {5: tensor[0], np.int64(10): tensor[1]}, "f1": np.float32(0.25)}, loss=np.float64(2))
    run.report(np.int64(100), {"accuracy": {"5": 1, 10: float("inf")}}, average="ema")
    run.failed(120)
    text = (in_sweep / "reports").read_text()
    assert "NaN" not in text
    (step,), reports = merge_attempts({"r": text}, DECLARED)
    nan = float("nan")
    expected = [[[nan, 0.5, nan], [0.25, nan, nan]], [[nan, 1, nan], [nan, nan, nan]]]
    np.testing.assert_array_equal(step.values_AKL, np.array(expected, dtype=np.float32))
    assert (step.loss, reports.failed_step) == (2.0, 120)


@pytest.mark.parametrize(
    ("curves", "words"),
    [
        ({"acc": {5: 1, 10: 1}}, ["'acc'", "accuracy, f1", "'accuracy'?"]),
        ({"accuracy": {5: 1, 11: 1}}, ["accuracy", "11", "5, 10", "evaluation.lengths"]),
        ({"accuracy": 0.5}, ["accuracy", "5, 10", "length 1"]),
        ({"f1": {5: 1}}, ["f1", "evaluation.metrics.f1.lengths"]),
        ({"accuracy": {5: 1}}, ["accuracy", "objective.lengths 10", "5"]),
        ({"accuracy": {5: 1, 10: 1, 10.9: 0}}, ["accuracy", "10.9"]),
        ({"accuracy": {5: 1, 10: 1, "10": 0}}, ["accuracy", "'10'"]),
        ({"accuracy": torch.ones(2)}, ["accuracy", "tensor"]),
        ({"accuracy": np.ones(2)}, ["accuracy", "array"]),
        ({5: {"accuracy": 1}}, ["5", "accuracy"]),
        (0.5, ["0.5"]),
    ],
)
def test_wrong_curves_are_refused_at_the_line_of_the_program(
    curves: Any, words: list[str], in_sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = {"metric": "accuracy", "average": "raw", "lengths": [10]}
    declared = replace(DECLARED, judged=judged, own_lengths=["f1"])
    (in_sweep / "declared.json").write_text(json.dumps(declared.fields))
    monkeypatch.setenv("LENGTHWISE_DECLARED", str(in_sweep / "declared.json"))
    run = lengthwise.member()
    with pytest.raises(lengthwise.ReportError) as raised:
        run.report(100, curves)
    assert all(word in str(raised.value) for word in words), raised.value
    assert [Path(str(entry.path)).name for entry in raised.traceback] == ["test_lengthwise.py", "lengthwise.py"]
    assert not (in_sweep / "reports").exists()

    # A report that is not due may lack lengths of the objective, and a failed training has no curves.
    run.report(50, {"accuracy": {5: 1}})
    run.report(100, {}, loss=float("nan"))


def test_when_to_stop(in_sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lengthwise.member().report(100, {}) is False
    (in_sweep / "stop").touch()
    assert lengthwise.member().report(100, {}) is True
    (in_sweep / "stop").unlink()
    monkeypatch.setenv("LENGTHWISE_STOP_AT", "200")
    run = lengthwise.member()
    assert [run.report(step, {}) for step in (100, 200, 250)] == [False, True, True]


@pytest.mark.parametrize("name", lengthwise.RANK_VARIABLES)
def test_only_the_first_rank_writes(name: str, in_sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_sweep / "stop").touch()
    monkeypatch.setenv(name, "1")
    assert lengthwise.member().report(100, {}) is True
    lengthwise.member().stopped(100)
    assert not (in_sweep / "reports").exists()
    monkeypatch.setenv(name, "0")
    lengthwise.member().stopped(100)
    assert json.loads((in_sweep / "reports").read_text()) == {"stopped": 100}


def test_torchrun_rank_comes_before_that_of_slurm(in_sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("SLURM_PROCID", "1")
    lengthwise.member().stopped(100)
    assert (in_sweep / "reports").exists()


def test_full_disk(in_sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENGTHWISE_REPORTS", "/dev/full")
    with pytest.raises(OSError, match="space"):
        lengthwise.member().report(100, {})


def test_report_that_a_full_disk_cuts_short(in_sweep: Path) -> None:
    with files_no_larger_than(20), pytest.raises(OSError) as raised:
        lengthwise.member().report(100, {"accuracy": 0.5})
    assert raised.value.errno == errno.EFBIG and len((in_sweep / "reports").read_text()) == 20


def test_outside_of_a_sweep(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*lengthwise.RANK_VARIABLES, "LENGTHWISE_REPORTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LENGTHWISE_STOP_AT", "1")
    monkeypatch.setenv("LENGTHWISE_STEPS", "3")
    run = lengthwise.member({"lr": 1}, 7, steps=5, every=2)
    assert (run.config, run.seed, run.reported) == ({"lr": 1}, 7, 0)
    assert [step for step in range(6) if run.due(step)] == [2, 4, 5]
    assert run.report(2, {"accuracy": {5: 0.5}}, loss=0.25) is False
    assert json.loads(capsys.readouterr().out) == {
        "step": 2, "average": "raw", "curves": {"accuracy": {"5": 0.5}}, "loss": 0.25
    }  # fmt: skip
    assert run.report(4, {"accuracy": {5: 0.5}}, loss=float("nan")) is False
    assert json.loads(capsys.readouterr().out) == {"failed": 4}
    assert list(tmp_path.iterdir()) == []
    assert lengthwise.member().config == {}


def copied(folder: Path, code: str) -> subprocess.CompletedProcess[Any]:
    """Run code beside a copy of the file, without site-packages."""
    shutil.copy(lengthwise.__file__, folder)
    words = [sys.executable, "-S", "-c", code]
    return subprocess.run(words, cwd=folder, env={}, capture_output=True, text=True, check=False)


def test_copy_beside_a_script(tmp_path: Path) -> None:
    ended = copied(tmp_path, "import lengthwise; lengthwise.member(steps=1).report(1, {'loss': 0.5})")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["curves"] == {"loss": 0.5}
    ended = copied(tmp_path, "import lengthwise; lengthwise.run")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: lengthwise.run ") and "clone" in last and "install lengthwise" not in last
    ended = copied(tmp_path, "import lengthwise; lengthwise.runs")
    assert ended.stderr.splitlines()[-1].startswith("AttributeError: ")


def test_an_older_python_is_told_which_one_is_needed(tmp_path: Path) -> None:
    """The file is parsed whole before its first line runs, so it has no syntax that is newer than 3.7."""
    ast.parse(Path(lengthwise.__file__).read_text(), feature_version=(3, 7))
    ended = copied(tmp_path, "import sys; sys.version_info = (3, 8, 1); import lengthwise")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: lengthwise.py ") and "3.9" in last


def test_only_the_standard_library_is_imported() -> None:
    tree = ast.parse(Path(lengthwise.__file__).read_text())
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_api_of_the_package() -> None:
    import orchestrator

    assert lengthwise.run is orchestrator.run
    assert lengthwise.open_sweep is orchestrator.open_sweep
    assert not hasattr(lengthwise, "plan")
