"""A pack that runs out of memory is halved, and what fitted is remembered: an allocator that runs out."""

from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from orchestrator.engine.environment import read_environment
from orchestrator.plan.packing.pack_sizes import Shortage
from orchestrator.plan.packing.packs import Cluster, Packer
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.repackings import describe_repacking, describe_repackings
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.pack.retries import Death, Retries
from orchestrator.running.schedulers import inline, local, local_worker
from orchestrator.running.with_ray.tune import TuneEventCallback
from search_spaces import Resources
from tests.orchestrator.running.ledgers import keyed, sets

SHORT = ("training.steps=20", "evaluation.every=10", "evaluation.samples=4")
ALIKE = ("space.training.batch_size=null", "search.configurations=6", *SHORT)  # 12 members of one structure
MEMORY = 2.0**34


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """room(4) lets packs of more than 4 members run out of memory; the list gets the size of every pack that tried."""
    original, tried, most = inline.train_pack, list[int](), [0]

    def train_pack(work: Any, reporter: Any) -> None:
        def report_environment(environment: dict[str, Any]) -> None:
            reporter.report_environment(environment)
            tried.append(len(work.member_ids))
            if len(work.member_ids) > most[0]:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

        before = SimpleNamespace(report=reporter.report, progress=reporter.progress, notice=reporter.notice)
        original(work, SimpleNamespace(**vars(before), report_environment=report_environment))

    def limit_packs(members: int) -> list[int]:
        most[0] = members
        tried.clear()
        return tried

    monkeypatch.setattr(inline, "train_pack", train_pack)
    return limit_packs


def play(stage: Any, memory: float = MEMORY, **more: Any) -> SweepState:
    """Run a sweep to its end in this process, with packs cut for a worker of so much memory."""
    cluster = Cluster(workers=1, bytes_per_worker=memory, description="pretended")
    repackings = SweepState.load(stage.folder).repackings
    packer = Packer(stage.spec, cluster, [repacking.shortage for repacking in repackings if repacking.shortage])
    return stage.play(packer=packer, **more)


@pytest.mark.slow
def test_a_pack_is_halved_until_it_fits_and_the_curves_stay_the_same(stage, played, room) -> None:
    room(12)
    whole = played(*ALIKE)
    halved, tried = stage("halved", *ALIKE, "resources.pack=auto"), room(4)
    state = play(halved)
    assert tried == [12, 6, 3, 3, 3, 3] and not state.failed_packs
    assert all(configuration.is_scored for configuration in state.configurations.values())
    assert keyed(state).equals(keyed(whole))
    first, second = state.repackings
    assert (len(first.old_ids), len(first.new_ids), len(second.old_ids), len(second.new_ids)) == (1, 2, 2, 4)
    assert (first.shortage.members, second.shortage.members, {first.device, second.device}) == (12, 6, {"cpu"})
    assert halved.messages == [describe_repacking(first), describe_repacking(second)]
    assert set(describe_repackings(state.repackings)) <= set(summarize(state).notes)
    assert SweepState.load(halved.folder).repackings == state.repackings
    assert not [record for record in read_records(halved.folder) if record.kind == "attempt"]


def test_what_fitted_is_remembered_for_later_packs_and_when_the_sweep_is_resumed(stage, room) -> None:
    staged = stage("one", *ALIKE, "search.configurations=4", "search.sampler=tpe", "search.startup=2")

    def stop(driver: SweepDriver) -> None:
        if any(pack.status == "complete" for pack in driver.state.packs.values()):
            raise KeyboardInterrupt

    tried = room(2)
    with pytest.raises(KeyboardInterrupt):
        play(staged, tick=stop)
    assert tried[0] > 2 and tried.count(2) and not any(size > 2 for size in tried[tried.index(2) :])
    tried = room(2)
    state = play(staged)
    assert set(tried) == {2} and len(state.draws) == 4
    assert all(configuration.is_scored for configuration in state.configurations.values())


