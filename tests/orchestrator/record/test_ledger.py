"""The ledger: records are read back as written, torn tails are dropped, every other damage is named."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import DamagedLedger, LedgerError, NewerLedger, NotASweep, OlderLedger, SweepExists, UserError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.record_kinds import RECORD_KINDS
from orchestrator.record.ledger.records import SCHEMA, Record, decode_record, encode_record, read_records
from tests.orchestrator.record.ledgers import FIRST, same

keys = st.text(max_size=6).filter("$float".__ne__)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner),
    max_leaves=6,
)
fields = st.dictionaries(keys, plain, max_size=3)
records = st.lists(st.tuples(st.sampled_from(sorted(RECORD_KINDS.keys() - {"sweep"})), fields), max_size=5)


def lines(several: list[tuple[str, dict[str, object]]]) -> list[bytes]:
    first = Record(0, 1.0, "sweep", {**FIRST, "schema": SCHEMA})
    return [
        encode_record(first),
        *(encode_record(Record(seq, 2.0, *record)) for seq, record in enumerate(several, start=1)),
    ]


def write_ledger(folder: Path, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / LEDGER_FILE).write_bytes(content)
    return folder


@settings(max_examples=30)
@given(records)
def test_append_and_replay_round_trip(several: list[tuple[str, dict[str, object]]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        with Ledger.create(Path(root) / "s", FIRST) as ledger:
            written = [ledger.append(kind, **data) for kind, data in several[:3]]
        with Ledger.open(Path(root) / "s") as ledger:
            assert ledger.notice is None
            written += [ledger.append(kind, **data) for kind, data in several[3:]]
        read = read_records(Path(root) / "s")
    assert same(read[1:], written)
    assert [record.seq for record in read] == list(range(len(several) + 1))
    assert same([(record.kind, record.fields) for record in read[1:]], several)
    assert read[0].fields == {**FIRST, "schema": SCHEMA}


@settings(max_examples=30)
@given(records, st.data())
def test_a_truncated_ledger_is_a_prefix_of_its_records(
    several: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    whole = lines(several)
    size = data.draw(st.integers(0, sum(map(len, whole))))
    complete = sum(size >= end for end in np.cumsum([len(line) for line in whole]))
    with tempfile.TemporaryDirectory() as root:
        folder = write_ledger(Path(root) / "s", b"".join(whole)[:size])
        if not complete:
            with pytest.raises(DamagedLedger, match=r"events\.jsonl:1: the first record is missing"):
                read_records(folder)
            return
        assert [encode_record(record) for record in read_records(folder)] == whole[:complete]
        with Ledger.open(folder) as ledger:
            torn = size - sum(map(len, whole[:complete]))
            assert (ledger.notice is None) == (torn == 0)
            if torn:
                assert (
                    f"{folder / LEDGER_FILE}:{complete + 1}: dropped a torn last line of {torn} bytes" == ledger.notice
                )
            assert ledger.append("end", status="complete", message="").seq == complete
        assert [encode_record(record) for record in read_records(folder)][:-1] == whole[:complete]


@settings(max_examples=60)
@given(records, st.integers(0, 10**6), st.integers(1, 255), st.integers(0, 40))
def test_a_changed_byte_is_damage_unless_it_is_in_an_unfinished_line(
    several: list[tuple[str, dict[str, object]]], position: int, change: int, torn: int
) -> None:
    whole = lines([*several, ("end", {"status": "complete", "message": ""})])
    tail = encode_record(Record(len(whole), 3.0, "resume", {"provenance": {"x": "y" * 40}}))[:torn]
    content = bytearray(b"".join(whole) + tail)
    position %= len(content)
    content[position] ^= change
    with tempfile.TemporaryDirectory() as root:
        folder = write_ledger(Path(root) / "s", bytes(content))
        try:
            read = [encode_record(record) for record in read_records(folder)]
        except DamagedLedger as error:
            line = bytes(content[:position]).count(b"\n") + 1  # a destroyed newline damages the line it ended
            assert error.line == line
            assert str(error).startswith(f"{folder / LEDGER_FILE}:{line}: ")
            with pytest.raises(DamagedLedger):
                Ledger.open(folder)
            assert (folder / LEDGER_FILE).read_bytes() == content  # a damaged ledger is left as it is
            return
    assert position >= len(content) - len(tail)
    assert read == whole


@pytest.mark.parametrize("torn", [b"", b"{", b"garbage", b"\0" * 8])
@pytest.mark.parametrize("instead", [b"", b" ", b"\0", b"\r"])
def test_a_lost_last_newline_is_damage_once_something_follows(folder: Path, instead: bytes, torn: bytes) -> None:
    content = (folder / LEDGER_FILE).read_bytes()
    write_ledger(folder, content[:-1] + instead + torn)
    if instead + torn:
        with pytest.raises(DamagedLedger, match=r"events\.jsonl:5: text follows a complete record"):
            read_records(folder)
    else:
        assert len(read_records(folder)) == 4


def test_every_flipped_bit_of_a_line_breaks_its_checksum() -> None:
    line = encode_record(Record(7, 12.5, "score", {"config_id": "é", "number": 3, "score": -math.inf}))[:-1]
    for position in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[position] ^= 1 << bit
            with pytest.raises(ValueError, match="checksum"):
                decode_record(bytes(flipped))


@pytest.mark.parametrize(
    ("damage", "line", "problem"),
    [
        (lambda a: a[:1] + a[2:], 2, "expected record 1, got record 2"),
        (lambda a: a[:3] + a[2:], 4, "expected record 3, got record 2"),
        (lambda a: [a[0], a[2], a[1], *a[3:]], 2, "expected record 1, got record 2"),
        (lambda a: a[1:], 1, "expected record 0, got record 1"),
        (lambda a: [*a[:2], b"\n", *a[2:]], 3, "does not match its checksum"),
        (lambda a: [*a[:2], a[2][:20] + b"\n", *a[3:]], 3, "does not match its checksum"),
        (lambda a: [*a[:-1], a[-1].replace(b"died", b"lied")], 5, "does not match its checksum"),
        (lambda a: [*a[:-1], a[-1][:-30] + b"\n"], 5, "does not match its checksum"),
        (lambda a: [], 1, "the first record is missing"),
        (lambda a: [b"\0" * 64], 1, "the first record is missing"),
        (lambda a: [b"\xff\xfe\n", *a[1:]], 1, "does not match its checksum"),
        (lambda a: [encode_record(Record(0, 1.0, "end", {"schema": 1})), *a[1:]], 1, "not of kind sweep"),
        (lambda a: [encode_record(Record(0, 1.0, "sweep", {"schema": "1"})), *a[1:]], 1, "not of kind sweep"),
    ],
)
def test_damage_names_the_line(folder: Path, damage, line: int, problem: str) -> None:
    content = (folder / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    write_ledger(folder, b"".join(damage(content)))
    for read in (read_records, Ledger.open):
        with pytest.raises(DamagedLedger) as caught:
            read(folder)
        assert str(caught.value).startswith(f"{folder / LEDGER_FILE}:{line}: ")
        assert problem in str(caught.value)


def test_a_tail_of_zeros_after_a_power_cut_is_dropped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_records(folder)
    with (folder / LEDGER_FILE).open("ab") as file:
        file.write(b"\0" * 4096)
    with Ledger.open(folder) as ledger:
        assert "dropped a torn last line of 4096 bytes" in str(ledger.notice)
    assert "dropped a torn last line" in capsys.readouterr().err
    assert read_records(folder) == before


def test_reading_leaves_a_torn_line_to_its_writer(folder: Path) -> None:
    with (folder / LEDGER_FILE).open("ab") as file:
        file.write(b'{"seq":5,')
    content = (folder / LEDGER_FILE).read_bytes()
    assert len(read_records(folder)) == 5
    assert (folder / LEDGER_FILE).read_bytes() == content


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        (4, NewerLedger, "has ledger schema 4; this version of lengthwise reads up to 3"),
        (SCHEMA - 1, OlderLedger, "written before lengthwise 1.0.0; read it with that older version"),
    ],
)
def test_another_schema_is_refused_in_one_sentence(folder: Path, schema: int, error: type, message: str) -> None:
    write_ledger(folder, encode_record(Record(0, 1.0, "sweep", {**FIRST, "schema": schema})))
    with pytest.raises(error, match=rf"^\S+: {re.escape(message)}$"):
        read_records(folder)


def test_a_second_sweep_does_not_overwrite_the_first(folder: Path) -> None:
    content = (folder / LEDGER_FILE).read_bytes()
    with pytest.raises(SweepExists, match=f"{folder} already holds a sweep"):
        Ledger.create(folder, FIRST)
    assert (folder / LEDGER_FILE).read_bytes() == content


def test_a_folder_without_ledger_is_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "sweeps" / "quickstart").mkdir(parents=True)
    (tmp_path / "sweeps" / "quickstart" / LEDGER_FILE).touch()
    messages = {
        tmp_path: "is not a sweep: no events.jsonl in it",
        tmp_path / "missing": "does not exist",
        tmp_path / "sweeps" / "quikstart": f"does not exist (did you mean {tmp_path / 'sweeps' / 'quickstart'}?)",
        tmp_path / "file": "is a file; a sweep is a folder",
        tmp_path / "file" / "below": "does not exist",
    }
    for path, why in messages.items():
        for read in (read_records, Ledger.open):
            with pytest.raises(NotASweep, match=re.escape(f"{path} {why}") + "$"):
                read(path)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file", tmp_path / "sweeps"]


def test_both_searched_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweeps" / "quickstart").mkdir(parents=True)
    (tmp_path / "sweeps" / "quickstart" / LEDGER_FILE).touch()
    with pytest.raises(NotASweep, match=re.escape(f"{tmp_path} and {tmp_path / 'sweeps'} ")) as error:
        read_records(Path("absent"))
    assert str(error.value).endswith(": quickstart")


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("in the way")
    for folder in (tmp_path / "storage" / "sweep", tmp_path / "storage"):
        with pytest.raises(UserError, match=f"{folder}: cannot be created: part of the path is a file"):
            Ledger.create(folder, FIRST)


def test_names_with_spaces_and_unicode(tmp_path: Path) -> None:
    folder = tmp_path / "ein Versuch – 試験 é"
    with Ledger.create(folder, {**FIRST, "name": folder.name}) as ledger:
        ledger.append("publish", uri="sqlite:///ü.db", ok=True, message="\ud800 lone surrogate")
    first, second = read_records(folder)
    assert first.fields["name"] == folder.name
    assert second.fields["message"] == "\ud800 lone surrogate"


def test_numpy_values_are_written_as_plain_ones(folder: Path) -> None:
    with Ledger.open(folder) as ledger:
        record = ledger.append(
            "evaluation",
            failed_at=np.array([-1, 7]),
            loss=np.array([0.5, np.nan]),
            one=np.float32(0.1),
            yes=np.bool_(True),
            pairs=[("a", np.int64(3))],
        )
    expected = {
        "failed_at": [-1, 7],
        "loss": [0.5, math.nan],
        "one": float(np.float32(0.1)),
        "yes": True,
        "pairs": [["a", 3]],
    }
    assert same(record.fields, expected)
    assert same(read_records(folder)[-1], record)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2}, "attempt.x: 1 cannot be a key"),
        ({"$float": "inf"}, "cannot be a key"),
        ([{"y": {1, 2}}], r"attempt.x\[0\].y: a set cannot be written"),
        (Path("/"), "Path cannot be written"),
        (b"bytes", "bytes cannot be written"),
    ],
)
def test_values_that_cannot_come_back_are_refused(folder: Path, value: object, message: str) -> None:
    before = (folder / LEDGER_FILE).read_bytes()
    with Ledger.open(folder) as ledger, pytest.raises(TypeError, match=message):
        ledger.append("attempt", x=value)
    assert (folder / LEDGER_FILE).read_bytes() == before


def test_unknown_kinds_are_refused(folder: Path) -> None:
    with Ledger.open(folder) as ledger, pytest.raises(ValueError, match="unknown kind of record 'trial'"):
        ledger.append("trial")
    with pytest.raises(LedgerError, match="closed"):
        ledger.append("end", status="complete", message="")
    ledger.close()


@pytest.mark.timeout(300)
def test_a_long_line_cut_short_is_read_in_a_time_that_grows_with_its_length(folder: Path) -> None:
    """Every end of a record in it was once the end of as much as had to be read again."""
    whole = (folder / LEDGER_FILE).read_bytes()
    for torn in (b',"sha":"0123456789abcdef"}' * 40_000, b"[" * 10**7, b"x" * 10**7):
        (folder / LEDGER_FILE).write_bytes(whole + torn)
        assert len(read_records(folder)) == len(whole.splitlines())
        (folder / LEDGER_FILE).write_bytes(whole + torn + b"\n")
        with pytest.raises(
            DamagedLedger, match=rf":{len(whole.splitlines()) + 1}: the line does not match its checksum"
        ):
            read_records(folder)
