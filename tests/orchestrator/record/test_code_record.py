"""The record of the code that a sweep runs with, its copies, and which changes of it are noticed."""

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.code import code_record
from orchestrator.code import repository as repositories
from orchestrator.code.code_record import (
    CodeRecord,
    find_changed_code,
    find_version_change,
    record_code,
    start_repository_reader,
)
from orchestrator.errors import UserError
from orchestrator.record.state.state import SweepState
from orchestrator.results.pack_environments import PackEnvironments, describe_code
from orchestrator.sweep import run_and_resume
from search_spaces import load_sweep

RELEASED = Path(__file__).parents[2] / "sweeps" / "2.0.0" / "finished"
QUICKSTART = Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml"


@pytest.fixture(autouse=True)
def modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def lengthwise_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working copy of lengthwise that is no repository, with a file of what trains and one of what draws."""
    root = tmp_path.resolve() / "lengthwise"
    trained = ("trainers/tasks/sums.py", "search_spaces/grammar.py", "orchestrator/statistics/a.py", "lengthwise.py")
    for name in (*trained, "orchestrator/figures/curves.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    monkeypatch.setattr(code_record, "LENGTHWISE_FOLDER", root)
    return root


def current_record(*folders: Path) -> CodeRecord:
    with start_repository_reader(*folders) as reading:
        return record_code(reading.read(), ())


@pytest.fixture
def recorded(lengthwise_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CodeRecord]:
    """recorded(folder, "module", ...) imports modules of a folder and returns the record of the code."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    def record(folder: Path, *modules: str) -> CodeRecord:
        monkeypatch.syspath_prepend(folder)
        for module in modules:
            importlib.import_module(module)
        return current_record(folder)

    return record


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder that is in no repository."""
    folder = tmp_path.resolve() / "plain"
    folder.mkdir()
    return folder


def written(record: CodeRecord, folder: Path) -> dict[str, bytes]:
    """The files below `code/` in a sweep folder, by name."""
    record.write_copies(folder)
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folder_of(record: CodeRecord) -> dict[str, Any]:
    return next(folder for folder in record.fields["folders"] if folder["files"])


@pytest.mark.parametrize("linked", [False, True])
def test_imported_files_are_copied_and_others_are_not(repository, recorded, tmp_path, linked: bool) -> None:
    (tmp_path / "link").symlink_to(repository.root)
    for name in ("mine.py", "never_imported.py", "data.csv", ".env"):
        (repository.root / name).write_text("A = 1\n")
    record = recorded(tmp_path / "link" if linked else repository.root, "task", "mine")
    folder = folder_of(record)
    assert (folder["commit"], folder["dirty"], folder["diff"]) == (repository.git("rev-parse", "HEAD"), True, None)
    assert list(folder["files"]) == ["mine.py", "task.py"]
    assert written(record, tmp_path / "sweep") == {"mine.py": b"A = 1\n", "task.py": b"SIZE = 1\n"}


def test_changes_are_kept_as_a_diff(repository, recorded, tmp_path) -> None:
    (repository.root / "task.py").write_text("SIZE = 2\n")
    (repository.root / "notes.md").write_text("other notes\n")
    record = recorded(repository.root, "task")
    record.write_copies(tmp_path / "sweep")
    diff = (tmp_path / "sweep" / folder_of(record)["diff"]["file"]).read_bytes()
    assert b"+SIZE = 2" in diff and b"+other notes" in diff


def test_untracked_files_are_not_called_changes(repository, recorded) -> None:
    (repository.root / "output.csv").write_text("1\n")
    assert ", with untracked files in " in describe_code(recorded(repository.root, "task").fields)
    (repository.root / "notes.md").write_text("other notes\n")
    assert ", with uncommitted changes in " in describe_code(recorded(repository.root, "task").fields)


def test_a_diff_that_is_too_large_is_not_kept(repository, recorded, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(repositories, "MAX_DIFF_BYTES", 1000)
    (repository.root / "task.py").write_text("SIZE = 2\n")
    (repository.root / "notes.md").write_text("line\n" * 1000)
    record = recorded(repository.root, "task")
    assert written(record, tmp_path / "sweep") == {"task.py": b"SIZE = 2\n"}
    diff = folder_of(record)["diff"]
    assert diff["file"] is None and diff["bytes"] > 5000
    assert f"diff not kept ({diff['bytes']} bytes)" in describe_code(record.fields)


def test_files_that_are_too_large_are_named_and_not_copied(plain, recorded, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(code_record, "MAX_CODE_COPY_BYTES", 900)
    (plain / "small_one.py").write_text("A = 1\n")
    (plain / "large_one.py").write_text("".join(f"A{n} = {n**9}\n" for n in range(300)))
    record = recorded(plain, "small_one", "large_one")
    assert set(written(record, tmp_path / "sweep")) == {"small_one.py"}
    assert folder_of(record)["not_copied"] == ["large_one.py"]
    assert set(folder_of(record)["files"]) == {"small_one.py", "large_one.py"}  # their digests are recorded


def test_files_with_credentials_are_named_and_not_copied(plain, recorded, tmp_path) -> None:
    (plain / "my_credentials.py").write_text("PASSWORD = 'hunter2'\n")
    record = recorded(plain, "my_credentials")
    assert not written(record, tmp_path / "sweep") and folder_of(record)["not_copied"] == ["my_credentials.py"]
    assert "not copied (too large, or named like credentials): my_credentials.py" in describe_code(record.fields)


def test_changes_of_the_engine_and_of_imported_files_are_found(repository, recorded, lengthwise_copy) -> None:
    (repository.root / "mine.py").write_text("A = 1\n")
    record = recorded(repository.root, "task", "mine").fields
    assert find_changed_code(record) == []
    (repository.root / "notes.md").write_text("other notes\n")
    (repository.root / "new.py").write_text("")
    (lengthwise_copy / "orchestrator/figures/curves.py").write_text("# other colors\n")
    repository.commit()
    assert find_changed_code(record) == []
    (lengthwise_copy / "trainers/tasks/sums.py").write_text("# other sums\n")
    (repository.root / "mine.py").write_text("A = 2\n")
    (repository.root / "task.py").unlink()
    assert find_changed_code(record) == [
        f"{lengthwise_copy}/trainers has changed",
        f"{repository.root}/mine.py has changed",
        f"{repository.root}/task.py is gone",
    ]


@pytest.mark.parametrize("part", ["orchestrator/statistics", "lengthwise.py"])
def test_changes_of_what_scores_and_of_the_client_are_found(part, recorded, plain, lengthwise_copy) -> None:
    record = recorded(plain).fields
    (file,) = [lengthwise_copy / part] if part.endswith(".py") else (lengthwise_copy / part).iterdir()
    file.write_text("# edited\n")
    assert find_changed_code(record) == [f"{lengthwise_copy}/{part} has changed"]


def test_parts_that_an_earlier_record_lacks_are_no_changes() -> None:
    state = SweepState.load(RELEASED)
    earlier = state.codes[-1]
    assert len(earlier["engine"]) < len(code_record.DIGESTED_PARTS)

    # As if the same code had written all of it, the last pack of it today.
    current = current_record().fields
    earlier["engine"] = {part: current["engine"][part] for part in earlier["engine"]}
    earlier["folders"] = current["folders"] = []
    assert find_changed_code({**earlier, "version": current["version"]}) == []
    state.codes.append(current)
    *_, pack = (pack for pack in state.packs.values() if pack.ran_under)
    pack.ran_under[:] = [(current["name"], environment) for _, environment in pack.ran_under]
    environments = PackEnvironments.from_state(state)
    assert len(environments.groups) == 2
    assert (environments.changed_code, environments.began_with_other_code) == ([], 0)

    # A part that both have is compared.
    current["engine"]["trainers"] = "0" * 16
    assert PackEnvironments.from_state(state).changed_code == ["trainers"]


def test_another_version_of_lengthwise_is_not_a_change(repository, recorded, lengthwise_copy) -> None:
    record = recorded(repository.root, "task").fields
    (lengthwise_copy / "trainers/tasks/sums.py").write_text("# other sums\n")
    assert find_changed_code(record)
    older = {**record, "version": "0.0.9"}
    assert find_changed_code(older) == [] and find_version_change([older]) == ("0.0.9", record["version"])


def test_a_folder_that_is_gone_is_not_a_change(repository, recorded) -> None:
    record = recorded(repository.root, "task").fields
    repository.root.rename(repository.root.with_name("moved"))
    assert find_changed_code(record) == []


def test_tests_and_lengthwise_itself_are_not_imported_files() -> None:
    record = current_record().fields
    assert set(record["engine"]) == set(code_record.DIGESTED_PARTS)
    assert not [name for folder in record["folders"] for name in folder["files"]]


def test_a_sweep_that_is_refused_leaves_no_git_behind(tmp_path, monkeypatch) -> None:
    """However long git takes: here the first of it would never end."""
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nexec sleep 100\n")
    git.chmod(0o755)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(git.parent), prepend=os.pathsep)

    def refused(spec):
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        raise UserError("no")

    monkeypatch.setattr(run_and_resume, "build_first_generation", refused)
    with pytest.raises(UserError, match=r"^no$"):
        run_and_resume.run_sweep(load_sweep(QUICKSTART), tmp_path / "runs", Console(quiet=True))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("lengthwise-git")]
    for number in (tmp_path / "started").read_text().split():
        assert not Path(f"/proc/{number}").exists()
