"""A report calls a configuration best in one sentence only, which names its selection lengths and its test number."""

import io
import re
from dataclasses import replace

import pytest
from matplotlib.text import Text
from rich.console import Console

from orchestrator.figures import drawing
from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.report import artifacts
from orchestrator.report.files import write_report
from orchestrator.report.tables.sentences import best_sentence
from orchestrator.report.terminal import FullReport, ShortReport
from orchestrator.results.analysis import compare_weight_averages, effects_at_test_lengths
from orchestrator.results.summarise import summary
from orchestrator.tracking.contents.pages import description

CLAIM = re.compile(r"\bbest\b|\bwinner\b|\boptimal\b", re.IGNORECASE)


def sentences_of(result):
    """Every line of everything a report consists of: terminal, page, MLflow's note, texts in figures."""
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    console.print(ShortReport(result))
    console.print(FullReport(result))
    page, table = write_report(result.folder, result)
    text = re.sub(r"<style>.*?</style>|data:image[^\"]*", "", page.read_text())
    note = description(result, artifacts.sentences(result))
    lines = [*console.file.getvalue().splitlines(), *re.split(r"<[^>]+>", text), *note.splitlines()]
    return [*lines, *table.read_text().splitlines()]


def figure_texts(result, monkeypatch, folder):
    found = []

    def keep(path, draw, *facts):
        figure = draw()
        found.extend(text.get_text() for text in figure.findobj(Text))
        return path

    monkeypatch.setattr(drawing, "save", keep)
    draw_all(result, folder)
    configuration_figure(result, result.rows[0], folder / "one.png")
    return found


def test_best_is_said_only_with_its_selection_lengths_and_the_test_number(small_sweep):
    result = summary(small_sweep)
    claims = [line for line in sentences_of(result) if CLAIM.search(line)]
    first = result.rows[0]
    assert len(claims) == 4, claims  # terminal, every table, page, MLflow's note
    for claim in claims:
        assert len(CLAIM.findall(claim)) == 1
        assert re.match(r"Best on lengths 6-7, the lengths it was selected on: `?#" + str(first.number), claim)
        assert f"on the trained lengths 1-5: {first.trained.median:#.3g} [" in claim
        assert f"on the test lengths 8-11, not used to select it: {first.test.median:#.3g} [" in claim


def test_figures_call_nothing_best(small_sweep, monkeypatch, tmp_path):
    texts = figure_texts(summary(small_sweep), monkeypatch, tmp_path)
    assert len(texts) > 50 and "first by score" in texts
    assert not [text for text in texts if CLAIM.search(text)]


def test_without_test_lengths_it_is_said_that_nothing_tells(tmp_path, synthetic_sweep, simple_curve):
    spec = {"objective.lengths": [6, 7, 8], "task.vocabulary": 9}
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / "t", values, 2, simple_curve, spec=spec))
    (sentence,) = best_sentence(result)
    assert sentence.endswith("it has no test lengths, so nothing tells how good it is on others")
    assert effects_at_test_lengths(result) == () and [pair.group for pair in compare_weight_averages(result)] == [
        "trained",
        "selection",
    ]
    assert any("There are no test lengths" in line for line in sentences_of(result))


@pytest.mark.parametrize("failed", [{}, {(n, seed): 10 for n in range(2) for seed in range(2)}])
def test_where_nothing_succeeded_nothing_is_best(tmp_path, synthetic_sweep, simple_curve, failed):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    result = summary(synthetic_sweep(tmp_path / "f", values, 2, simple_curve, failed))
    claims = [line for line in sentences_of(result) if CLAIM.search(line)]
    assert len(claims) == (0 if failed else 4)


def test_an_unfinished_sweep_says_so_far(small_sweep):
    (sentence,) = best_sentence(replace(summary(small_sweep), finished=False))
    assert sentence.startswith("Best so far on lengths 6-7, the lengths it was selected on:")


def test_a_tie_is_said(small_sweep):
    result = summary(small_sweep)
    ranked = [row for row in result.rows if row.rank is not None]
    (alone,) = best_sentence(result)
    assert "tied" not in alone
    for count, words in ((2, "tied with 1 other ("), (3, "tied with 2 others (")):
        same = tuple(replace(row, score=ranked[0].score) for row in ranked[:count])
        (sentence,) = best_sentence(replace(result, rows=same + tuple(ranked[count:])))
        assert words in sentence
