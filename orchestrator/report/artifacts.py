"""What of a report goes to MLflow; orchestrator.tracking is handed this module (see its `Artifacts`)."""

from pathlib import Path

from orchestrator.figures.curves import configuration_figure
from orchestrator.report import page
from orchestrator.report.files import Report
from orchestrator.report.tables.order_sentence import order_sentence
from orchestrator.report.tables.tables import first_sentence
from orchestrator.results.summary import Row, Summary


def sentences(result: Summary) -> list[str]:
    """Return the sentence that calls a configuration best, if there is one, and how the test lengths order them."""
    return [*first_sentence(result, code="`"), *order_sentence(result)]


def in_detail(result: Summary) -> list[Row]:
    """Return the configurations that have a figure of their own on the page."""
    return page.in_detail(result)


def of_configuration(result: Summary, row: Row) -> dict[Path, str]:
    """Draw the figure of one configuration that the page shows: path -> folder among the artifacts."""
    return {configuration_figure(result, row, page.figure_of(result, row)): "figures"}


def of_sweep(result: Summary) -> dict[Path, str]:
    """Write the page, the CSV tables and the figures of the sweep: path -> folder among the artifacts."""
    return ReportArtifacts(Report(result)).of_sweep(result)


class ReportArtifacts:
    """The same for a report whose figures are being drawn: nothing is drawn or written twice."""

    sentences, in_detail = staticmethod(sentences), staticmethod(in_detail)

    def __init__(self, report: Report) -> None:
        self._report = report

    def of_configuration(self, result: Summary, row: Row) -> dict[Path, str]:
        """Wait for the figure of one configuration."""
        self._report.finish_figures()
        return {self._report.details[row.config_id]: "figures"}

    def of_sweep(self, result: Summary) -> dict[Path, str]:
        """Write the report, unless it is written."""
        written = self._report.write()
        return {**dict.fromkeys(written, ""), **dict.fromkeys(self._report.drawn.all, "figures")}
