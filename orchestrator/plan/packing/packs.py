"""From configurations to packs: members of equal structure, cut so that the workers at hand end together. No files."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.interface.trainer import Member, PackCost
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.packing.cutting import Sizes, balance_sizes, cut_members, split_evenly
from orchestrator.plan.packing.shortages import Shortage
from orchestrator.trainer import trainer_of
from search_spaces import SweepSpec

# Share of a worker's memory for the members of one pack. A step that is captured as a CUDA graph needs as much again,
# and is only captured up to a quarter of the GPU (`cuda_graph.MAX_MEMORY_SHARE`).
MEMORY_SHARE = 0.5

Waiting = tuple[Configuration, Sequence[int]]
"""A configuration and the seeds of it that are to be packed."""

Capacity = Callable[[Member], int]
Work = Callable[[Member, float], float]
Groups = dict[str, list[tuple[str, int]]]
"""Members by structural key."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers for packs: how many packs run at once, the bytes of memory of each, and a description.

    If packs need GPUs, it is GPU memory.
    """

    workers: int
    bytes_per_worker: float
    description: str


@dataclass(frozen=True, kw_only=True)
class PlannedPack:
    """Members that are trained as one stacked program: (config_id, seed) pairs of one structural key."""

    pack_id: str
    structural_key: str
    members: tuple[tuple[str, int], ...]
    steps: int

    @classmethod
    def from_members(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "PlannedPack":
        """Return a pack named by its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


class Packer:
    """Cuts configurations with their seeds into packs for the cluster that a sweep runs on.

    `shortages` are those that the sweep had so far.
    """

    def __init__(self, spec: SweepSpec, cluster: Cluster, shortages: Iterable[Shortage] = ()) -> None:
        self._resources, self._cluster, self._shortages = spec.resources, cluster, list(shortages)
        self._trainer, self._costs = trainer_of(spec.sections), dict[str, PackCost]()
        self._even = spec.resources.pack == "auto"

    def __call__(self, waiting: Sequence[Waiting]) -> list[PlannedPack]:
        """Return the packs of new members, the longest first."""
        return make_packs(waiting, self._cluster.workers, self._capacity, self._work, even=self._even)

    def recut(
        self,
        packs: Sequence[PlannedPack],
        kept_packs: Sequence[tuple[PlannedPack, float]],
        configurations: Mapping[str, Configuration],
        room: tuple[int, float | None],
    ) -> list[PlannedPack]:
        """Return packs cut again for other workers, as `recut_packs`; later packs are cut for them, too."""
        workers, memory = room
        self._cluster = replace(
            self._cluster, workers=workers, bytes_per_worker=memory or self._cluster.bytes_per_worker
        )
        return recut_packs(packs, kept_packs, configurations, workers, self._capacity, self._work, even=self._even)

    def halve(self, pack: PlannedPack) -> Shortage:
        """Return the shortage of a pack that ran out of memory; from now on packs like it are half as large."""
        members, memory = len(pack.members), int(self._cluster.bytes_per_worker)
        self._shortages.append(Shortage(structural_key=pack.structural_key, members=members, bytes=memory))
        return self._shortages[-1]

    def _cost(self, member: Member) -> PackCost:
        if member.structural_key not in self._costs:
            self._costs[member.structural_key] = self._trainer.estimate_pack_cost(member, self._resources.gpus)
        return self._costs[member.structural_key]

    def _capacity(self, member: Member) -> int:
        memory = self._cluster.bytes_per_worker
        short = [
            shortage.most_members(memory)
            for shortage in self._shortages
            if shortage.structural_key == member.structural_key
        ]
        if not self._even:
            return min([int(self._resources.pack), *short])
        cost = self._cost(member)
        return max(1, min([cost.largest, int(MEMORY_SHARE * memory / cost.bytes_per_member), *short]))

    def _work(self, member: Member, count: float) -> float:
        cost = self._cost(member)
        return cost.per_pack + cost.per_member * count


