"""The sweep that tests of running sweeps kill is also the one of tests of clusters."""

from tests.orchestrator.running.conftest import left_alone, long_sweep

__all__ = ["left_alone", "long_sweep"]
