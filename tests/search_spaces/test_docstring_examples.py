"""The examples in docstrings are true."""

import doctest
from pathlib import Path
from types import ModuleType

import pytest

import search_spaces
from search_spaces.grammar import problems, values


@pytest.mark.parametrize("module", [search_spaces, problems, values], ids=lambda module: module.__name__)
def test_examples_hold(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(search_spaces.__file__).parent.parent)
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
