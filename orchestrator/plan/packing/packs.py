"""Group the members of configurations into packs of equal structure, so that all workers finish together.

Members with the same structural key (`Member.structural_key`: every value that changes the program) can train as one
program. `Packer` groups members by it, limits each pack to the members that fit (`resources.pack`, or memory by the
trainer's `estimate_pack_cost`), and makes smaller packs where the workers then finish sooner
(`pack_sizes.balance_sizes`). `pack_members` makes the packs of members that have none yet; `repack_waiting` replaces
packs that no worker has begun, when workers come or go, or a pack runs out of memory. Both choose the sizes of packs by
`_choose_sizes`, and split the members of a structure into packs by `_split_into_packs`.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orchestrator.interface.trainer import Member, PackCost
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.packing.pack_sizes import Shortage, Sizes, balance_sizes, split_evenly, split_members
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec

# Share of a worker's memory for the members of a pack. A step that is captured as a CUDA graph needs twice the memory;
# it is only captured up to a quarter of the GPU (`cuda_graph.MAX_MEMORY_SHARE`).
MEMORY_SHARE = 0.5

SeedsToPack = tuple[Configuration, Sequence[int]]
"""A configuration and its seeds to be packed."""

MembersByKey = dict[str, list[tuple[str, int]]]
"""Members by structural key."""

MemberByKey = dict[str, Member]
"""An example member of each structural key: the cost of a pack depends on nothing else of its members."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers for packs: the number of packs that run at once, the memory of each in bytes, and a description.

    The memory is GPU memory if packs need GPUs.
    """

    workers: int
    bytes_per_worker: float
    description: str


class WorkerPool(NamedTuple):
    """The number of workers and the memory of each; the memory is None while it is the same as in the first plan."""

    size: int
    bytes_per_worker: float | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedPack:
    """Members that train as a stacked program: (config_id, seed) pairs with the same structural key."""

    pack_id: str
    structural_key: str
    members: tuple[tuple[str, int], ...]
    steps: int

    @classmethod
    def from_members(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "PlannedPack":
        """Return a pack whose pack_id is a digest of its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


