"""A sweep folder made by somebody else: its records may hold anything under a right checksum, and lead anywhere."""

import hashlib
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.code.code_record import find_changed_code
from orchestrator.code.user_code import UserCodeError, find_module
from orchestrator.errors import DamagedCurves, DamagedLedger, LedgerError, UnexpectedEntry
from orchestrator.figures import drawing
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import IN_PLACE_FILES, LEDGER_FILE, SWEEP_FOLDERS, find_in_storage
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.record_kinds import RECORD_KINDS
from orchestrator.record.ledger.records import Record, decode_record, encode_record, read_records
from orchestrator.record.repair import repair_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.write_report import present_report
from orchestrator.running.pack.watchdog import LocalWatchdog, Watchdog
from orchestrator.running.watching.status import make_status_rows
from orchestrator.session.session import Outcome
from orchestrator.sweep import run_and_resume
from orchestrator.sweep.specification import refuse_existing
from search_spaces import load_sweep
from search_spaces.grammar.load import MAX_RECORDED_BYTES
from trainers.errors import WeightsError
from trainers.evaluation.weights_file import StoredWeights
from trainers.files.checkpoint import Checkpoints

RELEASED = Path(__file__).resolve().parents[1] / "sweeps" / "1.0.0" / "finished"
OUTSIDE = [
    "/etc/passwd", "../other/curves.parquet", "curves/../../x.parquet", "curves\\..\\x", "C:\\x", "", "curves/", ".",
    "..", "curves/\0.parquet", "curves//x", "curves/./x", "curves/\ud800", "curves/a\nb", "~/../x\\y",
]  # fmt: skip


@pytest.fixture
def original(request: pytest.FixtureRequest, _trained: Path) -> Path:
    """The sweep of today, with kept weights, or the one that a test asks for."""
    return RELEASED if getattr(request, "param", "today's") == "of 1.0.0" else _trained


