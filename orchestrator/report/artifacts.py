"""What of a report goes to MLflow; orchestrator.tracking is handed this module (see its `Artifacts`)."""

from pathlib import Path

from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.report import page
from orchestrator.report.files import csv_tables, write_report
from orchestrator.report.tables.order_sentence import order_sentence
from orchestrator.report.tables.tables import first_sentence
from orchestrator.results.summary import Row, Summary


def sentences(result: Summary) -> list[str]:
    """The sentence that calls a configuration best, where there is one, and what the test lengths say of the order."""
    return [*first_sentence(result, code="`"), *order_sentence(result)]


def in_detail(result: Summary) -> list[Row]:
    """The configurations that have a figure of their own on the page."""
    return page.in_detail(result)


def of_configuration(result: Summary, row: Row) -> dict[Path, str]:
    """The figure of one configuration that the page shows: path -> folder among the artifacts."""
    return {configuration_figure(result, row, page.figure_of(result, row)): "figures"}


def of_sweep(result: Summary) -> dict[Path, str]:
    """The page, the CSV tables and the figures of the sweep: path -> folder among the artifacts."""
    drawn = draw_all(result, result.folder / "figures")
    html, _ = write_report(result.folder, result)
    tables = [result.folder / name for name in csv_tables(result)]
    return {**dict.fromkeys([html, *tables], ""), **dict.fromkeys(drawn.all, "figures")}
