"""A damaged ledger is cut after its last good record; the damaged file stays, and what is lost is said."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import DamagedCurves, DamagedLedger, LedgerError, NotASweep, SweepLocked
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record, encode_record, read_records
from orchestrator.record.repair import repair_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_command

pytestmark = pytest.mark.usefixtures("no_reports")

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"
WHOLE = (RELEASED / LEDGER_FILE).read_bytes()
LINES = WHOLE.splitlines(keepends=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RELEASED, tmp_path / "sweep"))


def test_a_sound_ledger_is_left_as_it_is(folder: Path) -> None:
    for content in (WHOLE, WHOLE[:-1], WHOLE + b'{"seq":'):
        (folder / LEDGER_FILE).write_bytes(content)
        before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if not path.name.startswith(".")}
        (message,) = repair_ledger(folder)
        assert "is sound" in message and "nothing was changed" in message
        assert {path: path.stat().st_mtime_ns for path in folder.iterdir() if not path.name.startswith(".")} == before


def test_what_two_drivers_have_left(folder: Path) -> None:
    """The second begins where the first was, and both go on."""
    last = read_records(folder)[-4:]
    pack_end = next(record for record in read_records(folder) if record.kind == "pack_end")
    second = encode_record(Record(last[0].seq, 1.0, "pack_end", pack_end.fields))
    damaged = b"".join(LINES[:-4]) + LINES[-4] + second + b"".join(LINES[-3:]) + b"half a li"
    (folder / LEDGER_FILE).write_bytes(damaged)
    with pytest.raises(DamagedLedger, match=f"lengthwise repair {folder}"):
        read_records(folder)
    message = "\n".join(repair_ledger(folder))
    assert (folder / LEDGER_FILE).read_bytes() == b"".join(LINES[:-3])
    kept = folder / f"{LEDGER_FILE}.damaged-1"
    assert f"saved as {kept}; " in message and kept.read_bytes() == damaged
    assert "1 record of kind pack_end" in message and "1 unreadable line" in message
    assert pack_end.fields["pack_id"] in message and f"lengthwise resume {folder}" in message
    (again,) = repair_ledger(folder)
    assert "is sound" in again


def test_an_earlier_kept_file_is_never_overwritten(folder: Path) -> None:
    for number, line in enumerate((20, 10, 5), 1):
        lines = (folder / LEDGER_FILE).read_bytes().splitlines(keepends=True)
        lines[line] = b"broken by hand\n"
        (folder / LEDGER_FILE).write_bytes(b"".join(lines))
        repair_ledger(folder)
        kept = sorted(folder.glob("*.damaged*"))
        assert len(kept) == number and kept[-1] == folder / f"{LEDGER_FILE}.damaged-{number}"
        assert kept[-1].read_bytes() == b"".join(lines)


@pytest.mark.parametrize("damage", [Path.unlink, lambda part: os.truncate(part, 100)])
def test_records_that_rest_on_damaged_curves_are_taken_out(folder: Path, damage: Callable[[Path], object]) -> None:
    record = next(record for record in read_records(folder) if record.kind == "evaluation")
    part = folder / record.fields["file"]
    damage(part)
    with pytest.raises(DamagedCurves) as error:
        read_curves(SweepState.load(folder))
    again = f"retrain its members: {format_command('repair', folder)}, then {format_command('resume', folder)}"
    assert str(error.value).endswith(f"\nput a copy of the file back, or {again}")
    assert repair_ledger(folder)[0].endswith(f":{record.seq + 1}: curves missing or damaged: {part}")
    state = SweepState.load(folder)
    pack = state.packs[record.fields["pack_id"]]
    others = [other.evaluations for other in state.packs.values() if other is not pack]
    assert not pack.evaluations and not pack.has_ended and all(others) and state.end_status is None
    unscored = {
        configuration.config_id for configuration in state.configurations.values() if configuration.score is None
    }
    assert unscored == {name for name, _ in pack.members} and len(read_curves(state))
    assert "is sound" in repair_ledger(folder)[0]


def test_curves_of_a_sweep_at_an_address_are_fetched_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("record.repair", "record.files.curves"):
        monkeypatch.setattr(f"orchestrator.{module}.find_address", lambda folder: "file:///sweeps/x")
    next((folder / "curves").iterdir()).unlink()
    with pytest.raises(DamagedCurves, match="remove it, so that the next command fetches it from file:///sweeps/x"):
        repair_ledger(folder)
    assert (folder / LEDGER_FILE).read_bytes() == WHOLE


def test_a_record_that_says_nonsense_is_cut_off(folder: Path) -> None:
    records = read_records(folder)
    at = next(record.seq for record in records if record.kind == "score")
    lines = [
        *LINES[:at],
        encode_record(Record(at, 1.0, "score", {**records[at].fields, "number": 99})),
        *LINES[at + 1 :],
    ]
    (folder / LEDGER_FILE).write_bytes(b"".join(lines))
    assert "99" in repair_ledger(folder)[0]
    assert len(read_records(folder)) == at and SweepState.load(folder)


def test_what_cannot_be_repaired_is_left(folder: Path, tmp_path: Path) -> None:
    (folder / LEDGER_FILE).write_bytes(WHOLE[1:])
    with pytest.raises(DamagedLedger, match="a first record cannot be repaired; put a copy of the file back"):
        repair_ledger(folder)
    assert (folder / LEDGER_FILE).read_bytes() == WHOLE[1:] and not list(folder.glob("*.damaged*"))
    with pytest.raises(NotASweep):
        repair_ledger(tmp_path / "nowhere")
    (folder / LEDGER_FILE).write_bytes(WHOLE)
    with Ledger.open(folder), pytest.raises(SweepLocked):
        repair_ledger(folder)


@settings(max_examples=40)
@given(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.binary(max_size=40))
def test_whatever_is_cut_or_garbled_a_prefix_is_left(start: int, end: int, instead: bytes) -> None:
    start, end = sorted((start, end))
    content = WHOLE[:start] + instead + WHOLE[end:]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        shutil.copytree(RELEASED / "curves", folder / "curves")
        (folder / LEDGER_FILE).write_bytes(content)
        try:
            lines = repair_ledger(folder)
        except LedgerError as error:
            assert "first record" in str(error) and (folder / LEDGER_FILE).read_bytes() == content
            return
        left = [encode_record(record) for record in read_records(folder)]
        assert left == LINES[: len(left)] and SweepState.load(folder)
        assert len(left) >= len(WHOLE[:start].splitlines(keepends=True)) - 1
        kept = folder / f"{LEDGER_FILE}.damaged-1"
        assert ("is sound" in lines[0]) == (not kept.exists())
        if kept.exists():
            assert kept.read_bytes() == content
        assert "is sound" in repair_ledger(folder)[0]
        with Ledger.open(folder) as ledger:
            ledger.append("end", status="complete", message="")


def test_the_writer_sees_another_writer_before_it_writes(folder: Path) -> None:
    path = folder / LEDGER_FILE
    for change in (
        lambda: path.write_bytes(path.read_bytes() + LINES[-1]),
        lambda: path.write_bytes(path.read_bytes()[:-5]),
        lambda: (path.rename(folder / "other"), path.write_bytes((folder / "other").read_bytes())),
        path.unlink,
    ):
        path.write_bytes(WHOLE)
        with Ledger.open(folder) as ledger:
            ledger.append("end", status="complete", message="")
            (folder / ".owner.json").write_text(
                json.dumps({"host": "lab7", "pid": 4711, "user": "ada", "started": 1.0, "heartbeat": 4e9})
            )
            change()
            after = path.read_bytes() if path.exists() else None
            for _ in range(2):
                with pytest.raises(LedgerError, match=r"ada@lab7 pid 4711|cannot be written|another driver"):
                    ledger.append("end", status="complete", message="")
            assert (path.read_bytes() if path.exists() else None) == after
