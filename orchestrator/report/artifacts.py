"""The files and sentences of a report for MLflow; orchestrator.tracking is handed this module (see its `Artifacts`)."""

from pathlib import Path

import pandas as pd

from orchestrator.report.files import report_files, write_report
from orchestrator.report.sentences import answers, order_sentence
from orchestrator.results.race_rounds import race_sentence
from orchestrator.results.summary import Summary


def sentences(result: Summary) -> list[str]:
    """Return what the sweep answers, how the test lengths order the configurations, and what a race did."""
    race = [f"{race_sentence(result.race)}."] if result.race else []
    return [*answers(result), *order_sentence(result), *race]


def sweep_files(result: Summary, curves: pd.DataFrame) -> dict[Path, str]:
    """Write the page and the CSV tables of the sweep: path -> folder among the artifacts."""
    write_report(result.folder, result, curves)
    return dict.fromkeys(report_files(result.folder), "")
