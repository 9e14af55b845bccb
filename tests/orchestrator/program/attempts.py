"""The reports of attempts that have ended."""

from collections.abc import Mapping

from orchestrator.program.reports import DeclaredReports, MergedReports, ReportedStep


def merge_attempts(attempts: Mapping[str, str], declared: DeclaredReports) -> tuple[list[ReportedStep], MergedReports]:
    """Return the complete steps of attempts, and their merged reports.

    attempts: the text of each file of reports by its name, in order. Raises ReportProblem.
    """
    reports = MergedReports(declared)
    steps = [step for file, text in attempts.items() for step in reports.read(file, text)]
    return steps + reports.finish(), reports
