"""From configurations to packs: members of equal structure, cut so that the workers at hand end together. No files."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.errors import UserError
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.packing.cutting import Sizes, cut, end_together, split_evenly
from orchestrator.plan.packing.shortages import Shortage
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.training.cost import Cost, estimate

# Beyond this a stacked step gains little, and a lost worker costs more. On an H100 a pack of 1,024 members of a small
# model trained 2.9 times as many of them in a second as one of 64 (tests/benchmarks/README.md).
# Smaller packs would reach their first evaluation sooner but take longer in all: on a CPU 12 members of the quickstart
# train a fifth fewer member-steps per second than 24.
LARGEST_PACK_CPU, LARGEST_PACK_GPU = 64, 1024
LEAST_BYTES_GPU = 8 * 2**20  # for each member, however small: temporary memory of draws and evaluations
# The fixed time of a step, as the operations that fit into it: 2 ms on a CPU; on an H100 half a millisecond, in which a
# captured step trains 150 members of a small model (benchmark W1 with 1 to 256 members).
STEP_FLOPS_CPU, STEP_FLOPS_GPU = 1.5e7, 4e8
EVALUATED = 0.1  # cost of an evaluated row over that of a trained one: it has no gradient, and much of it is shared
# Share of a worker's memory for the members of one pack. A step that is captured as a CUDA graph needs as much again,
# and is only captured up to a quarter of the GPU (`cuda_graph.LARGE`).
MEMORY_SHARE = 0.5

Waiting = tuple[Configuration, Sequence[int]]
"""A configuration and the seeds of it that are to be packed."""

Capacity = Callable[[MemberConfig], int]
Work = Callable[[MemberConfig, float], float]
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
class Pack:
    """Members that are trained as one stacked program: (config_id, seed) pairs of one structural key."""

    pack_id: str
    structural_key: str
    members: tuple[tuple[str, int], ...]
    steps: int

    @classmethod
    def from_members(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "Pack":
        """Return a pack named by its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


def cost_of(member: MemberConfig) -> Cost:
    """Return the cost of a member. Raises UserError if its task and model cannot take a step."""
    try:
        return estimate(member)
    except (Exception, SystemExit) as error:
        said = (str(error).strip().splitlines() or [""])[-1]
        own = sorted({type(one).__module__ for one in (member.task, member.model)})
        own = [module for module in own if not module.startswith("trainers.")]
        look = f"; python -m trainers.check {' '.join(own)} may say why" if own else ""
        raise UserError(
            f"task {member.task.name} and model {member.model.name} cannot take a step: {type(error).__name__}: "
            f"{said}{look}"
        ) from error


def equivalent_steps(member: MemberConfig) -> float:
    """Return the training steps plus the cost of evaluations in steps."""
    steps, evaluation = member.training.steps, member.evaluation
    evaluations = math.ceil(steps / evaluation.every) if evaluation.every else 1
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) * evaluations
    return steps + EVALUATED * member.task.passes_with(member.model) * rows / member.training.batch_size


class Packer:
    """Cuts configurations with their seeds into packs for the cluster that a sweep runs on.

    `shortages` are those that the sweep had so far.
    """

    def __init__(self, spec: SweepSpec, cluster: Cluster, shortages: Iterable[Shortage] = ()) -> None:
        self._resources, self._cluster, self._shortages = spec.resources, cluster, list(shortages)
        self._costs: dict[str, Cost] = {}
        self._even = spec.resources.pack == "auto"
        self._per_step, self._largest, self._least = STEP_FLOPS_CPU, LARGEST_PACK_CPU, 1
        if spec.resources.gpus:
            self._per_step, self._largest, self._least = STEP_FLOPS_GPU, LARGEST_PACK_GPU, LEAST_BYTES_GPU

    def __call__(self, waiting: Sequence[Waiting]) -> list[Pack]:
        """Return the packs of new members, the longest first."""
        return make_packs(waiting, self._cluster.workers, self._capacity, self._work, even=self._even)

    def recut(
        self,
        packs: Sequence[Pack],
        begun: Sequence[tuple[Pack, float]],
        configurations: Mapping[str, Configuration],
        room: tuple[int, float | None],
    ) -> list[Pack]:
        """Return what `recut_packs` does; from now on packs are cut for this many workers with this many bytes each."""
        workers, memory = room
        self._cluster = replace(
            self._cluster, workers=workers, bytes_per_worker=memory or self._cluster.bytes_per_worker
        )
        return recut_packs(packs, begun, configurations, workers, self._capacity, self._work, even=self._even)

    def halve(self, pack: Pack) -> Shortage:
        """Return the shortage of a pack that ran out of memory; from now on packs like it are half as large."""
        members, memory = len(pack.members), int(self._cluster.bytes_per_worker)
        self._shortages.append(Shortage(structural_key=pack.structural_key, members=members, bytes=memory))
        return self._shortages[-1]

    def _cost(self, member: MemberConfig) -> Cost:
        if member.structural_key not in self._costs:
            self._costs[member.structural_key] = cost_of(member)
        return self._costs[member.structural_key]

    def _capacity(self, member: MemberConfig) -> int:
        memory = self._cluster.bytes_per_worker
        found = [one.most_members(memory) for one in self._shortages if one.structural_key == member.structural_key]
        if not self._even:
            return min([int(self._resources.pack), *found])
        bytes_per_member = max(self._least, self._cost(member).bytes_per_member)
        return max(1, min([self._largest, int(MEMORY_SHARE * memory / bytes_per_member), *found]))

    def _work(self, member: MemberConfig, count: float) -> float:
        calls = count if member.model.explain_loop(member.task) else 1
        per_member = self._cost(member).flops_per_step * equivalent_steps(member)
        return self._per_step * member.training.steps * calls + per_member * count