def make_packs(
    waiting: Iterable[Waiting], workers: int, capacity: Capacity, work: Work, *, even: bool = True
) -> list[PlannedPack]:
    """Group all members into packs of one structural key, the longest pack first.

    `capacity` is the most members of that structure a pack holds; `work` is the cost of a pack of a given size. With
    `even`, a structure is cut into more packs than its capacity asks for where `workers` end sooner by it.
    """
    groups: Groups = {}
    examples: dict[str, Member] = {}
    for configuration, seeds in waiting:
        members = [(configuration.config_id, seed) for seed in seeds]
        if configuration.duplicate_of is None and members:
            example = configuration.member(seeds[0])
            examples.setdefault(example.structural_key, example)
            groups.setdefault(example.structural_key, []).extend(members)
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    sizes = {key: split_evenly(len(members), math.ceil(len(members) / largest[key])) for key, members in groups.items()}
    if even:
        sizes = balance_sizes(sizes, largest, lambda key, members: work(examples[key], members), max(1, workers))
    packs = [
        PlannedPack.from_members(key, run, examples[key].steps)
        for key, members in groups.items()
        for run in cut_members(members, sizes[key], largest[key])
    ]
    return _sort_by_work(packs, examples, work)


def recut_packs(
    packs: Sequence[PlannedPack],
    kept_packs: Sequence[tuple[PlannedPack, float]],
    configurations: Mapping[str, Configuration],
    workers: int,
    capacity: Capacity,
    work: Work,
    *,
    even: bool = True,
) -> list[PlannedPack]:
    """Cut packs anew for this many workers; return them, the longest first.

    A pack is cut if it holds more members than its capacity, and with `even` also if all packs then end sooner
    (`cutting.WORTHWHILE`); if none is cut, the result is empty. `kept_packs` are the packs that stay as they are,
    each with the share of its steps that is left; `configurations` has the configurations of all members, by config_id.
    """
    if not packs:
        return []

    # The members and the sizes of packs of each structure, with one member as an example of its cost.
    groups: Groups = {}
    sizes: Sizes = {}
    examples: dict[str, Member] = {}
    for pack in (*packs, *(pack for pack, _ in kept_packs)):
        if pack.structural_key not in examples:
            config_id, seed = pack.members[0]
            examples[pack.structural_key] = configurations[config_id].member(seed)
    for pack in packs:
        groups.setdefault(pack.structural_key, []).extend(pack.members)
        sizes.setdefault(pack.structural_key, []).append(len(pack.members))

    # No pack may hold more than fits; with `even` they are cut so that all end at about the same time.
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    fitting = {
        key: run if max(run) <= largest[key] else split_evenly(sum(run), math.ceil(sum(run) / largest[key]))
        for key, run in sizes.items()
    }
    work_left = [share * work(examples[pack.structural_key], len(pack.members)) for pack, share in kept_packs]
    if even:
        fitting = balance_sizes(
            fitting, largest, lambda key, count: work(examples[key], count), max(1, workers), work_left
        )
    changed = {key for key in sizes if sorted(fitting[key]) != sorted(sizes[key])}
    if not changed:
        return []

    # Cut the members of changed structures anew, in the order of configurations and seeds.
    result = [pack for pack in packs if pack.structural_key not in changed]
    for key in changed:
        members = sorted(groups[key], key=lambda member: (configurations[member[0]].number, member[1]))
        steps = next(pack.steps for pack in packs if pack.structural_key == key)
        result += [
            PlannedPack.from_members(key, run, steps) for run in cut_members(members, fitting[key], largest[key])
        ]
    return _sort_by_work(result, examples, work)


def _sort_by_work(packs: Iterable[PlannedPack], examples: Mapping[str, Member], work: Work) -> list[PlannedPack]:
    """Sort packs by their work; equal ones stay in their order."""
    return sorted(packs, key=lambda pack: -work(examples[pack.structural_key], len(pack.members)))
