"""The files of a report: the same numbers everywhere, what is unfinished said, and what is printed beside them."""

import csv
import errno
import io
import os
import tempfile
import webbrowser

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.record.files import curves
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.report.sentences import make_answers
from orchestrator.report.tables.provenance_section import make_provenance_section
from orchestrator.report.write_report import present_report, write_report
from orchestrator.results.make_summary import summarize
from orchestrator.text.consoles import FILE_WIDTH, UncroppedConsole


def test_the_table_has_the_numbers_of_the_summary(small_sweep):
    _, table = write_report(small_sweep.folder)
    result = summarize(small_sweep)
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["config_id"] for line in lines] == [row.config_id for row in result.rows]
    for line, row in zip(lines, result.rows, strict=True):
        assert float(line["score"]) == row.score and float(line["test_q25"]) == row.test_quartiles.q25
        assert float(line["training.learning_rate"]) == row.values["training.learning_rate"]
        assert int(line["seeds_failed"]) == row.seeds_failed and line["model.norm"] == row.values["model.norm"]
    assert sorted(path.name for path in small_sweep.folder.glob("report*")) == ["report.csv", "report.html"]


def test_a_report_reads_every_part_of_the_curves_once(small_sweep, monkeypatch):
    read, read_part = [], curves.read_part
    monkeypatch.setattr(curves, "read_part", lambda *part: read.append(part[1]) or read_part(*part))
    present_report(small_sweep.folder, UncroppedConsole(file=io.StringIO()))
    assert sorted(read) == sorted(f"curves/{path.name}" for path in small_sweep.folder.glob("curves/*"))
    assert (small_sweep.folder / "curves.parquet").exists()


def test_a_report_on_read_only_storage_says_how_to_report_a_copy(small_sweep, lengthwise, monkeypatch):
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    before = sorted(small_sweep.folder.rglob("*"))
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    for words in ((), ("--open",)):
        done = lengthwise.refuses("report", small_sweep.folder, *words, message=f"{small_sweep.folder}: ")
        assert "Read-only file system" in done.stderr and f"cp -r {small_sweep.folder} COPY" in done.stderr
    assert sorted(small_sweep.folder.rglob("*")) == before and lengthwise("status", small_sweep.folder).returncode == 0


@pytest.mark.parametrize(
    ("fact", "text"), [([], "none"), (["H200", "H200"], "H200, H200"), (2, "2"), ({"a": []}, '{"a": []}'), ("vm", "vm")]
)
def test_provenance_names_what_is_recorded(small_sweep, fact, text):
    summary = summarize(small_sweep)
    summary.state.provenance["gpus"] = fact
    cells = make_provenance_section(summary).cells
    assert dict(zip(cells["what"], cells["value"], strict=True))["gpus"] == text


def test_writing_the_report_again_gives_the_same_bytes(small_sweep):
    first = [path.read_bytes() for path in write_report(small_sweep.folder)]
    assert [path.read_bytes() for path in write_report(small_sweep.folder)] == first


def test_nothing_of_an_earlier_report_is_left_beside_a_later_one(small_sweep):
    """After an extension by a seed no configuration has all its seeds."""
    folder = small_sweep.folder
    (folder / "averages.csv").write_text("of an earlier version")
    (folder / "mine.csv").write_text("of the user")
    write_report(folder)
    assert {path.name for path in folder.glob("*.csv")} >= {"effects.csv", "report.csv", "mine.csv"}
    assert not (folder / "averages.csv").exists()
    seeds = {name: [3] for name in small_sweep.configurations}
    with Ledger.open(folder) as ledger:
        ledger.append("extend", spec=small_sweep.spec, spec_hash=small_sweep.spec_hash, provenance={}, seeds=seeds)
    write_report(folder)
    assert sorted(path.name for path in folder.glob("*.csv")) == ["mine.csv", "report.csv"]


def test_equal_scores_have_one_sentence_instead_of_effects(tmp_path, synthetic_sweep, short_text):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    equal = summarize(synthetic_sweep(tmp_path / "equal", values, 2, lambda *where: 0.5))
    lost = {(number, seed): 10 for number in range(2) for seed in range(2)}
    nowhere = summarize(synthetic_sweep(tmp_path / "lost", values, 2, lambda *where: 0.5, lost))
    for result, words in (
        (equal, "both configurations have the same score"),
        (nowhere, "No configuration has a finite score"),
    ):
        page, _ = write_report(result.folder)
        assert (
            words in page.read_text()
            and short_text(result).lower().count(words.lower()) == 1
            and not (result.folder / "effects.csv").exists()
        )


def test_a_log_gets_whole_lines_and_a_terminal_whole_paths(small_sweep):
    printed = {}
    for terminal in (False, True):
        width = 80 if terminal else FILE_WIDTH
        console = UncroppedConsole(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
        present_report(small_sweep.folder, console)
        printed[terminal] = console.file.getvalue().splitlines()
    folder = small_sweep.folder
    assert "\x1b" not in "".join(printed[False]) and set(
        make_answers(summarize(small_sweep), with_values=False)
    ) <= set(printed[False])
    assert all(lines[-1] == f"Page: {folder / 'report.html'}" for lines in printed.values())
    assert all(len(line) <= 80 for line in printed[True] if str(folder) not in line)


def test_open_shows_the_page_in_a_browser(small_sweep, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    for options in ((), ("--open",)):
        done = CliRunner().invoke(app, ["report", str(small_sweep.folder), *options])
        assert done.exit_code == 0, done.output
    assert opened == [(small_sweep.folder / "report.html").resolve().as_uri()]
