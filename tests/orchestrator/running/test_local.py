"""Packs in processes of this machine: the curves of this process, and deaths of worker, host and driver."""

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from orchestrator.code.user_code import find_module
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.packing.packs import Packer
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.running.children.worker_host import WorkerHost
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.pack.retries import WORKER_DIED
from orchestrator.running.pack.watchdog import get_stack_file
from orchestrator.running.schedulers import local, local_worker
from orchestrator.running.schedulers.choice import SAMPLED_MEMBERS, choose_scheduler, find_missing_resources
from orchestrator.sweep.children import SweepChildren
from search_spaces import Resources, load_sweep
from tests.orchestrator.running.deaths import (
    INLINE,
    RecordingDriver,
    empty_work,
    finish,
    holding,
    kill_worker,
    with_words,
)
from tests.orchestrator.running.ledgers import keyed, records, wait_for

LOCAL = "resources.scheduler=local"


def children(driver: int) -> list[psutil.Process]:
    """The host of a driver, which is a fork of it, its workers, the publisher and its fork."""
    return with_words(driver, "orchestrator")


def test_the_number_of_packs_at_once_is_limited_by_affinity_and_by_the_sweep(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    assert [local.make_local_cluster(2).workers, local.make_local_cluster(2, max_workers=2).workers] == [3, 2]
    assert (
        local.make_local_cluster(2, max_workers=9).workers == 3
        and local.make_local_cluster(2, 5, max_workers=1).workers == 5
    )


def worker_with(pack_id: str, driver: int) -> psutil.Process | None:
    """The worker that has the pack in hand."""
    return holding(pack_id, children(driver))


@pytest.mark.slow
def test_auto_runs_here_without_ray_to_the_curves_of_packs_in_this_process(lengthwise, tiny, tmp_path):
    curves = {}
    for scheduler in ("auto", "inline"):
        words = ("run", tiny, "--storage", tmp_path / scheduler, "--set", f"resources.scheduler={scheduler}")
        done = lengthwise.succeeds(*words, *(("--workers", "1") if scheduler == "auto" else ()))
        assert ("this machine with " in done.stdout) == (scheduler == "auto") and "a local Ray" not in done.stdout
        assert "up to 1 pack at once" in done.stdout
        curves[scheduler] = keyed(tmp_path / scheduler / "tiny")
    assert "workers: 1" in (tmp_path / "auto" / "tiny" / "sweep.yaml").read_text()
    assert curves["auto"].equals(curves["inline"]) and len(curves["auto"])
    refused = lengthwise("run", tiny, "--storage", tmp_path, "--workers", "0", "--name", "none")
    assert refused.returncode == 2 and not (tmp_path / "none").exists()


def unfinished(folder: Path, but: str) -> list[str]:
    """The packs that have not ended, without one."""
    packs = SweepState.load(folder).packs.values()
    return [pack.pack_id for pack in packs if pack.status in ("planned", "running") and pack.pack_id != but]


@pytest.mark.slow
def test_a_worker_is_killed_as_often_as_it_may_and_once_more(lengthwise, long_sweep):
    """One pack loses its worker once and is brought to its end; another loses it twice and is given up."""
    folder = long_sweep.storage / "worker"
    driver = long_sweep.start(lengthwise, *long_sweep.words("worker", LOCAL, "resources.retries=1"))

    unlucky = wait_for(lambda: records(folder, "evaluation"), driver)[0].fields["pack_id"]
    kill_worker(unlucky, worker_with, folder, driver)
    long_sweep.release(unlucky)
    doomed = wait_for(
        lambda: next((p for p in unfinished(folder, unlucky) if worker_with(p, driver.pid)), None), driver
    )
    long_sweep.release(*(pack_id for pack_id in SweepState.load(folder).packs if pack_id != doomed))
    for _ in range(2):
        kill_worker(doomed, worker_with, folder, driver)
    long_sweep.release()
    out = finish(driver, exit_code=1)
    state = SweepState.load(folder)
    assert {pack.pack_id for pack in state.packs.values() if pack.status == "failed"} == {doomed}
    assert [len(state.packs[pack_id].attempts) for pack_id in (unlucky, doomed)] == [1, 2]
    assert f"(pack {unlucky}): the worker process died: " in out and "failed after 2 attempts" in out
    again = lengthwise("resume", folder, "--retry-failed", *INLINE)
    assert again.returncode == 0, again.stderr
    long_sweep.ended_as_if_left_alone(folder, ends=5)


@pytest.mark.slow
def test_the_host_is_killed_and_its_workers_live_or_are_replaced(lengthwise, long_sweep):
    folder = long_sweep.storage / "host"
    driver = long_sweep.start(lengthwise, *long_sweep.words("host", LOCAL))
    wait_for(lambda: records(folder, "evaluation"), driver)
    for process in children(driver.pid):
        process.kill()
    long_sweep.release()
    finish(driver)
    long_sweep.ended_as_if_left_alone(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_workers_end_with_their_driver_and_the_sweep_is_resumed(lengthwise, long_sweep, number):
    folder = long_sweep.storage / number.name
    driver = long_sweep.start(lengthwise, *long_sweep.words(number.name, LOCAL))
    wait_for(lambda: records(folder, "evaluation") and (folder / "report.html").is_file(), driver)
    left = children(driver.pid)
    assert len(left) > 1
    os.kill(driver.pid, number)
    wait_for(lambda: records(folder, "end") if number == signal.SIGINT else driver.poll() is not None)
    long_sweep.release()
    out, err = driver.communicate()
    assert not psutil.wait_procs(left, timeout=600)[1], "the workers outlive their driver"
    if number == signal.SIGINT:
        assert driver.returncode == 130 and "Traceback" not in out + err
        assert f"lengthwise resume {folder}" in out
        assert '"running":false' in (folder / "report.html").read_text()
    lengthwise.succeeds("resume", folder, *INLINE)
    long_sweep.ended_as_if_left_alone(folder)


def test_an_exception_is_tried_once_more_and_told_with_its_place(tmp_path, host):
    wrong = empty_work(tmp_path)
    driver = RecordingDriver("p1", work=wrong)
    local.LocalScheduler(Resources(workers=2, retries=5), host.start_worker).run(driver)
    assert [name for name, *_ in driver.calls] == ["on_hand_out", "on_retry", "on_hand_out", "on_failure"]
    assert "IndexError" in driver.calls[-1][2] and ".py:" in driver.calls[-1][2]


def test_workers_that_are_dead_from_the_start_are_not_charged_to_the_pack(tmp_path, host, monkeypatch):
    """As those of a host that is being killed; but not for ever."""
    monkeypatch.setattr(local, "_LOST_WORKER_PAUSE", 0.0)
    work = empty_work(tmp_path)  # raises at once
    ways = []

    def start_worker():
        ways.append("dead")
        mine, theirs = Pipe()
        theirs.close()
        return mine

    def start_third_worker():
        return start_worker() if len(ways) < 2 else host.start_worker()

    driver = RecordingDriver("p1", work=work)
    local.LocalScheduler(Resources(workers=1, retries=0), start_third_worker).run(driver)
    assert [name for name, *_ in driver.calls] == [*["on_hand_out", "on_lost_worker"] * 2, "on_hand_out", "on_failure"]
    assert "IndexError" in driver.calls[-1][2] and ways == ["dead", "dead"]
    local.LocalScheduler(Resources(workers=1, retries=1), start_worker).run(never := RecordingDriver("p1", work=work))
    replaced = ["on_hand_out", "on_lost_worker"] * 3
    assert [name for name, *_ in never.calls] == [*replaced, "on_hand_out", "on_retry", "on_hand_out", "on_failure"]


def test_a_worker_that_hangs_before_it_begins_is_charged_to_the_pack(tmp_path, host):
    """The import of a user's module never ends: the pack has one retry, so two workers wait for the timeout."""
    (tmp_path / "endless_import.py").write_text("import threading\nthreading.Event().wait()\n")
    modules = [find_module("endless_import", [tmp_path]).to_fields()]
    driver = RecordingDriver("p1", work=empty_work(tmp_path, modules=modules, heartbeat_timeout=0.5))
    local.LocalScheduler(Resources(workers=1, retries=1), host.start_worker).run(driver)
    assert [name for name, *_ in driver.calls] == ["on_hand_out", "on_retry", "on_hand_out", "on_failure"]
    assert "endless_import.py" in get_stack_file(tmp_path, "p1").read_text()


def test_the_user_reads_which_pack_lost_its_worker_before_it_began(stage):
    staged = stage("first")
    with Ledger.open(staged.folder) as ledger:
        state, packer = SweepState.load(staged.folder), Packer(staged.spec, local.make_local_cluster(1))
        driver = SweepDriver(staged.spec, ledger, state, packer=packer, say=staged.messages.append)
        pack_id, _ = driver.take_next_pack()
        for _ in range(2):
            driver.on_hand_out(pack_id)
            driver.on_lost_worker(pack_id, WORKER_DIED)
        assert not state.packs[pack_id].attempts
    assert [pack_id in message and WORKER_DIED in message for message in staged.messages] == [True, True]


def test_the_death_of_an_idle_worker_is_not_charged_to_the_next_pack(tmp_path, host):
    work = empty_work(tmp_path)  # raises at once
    of_others = set(psutil.Process(host._process.pid).children())

    class Later(RecordingDriver):
        def take_next_pack(self) -> tuple[str, str] | None:
            if any(name == "on_failure" for name, *_ in self.calls):
                (idle,) = set(psutil.Process(host._process.pid).children()) - of_others
                idle.kill()
                while idle.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.01)
            return super().take_next_pack()

    driver = Later("p1", "p2", work=work)
    local.LocalScheduler(Resources(workers=1, retries=0), host.start_worker).run(driver)
    kinds = ("on_hand_out", "on_failure")
    assert [call[:2] for call in driver.calls] == [(kind, pack_id) for pack_id in ("p1", "p2") for kind in kinds]
    assert ["IndexError" in message for kind, _, message, *_ in filter(lambda call: len(call) > 2, driver.calls)] == [
        True
    ] * 2


def test_an_end_of_file_in_a_pack_is_an_exception_of_its_own(tmp_path, monkeypatch):
    """It is not taken for the end of the driver, nor the worker for dead."""

    def train_pack(work, reporter):
        raise EOFError("the corpus ends early")

    monkeypatch.setattr(local_worker, "train_pack", train_pack)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the worker sets it, here for the tests that follow, too
    mine, theirs = Pipe()
    work = empty_work(tmp_path)
    codes: list[int] = []
    monkeypatch.setattr(local_worker.os, "_exit", codes.append)
    thread = threading.Thread(target=local_worker.serve_packs, args=(os.dup(theirs.fileno()),))
    thread.start()
    theirs.close()
    mine.send_bytes(work.encode())
    message = mine.recv_bytes()
    mine.close()
    thread.join(60)
    kind, death = local_worker.decode_message(message)
    assert kind == "death" and death["message"].startswith("EOFError: the corpus ends early")
    assert codes == [0], "the end of the driver ends the worker"


@pytest.mark.parametrize(
    ("scheduler", "tracking", "publisher", "workers"),
    [("auto", False, False, True), ("ray", True, True, False), ("inline", False, False, False)],
)
def test_a_driver_starts_the_children_that_its_scheduler_may_need(scheduler, tracking, publisher, workers):
    with SweepChildren(scheduler, tracking=tracking) as begun:
        assert (begun.publisher is not None, begun.workers is not None) == (publisher, workers)
        processes = [child._process for child in (begun.publisher, begun.workers) if child is not None]
        host = begun.workers
        begun.close_unneeded_host("ray")
        assert begun.workers is None and (host is None or not host._process.is_running())
    assert not any(process.is_running() for process in processes)


def test_children_of_a_sweep_that_is_refused_end_with_the_command(lengthwise, tiny, tmp_path, monkeypatch):
    started, start = [], WorkerHost._start

    def start_and_note(host: WorkerHost, *, fork: bool) -> None:
        start(host, fork=fork)
        started.append(host._process)

    monkeypatch.setattr(WorkerHost, "_start", start_and_note)
    lengthwise.refuses(
        "run",
        tiny,
        "--storage",
        tmp_path,
        "--set",
        "resources={scheduler: local, cpus: 4096}",
        message="a pack needs more CPUs than this machine has; given 4096; allowed: at most",
    )
    assert len(started) == 1 and not started[0].is_running()


@pytest.mark.slow
def test_what_is_imported_once_is_forked_and_nothing_else_of_this_process_goes_with_it():
    """The fork has the engine at once, is in a session of its own, and holds no file of the one that forked it."""
    code = """if True:
        import sys
        from orchestrator.running.children.worker_host import WorkerHost
        held = open(sys.argv[1])
        host = WorkerHost()
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
    (member, *_) = (configuration.build_member(0) for configuration in build_first_generation(spec))
    taken = iter([member] * 1000)
    choose_scheduler(spec, taken)
    assert len(list(taken)) == 1000 - SAMPLED_MEMBERS


def test_an_exception_of_the_driver_is_raised_unchanged(host):
    class Broken(RecordingDriver):
        def take_next_pack(self) -> tuple[str, str] | None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        local.LocalScheduler(Resources(workers=1, retries=0), host.start_worker).run(Broken())


@pytest.mark.parametrize(
    ("scheduler", "key", "address", "message"),
    [
        ("local", "gpus", "ray://head:10001", "local cannot share GPUs between packs"),
        ("auto", "cpus", None, "a pack needs more CPUs than this machine has"),
        ("ray", "gpus", None, "a pack needs more GPUs than this machine has"),
        ("ray", "gpus", "ray://head:10001", None),
    ],
)
def test_a_pack_that_needs_more_than_its_machine_has_is_refused_with_the_place(
    tiny, monkeypatch, scheduler, key, address, message
):
    """A cluster decides for itself what it has."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    text = tiny.read_text().replace("scheduler: inline", f"scheduler: {scheduler}, {key}: 4096")
    tiny.write_text(text)
    line = next(number for number, text_line in enumerate(text.splitlines(), 1) if text_line.startswith("resources"))
    problems = find_missing_resources(load_sweep(tiny)).problems
    assert bool(problems) == bool(message) and all(problem.where == f"{tiny}:{line}" for problem in problems)
    assert message is None or message in str(problems[0])


@pytest.mark.parametrize(
    ("overrides", "address", "name", "why"),
    [
        ((), None, "local", "a short sweep"),
        (("training.steps=1000000",), None, "ray", "long"),
        (("seeds=100000",), None, "ray", "long"),
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
    scheduler, reason = choose_scheduler(
        spec, [configuration.build_member(0) for configuration in build_first_generation(spec)]
    )
    assert scheduler == name and why in reason


def test_a_scheduler_is_chosen_where_the_file_says_nothing_and_makes_no_other_sweep(tiny):
    inline = load_sweep(tiny)
    tiny.write_text(tiny.read_text().replace("scheduler: inline, ", ""))
    spec = load_sweep(tiny)
    assert spec.resources.scheduler == "auto" and spec.spec_hash == inline.spec_hash