def make_packs(
    waiting: Iterable[Waiting], workers: int, capacity: Capacity, work: Work, *, even: bool = True
) -> list[Pack]:
    """Group all members into packs of one structural key, the longest pack first.

    `capacity` is the most members of that structure a pack holds; `work` is the cost of a pack of a given size. With
    `even`, a structure is cut into more packs than its capacity asks for where `workers` end sooner by it.
    """
    groups: Groups = {}
    examples: dict[str, MemberConfig] = {}
    for configuration, seeds in waiting:
        members = [(configuration.config_id, seed) for seed in seeds]
        if configuration.duplicate_of is None and members:
            example = configuration.member(seeds[0])
            examples.setdefault(example.structural_key, example)
            groups.setdefault(example.structural_key, []).extend(members)
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    sizes = {key: split_evenly(len(members), math.ceil(len(members) / largest[key])) for key, members in groups.items()}
    if even:
        sizes = end_together(sizes, largest, lambda key, members: work(examples[key], members), max(1, workers))
    packs = [
        Pack.from_members(key, run, examples[key].training.steps)
        for key, members in groups.items()
        for run in cut(members, sizes[key], largest[key])
    ]
    return _longest_first(packs, examples, work)


def recut_packs(
    packs: Sequence[Pack],
    begun: Sequence[tuple[Pack, float]],
    configurations: Mapping[str, Configuration],
    workers: int,
    capacity: Capacity,
    work: Work,
    *,
    even: bool = True,
) -> list[Pack]:
    """Cut packs anew for this many workers; return them, the longest first.

    A pack is cut if it holds more members than its capacity, and with `even` also if all packs then end sooner
    (`cutting.WORTHWHILE`); if none is cut, the result is empty. `begun` are the packs that stay as they are, each with
    the share of its steps that is left; `configurations` has the configurations of all members, by config_id.
    """
    if not packs:
        return []
    groups: Groups = {}
    sizes: Sizes = {}
    examples: dict[str, MemberConfig] = {}
    for pack in (*packs, *(pack for pack, _ in begun)):
        if pack.structural_key not in examples:
            config_id, seed = pack.members[0]
            examples[pack.structural_key] = configurations[config_id].member(seed)
    for pack in packs:
        groups.setdefault(pack.structural_key, []).extend(pack.members)
        sizes.setdefault(pack.structural_key, []).append(len(pack.members))
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    fitting = {
        key: run if max(run) <= largest[key] else split_evenly(sum(run), math.ceil(sum(run) / largest[key]))
        for key, run in sizes.items()
    }
    left = [share * work(examples[pack.structural_key], len(pack.members)) for pack, share in begun]
    if even:
        fitting = end_together(fitting, largest, lambda key, count: work(examples[key], count), max(1, workers), left)
    changed = {key for key in sizes if sorted(fitting[key]) != sorted(sizes[key])}
    if not changed:
        return []
    kept = [pack for pack in packs if pack.structural_key not in changed]
    for key in changed:
        members = sorted(groups[key], key=lambda member: (configurations[member[0]].number, member[1]))
        steps = next(pack.steps for pack in packs if pack.structural_key == key)
        kept += [Pack.from_members(key, run, steps) for run in cut(members, fitting[key], largest[key])]
    return _longest_first(kept, examples, work)


def _longest_first(packs: Iterable[Pack], examples: Mapping[str, MemberConfig], work: Work) -> list[Pack]:
    """Sort packs by their work; equal ones stay in their order."""
    return sorted(packs, key=lambda pack: -work(examples[pack.structural_key], len(pack.members)))
