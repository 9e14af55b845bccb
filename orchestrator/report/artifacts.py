"""The files and sentences of a report for MLflow; orchestrator.tracking is handed this module (see its `Artifacts`)."""

from pathlib import Path

from orchestrator.figures.curves import configuration_figure
from orchestrator.report.files import Report
from orchestrator.report.page import detailed_rows as detailed_rows
from orchestrator.report.page import figure_path
from orchestrator.report.tables.sentences import best_sentence, order_sentence
from orchestrator.results.summary import Row, Summary
from orchestrator.results.views.race_rounds import race_sentence


def sentences(result: Summary) -> list[str]:
    """Return the sentence that calls a configuration best, how the test lengths order them, and what a race did."""
    race = [f"{race_sentence(result.race)}."] if result.race else []
    return [*best_sentence(result, code="`"), *order_sentence(result), *race]


def configuration_files(result: Summary, row: Row) -> dict[Path, str]:
    """Draw the figure of one configuration that the page shows: path -> folder among the artifacts."""
    return {configuration_figure(result, row, figure_path(result, row)): "figures"}


def sweep_files(result: Summary) -> dict[Path, str]:
    """Write the page, the CSV tables and the figures of the sweep: path -> folder among the artifacts."""
    report = Report(result)
    report.write()
    return ReportArtifacts(report).sweep_files(result)


class ReportArtifacts:
    """The functions of this module for a report that another thread writes: they wait for its files, and draw none."""

    sentences, detailed_rows = staticmethod(sentences), staticmethod(detailed_rows)

    def __init__(self, report: Report) -> None:
        self._report = report

    def configuration_files(self, result: Summary, row: Row) -> dict[Path, str]:
        """Wait for the report and return the figure of one configuration."""
        self._report.wait()
        return {self._report.details[row.config_id]: "figures"}

    def sweep_files(self, result: Summary) -> dict[Path, str]:
        """Wait for the report and return its files."""
        self._report.wait()
        return {**dict.fromkeys(self._report.files, ""), **dict.fromkeys(self._report.drawn.all, "figures")}
