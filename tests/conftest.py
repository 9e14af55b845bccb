"""Loads what tests of several folders use."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures where tests run.

    The process of pytest-xdist that hands out the tests runs none, and importing torch would take it seconds.
    """
    if config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("tests.fixtures")