@pytest.mark.slow
def test_a_sweep_that_is_extended_begins_with_packs_that_fit(lengthwise, tiny, tmp_path, room) -> None:
    words = sets("search.configurations=1", *SHORT)
    tried = room(1)
    done = lengthwise("run", tiny, "--storage", tmp_path, *words)
    assert done.returncode == 0 and tried == [2, 1, 1], done.stdout
    (sentence,) = describe_repackings(SweepState.load(tmp_path / "tiny").repackings)
    assert sentence in done.stdout and sentence in lengthwise("status", tmp_path / "tiny").stdout
    tried = room(1)
    done = lengthwise("extend", tmp_path / "tiny", "--seeds", "5")
    assert done.returncode == 0 and tried == [1, 1, 1], done.stdout


@pytest.mark.slow
def test_a_single_member_is_only_retried(stage, room) -> None:
    single, tried = stage("single", "search.configurations=1", "seeds=1"), room(0)
    state = play(single)
    assert tried == [1, 1] and len(state.failed_packs) == 1 and not state.repackings


def test_the_most_members_follow_the_memory_of_a_worker() -> None:
    short = Shortage(structural_key="k", members=25, bytes=1000)
    assert [short.find_max_members(memory) for memory in (1000, 950, 1090, 2000, 500, 10)] == [13, 13, 13, 26, 6, 1]


def test_a_pack_that_died_before_may_be_halved(stage, room) -> None:
    staged = stage("one", *ALIKE)
    room(12)
    with Ledger.open(staged.folder) as ledger:
        state = SweepState.load(staged.folder)
        packer = Packer(staged.spec, Cluster(workers=1, bytes_per_worker=MEMORY, description=""))
        driver = SweepDriver(staged.spec, ledger, state, packer=packer)
        pack_id, _ = driver.take_next_pack() or ("", "")
        driver.on_hand_out(pack_id)
        assert not driver.repack_after_shortage(pack_id, "no room")  # before the worker has said where it runs
        driver.on_environment(pack_id, {**read_environment([], gpus=0), "device": "NVIDIA H100"})
        driver.on_retry(pack_id, "the worker process died")
        assert driver.repack_after_shortage(pack_id, "no room")
        assert len(driver.queue) == 2 and pack_id not in state.packs and not driver.running
        assert state.repackings[-1].device == "NVIDIA H100" and state.repackings[-1].out_of_memory_id == pack_id
    assert SweepState.load(staged.folder).packs == state.packs


def test_a_local_worker_that_ran_out_of_memory_gets_the_next_pack() -> None:
    asked = list[tuple[str, str]]()

    def repack_after_shortage(pack_id: str, error: str) -> bool:
        asked.append((pack_id, error))
        return True

    death = asdict(Death(message="MemoryError", out_of_memory=True))
    connection = SimpleNamespace(recv_bytes=lambda: local_worker.encode_message("death", death))
    scheduler = local.LocalScheduler(Resources(retries=2), None)  # type: ignore[arg-type]
    scheduler.driver = SimpleNamespace(repack_after_shortage=repack_after_shortage)  # type: ignore[assignment]
    worker = local._Worker(connection, pack_id="large", work="")  # type: ignore[arg-type]
    scheduler.handle_message(worker)
    assert asked == [("large", "MemoryError")] and worker.pack_id is None and not scheduler.retry_queue


def test_under_ray_the_worker_ends_and_tune_does_not_try_again() -> None:
    calls = list[tuple[str, str]]()

    class Driver:
        def repack_after_shortage(self, pack_id: str, error: str) -> bool:
            calls.append((pack_id, error))
            return pack_id == "large"

        def on_failure(self, pack_id: str, error: str, trace: str | None) -> None:
            calls.append((pack_id, "failed"))

    def trial(name: str) -> Any:
        return SimpleNamespace(config={"pack_id": name}, max_failures=2, pickled_error_file=None)

    recorder = TuneEventCallback(Driver(), None, Retries(2))  # type: ignore[arg-type]
    large, single = trial("large"), trial("single")
    for tune_trial in (large, single):
        death = {"message": "no room", "trace": None, "retry": "once", "out_of_memory": True}
        recorder.on_trial_result(0, [], tune_trial, {"messages": [], "death": death})
        recorder.on_trial_error(0, [], tune_trial)
    assert (large.max_failures, single.max_failures) == (0, 2)
    assert calls == [("large", "no room"), ("single", "no room"), ("single", "failed")]
