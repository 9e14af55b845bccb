"""Packs in processes of this machine: the curves of this process, and deaths of worker, host and driver."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe

import psutil
import pytest

from orchestrator.consoles import make_console
from orchestrator.errors import UserError
from orchestrator.plan.soundness import check
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.running.hosts import host
from orchestrator.running.hosts.host import hosted
from orchestrator.running.hosts.worker_host import CLOSING, CLOSING_WITH_TRACKING, WORKERS
from orchestrator.running.pack.train_pack import encode_work
from orchestrator.running.schedulers import local, local_worker
from orchestrator.running.schedulers.choice import EXAMPLES, chosen, refuse_what_cannot_run
from orchestrator.sweep.sweep import run_sweep
from search_spaces import Resources, load_sweep
from tests.orchestrator.running.deaths import INLINE, holding, killed_as_often_as_it_may_and_once_more, with_words

pytestmark = pytest.mark.long

LOCAL = "resources.scheduler=local"


def hosts(driver: int) -> list[psutil.Process]:
    """The hosts of a driver, of which that of the workers is a fork, and what they have forked."""
    return with_words(driver, "orchestrator")


def worker_with(pack_id: str, driver: int) -> psutil.Process | None:
    """The worker that has the pack in hand."""
    return holding(pack_id, hosts(driver))


def test_the_curves_are_those_of_packs_in_this_process(lengthwise, tiny, tmp_path):
    found = {}
    for scheduler in ("local", "inline"):
        storage = tmp_path / scheduler
        words = ("run", tiny, "--storage", storage, "--set", f"resources.scheduler={scheduler}")
        done = lengthwise(*words)
        assert done.returncode == 0, done.stderr
        found[scheduler] = read_curves(SweepState.load(storage / "tiny"))
    order = ["config_id", "seed", "average", "metric", "length", "step"]
    one, other = (frame.sort_values(order).reset_index(drop=True) for frame in found.values())
    assert one.equals(other[one.columns]) and len(one)


def test_a_worker_is_killed_as_often_as_it_may_and_once_more(lengthwise, long_sweep, wait_for, records):
    killed_as_often_as_it_may_and_once_more(LOCAL, worker_with, lengthwise, long_sweep, wait_for, records)


def test_the_host_is_killed_and_its_workers_live_or_are_replaced(lengthwise, long_sweep, wait_for, records):
    folder = long_sweep.storage / "host"
    driver = lengthwise.start(*long_sweep.words("host", LOCAL))
    wait_for(lambda: records(folder, "evaluation"), driver)
    for one in hosts(driver.pid):
        one.kill()
    _, err = driver.communicate()
    assert driver.returncode == 0, err
    long_sweep.ended_as_if_left_alone(folder)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_workers_end_with_their_driver_and_the_sweep_is_resumed(lengthwise, long_sweep, wait_for, records, number):
    folder = long_sweep.storage / number.name
    driver = lengthwise.start(*long_sweep.words(number.name, LOCAL))
    wait_for(lambda: records(folder, "evaluation"), driver)
    left = hosts(driver.pid)
    assert len(left) > 1
    os.kill(driver.pid, number)
    out, err = driver.communicate()
    assert not psutil.wait_procs(left, timeout=60)[1], "the workers outlive their driver"
    if number == signal.SIGINT:
        assert driver.returncode == 130 and "Traceback" not in out + err
        assert f"lengthwise resume {folder}" in out
    done = lengthwise("resume", folder, *INLINE)
    assert done.returncode == 0, done.stderr
    long_sweep.ended_as_if_left_alone(folder)


class Packs:
    """A driver with one pack that cannot be trained."""

    def __init__(self, work: str) -> None:
        self.told: list[tuple[str, ...]] = []
        self._packs = [("p1", work)]

    def next_pack(self) -> tuple[str, str] | None:
        return self._packs.pop() if self._packs else None

    def all_handed_out(self) -> bool:
        return not self._packs

    def tick(self) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *what: self.told.append((name, *what))


def test_an_exception_is_tried_once_more_and_told_with_its_place(tmp_path):
    wrong = encode_work(
        [{"task": {"name": "nothing"}}], [("c", 0)], cpus=1, watchdog_seconds=60, folder=str(tmp_path), pack_id="p1"
    )
    driver = Packs(wrong)
    with hosted() as ours:
        local.run_packs(driver, ours, workers=2, retries=5)
    assert [name for name, *_ in driver.told] == ["started", "retried", "started", "failed"]
    assert "KeyError: 'code'" in driver.told[-1][2] and ".py:" in driver.told[-1][2]
    assert json.dumps(driver.told)


def test_the_death_of_an_idle_worker_is_not_charged_to_the_next_pack(tmp_path):
    work = encode_work([], [], cpus=1, watchdog_seconds=60, folder=str(tmp_path), pack_id="p")  # raises at once

    class Later(Packs):
        def next_pack(self) -> tuple[str, str] | None:
            if any(name == "failed" for name, *_ in self.told):
                (idle,) = psutil.Process(ours._process.pid).children()
                idle.kill()
                while idle.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.01)
            return super().next_pack()

    driver = Later(work)
    driver._packs.insert(0, ("p2", work))
    with hosted() as ours:
        local.run_packs(driver, ours, workers=1, retries=0)
    assert [told[:2] for told in driver.told] == [(what, one) for one in ("p1", "p2") for what in ("started", "failed")]
    assert all("KeyError: 'code'" in said for name, _, said, *_ in (one for one in driver.told if len(one) > 2))


def test_an_end_of_file_in_a_pack_is_an_exception_of_its_own(tmp_path, monkeypatch):
    """It is not taken for the end of the driver, nor the worker for dead."""

    def train_pack(work, reporter):
        raise EOFError("the corpus ends early")

    monkeypatch.setattr(local_worker, "train_pack", train_pack)
    mine, theirs = Pipe()
    work = encode_work([], [], cpus=1, watchdog_seconds=60, folder=str(tmp_path), pack_id="p1")
    codes: list[int] = []
    monkeypatch.setattr(local_worker.os, "_exit", codes.append)
    thread = threading.Thread(target=local_worker.serve, args=(os.dup(theirs.fileno()),))
    thread.start()
    theirs.close()
    mine.send_bytes(work.encode())
    message = mine.recv_bytes()
    mine.close()
    thread.join(60)
    assert message[:1] == b"X" and json.loads(message[1:])["said"].startswith("EOFError: the corpus ends early")
    assert codes == [0], "the end of the driver ends the worker"


def test_a_host_that_is_not_needed_is_ended_at_once(tiny, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    host.begin_for(load_sweep(tiny, ["resources.scheduler=auto"]))
    begun = dict(host._begun)
    assert set(begun) == {WORKERS, CLOSING}
    host.end_unused()
    assert all(one._process.wait(0) == -signal.SIGKILL for one in begun.values()) and not host._begun
    host.begin_for(load_sweep(tiny, ["resources.scheduler=ray", "tracking.enabled=true"]))
    assert set(host._begun) == {CLOSING_WITH_TRACKING}
    host.end_unused()
    host.begin_for(load_sweep(tiny, ["resources.scheduler=inline"]))
    assert not host._begun


def test_a_host_that_auto_did_not_need_does_not_wait_for_the_end_of_the_sweep(tiny, tmp_path, monkeypatch):
    spec = load_sweep(tiny, ["resources.scheduler=auto"])
    host.begin_for(spec)
    assert host._begun
    monkeypatch.setattr("orchestrator.sweep.sweep.chosen", lambda *_: ("inline", ""))
    left: list[dict[str, host.Host]] = []

    def opened(*_: object) -> None:
        left.append(dict(host._begun))
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.sweep.sweep.opened", opened)
    assert run_sweep(spec, tmp_path, make_console()).status == "interrupted" and left == [{}]


def test_what_is_imported_once_is_forked_and_nothing_else_of_this_process_goes_with_it(wait_for):
    """The fork has the engine at once, is in a session of its own, and holds no file of the one that forked it."""
    code = """if True:
        import sys, threading
        from orchestrator.running.hosts.host import Host
        from orchestrator.running.hosts.worker_host import WORKERS
        held = open(sys.argv[1])
        host = Host(WORKERS, forked=threading.active_count() == 1)
        assert "trainers.training.loop" in sys.modules
        print(host._process.pid, flush=True)
        sys.stdin.read()
    """
    words = [sys.executable, "-c", code, __file__]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        fork = psutil.Process(int(driver.stdout.readline()))
        assert fork.ppid() == driver.pid
        wait_for(lambda: os.getsid(fork.pid) == fork.pid, driver)
        wait_for(lambda: not [file for file in fork.open_files() if file.path == __file__], driver)
        assert __file__ in [file.path for file in psutil.Process(driver.pid).open_files()]
        driver.kill()
        fork.wait(60)


def test_a_few_members_stand_for_a_sweep(tiny):
    spec = load_sweep(tiny, ["resources.scheduler=auto"])
    (one, *_) = (found.member(0) for found in check(spec))
    taken = iter([one] * 1000)
    chosen(spec, taken)
    assert len(list(taken)) == 1000 - EXAMPLES


def test_what_the_driver_raises_leaves_as_it_was_raised(tmp_path):
    class Broken(Packs):
        def next_pack(self) -> tuple[str, str] | None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"), hosted() as ours:
        local.run_packs(Broken(""), ours, workers=1, retries=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"gpus": 1}, "local has no GPUs to share out"), ({"cpus": 4096}, "a pack needs 4096 CPUs; this machine has")],
)
def test_what_this_machine_does_not_have_is_refused(changes, said):
    with pytest.raises(UserError, match=said):
        refuse_what_cannot_run(Resources(scheduler="local", **changes))


@pytest.mark.parametrize(
    ("overrides", "address", "name", "why"),
    [
        ((), None, "local", "training is reckoned at less than 2 min"),
        (("training.steps=1000000",), None, "ray", "training is reckoned at "),
        (("seeds=100000",), None, "ray", "more than 2 min"),
        (("resources.gpus=1",), None, "ray", "packs need a GPU"),
        ((), "ray://head:10001", "ray", "RAY_ADDRESS is ray://head:10001"),
        (("resources.scheduler=ray",), None, "ray", "as resources.scheduler says"),
        (("resources.scheduler=local", "training.steps=1000000"), None, "local", "as resources.scheduler says"),
    ],
)
def test_auto_is_ray_for_a_cluster_a_gpu_and_long_training(tiny, monkeypatch, overrides, address, name, why):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    spec = load_sweep(tiny, ["resources.scheduler=auto", *overrides])
    found, said = chosen(spec, [one.member(0) for one in check(spec)])
    assert found == name and why in said


def test_a_scheduler_is_chosen_where_the_file_says_nothing_and_makes_no_other_sweep(tiny):
    inline = load_sweep(tiny)
    tiny.write_text(tiny.read_text().replace("scheduler: inline, ", ""))
    spec = load_sweep(tiny)
    assert spec.resources.scheduler == "auto" and spec.spec_hash == inline.spec_hash


def test_auto_runs_here_without_ray(lengthwise, tiny, tmp_path):
    done = lengthwise.process("run", tiny, "--storage", tmp_path, "--set", "resources.scheduler=auto")
    assert done.returncode == 0, done.stderr
    assert "this machine with " in done.stdout and "a local Ray" not in done.stdout
