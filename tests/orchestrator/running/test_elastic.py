"""Packs that no worker has begun are cut again when workers come or go: a simulated pool around the real driver.

No pack is trained; the ledger is in memory.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.plan.packs import Pack, make_packs, recut_packs
from orchestrator.record.ledger.records import Record, decode, encode
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.with_ray.nodes import ASK_SECONDS
from search_spaces import SweepSpec, load_sweep

SLOW = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
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
        self.append("sweep", **first, provenance={}, schema=2)

    def append(self, kind: str, **fields: Any) -> Record:
        self.lines.append(encode(Record(len(self.lines), 0.0, kind, fields)))
        return decode(self.lines[-1][:-1])

    def replayed(self) -> SweepState:
        return SweepState.replay(self.folder, [decode(line[:-1]) for line in self.lines])


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
        given: dict[str, Any] = {"pack": self._pack, "recut": self._recut, "workers": self._told}
        self.driver = SweepDriver(self.spec, self.ledger, self.state, **given)  # type: ignore[arg-type]

    def _pack(self, waiting: Any) -> list[Pack]:
        self._examples |= {one.member(0).structural_key: one.member(0) for one, _ in waiting}
        return make_packs(waiting, self._told, lambda member: CAPACITY, work)

    def _recut(self, packs: Any, begun: Any, configurations: Any, workers: int) -> list[Pack]:
        return recut_packs(packs, begun, configurations, workers, lambda member: CAPACITY, work)

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
                self.driver.retried(pack_id, "the worker process died")
                self._again.append(pack_id)

    def run(self) -> None:
        """Run the sweep to its end."""
        self.at(ASK_SECONDS, self._look)
        while True:
            self._hand_out()
            if not any(self._workers.values()) and not self._again:
                assert self.driver.all_handed_out()
                return
            self.now, _, event = heapq.heappop(self._events)
            event()

    def _look(self) -> None:
        """What the scheduler does every few seconds: look how many workers there are."""
        if len(self._workers) != self._told:
            self._told = len(self._workers)
            self.driver.resized(self._told)
        self.at(self.now + ASK_SECONDS, self._look)

    def _hand_out(self) -> None:
        for worker in [worker for worker, pack_id in self._workers.items() if pack_id is None]:
            pack = (self._again.pop(), "") if self._again else self.driver.next_pack()
            if pack is None:
                return
            pack_id, _ = pack
            assert pack_id not in self._workers.values() and not self.state.packs[pack_id].has_ended
            self._workers[worker] = pack_id
            self.began.setdefault(pack_id, self.now)
            self.driver.started(pack_id)
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
                driver.record("evaluation", pack_id=pack_id, step=step, **fields, **shown)
                if step < pack.steps:
                    self._continue(worker, pack_id, driver)
                else:
                    driver.completed(pack_id)
                    self.trained[pack_id] += 1
                    self.ended[pack_id], self._workers[worker] = self.now, None

        self.at(self.now + seconds, evaluated)


@pytest.fixture
def spec(tiny: Path) -> Callable[[int], SweepSpec]:
    """spec(100) is a sweep of 8 configurations with 100 seeds, of two structures."""

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
    assert all(one.finished for one in state.configurations.values())


@SLOW
@given(data=st.data())
def test_whoever_joins_leaves_or_dies_every_member_ends_once(data: st.DataObject, spec, tmp_path: Path) -> None:
    chance = random.Random(data.draw(st.integers(0, 2**32), label="chance"))
    seeds = data.draw(st.integers(1, 100), label="seeds")
    pool = Pool(spec(seeds), tmp_path, data.draw(st.integers(1, 30), label="workers"), chance.random)
    for _ in range(data.draw(st.integers(0, 12), label="events")):
        time, number = chance.uniform(0, 1500), chance.choice([1, 5, 50])
        one, some = chance.randrange(40), [chance.randrange(200) for _ in range(number)]
        pool.at(
            time, chance.choice([partial(pool.join, number), partial(pool.lose, one), partial(lose_all, pool, some)])
        )
    for _ in range(data.draw(st.integers(0, 2), label="killed drivers")):
        pool.at(chance.uniform(0, 1000), pool.begin_driver)
    pool.run()
    ended_once(pool, 8 * seeds)


def lose_all(pool: Pool, workers: list[int]) -> None:
    for worker in workers:
        pool.lose(worker)


@SLOW
@given(first=st.integers(1, 30), later=st.integers(1, 1000), time=st.floats(0, 2000), seeds=st.integers(20, 300))
def test_workers_that_join_late_get_their_share(
    first: int, later: int, time: float, seeds: int, spec, tmp_path
) -> None:
    """The sweep ends within 20 % of what nobody could beat, but for one member and one look at the workers."""
    pool = Pool(spec(seeds), tmp_path, first)
    pool.at(time, partial(pool.join, later))
    pool.run()
    ended_once(pool, 8 * seeds)
    total = 4 * seeds * (5 + 10)  # without START, however packs are cut
    end = max(pool.ended.values())
    shared = min(total / first, (total + later * time) / (first + later)) if end > time else total / first
    unsplittable = max(pool.ended[name] for name, began in pool.began.items() if began <= time)
    assert end <= 1.2 * max(shared, unsplittable) + 2 * START + 10 + ASK_SECONDS


def test_packs_are_not_cut_again_where_little_is_gained(spec, tmp_path: Path) -> None:
    pool = Pool(spec(16), tmp_path, 4)
    pool.at(1.0, partial(pool.join, 0))
    pool.run()
    assert not pool.state.recuts
