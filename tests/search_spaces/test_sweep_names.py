"""Names of sweeps and studies: anything readable, nothing that leaves the storage folder."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import FileProblem, load_sweep
from search_spaces.grammar.values import find_name_problem, normalize_name

GOOD = [
    "quickstart", "Über die Länge", "長さの一般化 2", "दूरी", "a.b_c-d 1", "7", "-x", "e\u0301tude", "x" * 100,
    "é" * 100, "CONSOLE", "com10",
]  # fmt: skip
BAD = [
    "", " ", "\u3000", ".", "..", ".hidden", " lead", "trail ", "trail.", "a..b", "a/b", "a\\b", "/etc", "C:",
    "a\u2215b", "a\u2044b", "a\uff0fb", "a\u2024\u2024b", "a\uff0eb", "a\u00a0b", "a\u2028b", "a\u2029b",
    "a\u0085b", "a\nb", "a\tb", "a\x00b", "a\x7fb", "a\u200bb", "a\u202eb", "a\ufeffb", "a\u3164b", "a\ufe0fb",
    "a\ud800b", "\u0301a", "a🙂b", "a*b", 'a"b', "a|b", "CON", "con", "Aux.yaml", "nul .txt", "COM1", "lpt9.log",
    "com\u00b9", "mlflow.db", "MLflow.DB", "x" * 101, "長" * 67,
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_readable_names_are_safe(sweep_file: Callable[..., Path], name: str) -> None:
    assert find_name_problem(normalize_name(name)) is None
    assert load_sweep(sweep_file(), name=name).name == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize("name", BAD)
def test_unsafe_names_are_refused(
    sweep_file: Callable[..., Path], problems: Callable[..., tuple[FileProblem, ...]], name: str
) -> None:
    [problem] = problems(sweep_file(), name=name)
    assert (problem.where, problem.key) == ("--name", "name")


def test_length_is_counted_in_bytes_too() -> None:
    assert find_name_problem("長" * 66) is None
    assert find_name_problem("長" * 67) == "is 201 bytes long in UTF-8; at most 200 fit a folder name"


@given(st.text(max_size=120))
def test_no_accepted_name_leaves_its_folder(name: str) -> None:
    name = normalize_name(name)
    if find_name_problem(name) is None:
        folder = Path("/storage")
        assert (folder / name).parent == folder and (folder / name).name == name
        assert not any(letter in name for letter in '/\\:*?"<>|') and name.isprintable() and name == name.strip(" .")
        assert len(name.encode()) <= 200
