"""The errors: their exit codes, and the file, line and command in their messages."""

from __future__ import annotations

import inspect
from pathlib import Path

from orchestrator import errors

TREE = {
    name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and kind.__module__ == errors.__name__
}


def test_bad_input_exits_with_2_and_failures_with_1() -> None:
    codes = {name: kind.exit_code for name, kind in TREE.items()}
    assert {name for name, code in codes.items() if code == 2} == {
        "UserError", "SweepExists", "NotASweep", "SpecChanged", "SweepLocked", "DivergedLedger",
        "StorageRefused", "UnexpectedEntry", "DamagedLedger", "NewerLedger", "OlderLedger", "DamagedCurves",
        "DamagedWeights", "UntrustedCode",
    }  # fmt: skip
    assert set(codes.values()) == {1, 2}


def test_a_changed_specification_shows_the_difference() -> None:
    error = errors.SpecChanged(Path("sweeps/a"), [("training.steps", 100, 200), ("model.norm", "none", "pre")])
    assert str(error).startswith("sweeps/a: ") and str(error).splitlines()[1:] == [
        "  training.steps: was 100, now 200",
        "  model.norm: was none, now pre",
    ]
    assert error.differences == (("training.steps", 100, 200), ("model.norm", "none", "pre"))


def test_damage_ends_with_what_to_do() -> None:
    first = errors.DamagedLedger(Path("sweeps/a/events.jsonl"), 1, "the first record is missing")
    for error in (first, errors.DamagedWeights("weights w are damaged")):
        assert "put a copy of the file back, or " in str(error)


def test_damage_begins_with_file_and_line() -> None:
    error = errors.DamagedLedger(Path("sweeps/a/events.jsonl"), 7, "the line does not match its checksum")
    message, hint = str(error).splitlines()
    assert message == "sweeps/a/events.jsonl:7: the line does not match its checksum"
    assert hint.endswith("lengthwise repair sweeps/a")
    assert (error.path, error.line) == (Path("sweeps/a/events.jsonl"), 7)
