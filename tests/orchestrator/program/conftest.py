"""A fixture for sweeps of programs."""

from pathlib import Path

import pytest

from tests.orchestrator.program.studies import Study


@pytest.fixture
def study(tmp_path: Path, no_reports: None) -> Study:
    """A study in a folder of the test, whose sweeps write no report."""
    return Study(tmp_path / "study")
