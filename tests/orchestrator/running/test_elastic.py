"""Packs that no worker has begun are repacked when workers come or go: a simulated pool around the real driver.

No pack is trained; the ledger is in memory.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.engine.engine import MIN_MEMBER_BYTES_GPU
from orchestrator.interface.work import get_checkpoint_folder
from orchestrator.plan.packing.packs import Cluster, Packer, PlannedPack, WorkerPool
from orchestrator.record.ledger.records import Record, decode_record, encode_record
from orchestrator.record.state.entities import MemberState, PackState
from orchestrator.record.state.race import RungDecision
from orchestrator.record.state.repackings import describe_repackings, prepare_replacement
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.running.driving import driver as driver_module
from orchestrator.running.driving import repacking, running_scores
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.watching.status import make_status_rows
from orchestrator.running.with_ray.nodes import POLL_SECONDS
from search_spaces import SweepSpec, load_sweep
from tests.orchestrator.running.ledgers import keyed
from tests.orchestrator.sized_packer import SizedPacker
from tests.orchestrator.tiny_sweeps import SHORT

SLOW = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
START = 20.0  # of every pack, in seconds
CAPACITY = 64


def work(member: Any, count: float) -> float:
    """Seconds for so many members of a structure as one pack: 5 or 10 s for each."""
    return START + count * member.training.batch_size * 5 / 8


class InMemory:
    """A ledger that keeps its lines, as they would be on disk."""

    def __init__(self, folder: Path, spec: SweepSpec) -> None:
        self.folder, self.lines = folder, list[bytes]()
        first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
        self.append_all("sweep", [{**first, "provenance": {}, "schema": 2}])

    def append_all(self, kind: str, entries: Sequence[Mapping[str, Any]]) -> list[Record]:
        lines = [
            encode_record(Record(seq, 0.0, kind, dict(fields)))
            for seq, fields in enumerate(entries, start=len(self.lines))
        ]
        self.lines += lines
        return [decode_record(line[:-1]) for line in lines]

    def replayed(self) -> SweepState:
        return SweepState.replay(self.folder, [decode_record(line[:-1]) for line in self.lines])


class Pool:
    """Workers that join, leave and die at given times, and the packs that they train, by a clock of its own.

    `delay` is how much longer than by the model of its cost a pack takes.
    """

    def __init__(self, spec: SweepSpec, folder: Path, workers: int, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.spec, self.ledger, self._delay = spec, InMemory(folder, spec), delay
        self.now, self.began, self.ended, self.trained = 0.0, dict[str, float](), dict[str, float](), Counter[str]()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._names = itertools.count(), itertools.count()
        self._workers: dict[int, str | None] = {next(self._names): None for _ in range(workers)}  # the pack of each
        self._told, self._again = workers, list[str]()
        self._examples: dict[str, Any] = {}
        self.begin_driver()

    def begin_driver(self) -> None:
        """Begin a driver from the ledger, after the one before was killed; packs that were running are begun again."""
        self.state = self.ledger.replayed()
        self._again, self._workers = [], dict.fromkeys(self._workers)
        self._told = len(self._workers)
        given: dict[str, Any] = {"packer": self, "workers": self._told}
        self.driver = SweepDriver(self.spec, self.ledger, self.state, **given)

    def pack_members(self, waiting: Any) -> list[PlannedPack]:
        self._examples |= {
            configuration.build_member(0).structural_key: configuration.build_member(0) for configuration, _ in waiting
        }
        return SizedPacker(self._told, CAPACITY, work).pack_members(waiting)

    def repack_waiting(self, packs: Any, begun: Any, configurations: Any, room: WorkerPool) -> list[PlannedPack]:
        return SizedPacker(room.size, CAPACITY, work).repack_waiting(packs, begun, configurations, room)

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (time, next(self._order), event))

    def join(self, count: int) -> None:
        """Let so many workers join."""
        self._workers |= {next(self._names): None for _ in range(count)}

    def lose(self, worker: int) -> None:
        """Let a worker leave or die, if it is there and not the last one; its pack is tried again."""
        if worker in self._workers and len(self._workers) > 1:
            pack_id = self._workers.pop(worker)
            if pack_id is not None:
                self.driver.on_retry(pack_id, "the worker process died")
                self._again.append(pack_id)

    def run(self) -> None:
        """Run the sweep to its end."""
        self.at(POLL_SECONDS, self._look)
        while True:
            self._hand_out()
            if not any(self._workers.values()) and not self._again:
                assert self.driver.has_ended()
                return
            self.now, _, event = heapq.heappop(self._events)
            event()

    def count_busy(self) -> int:
        """Return how many workers have a pack."""
        return len(self._workers) - list(self._workers.values()).count(None)

    def _look(self) -> None:
        """What the scheduler does every few seconds: look how many workers there are."""
        if len(self._workers) != self._told:
            self._told = len(self._workers)
            self.driver.on_resize(self._told)
        self.at(self.now + POLL_SECONDS, self._look)

    def _hand_out(self) -> None:
        idle = [worker for worker, pack_id in self._workers.items() if pack_id is None]
        for worker in idle[: max(0, self._told - self.count_busy())]:  # as many as were there at the last look
            pack = (self._again.pop(), "") if self._again else self.driver.take_next_pack()
            if pack is None:
                return
            pack_id, _ = pack
            assert pack_id not in self._workers.values() and not self.state.packs[pack_id].has_ended
            self._workers[worker] = pack_id
            self.began.setdefault(pack_id, self.now)
            self.driver.on_hand_out(pack_id)
            self._continue(worker, pack_id, self.driver)

    def _continue(self, worker: int, pack_id: str, driver: SweepDriver) -> None:
        """Train a pack up to its next evaluation: there are two, in its middle and at its end."""
        pack = self.state.packs[pack_id]
        seconds = work(self._examples[pack.structural_key], len(pack.members)) * (1 + self._delay()) / 2

        def evaluated() -> None:
            if self.driver is driver and self._workers.get(worker) == pack_id:  # and neither has died
                step = pack.steps if pack.evaluations else pack.steps // 2
                none = [-1] * len(pack.members)
                fields = {"file": "curves/x.parquet", "sha256": "0", "form": None, "compiled": None, "seconds": 1.0}
                shown = {"loss": [0.5] * len(none), "failed_at": none, "final": step == pack.steps}
                driver.record_all("evaluation", [{"pack_id": pack_id, "step": step, **fields, **shown}])
                if step < pack.steps:
                    self._continue(worker, pack_id, driver)
                else:
                    driver.on_complete(pack_id)
                    self.trained[pack_id] += 1
                    self.ended[pack_id], self._workers[worker] = self.now, None

        self.at(self.now + seconds, evaluated)


@pytest.fixture
def spec(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], SweepSpec]:
    """spec(100) is a sweep of 8 configurations with 100 seeds, of two structures; no curves are kept of it."""
    monkeypatch.setattr(running_scores, "read_curves", lambda *arguments, **options: [])
    monkeypatch.setattr(driver_module, "make_pack_work", lambda *arguments: "")

    def build(seeds: int) -> SweepSpec:
        return load_sweep(tiny, [f"seeds={seeds}", "space.training.batch_size={grid: [8, 16]}"])

    return build


def ended_once(pool: Pool, members: int) -> None:
    """Every member has ended, in one pack, once; and the ledger says so too."""
    state = pool.ledger.replayed()
    assert repr(vars(state)) == repr(vars(pool.state))
    assert set(pool.trained.values()) == {1} and pool.trained.keys() == state.packs.keys()
    ended = Counter(member for pack in state.packs.values() if pack.status == "complete" for member in pack.members)
    assert len(ended) == members and set(ended.values()) == {1}
    assert all(configuration.is_scored for configuration in state.configurations.values())


@SLOW
@given(data=st.data())
def test_whoever_joins_leaves_or_dies_every_member_ends_once(data: st.DataObject, spec, tmp_path: Path) -> None:
    chance = random.Random(data.draw(st.integers(0, 2**32), label="chance"))
    seeds = data.draw(st.integers(1, 100), label="seeds")
    pool = Pool(spec(seeds), tmp_path, data.draw(st.integers(1, 30), label="workers"), chance.random)
    for _ in range(data.draw(st.integers(0, 12), label="events")):
        time, number = chance.uniform(0, 1500), chance.choice([1, 5, 50])
        worker, lost = chance.randrange(40), [chance.randrange(200) for _ in range(number)]
        pool.at(
            time, chance.choice([partial(pool.join, number), partial(pool.lose, worker), partial(lose_all, pool, lost)])
        )
    for _ in range(data.draw(st.integers(0, 2), label="killed drivers")):
        pool.at(chance.uniform(0, 1000), pool.begin_driver)
    pool.run()
    ended_once(pool, 8 * seeds)


def lose_all(pool: Pool, workers: list[int]) -> None:
    for worker in workers:
        pool.lose(worker)


@SLOW
@example(first=4, later=40, time=300.0, seeds=300)
@example(first=11, later=8, time=659.0, seeds=231)
@given(first=st.integers(1, 30), later=st.integers(1, 1000), time=st.floats(0, 2000), seeds=st.integers(20, 300))
def test_workers_that_join_late_get_their_share(
    first: int, later: int, time: float, seeds: int, spec, tmp_path
) -> None:
    """The sweep ends within 25 % of what nobody could beat, but for one member and one look at the workers."""
    pool = Pool(spec(seeds), tmp_path, first)
    pool.at(time, partial(pool.join, later))
    pool.run()
    ended_once(pool, 8 * seeds)
    planned = sum(b'"kind":"pack"' in line for line in pool.ledger.lines)
    total = 4 * seeds * (5 + 10) + START * planned  # as packs were cut at first
    shared = total / first if total / first < time else (total + later * time) / (first + later)
    seen = (time // POLL_SECONDS + 1) * POLL_SECONDS  # when the scheduler looks next
    begun = [pool.ended[name] for name, began in pool.began.items() if began < seen]
    assert max(pool.ended.values()) <= 1.25 * max([shared, *begun]) + 2 * START + 10 + POLL_SECONDS


def test_of_many_workers_that_join_most_have_work_at_once(spec, tmp_path: Path) -> None:
    """Not all: 2,144 members that take 5 or 10 s each, in packs that take 20 s more, are not cut for 996 workers."""
    pool, busy = Pool(spec(300), tmp_path, 4), list[int]()
    pool.at(100.5, partial(pool.join, 996))
    pool.at(103.5, lambda: busy.append(pool.count_busy()))
    pool.run()
    ended_once(pool, 2400)
    assert len(pool.state.repackings) == 1 and 700 < busy[0] <= 1000


def test_packs_are_not_repacked_where_little_is_gained(spec, tmp_path: Path) -> None:
    pool = Pool(spec(16), tmp_path, 4)
    pool.at(1.0, partial(pool.join, 0))
    pool.run()
    assert not pool.state.repackings


# With the real engine ---------------------------------------------------------------------------------------------


def play(stage: Any, capacity: Callable[[int], int], workers: int, **more: Any) -> SweepState:
    """Run a sweep to its end; packs are repacked to `capacity(workers)` members."""

    def repack(packs: Any, begun: Any, configurations: Any, room: WorkerPool) -> list[PlannedPack]:
        return SizedPacker(room.size, capacity(room.size)).repack_waiting(packs, begun, configurations, room)

    return stage.play(repack=repack, workers=workers, **more)


def test_a_resumed_sweep_is_repacked_for_the_present_workers(stage, played) -> None:
    whole, staged = played(*SHORT), stage("one", *SHORT)

    def stop(driver: SweepDriver) -> None:
        if any(pack.evaluations for pack in driver.state.packs.values()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(staged, lambda workers: 4, 1, tick=stop)
    before = SweepState.load(staged.folder)
    assert not before.repackings
    begun, saved, *others = sorted(before.packs.values(), key=lambda pack: not pack.evaluations)
    get_checkpoint_folder(staged.folder, saved.pack_id).mkdir(parents=True)  # it may be further than the ledger says
    state = play(staged, lambda workers: 1, 4)
    (repacking,) = state.repackings
    assert sorted(repacking.old_ids) == sorted(pack.pack_id for pack in others) and repacking.workers == 4
    assert {len(state.packs[name].members) for name in repacking.new_ids} == {1}
    assert {begun.pack_id, saved.pack_id} < state.packs.keys()
    assert keyed(state).equals(keyed(whole))
    assert staged.messages[0] == describe_repackings([repacking])[0]
    assert ("packs repacked", staged.messages[0]) in make_status_rows(state)
    assert staged.messages[0] in summarize(state).notes


def test_packs_that_continue_another_sweep_are_not_repacked(stage, monkeypatch) -> None:
    """Packed with members that have no checkpoint they would start from step 0."""
    staged = stage("one", *SHORT)

    def stop(driver: SweepDriver) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(staged, lambda workers: 4, 1, tick=stop)
    continued = next(iter(SweepState.load(staged.folder).packs.values()))
    member = continued.members[0][0]
    monkeypatch.setattr(repacking, "is_continued_member", lambda state, config_id, seed: config_id == member)
    state = play(staged, lambda workers: 1, 4)
    assert continued.pack_id in state.packs and state.repackings


def test_a_pack_that_is_repacked_without_checkpoints_stays_pruned() -> None:
    pack = PackState("p", [("a", 0), ("b", 0)], [MemberState(0, "p"), MemberState(0, "p")], steps=6, structural_key="k")
    rung = RungDecision(
        step=2, since=1, seeds=(0,), survivors=("b",), guarded=(), values={"a": 0.2, "b": 0.1},
        improvements={"a": 0.0, "b": 0.0}, spreads={"a": 0.0, "b": 0.0},
    )  # fmt: skip
    prepare_replacement(pack, None, None, [rung])
    assert pack.pruned_at == {"a": 2} and not pack.replaced_pack_ids


RACE = (
    "search.configurations=8", "seeds=4", "training.steps=40", "evaluation.every=5",
    "space={training.learning_rate: {log_uniform: [0.001, 0.1]}}",
    "search.racing={first: 2, keep: 0.5, steps: {first: 10, growth: 2, keep: 0.5, guard: false}}",
)  # fmt: skip


@pytest.mark.slow
def test_a_race_whose_packs_are_repacked_decides_alike_and_leaves_those_that_wait_at_a_rung(stage) -> None:
    whole, cut = stage("whole", *RACE, pack=8).play(), stage("cut", *RACE, pack=8)
    paused: list[set[str]] = []

    def fewer(driver: SweepDriver) -> None:
        paused.append({name for name, pack in driver.state.packs.items() if pack.evaluations})
        driver.on_resize(max(1, 4 - len(driver.state.repackings)))

    state = play(cut, lambda workers: workers, 8, tick=fewer)
    assert len(state.repackings) > 1 and len(state.packs) > len(whole.packs)
    assert set().union(*paused) <= state.packs.keys()
    assert [(rung.survivors, rung.values) for rung in state.rungs] == [
        (rung.survivors, rung.values) for rung in whole.rungs
    ]
    assert [decision.survivors for decision in state.decisions] == [decision.survivors for decision in whole.decisions]
    assert keyed(state).equals(keyed(whole))
    assert SweepState.load(cut.folder).packs == state.packs


def test_waiting_packs_are_repacked_for_the_memory_of_nodes_that_join(stage, played) -> None:
    alike = (*SHORT, "space.training.batch_size=null", "search.configurations=6")
    whole, staged, on_gpus = played(*alike), stage("one", *alike), stage("g", *alike, "resources.gpus=1")
    small = [2 * MIN_MEMBER_BYTES_GPU * count for count in (6, 3)]

    def smaller(driver: SweepDriver) -> None:
        if any(pack.evaluations for pack in driver.state.packs.values()):
            driver.on_resize(1, small[1])

    packer = Packer(on_gpus.spec, Cluster(workers=1, bytes_per_worker=small[0], description=""))
    state = staged.play(packer=packer, tick=smaller)
    assert sorted(len(pack.members) for pack in state.packs.values()) == [3, 3, 6]
    (repacking,) = state.repackings
    assert (len(repacking.old_ids), len(repacking.new_ids), repacking.workers) == (1, 2, 1)
    assert staged.messages == describe_repackings([repacking])
    assert keyed(state).equals(keyed(whole))