class Packer:
    """Makes packs of members for a cluster, and repacks them; `shortages` has the sweep's shortages so far."""

    def __init__(self, spec: SweepSpec, cluster: Cluster, shortages: Iterable[Shortage] = ()) -> None:
        self._resources = spec.resources
        self._cluster = cluster
        self._shortages = list(shortages)
        self._trainer = get_trainer(spec.sections)
        self._costs = dict[str, PackCost]()
        self._should_balance = spec.resources.pack == "auto"

    def pack_members(self, seeds_to_pack: Iterable[SeedsToPack]) -> list[PlannedPack]:
        """Return packs of members that have none yet, by structural key, the longest pack first."""
        groups: MembersByKey = {}
        member_by_structure: MemberByKey = {}
        for configuration, seeds in seeds_to_pack:
            members = [(configuration.config_id, seed) for seed in seeds]
            if configuration.duplicate_of is None and members:
                example = configuration.build_member(seeds[0])
                member_by_structure.setdefault(example.structural_key, example)
                groups.setdefault(example.structural_key, []).extend(members)

        # Fewer, larger packs compile less often, so start with a single pack of each structure.
        sizes = self._choose_sizes({key: [len(members)] for key, members in groups.items()}, member_by_structure)
        packs = [
            pack
            for key, members in groups.items()
            for pack in self._split_into_packs(members, sizes[key], member_by_structure[key])
        ]
        return self._sort_by_work(packs, member_by_structure)

    def repack_waiting(
        self,
        packs: Sequence[PlannedPack],
        kept_packs: Sequence[tuple[PlannedPack, float]],
        configurations: Mapping[str, Configuration],
        workers: WorkerPool,
    ) -> list[PlannedPack]:
        """Return the packs that replace `packs`, the longest first; empty if no pack changes.

        `kept_packs` are packs that must not change, each with the share of its steps that is left. `configurations` has
        the configurations of all members by config_id. From now on all packs are made for `workers`.
        """
        memory = workers.bytes_per_worker or self._cluster.bytes_per_worker
        self._cluster = replace(self._cluster, workers=workers.size, bytes_per_worker=memory)
        if not packs:
            return []

        groups: MembersByKey = {}
        sizes: Sizes = {}
        member_by_structure: MemberByKey = {}
        for pack in (*packs, *(pack for pack, _ in kept_packs)):
            if pack.structural_key not in member_by_structure:
                config_id, seed = pack.members[0]
                member_by_structure[pack.structural_key] = configurations[config_id].build_member(seed)
        for pack in packs:
            groups.setdefault(pack.structural_key, []).extend(pack.members)
            sizes.setdefault(pack.structural_key, []).append(len(pack.members))

        # Start with the present sizes; workers are busy with the remaining steps of the packs that are kept.
        running_work = [
            share * self.estimate_work(member_by_structure[pack.structural_key], len(pack.members))
            for pack, share in kept_packs
        ]
        new_sizes = self._choose_sizes(sizes, member_by_structure, running_work)
        changed_keys = [key for key in sizes if sorted(new_sizes[key]) != sorted(sizes[key])]
        if not changed_keys:
            return []

        # Seeds of a configuration stay together, as in packs that were never repacked.
        new_packs = [pack for pack in packs if pack.structural_key not in changed_keys]
        for key in changed_keys:
            members = sorted(groups[key], key=lambda member: (configurations[member[0]].number, member[1]))
            new_packs += self._split_into_packs(members, new_sizes[key], member_by_structure[key])
        return self._sort_by_work(new_packs, member_by_structure)

    def record_shortage(self, pack: PlannedPack) -> Shortage:
        """Return the recorded shortage of a pack that ran out of memory; later packs like it are half as large."""
        members, memory = len(pack.members), int(self._cluster.bytes_per_worker)
        self._shortages.append(Shortage(structural_key=pack.structural_key, members=members, bytes=memory))
        return self._shortages[-1]

    def _get_cost(self, member: Member) -> PackCost:
        """Return the cost of packs of a member's structure, estimated once per structure."""
        if member.structural_key not in self._costs:
            self._costs[member.structural_key] = self._trainer.estimate_pack_cost(member, self._resources.gpus)
        return self._costs[member.structural_key]

    def find_max_members(self, member: Member) -> int:
        """Return the maximum size of packs with this structure, by `resources.pack`, memory and earlier shortages."""
        memory = self._cluster.bytes_per_worker
        shortage_limits = [
            shortage.find_max_members(memory)
            for shortage in self._shortages
            if shortage.structural_key == member.structural_key
        ]
        if not self._should_balance:
            return max(1, min([int(self._resources.pack), *shortage_limits]))
        cost = self._get_cost(member)
        return max(1, min([cost.max_members, int(MEMORY_SHARE * memory / cost.bytes_per_member), *shortage_limits]))

    def estimate_work(self, member: Member, count: float) -> float:
        """Return the operations of a pack of `count` members with this structure."""
        cost = self._get_cost(member)
        return cost.per_pack + cost.per_member * count

    def _choose_sizes(
        self, sizes: Sizes, member_by_structure: Mapping[str, Member], running_work: Sequence[float] = ()
    ) -> Sizes:
        """Return the sizes of packs by structural key, beginning with `sizes`.

        A structure with a pack of too many members is split evenly into packs that fit; with `resources.pack: auto`,
        packs become smaller if all then finish sooner (`balance_sizes`). `running_work` is the remaining work of other
        packs.
        """
        max_members = {key: self.find_max_members(member_by_structure[key]) for key in sizes}
        sizes = {
            key: pack_sizes
            if max(pack_sizes) <= max_members[key]
            else split_evenly(sum(pack_sizes), math.ceil(sum(pack_sizes) / max_members[key]))
            for key, pack_sizes in sizes.items()
        }
        if not self._should_balance:
            return sizes
        return balance_sizes(
            sizes,
            max_members,
            lambda key, count: self.estimate_work(member_by_structure[key], count),
            max(1, self._cluster.workers),
            running_work,
        )

    def _split_into_packs(
        self, members: Sequence[tuple[str, int]], sizes: Sequence[int], example: Member
    ) -> list[PlannedPack]:
        """Return packs of about these sizes from the members of a structure; `example` is one of them."""
        return [
            PlannedPack.from_members(example.structural_key, pack_members, example.steps)
            for pack_members in split_members(members, sizes, self.find_max_members(example))
        ]

    def _sort_by_work(
        self, packs: Iterable[PlannedPack], member_by_structure: Mapping[str, Member]
    ) -> list[PlannedPack]:
        """Return packs sorted by descending work; packs with equal work keep their order."""
        return sorted(
            packs, key=lambda pack: -self.estimate_work(member_by_structure[pack.structural_key], len(pack.members))
        )
