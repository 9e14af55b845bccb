"""What a driver's Ray consists of, and the folder of a driver, end with it; the next driver sees to it if it cannot."""

import errno
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from orchestrator.running.with_ray.processes import MARK, kill_processes
from orchestrator.running.with_ray.scratch import LOCK, make_scratch_folder
from tests.orchestrator.running.ledgers import wait_for

REPOSITORY = Path(__file__).resolve().parents[3]
STANDING = [sys.executable, "-c", "import sys, time; print('up', flush=True); time.sleep(600)"]
DRIVER = f"""
import subprocess, sys
from orchestrator.running.with_ray.processes import guard_processes, kill_processes, mark_processes
from orchestrator.running.with_ray.scratch import make_scratch_folder
with make_scratch_folder("lw-ray-", None, kill_processes) as folder, guard_processes(folder) as guardian:
    with mark_processes(folder):
        one = subprocess.Popen({STANDING!r}, start_new_session=True, stdout=subprocess.PIPE)
    one.stdout.readline()
    print(folder, one.pid, guardian, flush=True)
    sys.stdin.readline()
one.wait()
print("ended", one.returncode, flush=True)
"""


HOLDER = """
import subprocess, sys
from orchestrator.running.with_ray.scratch import make_scratch_folder
with make_scratch_folder() as folder:
    (folder / "packs").mkdir()
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"])  # outlives it, as workers may
    print(folder, flush=True)
    sys.stdin.readline()
"""


@contextmanager
def driver() -> Iterator[tuple[subprocess.Popen[str], Path, psutil.Process, psutil.Process]]:
    """A driver, its folder, a process of its Ray and its guardian."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        folder, *numbers = process.stdout.readline().split()
        standing, guardian = (psutil.Process(int(number)) for number in numbers)
        try:
            yield process, Path(folder), standing, guardian
        finally:
            for child in (process, standing, guardian):
                if child.poll() is None if isinstance(child, subprocess.Popen) else child.is_running():
                    child.kill()


def has_ended(process: psutil.Process) -> bool:
    """Also where nobody has taken it off the table of processes."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def ignores(process: psutil.Process, number: signal.Signals) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return bool(int(status["SigIgn"], 16) >> (number - 1) & 1)


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def bystander(temp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another Ray, with a similar folder."""
    with monkeypatch.context() as patch:
        patch.setenv(MARK, str(temp / "lw-ray-another"))
        process = subprocess.Popen(STANDING, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        assert process.poll() is None
        process.kill()


def test_a_killed_driver_takes_its_ray_with_it(temp: Path, bystander: Any) -> None:
    with driver() as (process, folder, standing, guardian):
        assert folder.parent == temp
        wait_for(lambda: ignores(guardian, signal.SIGTERM))
        guardian.terminate()  # whoever ends all that is called Python, or closes a terminal, does not end it first
        process.kill()
        wait_for(lambda: has_ended(standing) and has_ended(guardian))
        assert not folder.exists()


def test_a_driver_that_leaves_its_ray_has_ended_it(bystander: Any) -> None:
    with driver() as (process, folder, standing, _):
        out, _ = process.communicate("\n")
        assert out == "ended -9\n" and process.returncode == 0
        assert not folder.exists() and has_ended(standing)


def test_the_next_start_ends_what_a_driver_and_its_guardian_left(temp: Path, bystander: Any) -> None:
    with driver() as (killed, left, standing, guardian), driver() as (_, used, other, _):
        guardian.kill()
        killed.kill()
        killed.wait()
        assert left.exists() and not has_ended(standing)
        with make_scratch_folder("lw-ray-", temp, kill_processes) as folder:
            assert sorted(temp.iterdir()) == sorted([folder, used])
        assert has_ended(standing) and not has_ended(other)


# Folders of drivers ---------------------------------------------------------------------------------------------------


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
    with make_scratch_folder() as folder:
        assert folder.parent == temp and [path.name for path in folder.iterdir()] == [LOCK]
        (folder / "file").touch()
        with make_scratch_folder() as other:
            assert folder.exists() and other != folder
    with pytest.raises(RuntimeError), make_scratch_folder():
        raise RuntimeError
    assert not list(temp.iterdir())


def test_the_folder_of_a_killed_driver_goes_and_that_of_a_living_one_stays(temp: Path) -> None:
    (killed, left), (alive, used) = holder(), holder()
    killed.kill()
    killed.wait()
    unknown = temp / "lengthwise-tune-of-an-earlier-version"
    unknown.mkdir()
    assert (left / "packs").is_dir()
    with make_scratch_folder() as folder:
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
    with make_scratch_folder():
        pass
    assert folder.exists()
