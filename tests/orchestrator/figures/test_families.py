"""Figures of families of metrics: panels, gaps, colours, and their place in the report."""

import csv
import io

from rich.console import Console

from orchestrator.figures.by_hyperparameter.families import family_figures
from orchestrator.figures.drawing import GREY, PALETTE
from orchestrator.report.csv_tables import family_lines
from orchestrator.report.files import write_report
from orchestrator.report.terminal import FullReport
from orchestrator.results.summarise import summary
from orchestrator.results.views.families import family_points


def test_panels_are_lengths_and_lines_configurations(tmp_path, additions, drawn):
    result = additions(tmp_path / "p")
    paths = family_figures(result, tmp_path)
    assert [path.name for path in paths] == ["family-digit.png", "family-cascade.png"]
    panels = drawn["family-cascade.png"].axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["length 2 (trained)", "length 3 (selection)", "length 5 (test)", "length 8 (test)"]
    assert [axes.get_xlabel() for axes in panels] == ["cascade length"] * 4
    assert panels[0].get_ylabel() == "exact_match_cascade (raw), median over seeds"
    wide = {line.get_linewidth(): line for line in panels[-1].lines}
    assert sorted(line.get_linewidth() for line in panels[-1].lines) == [0.5, 0.5, 0.5, 1.6, 2.4]
    assert (wide[2.4].get_color(), wide[1.6].get_color()) == PALETTE[:2]
    best = [p for p in family_points(result, "cascade") if p.config_id == result.rows[0].config_id and p.length == 8]
    assert list(wide[2.4].get_xdata()) == [0, 1, 3] and list(wide[2.4].get_ydata()) == [p.median for p in best]
    assert list(panels[0].lines[-1].get_xdata()) == [0, 1]  # no sum of two digits has a cascade of 3
    assert len(panels[0].collections) == 1 and panels[0].get_yscale() == "linear"
    (legend,) = drawn["family-cascade.png"].legends
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["rank", "1.", "2."]


def test_of_many_configurations_the_first_have_the_colours_of_the_comparison(tmp_path, additions, drawn):
    values = [{"training.learning_rate": 1e-3 + n * 1e-4} for n in range(11)]
    result = additions(tmp_path / "m", values, 1)
    family_figures(result, tmp_path)
    colours = [line.get_color() for line in drawn["family-cascade.png"].axes[0].lines if line.get_linewidth() != 0.5]
    assert colours.count(GREY) == 6 and colours[-1] == PALETTE[0] and set(colours) == {GREY, *PALETTE[:5]}


def test_configurations_may_measure_different_members_of_a_family(tmp_path, additions, drawn):
    values = [{"task.measured_cascades": [0, 1]}, {"task.measured_cascades": [1, 2]}, {"task.measured_cascades": []}]
    result = additions(tmp_path / "d", values, 1)
    family_figures(result, tmp_path)
    lines = [
        line
        for line in drawn["family-cascade.png"].axes[-1].lines
        if line.get_linewidth() > 1 and len(line.get_xdata())
    ]
    assert sorted(tuple(line.get_xdata()) for line in lines) == [(0, 1), (1, 2)]
    assert {line["index"] for line in family_lines(result) if line["family"] == "cascade"} == {0, 1, 2}


def test_the_report_has_the_figures_and_the_table(tmp_path, additions, figures_not_rendered):
    result = additions(tmp_path / "r")
    page, _ = write_report(result.folder)
    assert "Families of metrics" in page.read_text() and 'alt="family-cascade"' in page.read_text()
    with (result.folder / "families.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["config_id", "family", "index", "length", "median", "q25", "q75", "seeds"]
    assert len(lines) == 2 * (2 * 8 + 8 + 8 + 6) and {line["family"] for line in lines} == {"digit", "cascade"}
    assert lines == [{key: str(value) for key, value in line.items()} for line in family_lines(result)]
    out = Console(file=io.StringIO(), width=200, color_system=None)
    out.print(FullReport(result))
    assert str(result.folder / "figures" / "family-cascade.png") in out.file.getvalue()


def test_a_task_without_families_has_neither(tmp_path, small_sweep, figures_not_rendered):
    result = summary(small_sweep)
    write_report(result.folder, result)
    assert family_figures(result, tmp_path) == () and not (result.folder / "families.csv").exists()
    assert not list((result.folder / "figures").glob("family-*"))
