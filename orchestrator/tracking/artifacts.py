"""The interface to files for MLflow; tracking itself draws nothing and writes no report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchestrator.results.summary import Row, Summary

Files = Mapping[Path, str]
"""Local path -> folder among the artifacts of a run; "" is the top folder."""


class Artifacts(Protocol):
    """Makes files for MLflow on request.

    The links to a sweep's pages lead to `figures/comparison.png` and `report.html` of the sweep, and to
    `figures/configuration-CONFIG_ID.png` of the first configuration. The module orchestrator.report.artifacts is one.
    """

    def sentences(self, result: Summary) -> list[str]:
        """Return sentences about the results for the note of the sweep's run (Markdown)."""

    def detailed_rows(self, result: Summary) -> Sequence[Row]:
        """Return the configurations that have their own files, the one ranked first among them."""

    def configuration_files(self, result: Summary, row: Row) -> Files:
        """Return the files of one configuration."""

    def sweep_files(self, result: Summary) -> Files:
        """Return the files that are made from all configurations."""
