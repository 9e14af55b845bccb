"""The interface to files for MLflow; tracking itself draws nothing and writes no report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pandas as pd

from orchestrator.results.summary import Summary

Files = Mapping[Path, str]
"""Local path -> folder among the artifacts of a run; "" is the top folder."""


class Artifacts(Protocol):
    """Makes files for MLflow on request.

    A link of a sweep leads to its `report.html`. The module orchestrator.report.artifacts is one.
    """

    def sentences(self, result: Summary) -> list[str]:
        """Return sentences about the results for the note of the sweep's run (Markdown)."""

    def sweep_files(self, result: Summary, curves: pd.DataFrame) -> Files:
        """Return the files that are made from all configurations."""
