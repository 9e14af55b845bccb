"""Sweeps that write no report, for tests that are about something else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def leave_out_reports() -> Iterator[None]:
    """Let the sweeps of this process end without a report, which takes as long as training a tiny one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.report.write_report.present_report", lambda *given, **more: None)
        yield
