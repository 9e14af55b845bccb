"""Texts of somebody else's ledger reach a terminal without control characters, whatever verb shows them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from orchestrator.export.latex import escape as escape_latex
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import encode_record, read_records
from orchestrator.report.page.render import escape as escape_html
from orchestrator.session.session import Outcome
from orchestrator.sweep import extend, run_and_resume
from orchestrator.text.redaction import remove_controls

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0"
TITLE, CLIPBOARD, RAW = "\x1b]0;title\x07", "\x1b]52;c;aGk=\x07", "\x9b31m\r\x7f\b"
ATTACK = f"seen{TITLE}{CLIPBOARD}{RAW}"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """The storage with two sweeps of somebody else, one of them interrupted after a pack died."""
    for name in ("finished", "interrupted_eager"):
        folder = Path(shutil.copytree(RELEASED / name, tmp_path / name))
        records = read_records(folder)
        first = records[0].fields
        provenance = {**first["provenance"], **dict.fromkeys(("hostname", "python", "platform"), ATTACK)}
        records[0].fields.update(name=name + ATTACK, study=ATTACK, provenance=provenance)
        for record in records:
            if record.kind == "end":
                record.fields["message"] = ATTACK
        (folder / LEDGER_FILE).write_bytes(b"".join(map(encode_record, records)))
    return tmp_path


def test_every_verb_shows_texts_of_a_ledger_without_control_characters(lengthwise, foreign, monkeypatch):
    ended = Outcome(folder=foreign, status="complete", exit_code=0)
    for module in (run_and_resume, extend):
        monkeypatch.setattr(module, "train_missing", lambda *arguments, **more: ended)
    finished, interrupted = foreign / "finished", foreign / "interrupted_eager"
    with Ledger.open(interrupted) as ledger:
        pack_id = next(record.fields["pack_id"] for record in read_records(interrupted) if record.kind == "pack")
        ledger.append("attempt", pack_id=pack_id, error=f"RuntimeError: {ATTACK}", trace=f"Traceback\n{ATTACK}")
    for words in (
        ("status", finished),
        ("status", interrupted, "--trace"),
        ("report", finished),
        ("report", finished),
        ("compare", finished, "0", "1"),
        ("compare", finished, interrupted),
        ("compare", finished, finished),
        ("resume", finished),
        ("resume", interrupted),
        ("extend", finished, "--seeds", "3"),
        ("extend", interrupted, "--seeds", "3"),
        ("confirm", finished, "--top", "1", "--seeds", "1", "--set", "training.steps=x"),
        ("list", "sweeps", "--storage", foreign),
    ):
        done = lengthwise(*words)
        assert not CONTROLS.search(done.stdout + done.stderr), (words, done)
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr, (words, done)
    assert "seen]0;title]52;c;aGk=31m" in lengthwise("status", finished).stdout
    assert not CONTROLS.search((finished / "report.html").read_text())


def test_claims_import_plan_and_validate_show_texts_of_files_without_control_characters(lengthwise, foreign, tiny):
    arms = {f"lr {rate}": {"where": {"training.learning_rate": rate}} for rate in (0.003, 0.03)}
    claim = {"id": "rate", "says": "better", "sweep": "finished", "question": "difference", "expect": "smaller"}
    claim |= {"arms": arms, "compare": list(arms), "metric": "total_variation", "negligible": 0.1, "note": ATTACK}
    text = {"title": "t", "paper": "p", "introduction": ATTACK, "claims": [claim]}
    (claims := foreign / "claims.yaml").write_text(json.dumps(text, ensure_ascii=True))
    (refused := foreign / "refused.yaml").write_text(json.dumps({**text, "title": ATTACK}))
    rows = [f'"{ATTACK}",{seed},acc,1,{length},0.5' for seed in (0, 1) for length in (1, 2)]
    (table := foreign / "table.csv").write_text(
        "\n".join(["rate,seed,metric,step,length,value", *rows, ""]), newline=""
    )
    options = ("--metric", "acc:maximize", "--lengths", "2", "--trained", "1", "--storage", foreign)
    for words, code in (
        (("claims", claims, "--storage", foreign, "--page", foreign / "page.md"), 0),
        (("claims", refused, "--storage", foreign), 2),
        (("import", table, "--name", "given", *options), 0),
        (("import", table, "--name", "other", *options, "--metric", f"x{ATTACK}:maximize"), 2),
        (("report", foreign / "given"), 0),
        (("plan", tiny, "--set", f"task.name={ATTACK}"), 2),
        (("validate", tiny, "--set", f"study={ATTACK}"), 2),
    ):
        done = lengthwise(*words)
        assert not CONTROLS.search(done.stdout + done.stderr), (words, done)
        assert done.returncode == code and "Traceback" not in done.stderr, (words, done)
    assert not CONTROLS.search((foreign / "page.md").read_text())


def test_newline_and_tab_stay_and_every_escaping_removes_the_rest():
    assert remove_controls(f"a\tb\n{ATTACK}é") == "a\tb\nseen]0;title]52;c;aGk=31mé"
    for escape in (escape_html, escape_latex):
        assert not CONTROLS.search(escape(ATTACK))
