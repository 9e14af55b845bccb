"""What the caller hands over for MLflow beside numbers; tracking itself draws nothing and writes no report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchestrator.results.summary import Row, Summary

Files = Mapping[Path, str]
"""Local path -> folder among the artifacts of a run; "" is their top."""


class Artifacts(Protocol):
    """Makes what is uploaded when it is wanted.

    The links to a sweep's pages lead to `figures/comparison.png` and `report.html` of the sweep, and to
    `figures/configuration-CONFIG_ID.png` of the first configuration. The module orchestrator.report.artifacts is one.
    """

    def sentences(self, result: Summary) -> list[str]:
        """What the note on the page of the sweep's run says about its results (Markdown)."""

    def in_detail(self, result: Summary) -> Sequence[Row]:
        """The configurations that have files of their own, the first among them."""

    def of_configuration(self, result: Summary, row: Row) -> Files:
        """The files of one configuration in detail."""

    def of_sweep(self, result: Summary) -> Files:
        """The files that are made from all configurations."""
