"""A fixture for sweeps of programs."""

from pathlib import Path

import pytest

from tests.orchestrator.program.studies import Study


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study in a folder of the test, whose sweeps draw no report."""
    monkeypatch.setattr("orchestrator.report.write_report.present_report", lambda *given, **more: None)
    return Study(tmp_path / "study")
