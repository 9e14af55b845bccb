"""What is recorded and kept of the code a sweep is run with, and when it counts as changed."""

import importlib
import os
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.code import code_archive, sources
from orchestrator.code.sources import Gathered, begin_reading, changed_since, gather, version_change
from orchestrator.errors import UserError
from orchestrator.sweep import sweep
from search_spaces import load_sweep

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
    for name in ("trainers/tasks/sums.py", "orchestrator/figures/curves.py", "search_spaces/grammar.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    monkeypatch.setattr(sources, "HERE", root)
    return root


@pytest.fixture
def found(lengthwise_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Gathered]:
    """found(folder, "module", ...) imports modules of a folder and gathers what is recorded of it."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    def gathered(folder: Path, *modules: str) -> Gathered:
        monkeypatch.syspath_prepend(folder)
        for module in modules:
            importlib.import_module(module)
        return gather(begin_reading(folder), ())

    return gathered


def kept(gathered: Gathered, folder: Path) -> dict[str, bytes]:
    """What is in the archive that the record names."""
    folder.mkdir(exist_ok=True)
    gathered.archive.keep(folder)
    if gathered.recorded["archive"] is None:
        return {}
    with tarfile.open(folder / gathered.recorded["archive"]["file"]) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]


def tree_of(gathered: Gathered) -> dict[str, Any]:
    return next(tree for tree in gathered.recorded["trees"] if tree["files"])


def test_a_committed_file_needs_no_copy(repository, found, tmp_path) -> None:
    gathered = found(repository.root, "task")
    tree = tree_of(gathered)
    assert (tree["commit"], tree["dirty"], list(tree["files"]), tree["uncommitted"]) == (
        repository.git("rev-parse", "HEAD"),
        False,
        ["task.py"],
        [],
    )
    assert set(kept(gathered, tmp_path / "sweep")) == {  # of no repository
        "lengthwise/orchestrator/figures/curves.py",
        "lengthwise/search_spaces/grammar.py",
        "lengthwise/trainers/tasks/sums.py",
    }


def test_untracked_files_that_are_imported_are_kept_and_others_not(repository, found, tmp_path) -> None:
    for name in ("mine.py", "never_imported.py", "data.csv", ".env"):
        (repository.root / name).write_text("A = 1\n")
    gathered = found(repository.root, "mine")
    assert tree_of(gathered)["uncommitted"] == ["mine.py"]
    names = [name for name in kept(gathered, tmp_path / "sweep") if not name.startswith("lengthwise/")]
    assert names == ["1-mine/mine.py"]


def test_changes_are_kept_as_a_diff(repository, found, tmp_path) -> None:
    (repository.root / "task.py").write_text("SIZE = 2\n")
    gathered = found(repository.root, "task")
    content = kept(gathered, tmp_path / "sweep")
    assert b"+SIZE = 2" in content["1-mine/changes.diff"] and "1-mine/task.py" not in content
    assert tree_of(gathered)["uncommitted"] == ["task.py"]


def test_where_the_diff_is_too_large_that_is_said_and_imported_files_are_kept_whole(
    repository, found, tmp_path, monkeypatch
) -> None:
    from orchestrator.code import work_tree

    monkeypatch.setattr(work_tree, "MOST_OF_A_DIFF", 1000)
    (repository.root / "task.py").write_text("SIZE = 2\n")
    (repository.root / "notes.md").write_text("line\n" * 1000)
    gathered = found(repository.root, "task")
    assert "1-mine/task.py" in kept(gathered, tmp_path / "sweep")
    (left_out,) = gathered.recorded["left_out"]
    assert left_out["file"] == "1-mine/changes.diff" and left_out["bytes"] == tree_of(gathered)["diff"]["bytes"] > 5000


def test_an_archive_has_a_limit_and_says_what_it_leaves_out(found, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(code_archive, "LIMIT", 900)
    folder = tmp_path.resolve() / "plain"
    folder.mkdir()
    (folder / "small_one.py").write_text("A = 1\n")
    (folder / "large_one.py").write_text("".join(f"A{n} = {n**9}\n" for n in range(300)))
    gathered = found(folder, "small_one", "large_one")
    assert "1-plain/small_one.py" in kept(gathered, tmp_path / "sweep")
    assert [one["file"] for one in gathered.recorded["left_out"]] == ["1-plain/large_one.py"]
    assert gathered.recorded["archive"]["bytes"] <= 900
    assert set(tree_of(gathered)["files"]) == {"small_one.py", "large_one.py"}  # their hashes all the same


def test_credentials_are_hashed_and_not_kept(found, tmp_path) -> None:
    folder = tmp_path.resolve() / "plain"
    folder.mkdir()
    (folder / "my_credentials.py").write_text("PASSWORD = 'hunter2'\n")
    gathered = found(folder, "my_credentials")
    assert not any(b"hunter2" in content for content in kept(gathered, tmp_path / "sweep").values())
    assert "credentials" in gathered.recorded["left_out"][0]["why"] and tree_of(gathered)["commit"] is None


def test_the_same_code_elsewhere_is_the_same_state_and_has_the_same_archive(found, tmp_path, monkeypatch) -> None:
    states = []
    for place in ("a", "b"):
        folder = tmp_path.resolve() / place / "plain"
        folder.mkdir(parents=True)
        (folder / "mine.py").write_text("A = 1\n")
        states.append(found(folder, "mine").recorded)
        sys.modules.pop("mine")
    assert states[0]["name"] == states[1]["name"] and states[0]["archive"] == states[1]["archive"]
    assert states[0]["trees"] != states[1]["trees"]


def test_what_counts_as_changed(repository, found, lengthwise_copy) -> None:
    (repository.root / "mine.py").write_text("A = 1\n")
    recorded = found(repository.root, "task", "mine").recorded
    assert changed_since(recorded) == []
    (repository.root / "notes.md").write_text("other notes\n")
    (repository.root / "new.py").write_text("")
    (lengthwise_copy / "orchestrator/figures/curves.py").write_text("# other colours\n")
    repository.commit()
    assert changed_since(recorded) == []
    (lengthwise_copy / "trainers/tasks/sums.py").write_text("# other sums\n")
    (repository.root / "mine.py").write_text("A = 2\n")
    (repository.root / "task.py").unlink()
    assert changed_since(recorded) == [
        f"{lengthwise_copy}/trainers/tasks/sums.py has changed",
        f"{repository.root}/mine.py has changed",
        f"{repository.root}/task.py is gone",
    ]


def test_another_version_or_an_installed_lengthwise_is_no_edit(repository, found, lengthwise_copy, monkeypatch) -> None:
    recorded = found(repository.root, "task").recorded
    (lengthwise_copy / "trainers/tasks/sums.py").write_text("# other sums\n")
    assert changed_since(recorded)
    newer = {**recorded, "lengthwise": {**recorded["lengthwise"], "version": "0.0.9"}}
    assert changed_since(newer) == [] and version_change([newer]) == ("0.0.9", recorded["lengthwise"]["version"])
    monkeypatch.setattr(sources, "HERE", Path(sys.prefix) / "lib" / "python3.11" / "site-packages")
    assert changed_since(recorded) == []
    assert gather(begin_reading(), ()).recorded["lengthwise"]["files"] == {}


def test_of_a_folder_that_is_gone_nothing_is_known(repository, found) -> None:
    recorded = found(repository.root, "task").recorded
    repository.root.rename(repository.root.with_name("moved"))
    assert changed_since(recorded) == []


def test_lengthwise_itself_is_a_working_folder_here() -> None:
    recorded = gather(begin_reading(), ()).recorded
    assert "trainers/training/loop.py" in recorded["lengthwise"]["files"]
    assert not [name for tree in recorded["trees"] for name in tree["files"] if "test" in name]


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

    monkeypatch.setattr(sweep, "check", refused)
    with pytest.raises(UserError, match=r"^no$"):
        sweep.run_sweep(load_sweep(QUICKSTART), tmp_path / "runs", Console(quiet=True))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("lengthwise-git")]
    for number in (tmp_path / "started").read_text().split():
        assert not Path(f"/proc/{number}").exists()
