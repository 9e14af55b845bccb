"""Where compiled programs are kept."""

import os
from pathlib import Path

import pytest

from orchestrator.running.pack.train_pack import CACHE_VARIABLE, use_inductor_cache


@pytest.fixture(autouse=True)
def unset(monkeypatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "before")  # so that what is set in a test is undone
    monkeypatch.delenv(CACHE_VARIABLE)


def test_in_the_cache_of_the_user(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    use_inductor_cache()
    assert os.environ[CACHE_VARIABLE] == str(tmp_path / "lengthwise" / "inductor")


def test_no_cache_is_set_without_a_writable_folder(tmp_path, monkeypatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    use_inductor_cache()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    use_inductor_cache()
    assert CACHE_VARIABLE not in os.environ


def test_without_a_home_the_named_cache_is_enough(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delattr(Path, "home")
    use_inductor_cache()
    assert os.environ[CACHE_VARIABLE].startswith(str(tmp_path))
