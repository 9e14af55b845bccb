"""The commit and the changes of a folder, read from git or sent with a Ray job."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code import repository as repositories
from orchestrator.code.repository import CODE_VARIABLE, Repository, RepositoryReader, make_job_environment


@pytest.fixture(autouse=True)
def sent_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CODE_VARIABLE, raising=False)


def read(folder: Path) -> Repository:
    with RepositoryReader([folder]) as reader:
        (tree,) = reader.read()
    return tree


def test_a_clean_work_tree_is_its_commit(repository) -> None:
    tree = read(repository.root)
    assert (tree.commit, tree.dirty, tree.diff, tree.source) == (
        repository.git("rev-parse", "HEAD"),
        False,
        None,
        "git",
    )


def test_changes_are_a_diff_and_untracked_files_are_dirt(repository) -> None:
    (repository.root / "other.py").write_text("")
    assert (read(repository.root).dirty, read(repository.root).diff) == (True, None)
    (repository.root / "task.py").write_text("SIZE = 2\n")
    tree = read(repository.root)
    assert tree.diff is not None and b"-SIZE = 1\n+SIZE = 2" in tree.diff
    assert (tree.diff_sha256, tree.diff_bytes) == (hashlib.sha256(tree.diff).hexdigest(), len(tree.diff))
    repository.git("checkout", "-q", "task.py")
    (repository.root / "changes.diff").write_bytes(tree.diff)
    repository.git("apply", "changes.diff")
    assert (repository.root / "task.py").read_text() == "SIZE = 2\n"


def test_credentials_are_not_in_the_diff(repository) -> None:
    (repository.root / ".env").write_text("A=1\n")
    (repository.root / "keys").mkdir()
    (repository.root / "keys" / "Server.PEM").write_text("old\n")
    repository.commit()
    (repository.root / ".env").write_text("PASSWORD=hunter2\n")
    (repository.root / "keys" / "Server.PEM").write_text("hunter3\n")
    (repository.root / "task.py").write_text("SIZE = 2\n")
    tree = read(repository.root)
    assert tree.diff is not None and b"SIZE = 2" in tree.diff and b"hunter" not in tree.diff


def test_modules_are_in_the_diff_whatever_their_names(repository) -> None:
    names = ("auth_tokenizer.py", "deep/password_task.py", "deep/test_secrets.py", "deep/secrets.py", "auth_token.txt")
    (repository.root / "deep").mkdir()
    for name in names:
        (repository.root / name).write_text("old\n")
    repository.commit()
    for name in names:
        (repository.root / name).write_text(f"new {name}\n")
    diff = read(repository.root / "deep").diff or b""
    assert [name for name in names if f"+new {name}".encode() in diff] == list(names[:3])


def test_of_a_large_diff_hash_and_size_are_known(repository, monkeypatch) -> None:
    monkeypatch.setattr(repositories, "MAX_DIFF_BYTES", 1000)
    (repository.root / "notes.md").write_text("line\n" * 1000)
    tree = read(repository.root)
    assert tree.diff is None and tree.diff_bytes > 5000 and len(tree.diff_sha256 or "") == 64


def test_a_detached_work_tree_beside_the_repository(repository, tmp_path) -> None:
    beside = tmp_path.resolve() / "beside"
    repository.git("worktree", "add", "-q", "--detach", str(beside))
    (beside / "task.py").write_text("SIZE = 3\n")
    below = read(beside)
    assert below.root == beside and below.commit == repository.git("rev-parse", "HEAD") and below.dirty
    assert read(repository.root).dirty is False


def test_the_repository_a_hook_was_started_for_is_not_meant(repository, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert read(repository.root).commit


def test_git_that_warns_much_is_not_waited_for(repository, monkeypatch) -> None:
    """A line in stderr for each file whose line ends would change: more than the 64 KiB that a pipe holds."""
    names = [f"{'long' * 20}-{number:03d}.txt" for number in range(600)]
    for name in names:
        (repository.root / name).write_text("a\n")
    repository.commit()
    for name in names:
        (repository.root / name).write_text("a\r\nb\r\n")
    repository.git("config", "core.autocrlf", "input")
    repository.git("config", "core.safecrlf", "warn")
    monkeypatch.setattr(repositories, "TIMEOUT_SECONDS", 60.0)
    tree = read(repository.root)
    assert tree.problem is None and tree.diff is not None and tree.diff.count(b"+b") == 600


def test_missing_git_is_reported_without_an_error(repository, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tree = read(repository.root)
    assert tree.commit is None and tree.source is None and "cannot run git" in (tree.problem or "")
    messages: list[str] = []
    environment = json.loads(make_job_environment(repository.root, messages.append))
    assert json.loads(environment["env_vars"][CODE_VARIABLE])["commit"] is None
    assert len(messages) == 1 and "will record no commit: cannot run git" in messages[0]
    make_job_environment(tmp_path, messages.append)
    assert messages[1].endswith(f"{tmp_path.resolve()} is in no repository")


@pytest.fixture
def replace_git(monkeypatch, tmp_path) -> Callable[[str], None]:
    """Put a shell script in the place of git."""

    def replace(script: str) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    return replace


def test_git_that_fails_without_a_message_is_named_with_its_exit_code(repository, replace_git) -> None:
    replace_git("exit 3")
    tree = read(repository.root)
    assert tree.commit is None and "git status" in (tree.problem or "") and "exit code 3" in (tree.problem or "")


def test_git_that_hangs_is_left(repository, replace_git, monkeypatch) -> None:
    replace_git("echo warning: slow >&2\nexec sleep 60")
    monkeypatch.setattr(repositories, "TIMEOUT_SECONDS", 0.2)
    assert read(repository.root) == Repository(root=repository.root, problem="git status took longer than 0.2 s")


def test_a_repository_without_a_commit_and_a_folder_without_a_repository(tmp_path) -> None:
    tmp_path = tmp_path.resolve()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".git").mkdir()
    assert read(tmp_path / "new").commit is None and read(tmp_path / "new").problem
    assert read(tmp_path) == Repository(root=tmp_path)


def test_each_work_tree_is_read_once_and_what_lies_in_another_belongs_to_it(repository, tmp_path) -> None:
    (repository.root / "deep" / "er").mkdir(parents=True)
    with RepositoryReader([repository.root / "deep" / "er", repository.root, tmp_path, tmp_path / "no"]) as reader:
        trees = reader.read()
    assert [tree.root for tree in trees] == [repository.root, tmp_path.resolve()]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """job(sent) is what is read in the folder of a job that was sent with this."""
    folder = tmp_path.resolve() / "working_dir"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def read_in_a_job(sent: str) -> Repository:
        monkeypatch.setenv(CODE_VARIABLE, sent)
        return read(folder)

    yield read_in_a_job


def test_a_job_knows_commit_and_changes_of_where_it_was_submitted(repository, job) -> None:
    (repository.root / "task.py").write_text("SIZE = 2\n")
    there = read(repository.root)
    tree = job(json.loads(make_job_environment(repository.root))["env_vars"][CODE_VARIABLE])
    assert (tree.commit, tree.dirty, tree.diff, tree.source) == (there.commit, True, there.diff, "job")


def test_a_job_is_sent_hash_and_size_of_a_diff_that_is_too_large(repository, job, monkeypatch) -> None:
    monkeypatch.setattr(repositories, "MAX_JOB_DIFF_BYTES", 50)
    (repository.root / "task.py").write_text("SIZE = 2\n")
    there = read(repository.root)
    tree = job(json.loads(make_job_environment(repository.root))["env_vars"][CODE_VARIABLE])
    assert (tree.diff, tree.diff_sha256, tree.diff_bytes) == (None, there.diff_sha256, there.diff_bytes)


def test_what_a_job_was_sent_with_counts_in_its_own_folder_only(repository, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, json.loads(make_job_environment(repository.root))["env_vars"][CODE_VARIABLE])
    assert read(tmp_path.resolve()).commit is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("commit", "dirty", "diff", "diff_sha256", "diff_bytes")


@given(sent=st.text() | st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, json_values)).map(json.dumps))
def test_an_invalid_description_of_a_job_is_reported_without_an_error(sent: str) -> None:
    tree = repositories._parse_description(Path("/job"), sent)
    assert tree.commit is None and tree.diff is None and tree.problem
