"""Loads what tests of several folders use."""

import gc

import pytest

gc.disable()  # what is imported stays: looking through it for garbage, again and again, would take half a second


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures where tests run.

    The process of pytest-xdist that hands out the tests runs none, and importing torch would take it seconds.
    """
    if config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("tests.fixtures")
    else:
        gc.enable()