BOTH = pytest.mark.parametrize("original", ["today's", "of 1.0.0"], indirect=True)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "storage" / original.name))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, and a sweep is read as for `resume`, but not run."""
    ended = Outcome(folder=Path("tiny"), status="complete", exit_code=0)
    monkeypatch.setattr(run_and_resume, "train_missing", lambda *arguments, **more: ended)


def rewrite(folder: Path, original: Path, change: Callable[[Record], Any]) -> None:
    """Write the ledger with the fields of every record as `change` gives them, checksums and all."""
    records = read_records(original)
    lines = [encode_record(Record(record.seq, record.time, record.kind, change(record))) for record in records]
    (folder / LEDGER_FILE).write_bytes(b"".join(lines))


def read_by(folder: Path) -> Iterator[Callable[[], Any]]:
    """What `status`, `report` and `resume` do before anything is trained."""
    yield lambda: make_status_rows(SweepState.load(folder))
    yield lambda: present_report(folder, Console(file=io.StringIO(), width=160))
    yield lambda: run_and_resume.resume_sweep(folder, Console(file=io.StringIO()), ["resources.scheduler=inline"])


def test_a_device_that_a_record_names_is_not_read(tmp_path: Path) -> None:
    recorded = {"version": "0", "folders": [{"root": str(tmp_path), "files": {"/dev/zero": "0"}}]}
    assert find_changed_code(recorded) == ["/dev/zero is gone"]


def test_a_specification_that_takes_minutes_to_parse_is_damage(folder: Path, original: Path) -> None:
    (first, *_) = read_records(original)
    search = {**first.fields["spec"]["search"], "listed": [{"training.learning_rate": 0.01}] * 100_000}
    spec = {**first.fields["spec"], "search": search}
    rewrite(folder, original, lambda record: {**record.fields, "spec": spec} if record == first else record.fields)
    with pytest.raises(DamagedLedger, match=f"allowed: at most {MAX_RECORDED_BYTES} bytes"):
        run_and_resume.resume_sweep(folder, Console(file=io.StringIO()), ["resources.scheduler=inline"])


def test_a_missing_field_is_named_with_its_line(folder: Path, original: Path) -> None:
    records = read_records(original)
    for first in {record.kind: record for record in reversed(records)}.values():
        for field in RECORD_KINDS[first.kind]:
            fields = {name: value for name, value in first.fields.items() if name != field}
            rewrite(
                folder,
                original,
                lambda record, seq=first.seq, less=fields: less if record.seq == seq else record.fields,
            )
            with pytest.raises(DamagedLedger, match=rf"^{folder / LEDGER_FILE}:{first.seq + 1}: .*{field}"):
                SweepState.load(folder)


@BOTH
def test_fields_of_newer_versions_are_left_alone(folder: Path, original: Path) -> None:
    rewrite(folder, original, lambda record: {**record.fields, "newer": {"anything": [1, None]}})
    assert SweepState.load(folder).configurations.keys() == SweepState.load(original).configurations.keys()
    for read in read_by(folder):
        read()


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_stay_in_the_sweep_folder(folder: Path, original: Path, path: str) -> None:
    def weights(record: Record) -> Any:
        kept = record.fields.get("weights")
        return record.fields if not kept else {**record.fields, "weights": [{**kept[0], "name": path}, *kept[1:]]}

    changes: list[Callable[[Record], Any]] = [
        weights,
        lambda record: {**record.fields, "file": path} if record.kind == "evaluation" else record.fields,
    ]
    for change in changes:
        rewrite(folder, original, change)
        with pytest.raises(DamagedLedger, match=r"events\.jsonl:\d+: .*inside the sweep folder"):
            SweepState.load(folder)


@BOTH
@pytest.mark.parametrize("name", [*OUTSIDE, "../../figure", "a/b", "x" * 200, ".hidden", "-rf"])
def test_no_figure_is_written_outside(folder: Path, original: Path, name: str) -> None:
    (first, *_) = SweepState.load(original).configurations

    def change(record: Record) -> Any:
        return json.loads(json.dumps(record.fields).replace(json.dumps(first), json.dumps(name)))

    rewrite(folder, original, change)
    before = {path for path in folder.parent.rglob("*") if folder not in path.parents}
    for read in read_by(folder):
        with pytest.raises(DamagedLedger, match=r"events\.jsonl:\d+: .*: config_id"):
            read()
    assert {path for path in folder.parent.rglob("*") if folder not in path.parents} == before


@pytest.mark.parametrize("what", ["folder", "file", "weights", "itself"])
def test_links_that_lead_out_are_refused(folder: Path, original: Path, what: str) -> None:
    outside = folder.parent / "outside"
    target = next((folder / ("weights" if what == "weights" else "curves")).iterdir())
    target = target.parent if what == "folder" else target
    if what == "itself":
        target.unlink()
        target.symlink_to(target)
    else:
        shutil.move(target, outside)
        target.symlink_to(outside)
    for read in (*read_by(folder), partial(repair_ledger, folder)):
        with pytest.raises(UnexpectedEntry, match=r"/(curves|weights)\S* is a link to /"):
            read()


def puts_link(path: Path) -> None:
    path.symlink_to(path.parents[1] / "outside")


def puts_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # no bind: it refuses a path of more than 107 bytes


ODD: list[Callable[[Path], Any]] = [puts_link, os.mkfifo, puts_socket, Path.mkdir]


@pytest.mark.timeout(60)  # whoever opens a pipe waits for ever
@pytest.mark.parametrize("put_odd", ODD, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", IN_PLACE_FILES)
def test_files_that_are_opened_in_place_are_regular(
    folder: Path, original: Path, name: str, put_odd: Callable[[Path], Any]
) -> None:
    (folder.parent / "outside").write_bytes((folder / LEDGER_FILE).read_bytes())
    (folder / name).unlink(missing_ok=True)
    put_odd(folder / name)
    for read in (*read_by(folder), partial(repair_ledger, folder), partial(Ledger.create, folder, {})):
        with pytest.raises(UnexpectedEntry, match=rf"/{re.escape(name)} is (a link|not a regular file); ") as caught:
            read()
        assert caught.value.exit_code == 2
    assert (folder.parent / "outside").read_bytes() == (original / LEDGER_FILE).read_bytes()


@pytest.mark.parametrize("name", SWEEP_FOLDERS)
def test_nothing_is_written_through_a_link_to_a_folder(folder: Path, original: Path, name: str) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    for inner in ("", "/pack"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / f"{name}{inner}").parent.mkdir(exist_ok=True)
        (folder / f"{name}{inner}").symlink_to(outside)
        for read in (*read_by(folder), partial(repair_ledger, folder), partial(Ledger.create, folder, {})):
            with pytest.raises(UnexpectedEntry, match=rf"/{name}{inner} is a link to {outside}"):
                read()
        (folder / f"{name}{inner}").unlink()
    (folder / name).rmdir()
    (folder / name).touch()
    with pytest.raises(UnexpectedEntry, match=f"/{name} is not a folder"):
        SweepState.load(folder)
    assert not list(outside.iterdir())


@pytest.mark.timeout(60)
def test_no_pipe_is_waited_for(folder: Path) -> None:
    part, kept = next((folder / "curves").iterdir()), next((folder / "weights").iterdir())
    stuck, drawn, module = folder / "checkpoints" / "p.stuck.txt", folder / "comparison.png", folder / "my_pipe.py"
    saved = folder / "checkpoints" / "p" / "step-000000000004.ckpt"
    saved.parent.mkdir()
    for path in (part, kept, stuck, drawn, module, saved):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    with pytest.raises(DamagedCurves, match=f"{part}: cannot be read: not a regular file"):
        read_curves(SweepState.load(folder))
    with pytest.raises(WeightsError, match=f"{kept} are damaged: it is not a regular file"):
        StoredWeights(kept, "0", "raw")
    assert "it is not a regular file" in Checkpoints(folder=saved.parent).load([])[1][0]
    assert drawing.read_figure_digest(drawn) is None
    with pytest.raises(UserCodeError, match="module not found"):
        find_module("my_pipe", [folder])
    with Watchdog(60.0, stuck):
        assert stuck.is_file()


def test_a_folder_without_permission_is_named(folder: Path) -> None:
    spec = load_sweep(folder / "sweep.yaml")
    reads: list[Callable[[], Any]] = [
        lambda: SweepState.load(find_in_storage(folder)),
        lambda: Ledger.open(folder),
        lambda: repair_ledger(folder),
        lambda: Ledger.create(folder, {}),
    ]
    folder.chmod(0)
    if root := os.geteuid() == 0:  # may read everything
        os.seteuid(65534)
    try:
        for read in reads:
            with pytest.raises(LedgerError, match=rf"^{folder}\S*: cannot .*: Permission denied$"):
                read()
        refuse_existing(spec, folder)
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_stuck_file_that_is_a_link_is_not_followed(folder: Path) -> None:
    (folder / "precious").write_text("precious")
    (folder / "p.stuck.txt").symlink_to(folder / "precious")
    for watchdog in (Watchdog, LocalWatchdog):
        with watchdog(60.0, folder / "p.stuck.txt"):
            assert not (folder / "p.stuck.txt").is_symlink()
    assert (folder / "precious").read_text() == "precious"


def test_links_within_the_folder_and_to_it_are_good(folder: Path, original: Path) -> None:
    (folder / "curves").rename(folder / "parts")
    (folder / "curves").symlink_to("parts")
    link = folder.parent / "link"
    link.symlink_to(folder)
    for path in (folder, link, Path(os.path.relpath(link))):
        assert len(read_curves(SweepState.load(path))) == len(read_curves(SweepState.load(original)))
        Ledger.open(path).close()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nonsense" * 100], ids=repr)
def test_curves_that_are_no_curves_are_named(folder: Path, original: Path, content: bytes) -> None:
    part = next((folder / "curves").iterdir())
    part.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    named = f"curves/{part.name}"
    rewrite(
        folder,
        original,
        lambda record: record.fields | ({"sha256": digest} if record.fields.get("file") == named else {}),
    )
    with pytest.raises(DamagedCurves, match=part.name):
        read_curves(SweepState.load(folder))


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b'{"a":' + b"[" * 100_000 + b"}", b'{"seq":true,"time":1,"kind":"end","data":{}}',
        b'{"seq":0,"time":"now","kind":"end","data":{}}', b'{"seq":0,"time":NaN,"kind":"end","data":{}}',
        b'{"seq":0,"time":1e300,"kind":"end","data":{}}', b'{"seq":0,"time":-1,"kind":"end","data":{}}',
        b'{"seq":0,"time":1,"kind":["end"],"data":{}}',
        b'{"seq":0,"time":1,"kind":"end","data":[]}', b'{"seq":0,"time":1,"kind":"end","data":{"x":{"$float":[1]}}}',
        b'{"seq":0,"time":1,"kind":"end","data":{"x":{"$float":"one"}}}',
    ],
    ids=lambda body: body[:40].decode(),
)  # fmt: skip
def test_a_line_that_is_no_record_is_damage(body: bytes) -> None:
    checksum = hashlib.sha256(body).hexdigest()[:16].encode()
    with pytest.raises(ValueError, match=r"record|nested|number|float"):
        decode_record(body[:-1] + b',"sha":"' + checksum + b'"}')
