"""The sweep of somebody else: its code runs with --trust alone, and what only reads it runs nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator import open_sweep
from orchestrator.code import trust
from orchestrator.errors import UntrustedCode
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from tests.no_reports import leave_out_reports
from tests.orchestrator.running.ledgers import cut_ledger, ledger_kinds

SHORT = ("--set", "search.configurations=1", "--set", "training.steps=20")


@pytest.fixture
def stranger(own_code_forgotten, monkeypatch, tmp_path) -> Callable[[str], None]:
    """stranger("NAME"): from now on this process is that of another user, who has imported nothing yet."""

    def become(name: str) -> None:
        own_code_forgotten()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
        monkeypatch.setattr(trust, "_trusted_here", set())

    return become


@pytest.fixture
def theirs(lengthwise, study: Path, stranger, tmp_path: Path, monkeypatch) -> Path:
    """An unfinished sweep of somebody else, whose module leaves a file when it is imported."""
    text = f"import pathlib\npathlib.Path({str(tmp_path / 'was_run')!r}).touch()\nSMALLEST = 6\n"
    (study / "my_numbers.py").write_text(text)
    stranger("author")
    monkeypatch.setitem(lengthwise.environment, "XDG_STATE_HOME", str(tmp_path / "author"))
    with leave_out_reports():
        done = lengthwise("run", study / "own.yaml", "--storage", tmp_path, *SHORT, cwd=study)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "tiny"
    cut_ledger(folder, ledger_kinds(folder).index("pack_end") + 1)
    stranger("reader")
    monkeypatch.setitem(lengthwise.environment, "XDG_STATE_HOME", str(tmp_path / "reader"))
    (tmp_path / "was_run").unlink()
    return folder


def test_whatever_would_run_code_of_somebody_else_asks_for_trust(lengthwise, theirs: Path, tmp_path: Path) -> None:
    before = (theirs / LEDGER_FILE).read_bytes()
    more = ("extend", theirs, "--seeds", "3"), ("extend", theirs, "--steps", "90")
    kept = ("evaluate", theirs, "0", "--lengths", "4"), ("replay", theirs, "0", "0")
    for words in (("resume", theirs), ("confirm", theirs, "--allow-unfinished"), *more, *kept):
        message = lengthwise.refuses(*words, message="my_numbers.py").stderr
        assert "--trust" in message and "my_tasks.py" in message, words
    assert not (tmp_path / "was_run").exists() and (theirs / LEDGER_FILE).read_bytes() == before
    for words in (("report", theirs), ("status", theirs), ("compare", theirs, theirs)):
        assert "Traceback" not in lengthwise(*words).stderr
    assert not (tmp_path / "was_run").exists()


def test_trust_is_remembered_for_copies_too(lengthwise, theirs: Path, stranger, tmp_path: Path) -> None:
    copy = shutil.copytree(theirs, tmp_path / "copies" / "tiny")
    lengthwise.succeeds("resume", theirs, "--trust")
    assert (tmp_path / "was_run").exists() and SweepState.load(theirs).end_status == "complete"
    stranger("reader")
    lengthwise.succeeds("resume", copy)
    lengthwise.succeeds("export", theirs, "--best", tmp_path / "best.yaml")
    stranger("third")
    with pytest.raises(UntrustedCode, match="my_tasks"):
        open_sweep(theirs).evaluate(0, lengths=[4])
    assert not (tmp_path / "third").exists()
    open_sweep(theirs, trust=True)
    assert str(theirs) in (tmp_path / "third" / "lengthwise" / "trusted").read_text()


def test_the_same_code_beside_ones_own_sweep_file_is_not_somebody_elses(lengthwise, theirs: Path, study: Path) -> None:
    """As a job that is submitted again, whose home folder is a new one."""
    lengthwise.succeeds("run", study / "own.yaml", "--storage", theirs.parent, *SHORT, "--resume", cwd=study)


def test_a_state_folder_that_cannot_be_written_trusts_for_this_process_alone(stranger, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stranger("file")
    state = SimpleNamespace(folder=tmp_path, checksum="9be4c6f9")
    assert not trust.is_trusted(state)
    trust.trust_sweep(state)
    assert trust.is_trusted(state)
    stranger("file")
    assert not trust.is_trusted(state)


def test_a_sweep_without_code_of_its_own_needs_no_trust(lengthwise, tiny, stranger, tmp_path) -> None:
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *SHORT, "--set", "seeds=1")
    stranger("reader")
    lengthwise.succeeds("export", tmp_path / "tiny", "--best", tmp_path / "best.yaml")
    lengthwise.succeeds("extend", tmp_path / "tiny", "--seeds", "2")
