"""No process of a program is left, whichever of worker, supervisor and program is killed; real processes throughout."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from orchestrator.program import process
from tests.orchestrator.program.studies import wait_until

StartWorker = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., process.Process]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

IGNORE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
READY = "open('ready-' + str(__import__('os').getpid()), 'w').close();"
SLEEP = f"{READY} __import__('time').sleep(600)"
PROGRAMS = {  # the code and how many processes it has
    "plain": (SLEEP, 1),
    "ignores SIGTERM": (IGNORE + SLEEP, 1),
    "children with sessions of their own": (
        "import subprocess, sys; code = sys.argv[1];"
        "children = [subprocess.Popen([sys.executable, '-S', '-c', code], start_new_session=True) for _ in '12'];"
        + SLEEP,
        3,
    ),
    "daemons": (
        "import os\nfor _ in '12':\n if not os.fork():\n  os.setsid()\n  if os.fork(): os._exit(0)\n  break\n"
        f"exec({(IGNORE + SLEEP)!r})",
        3,
    ),
}
WORKER = """
import os, sys
from pathlib import Path
from orchestrator.program import process
folder = Path(sys.argv[1])
lock = process.try_lock(folder / "lock")
words = [sys.executable, "-S", "-c", sys.argv[2], sys.argv[3]]
options = {"env": os.environ, "cwd": folder, "log": folder / "log", "lock": lock, "grace": float(sys.argv[4])}
program = process.start_program(words, **options)
(folder / "supervisor").write_text(str(program.supervisor.pid))
print(program.wait(), flush=True)
"""


LEAVES_PROCESSES = {  # that ignore SIGTERM and are killed 3 s later
    "worker": ["ignores SIGTERM", "children with sessions of their own", "daemons"],
    "program": ["children with sessions of their own", "daemons"],
}


def programs(killed: str, names: Sequence[str] = tuple(PROGRAMS)) -> pytest.MarkDecorator:
    """Parametrize over these of PROGRAMS; slow where the supervisor must wait before it kills."""
    slow = LEAVES_PROCESSES.get(killed, [])
    marked = [pytest.param(*PROGRAMS[name], id=name, marks=[pytest.mark.slow] * (name in slow)) for name in names]
    return pytest.mark.parametrize(("code", "processes"), marked)


SIMPLEST_AND_HARDEST = ("plain", "daemons")


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a worker with a program, and return when all processes of the program have begun."""
    workers = []

    def start(code: str, processes: int, grace: float = 1.0) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", WORKER, str(tmp_path), code, IGNORE + SLEEP, str(grace)]
        workers.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]))
        wait_until(lambda: len(list(tmp_path.glob("ready-*"))) == processes and (tmp_path / "supervisor").exists())
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
        worker.communicate()
    process.kill_leftovers(tmp_path / "lock")


def alive(folder: Path) -> list[int]:
    return process._find_processes(folder / "lock")


def supervisors(folder: Path) -> list[int]:
    """Return the process that the worker has started, and its child, the supervisor."""
    started = int((folder / "supervisor").read_text())
    return [started, *(child.pid for child in psutil.Process(started).children())]


def main_process(folder: Path) -> int:
    return int((folder / "lock").read_text())


