"""Packs in this process: what the scheduler that needs no Ray leaves behind, and what it does not touch."""

import io
import os
import pdb
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info

from orchestrator.errors import UserError
from orchestrator.plan.packing.packs import Cluster
from orchestrator.preview.forecast import TIME, forecast
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.running.pack import watchdog
from orchestrator.running.schedulers import choice as schedulers
from search_spaces import load_sweep
from tests.orchestrator.tiny_sweeps import SHORT
from trainers.config.member import MemberConfig

REPOSITORY = Path(__file__).resolve().parents[3]
ONE = ("search.configurations=1", "seeds=1")


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.slow
def test_nothing_of_ray_is_imported(lengthwise, tiny, tmp_path):
    code = (
        "import sys; from pathlib import Path; from orchestrator.text.consoles import make_console\n"
        "from orchestrator.sweep.run_and_resume import resume_sweep, run_sweep; from search_spaces import load_sweep\n"
        f"spec = load_sweep(Path({str(tiny)!r}), {[*ONE, 'training.steps=2']!r})\n"
        f"assert run_sweep(spec, Path({str(tmp_path)!r}), make_console()).exit_code == 0\n"
        f"assert resume_sweep(Path({str(tmp_path / 'tiny')!r}), make_console()).exit_code == 0\n"
        "print('of ray:', [name for name in sys.modules if name.split('.')[0] == 'ray'])"
    )
    done = lengthwise.process(program=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "of ray: []"


def test_a_pack_has_the_threads_of_a_worker_and_afterwards_all_is_as_before(stage, in_packs, monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    before, seen = (torch.get_num_threads(), blas_threads(), signal.getsignal(signal.SIGUSR2)), []
    in_packs(lambda pack_id, step: seen.append((torch.get_num_threads(), blas_threads())))
    other = before[0] + 1
    short = (*ONE, "training.steps=6", "evaluation.every=2")
    stage("one", *short).play()
    stage("other", *short, f"resources.cpus={other}").play()
    assert seen == [(1, {1})] * 3 + [(other, {other})] * 3
    assert (torch.get_num_threads(), blas_threads(), signal.getsignal(signal.SIGUSR2)) == before
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    assert not [thread for thread in threading.enumerate() if thread.name == "watchdog"]


def test_a_heartbeat_reaches_the_driver_and_the_display(stage):
    ticks, phases = [], []
    staged = stage("beats", *SHORT, *ONE)
    staged.play(watch=lambda driver: phases.append(next(iter(driver.running.values())).phase), tick=ticks.append)
    assert phases == ["evaluate"] * 3 and len(ticks) >= 6  # a heartbeat and an evaluation, three times


class Clock:
    """What watchdogs take for the time; it stands still, and counts how often a watchdog has looked at it."""

    now, looks = 0.0, 0

    def monotonic(self) -> float:
        self.looks += threading.current_thread().name == "watchdog"
        return self.now

    def let(self, seconds: float) -> None:
        """Let so much time pass, and the watchdog see it."""
        self.now += seconds
        before = self.looks
        while self.looks < before + 2:
            time.sleep(0.001)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watchdog, "time", clock)
    return clock


@pytest.mark.slow
def test_a_pack_that_falls_silent_is_ended_and_given_up_and_the_driver_lives(stage, in_packs, clock):
    """It is tried again as often as resources.retries says: what hung once need not hang again."""
    staged = stage("hanging", *ONE, "resources.retries=2", "resources.watchdog_seconds=7")

    def hang(pack_id: str, step: int) -> None:
        clock.now += 8
        while True:
            time.sleep(0.001)

    in_packs(hang)
    state = staged.play()
    ((pack_id, error),) = state.failed_packs
    assert len(state.packs[pack_id].attempts) == 3
    path = staged.folder / "checkpoints" / f"{pack_id}.attempt-3.stuck.txt"
    assert error == f"watchdog: no heartbeat for 7 s; stack traces in {path}"
    assert "in hang" in path.read_text()
    in_packs(lambda pack_id, step: None)
    assert stage("after", *ONE).play().configurations  # the process can train on


def test_a_breakpoint_may_take_longer_than_the_watchdog_waits(stage, in_packs, clock):
    class Keyboard:
        def readline(self) -> str:
            clock.let(8)
            clock.let(8)
            return "continue\n"

    in_packs(lambda pack_id, step: pdb.Pdb(stdin=Keyboard(), stdout=io.StringIO()).set_trace() if step == 4 else None)
    staged = stage("debugged", *SHORT, *ONE, "resources.watchdog_seconds=7")
    state = staged.play()
    assert [(pack.status, pack.attempts) for pack in state.packs.values()] == [("complete", [])]


def test_a_watchdog_waits_for_several_heartbeats_however_short_it_is(stage, in_packs, clock):
    in_packs(lambda pack_id, step: clock.let(3) if step == 4 else None)
    state = stage("healthy", *SHORT, *ONE, "resources.watchdog_seconds=0.5").play()
    assert [(pack.status, pack.attempts) for pack in state.packs.values()] == [("complete", [])]


@pytest.mark.slow
def test_a_driver_may_take_longer_than_the_watchdog_waits(stage, clock):
    staged = stage("patient", *ONE, "resources.watchdog_seconds=7")
    state = staged.play(during=lambda pack_id, step: clock.let(8))
    assert [pack.status for pack in state.packs.values()] == ["complete"]
    assert not list(staged.folder.rglob("*.stuck.txt"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_inside_torch_leaves_a_resumable_sweep(stage, played, monkeypatch, number):
    """It comes while the loss is differentiated: torch is left as it was, and the rest is what it would have been."""
    whole, staged, steps = played(*SHORT), stage("signalled", *SHORT), Counter()
    task = type(MemberConfig.from_dict({**next(iter(whole.configurations.values())).resolved, "seed": 0}).task)
    original = task.loss

    def loss(self, logits, batch):
        steps["seen"] += 1
        if steps["seen"] == 10:
            assert torch.is_grad_enabled() and logits.requires_grad
            os.kill(os.getpid(), number)
        return original(self, logits, batch)

    monkeypatch.setattr(task, "loss", loss)
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        staged.play(hold_signals=interrupts.hold_signals)
    assert steps["seen"] == 10 and torch.is_grad_enabled()
    assert len([record for record in read_records(staged.folder) if record.kind == "evaluation"]) == 2
    assert read_curves(staged.play()).equals(read_curves(whole))


def test_an_error_of_the_driver_is_not_the_death_of_a_pack(stage):
    staged = stage("broken driver", *ONE)

    def broken(pack_id: str, step: int) -> None:
        raise ValueError("of the driver")

    with pytest.raises(ValueError, match="of the driver"):
        staged.play(during=broken)
    assert not [record for record in read_records(staged.folder) if record.kind in ("attempt", "pack_end")]


def test_resources_that_are_not_here_are_refused_before_anything_is_written(lengthwise, tiny, tmp_path):
    done = lengthwise("run", tiny, "--storage", tmp_path / "new", "--set", "resources.gpus=64")
    assert done.returncode == 2 and not (tmp_path / "new").exists()
    assert "--set resources.gpus=64: resources.gpus: a pack needs more GPUs than this machine has" in done.stderr
    done = lengthwise("validate", tiny, "--set", "resources.gpus=64")
    assert (
        done.returncode == 0
        and "note: `lengthwise run` would refuse this sweep on this machine: --set resources.gpus=64" in done.stdout
    )


def test_a_pack_with_gpus_trains_on_one(stage, monkeypatch):
    from orchestrator.engine import engine
    from trainers.training import loop

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # nobody asks torch, in a process of its own, for their memory
    devices, held, here = [], [], engine.read_environment([], gpus=0)
    monkeypatch.setattr(loop, "train", lambda *_, device, **__: devices.append(device))
    monkeypatch.setattr(engine, "read_environment", lambda code, gpus: here)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(engine, "limit_gpu_memory", held.append)
    for name, gpus in (("with", "0.5"), ("without", "0")):
        stage(name, *ONE, f"resources.gpus={gpus}").play()
    assert devices == ["cuda", "cpu"] and held == [0.5]


def test_the_plan_counts_one_worker(tiny, tmp_path):
    assert "with 1 pack at once" in dict(forecast(load_sweep(tiny), None).rows)[TIME]
    on_ray = forecast(load_sweep(tiny, ["resources.scheduler=ray"]), 2)
    assert "with 2 packs at once" in dict(on_ray.rows)[TIME]
    with pytest.raises(UserError, match="--workers 2"):
        forecast(load_sweep(tiny), 2)


def test_the_scheduler_that_was_asked_for_is_opened(tiny, monkeypatch):
    from contextlib import contextmanager

    from orchestrator.running.with_ray import ray_session
    from orchestrator.running.with_ray import tune as scheduler

    @contextmanager
    def connected(cpus, gpus):
        yield Cluster(workers=7, bytes_per_worker=1.0, description="pretended")

    ran = []
    monkeypatch.setattr(ray_session, "connect_to_ray", connected)
    monkeypatch.setattr(
        scheduler, "run_packs_on_ray", lambda driver, workers, resources: ran.append((workers.count, resources))
    )
    with schedulers.open_scheduler("ray", load_sweep(tiny).resources, None) as opened:
        opened.run(None)
    assert opened.cluster.workers == 7 and ran == [(7, load_sweep(tiny).resources)]
    with schedulers.open_scheduler("inline", load_sweep(tiny).resources, None) as opened:
        assert opened.cluster.workers == 1


def test_run_inline_is_a_whole_sweep(run_inline, tiny):
    folder = run_inline(tiny, *SHORT, *ONE, "resources.scheduler=ray", name="whole")
    assert SweepState.load(folder).end_status == "complete" and (folder / "report.html").is_file()
