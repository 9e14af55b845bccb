"""The folder that a driver has in the temp directory is gone after it, and the next driver sees to it if it cannot."""

import errno
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from orchestrator.running.with_ray.scratch import LOCK, scratch_folder

REPOSITORY = Path(__file__).resolve().parents[3]
HOLDER = """
import subprocess, sys
from orchestrator.running.with_ray.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "packs").mkdir()
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"])  # outlives it, as workers may
    print(folder, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    process.wait()


def test_the_folder_is_there_for_as_long_as_it_is_used(temp: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == temp and [path.name for path in folder.iterdir()] == [LOCK]
        (folder / "file").touch()
        with scratch_folder() as other:
            assert folder.exists() and other != folder
    with pytest.raises(RuntimeError), scratch_folder():
        raise RuntimeError
    assert not list(temp.iterdir())


def test_the_folder_of_a_killed_driver_goes_and_that_of_a_living_one_stays(temp: Path) -> None:
    (killed, left), (alive, used) = holder(), holder()
    killed.kill()
    killed.wait()
    unknown = temp / "lengthwise-tune-of-an-earlier-version"
    unknown.mkdir()
    assert (left / "packs").is_dir()
    with scratch_folder() as folder:
        assert sorted(temp.iterdir()) == sorted([folder, used, unknown])
    for process in (killed, alive):
        end(process)
    assert not used.exists()


def test_a_folder_of_somebody_else_is_left_alone(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = temp / "lengthwise-tune-theirs"
    folder.mkdir()
    (folder / LOCK).touch()
    original = FileLock.acquire

    def acquire(lock: FileLock, *arguments: Any, **named: Any) -> Any:
        if Path(lock.lock_file).parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied", lock.lock_file)
        return original(lock, *arguments, **named)

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with scratch_folder():
        pass
    assert folder.exists()