@programs("worker", SIMPLEST_AND_HARDEST)
def test_killed_worker(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(code, processes, grace=60)
    assert len(alive(tmp_path)) == processes + 2  # the supervisor and its parent
    worker.kill()
    wait_until(lambda: not alive(tmp_path) and process.try_lock(tmp_path / "lock"), 30)


@programs("supervisor", SIMPLEST_AND_HARDEST)
def test_killed_supervisor(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(code, processes)
    os.kill(supervisors(tmp_path)[1], signal.SIGKILL)
    wait_until(lambda: not alive(tmp_path), 30)
    assert worker.communicate(timeout=30)[0] == "-9\n"


def test_killed_parent_of_the_supervisor(start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(*PROGRAMS["plain"])
    os.kill(supervisors(tmp_path)[0], signal.SIGKILL)
    wait_until(lambda: not alive(tmp_path), 30)
    assert worker.communicate(timeout=30)[0] == "-9\n"


@programs("worker", SIMPLEST_AND_HARDEST)
def test_worker_of_ray_that_ends(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    """It kills its children first; nothing is left, though no next attempt begins."""
    worker = start_worker(code, processes, grace=60)
    os.kill(supervisors(tmp_path)[0], signal.SIGKILL)
    worker.kill()
    wait_until(lambda: not alive(tmp_path), 30)


def test_a_worker_killed_while_it_kills_has_left_the_supervisor(
    start_worker: StartWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_worker(*PROGRAMS["daemons"])
    parent, supervisor = supervisors(tmp_path)
    program = {int(path.name.removeprefix("ready-")) for path in tmp_path.glob("ready-*")}
    killed = []
    with monkeypatch.context() as patched:
        patched.setattr(process.os, "kill", lambda number, _: killed.append(number))
        process.kill_leftovers(tmp_path / "lock", seconds=0.0)
    assert set(killed) == program
    assert {parent, supervisor} < set(alive(tmp_path))


@programs("program", SIMPLEST_AND_HARDEST)
def test_killed_program(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(code, processes, grace=60)
    os.kill(main_process(tmp_path), signal.SIGKILL)
    wait_until(lambda: not alive(tmp_path), 30)
    assert worker.communicate(timeout=30)[0] == "-9\n"


@programs("supervisor", SIMPLEST_AND_HARDEST)
def test_killed_worker_and_supervisor(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    """The parent of the supervisor ends what is left, though no next attempt begins."""
    worker = start_worker(code, processes)
    os.kill(supervisors(tmp_path)[1], signal.SIGKILL)
    worker.kill()
    wait_until(lambda: not alive(tmp_path), 30)


@programs("all", SIMPLEST_AND_HARDEST)
def test_all_killed_but_the_program(code: str, processes: int, start_worker: StartWorker, tmp_path: Path) -> None:
    """The next attempt ends what is left before it begins."""
    worker = start_worker(code, processes)
    started = supervisors(tmp_path)
    worker.kill()
    for supervisor in started:
        os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: process.try_lock(tmp_path / "lock"), 30)
    assert not alive(tmp_path)


@pytest.mark.slow
def test_locked_until_last_process_ended(start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker(*PROGRAMS["children with sessions of their own"])
    os.kill(main_process(tmp_path), signal.SIGTERM)  # its children ignore it
    wait_until(lambda: len(alive(tmp_path)) == 4)  # they, the supervisor and its parent
    assert process.try_lock(tmp_path / "lock") is None
    wait_until(lambda: process.try_lock(tmp_path / "lock"), 30)
    assert not alive(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., process.Process]:
    def start(code: str, grace: float = 10.0, **variables: str) -> process.Process:
        lock = process.try_lock(tmp_path / "lock")
        assert lock is not None
        words = [sys.executable, "-S", "-c", code]
        env = os.environ | variables
        return process.start_program(words, env=env, cwd=tmp_path, log=tmp_path / "log", lock=lock, grace=grace)

    return start


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(75)", 75),
        ("raise SystemExit(-1)", 255),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os; os.kill(os.getpid(), 9)", -9),
    ],
)
def test_exit_code(run: Run, code: str, expected: int) -> None:
    assert run(code).wait(10) == expected


def test_sigterm_leaves_time_to_save(run: Run, tmp_path: Path) -> None:
    program = run(
        "import signal, time, pathlib\n"
        "def save(*_): time.sleep(0.3); pathlib.Path('saved').touch(); raise SystemExit(3)\n"
        f"signal.signal(signal.SIGTERM, save)\n{SLEEP}"
    )
    wait_until(lambda: list(tmp_path.glob("ready-*")))
    program.terminate()
    assert program.poll() is None
    assert program.wait(10) == 3
    assert (tmp_path / "saved").exists()


def test_grace_then_kill(run: Run, tmp_path: Path) -> None:
    program = run(IGNORE + SLEEP, grace=0.3)
    wait_until(lambda: list(tmp_path.glob("ready-*")))
    program.terminate()
    assert program.wait(10) == -9


def test_kill(run: Run, tmp_path: Path) -> None:
    program = run(IGNORE + SLEEP, grace=60)
    wait_until(lambda: list(tmp_path.glob("ready-*")))
    program.kill()
    assert program.wait(10) == -9


def test_signals_after_the_end_change_nothing(run: Run) -> None:
    program = run("raise SystemExit(4)")
    wait_until(lambda: program.supervisor.poll() is not None)
    program.terminate()
    program.kill()
    assert program.poll() == 4


def test_output_environment_and_input(run: Run, tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['X'], os.environ.get('SLURM_PROCID'), sys.stdin.read(), os.getcwd())"
    (tmp_path / "log").write_text("earlier\n")
    assert run(code + "; print('error', file=sys.stderr)", X="1", SLURM_PROCID="3").wait(10) == 0
    assert sorted((tmp_path / "log").read_text().split("\n")) == ["", f"1 None  {tmp_path}", "earlier", "error"]


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    lock = process.try_lock(tmp_path / "lock")
    assert lock is not None
    program = process.start_program(["no-such"], env=os.environ, cwd=tmp_path, log=tmp_path / "log", lock=lock, grace=1)
    assert program.wait(10) == 127
    assert "no-such" in (tmp_path / "log").read_text()


def test_another_lock_is_left_alone(run: Run, tmp_path: Path) -> None:
    program = run(SLEEP)
    wait_until(lambda: list(tmp_path.glob("ready-*")))
    process.kill_leftovers(tmp_path / "loc")
    assert program.poll() is None
    program.kill()
    program.wait(10)
