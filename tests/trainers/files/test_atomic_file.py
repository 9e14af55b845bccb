"""A file is its old self or its new one, whatever happens while it is written."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from trainers.files.atomic_file import get_final_name, write_all_atomic, write_atomic
from trainers.files.checkpoint import Checkpoints

KILLED = """
import os, signal, sys
from pathlib import Path
from trainers.files.atomic_file import write_atomic
def pieces():
    yield b"n" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)
write_atomic(Path(sys.argv[1]), pieces())
"""


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_process_killed_in_the_middle_changes_nothing(tmp_path, before) -> None:
    path = tmp_path / "file"
    if before:
        path.write_bytes(before)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True)
    assert done.returncode == -9, done.stderr
    assert path.read_bytes() == before if before else not path.exists()
    assert [get_final_name(left.name) for left in tmp_path.iterdir() if left != path] == ["file"]


def test_a_checkpoint_that_was_written_half_is_deleted_where_a_pack_resumes(tmp_path) -> None:
    path = tmp_path / "step-000000000007.ckpt"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -9
    (tmp_path / ".step-notes").write_bytes(b"of somebody else")
    assert len(list(tmp_path.iterdir())) == 2
    assert Checkpoints(folder=tmp_path).load([]) == (None, [])
    assert [left.name for left in tmp_path.iterdir()] == [".step-notes"]


def test_an_interruption_leaves_nothing_behind(tmp_path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "file", pieces())
    assert [(left.name, left.read_bytes()) for left in tmp_path.iterdir()] == [("file", b"old")]


def test_of_several_files_none_is_there_before_all_are_written(tmp_path) -> None:
    def files() -> Iterator[tuple[str, list[bytes]]]:
        yield "one", [b"1"]
        yield "two", [b"2"]
        assert not (tmp_path / "one").exists()

    write_all_atomic(tmp_path, files())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"one": b"1", "two": b"2"}


def test_a_folder_that_is_gone_is_not_made_again(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "gone" / "file", [b"new"])
    assert list(tmp_path.iterdir()) == []


def test_two_threads_may_write_the_same_file_at_once(tmp_path) -> None:
    path, both = tmp_path / "file", threading.Barrier(2, timeout=30)

    def pieces(letter: bytes) -> Iterator[bytes]:
        yield letter
        both.wait()  # now each has written half of its file
        yield letter

    threads = [threading.Thread(target=write_atomic, args=(path, pieces(letter))) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in (b"aa", b"bb") and list(tmp_path.iterdir()) == [path]
