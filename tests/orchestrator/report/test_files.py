"""The files of a report: the same numbers everywhere, what is unfinished said, and what is printed beside them."""

import csv
import errno
import io
import os
import tempfile

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.consoles import WIDTH_OF_FILES, WholeConsole
from orchestrator.record.kept import curves
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import present, read_summary, write_report
from orchestrator.report.tables.sentences import best_sentence, headlines, selection_sentence
from orchestrator.results.summarise import summary


@pytest.mark.usefixtures("figures_left_blank")
def test_the_table_has_the_numbers_of_the_summary(small_sweep):
    _, table = write_report(small_sweep.folder)
    result = summary(small_sweep)
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["config_id"] for line in lines] == [row.config_id for row in result.rows]
    for line, row in zip(lines, result.rows, strict=True):
        assert float(line["score"]) == row.score and float(line["test_q25"]) == row.test.q25
        assert float(line["training.learning_rate"]) == row.values["training.learning_rate"]
        assert int(line["seeds_failed"]) == row.seeds_failed and line["model.norm"] == row.values["model.norm"]
    assert sorted(path.name for path in small_sweep.folder.glob("report*")) == ["report.csv", "report.html"]


@pytest.mark.usefixtures("figures_left_blank")
def test_a_report_reads_every_part_of_the_curves_once(small_sweep, monkeypatch):
    read, read_part = [], curves.read_part
    monkeypatch.setattr(curves, "read_part", lambda *part: read.append(part[1]) or read_part(*part))
    present(small_sweep.folder, WholeConsole(file=io.StringIO()))
    assert sorted(read) == sorted(f"curves/{path.name}" for path in small_sweep.folder.glob("curves/*"))
    assert (small_sweep.folder / "curves.parquet").exists()


def test_a_report_on_read_only_storage_says_how_to_report_a_copy(small_sweep, lengthwise, monkeypatch):
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    before = sorted(small_sweep.folder.rglob("*"))
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    for words in ((), ("--full",), ("--maps", "0")):
        done = lengthwise.refuses("report", small_sweep.folder, *words, said=f"{small_sweep.folder}: ")
        assert "Read-only file system" in done.stderr and f"cp -r {small_sweep.folder} COPY" in done.stderr
    assert sorted(small_sweep.folder.rglob("*")) == before and lengthwise("status", small_sweep.folder).returncode == 0


def test_writing_the_report_again_gives_the_same_bytes(small_sweep):
    first = [path.read_bytes() for path in write_report(small_sweep.folder)]
    assert [path.read_bytes() for path in write_report(small_sweep.folder)] == first


def test_nothing_of_an_earlier_report_is_left_beside_a_later_one(small_sweep, full_text):
    """After an extension by a seed no configuration has all its seeds."""
    folder = small_sweep.folder
    write_report(folder)
    figures = {path.name for path in folder.glob("figures/*.png")}
    assert (folder / "effects.csv").exists() and {"comparison.png", "score-model.norm.png"} <= figures
    own, copy = (folder / "figures" / f"score-{name}.png" for name in ("mine", "model.norm-old"))
    own.write_bytes(b"drawn by somebody else")
    copy.write_bytes((folder / "figures" / "score-model.norm.png").read_bytes())
    (folder / "values.csv").unlink(missing_ok=True)
    (folder / "values.csv").mkdir()
    seeds = {name: [3] for name in small_sweep.configurations}
    with Ledger.open(folder) as ledger:
        ledger.append("extend", spec=small_sweep.spec, spec_hash=small_sweep.spec_hash, provenance={}, seeds=seeds)
    page, table = write_report(folder)
    assert sorted(path.name for path in folder.glob("*.csv")) == ["report.csv", "values.csv"]
    assert page.exists() and table.exists()
    left = [path for path in folder.glob("figures/*.png") if not path.name.startswith("configuration-")]
    assert sorted(left) == sorted([own, copy]) and "score-model.norm.png" not in full_text(
        summary(SweepState.load(folder))
    )


@pytest.mark.parametrize("keep", [1, 2, 3, 6, 9])
def test_an_unfinished_sweep_says_so(small_sweep, keep, full_text, short_text, page_of):
    ledger = small_sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:keep]))
    page, table = write_report(small_sweep.folder)
    result = read_summary(small_sweep.folder)
    complete = sum(b'"kind":"pack_end"' in line for line in lines[:keep])
    assert not result.finished and result.configurations_finished == complete
    assert [row.rank for row in result.rows if row.complete] == list(range(1, complete + 1))
    assert all(row.rank is None and row.score is None for row in result.rows if not row.complete)
    for text in (full_text(result), short_text(result), " ".join(page_of(page).text)):
        assert ": interrupted; continue it with: " in text
        assert f"{complete} of 6 configurations have all their seeds" in text
    assert table.read_text().startswith("rank" if result.rows else "config_id")


def test_equal_scores_have_one_sentence_instead_of_effects(tmp_path, synthetic_sweep, full_text, short_text):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    said = "have the same score, so effects of hyperparameters are not shown."
    equal = summary(synthetic_sweep(tmp_path / "equal", values, 2, lambda *where: 0.5))
    lost = {(number, seed): 10 for number in range(2) for seed in range(2)}
    nowhere = summary(synthetic_sweep(tmp_path / "lost", values, 2, lambda *where: 0.5, lost))
    for result, sentence in ((equal, f"All 2 configurations {said}"), (nowhere, "No configuration has a finite score")):
        text, (page, _) = full_text(result), write_report(result.folder)
        assert sentence in text and sentence in page.read_text() and sentence in short_text(result)
        assert "Kruskal" not in text and "rank correlation" not in text
        assert not (result.folder / "effects.csv").exists()
    alone = summary(synthetic_sweep(tmp_path / "alone", values[:1], 2, lambda *where: 0.5))
    write_report(alone.folder)
    assert not list(alone.folder.glob("figures/score-*")) and "effects of" not in full_text(alone)


@pytest.mark.usefixtures("figures_left_blank")
@pytest.mark.parametrize("full", [False, True])
def test_a_log_gets_whole_lines_and_a_terminal_whole_paths(small_sweep, full):
    printed = {}
    for terminal in (False, True):
        width = 80 if terminal else WIDTH_OF_FILES
        console = WholeConsole(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
        present(small_sweep.folder, console, full=full)
        printed[terminal] = console.file.getvalue().splitlines()
    result = summary(small_sweep)
    log, folder = printed[False], small_sweep.folder
    assert "\x1b" not in "".join(log) and max(map(len, log)) > 140
    assert set(headlines(result) if full else [selection_sentence(result), *best_sentence(result)]) <= set(log)
    for lines in printed.values():
        assert f"Report: {folder / 'report.html'}" in lines
        assert (f"All tables: lengthwise report {folder} --full" in lines) == (not full)
        assert (f"Table: {folder / 'report.csv'}" in lines) == full
        assert (f"  {folder / 'figures' / 'comparison.png'}" in lines) == full
    assert all(len(line) <= 80 for line in printed[True] if str(folder) not in line)


def test_the_command_line_prints_one_screen_or_everything(small_sweep):
    said = {}
    for options in ((), ("--full",)):
        done = CliRunner().invoke(app, ["report", str(small_sweep.folder), *options])
        assert done.exit_code == 0, done.output
        said[options] = done.output
    assert "Effect of each hyperparameter" in said["--full",] and "Effect of each hyperparameter" not in said[()]
    assert len(said["--full",].splitlines()) > 60 > 30 > len(said[()].splitlines())
