"""From configurations to packs: members of equal structure, cut so that the workers at hand end together. No files."""

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.plan.configurations import Configuration
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.cost import Cost, estimate

LARGEST_PACK = 64  # beyond this a stacked step gains little and a lost worker costs more
WORTHWHILE = 0.1  # the sweep must end so much sooner for more packs to be made: each starts and compiles by itself
SNAP = 0.1  # how much of a pack may move to its neighbour to keep the seeds of a configuration together
STEP_FLOPS_CPU, STEP_FLOPS_GPU = 1.5e7, 1.0e10  # operations in the 2 ms that a step takes however few its members
MEMORY_SHARE = 0.5  # of what a worker has, for the members of one pack

Packing = Callable[[list[Configuration], set[tuple[str, int]]], "list[Pack]"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What packs can be run on: how many fit at once, memory in bytes for each, and a sentence about it."""

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
    def of(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "Pack":
        """A pack named by its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


def cost_of(member: MemberConfig) -> Cost:
    """What a member costs. Raises UserError where its task and model cannot take a step."""
    try:
        return estimate(member)
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[-1]
        own = sorted({type(one).__module__ for one in (member.task, member.model)})
        own = [module for module in own if not module.startswith("trainers.")]
        look = f"; python -m trainers.check {' '.join(own)} may say why" if own else ""
        raise UserError(
            f"task {member.task.name} and model {member.model.name} cannot take a step: {type(error).__name__}: "
            f"{said}{look}"
        ) from error


def packing(spec: SweepSpec, cluster: Cluster) -> Packing:
    """How this sweep cuts configurations into packs on that cluster, leaving out the members it is given as done."""
    costs: dict[str, Cost] = {}
    per_step = STEP_FLOPS_GPU if spec.resources.gpus else STEP_FLOPS_CPU

    def cost(member: MemberConfig) -> Cost:
        if member.structural_key not in costs:
            costs[member.structural_key] = cost_of(member)
        return costs[member.structural_key]

    def capacity(member: MemberConfig) -> int:
        if spec.resources.pack != "auto":
            return int(spec.resources.pack)
        fits = int(MEMORY_SHARE * cluster.bytes_per_worker / max(1, cost(member).bytes_per_member))
        return max(1, min(LARGEST_PACK, fits))

    def pack(configurations: list[Configuration], done: set[tuple[str, int]]) -> list[Pack]:
        return make_packs(
            configurations,
            spec.seeds,
            workers=cluster.workers,
            capacity=capacity,
            work=lambda member, count: (per_step + cost(member).flops_per_step * count) * member.optimization.steps,
            even=spec.resources.pack == "auto",
            done=done,
        )

    return pack


def make_packs(
    configurations: Iterable[Configuration],
    seeds: Sequence[int],
    *,
    workers: int,
    capacity: Callable[[MemberConfig], int],
    work: Callable[[MemberConfig, float], float],
    even: bool = True,
    done: Iterable[tuple[str, int]] = (),
) -> list[Pack]:
    """Group every member that is not in `done` into packs of one structural key, the longest pack first.

    `capacity` is the most members of that structure a pack holds; `work` is what so many of them cost as one pack. With
    `even`, a structure is cut into more packs than its capacity asks for where `workers` end sooner by it.
    """
    finished = set(done)
    groups: dict[str, list[tuple[str, int]]] = {}
    examples: dict[str, MemberConfig] = {}
    for configuration in configurations:
        members = [(configuration.config_id, seed) for seed in seeds if (configuration.config_id, seed) not in finished]
        if configuration.duplicate_of is None and members:
            example = configuration.member(seeds[0])
            examples.setdefault(example.structural_key, example)
            groups.setdefault(example.structural_key, []).extend(members)
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    counts = {key: math.ceil(len(members) / largest[key]) for key, members in groups.items()}
    if even:
        sizes = {key: len(members) for key, members in groups.items()}
        counts = _more_packs(counts, sizes, lambda key, members: work(examples[key], members), max(1, workers))
    packs: list[tuple[float, Pack]] = []
    for key, members in groups.items():
        steps = examples[key].optimization.steps
        for run in cut(members, counts[key], largest[key]):
            packs.append((work(examples[key], len(run)), Pack.of(key, run, steps)))
    packs.sort(key=lambda entry: -entry[0])  # stable: equal packs stay in the order of configuration numbers
    return [pack for _, pack in packs]


def _more_packs(
    counts: dict[str, int], sizes: Mapping[str, int], work: Callable[[str, float], float], workers: int
) -> dict[str, int]:
    """Cut structures into more packs while that ends the whole sweep a good deal sooner on so many workers."""

    def ends(counts: Mapping[str, int]) -> float:
        return makespan([work(key, sizes[key] / count) for key, count in counts.items() for _ in range(count)], workers)

    while counts:
        options = [{**counts, key: counts[key] + more} for key in counts for more in range(1, workers + 1)]
        options = [option for option in options if all(option[key] <= sizes[key] for key in option)]
        best = min(options, key=lambda option: (ends(option), sum(option.values())), default=counts)
        if ends(best) >= (1.0 - WORTHWHILE) * ends(counts):
            break
        counts = best
    return counts


def makespan(costs: Iterable[float], workers: int) -> float:
    """The time at which the last of `workers` ends if the first that is free always gets the costliest pack left."""
    ends = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def cut(members: Sequence[tuple[str, int]], count: int, largest: int) -> list[list[tuple[str, int]]]:
    """Cut into `count` runs of about equal size, none above `largest`. A cut moves to the nearest border between two
    configurations when that shifts no more than a tenth of a run."""
    borders = [index for index in range(1, len(members)) if members[index][0] != members[index - 1][0]]
    size = len(members) / count
    ideal = [round(index * size) for index in range(count + 1)]
    cuts = [0]
    for index in range(1, count):
        near = min(borders, key=lambda border: abs(border - ideal[index]), default=ideal[index])
        fits = 0 < near - cuts[-1] <= largest and ideal[index + 1] - near <= largest
        cuts.append(near if fits and abs(near - ideal[index]) <= SNAP * size else ideal[index])
    cuts.append(len(members))
    return [list(members[start:stop]) for start, stop in itertools.pairwise(cuts)]
