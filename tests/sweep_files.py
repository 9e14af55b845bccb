"""Sweep files as commands read them."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.plan.checks.sweep_file_checks import check_parsed_sweep
from search_spaces import SweepSpec, read_sweep


def load_checked(path: str | Path, overrides: Sequence[str] = (), name: str | None = None) -> SweepSpec:
    """Read a sweep file and check it, as every command does."""
    return check_parsed_sweep(read_sweep(path, overrides, name))
