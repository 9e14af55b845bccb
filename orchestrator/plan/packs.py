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
from trainers.training.cost import Cost, estimate

# Beyond this a stacked step gains little, and a lost worker costs more. On an H100 a pack of 1,024 members of a small
# model trained 2.9 times as many of them in a second as one of 64 (tests/benchmarks/README.md).
# Smaller packs would reach their first evaluation sooner but take longer in all: on a CPU 12 members of the quickstart
# train a fifth fewer member-steps per second than 24.
LARGEST_PACK_CPU, LARGEST_PACK_GPU = 64, 1024
LEAST_BYTES_GPU = 8 * 2**20  # for each member, however small: what draws and evaluations take on the way
WORTHWHILE = 0.1  # the sweep must end so much sooner for more packs to be made: each starts and compiles by itself
SNAP = 0.1  # how much of a pack may move to its neighbour to keep the seeds of a configuration together
# Operations in the time that a step takes however few its members: 2 ms on a CPU, and on an H100 half a millisecond in
# which 150 members of a small model are trained, too (1 to 256 members of the benchmark W1, recorded).
STEP_FLOPS_CPU, STEP_FLOPS_GPU = 1.5e7, 4e8
EVALUATED = 0.1  # what a row of an evaluation costs of one that is trained on: no gradient, and much of it is shared
MEMORY_SHARE = 0.5  # of what a worker has, for the members of one pack

Waiting = tuple[Configuration, Sequence[int]]
"""A configuration and the seeds of it that are to be packed."""

Packing = Callable[[Sequence[Waiting]], "list[Pack]"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What packs can be run on: how many fit at once, memory in bytes for each, and a sentence about it.

    Where packs need GPUs it is the memory of these.
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
    def of(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "Pack":
        """A pack named by its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


def cost_of(member: MemberConfig) -> Cost:
    """What a member costs. Raises UserError where its task and model cannot take a step."""
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


def steps_worth(member: MemberConfig) -> float:
    """Its steps, and as many as its evaluations cost."""
    steps, evaluation = member.training.steps, member.evaluation
    evaluations = math.ceil(steps / evaluation.every) if evaluation.every else 1
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) * evaluations
    return steps + EVALUATED * member.task.passes_with(member.model) * rows / member.training.batch_size


def packing(spec: SweepSpec, cluster: Cluster) -> Packing:
    """How this sweep cuts configurations with their seeds into packs on that cluster."""
    costs: dict[str, Cost] = {}
    per_step, largest, least = STEP_FLOPS_CPU, LARGEST_PACK_CPU, 1
    if spec.resources.gpus:
        per_step, largest, least = STEP_FLOPS_GPU, LARGEST_PACK_GPU, LEAST_BYTES_GPU

    def cost(member: MemberConfig) -> Cost:
        if member.structural_key not in costs:
            costs[member.structural_key] = cost_of(member)
        return costs[member.structural_key]

    def capacity(member: MemberConfig) -> int:
        if spec.resources.pack != "auto":
            return int(spec.resources.pack)
        fits = int(MEMORY_SHARE * cluster.bytes_per_worker / max(least, cost(member).bytes_per_member))
        return max(1, min(largest, fits))

    def work(member: MemberConfig, count: float) -> float:
        calls = count if member.model.explain_loop(member.task) else 1
        return per_step * member.training.steps * calls + cost(member).flops_per_step * count * steps_worth(member)

    def pack(waiting: Sequence[Waiting]) -> list[Pack]:
        return make_packs(
            waiting,
            workers=cluster.workers,
            capacity=capacity,
            work=work,
            even=spec.resources.pack == "auto",
        )

    return pack


def make_packs(
    waiting: Iterable[Waiting],
    *,
    workers: int,
    capacity: Callable[[MemberConfig], int],
    work: Callable[[MemberConfig, float], float],
    even: bool = True,
) -> list[Pack]:
    """Group all members into packs of one structural key, the longest pack first.

    `capacity` is the most members of that structure a pack holds; `work` is what so many of them cost as one pack. With
    `even`, a structure is cut into more packs than its capacity asks for where `workers` end sooner by it.
    """
    groups: dict[str, list[tuple[str, int]]] = {}
    examples: dict[str, MemberConfig] = {}
    for configuration, seeds in waiting:
        members = [(configuration.config_id, seed) for seed in seeds]
        if configuration.duplicate_of is None and members:
            example = configuration.member(seeds[0])
            examples.setdefault(example.structural_key, example)
            groups.setdefault(example.structural_key, []).extend(members)
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    sizes = {key: shared(len(members), math.ceil(len(members) / largest[key])) for key, members in groups.items()}
    if even:
        sizes = _ending_together(sizes, largest, lambda key, members: work(examples[key], members), max(1, workers))
    packs: list[tuple[float, Pack]] = []
    for key, members in groups.items():
        steps = examples[key].training.steps
        for run in cut(members, sizes[key], largest[key]):
            packs.append((work(examples[key], len(run)), Pack.of(key, run, steps)))
    packs.sort(key=lambda entry: -entry[0])  # stable: equal packs stay in the order of configuration numbers
    return [pack for _, pack in packs]


Sizes = dict[str, list[int]]
"""How many members each pack of a structure has."""


def shared(members: int, count: int) -> list[int]:
    """So many members in `count` packs of about equal size."""
    cuts = [round(index * members / count) for index in range(count + 1)]
    return [stop - start for start, stop in itertools.pairwise(cuts)]


def _ending_together(
    sizes: Sizes, largest: Mapping[str, int], work: Callable[[str, float], float], workers: int
) -> Sizes:
    """Cut structures so that all workers end about together, where that ends the sweep a good deal sooner.

    Workers are filled one after the other up to the earliest common end at which everything has a place; a structure
    that does not fit into the rest of one continues in the next (McNaughton 1959, with a cost for every pack).
    """

    def ends(sizes: Sizes) -> float:
        return makespan([work(key, size) for key, run in sizes.items() for size in run], workers)

    now = ends(sizes) if sizes else 0.0
    low, high, best = 0.0, now, sizes
    for _ in range(20):
        middle = (low + high) / 2
        found = _filled({key: sum(run) for key, run in sizes.items()}, largest, work, workers, middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best if ends(best) < (1.0 - WORTHWHILE) * now else sizes


def _filled(
    members: Mapping[str, int],
    largest: Mapping[str, int],
    work: Callable[[str, float], float],
    workers: int,
    end: float,
) -> Sizes | None:
    """Packs with which every worker ends by `end`; None where there is not enough room."""
    sizes: Sizes = {key: [] for key in members}
    room, free = end, workers - 1
    for key in sorted(members, key=lambda key: -work(key, members[key])):
        left = members[key]
        while left:
            most = min(left, largest[key])
            while most and work(key, most) > room:
                most -= 1
            if most:
                sizes[key].append(most)
                room, left = room - work(key, most), left - most
            elif free:
                room, free = end, free - 1
            else:
                return None
    return sizes


def makespan(costs: Iterable[float], workers: int) -> float:
    """The time at which the last of `workers` ends if the first that is free always gets the costliest pack left."""
    ends = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def cut(members: Sequence[tuple[str, int]], sizes: Sequence[int], largest: int) -> list[list[tuple[str, int]]]:
    """Cut into runs of about these sizes, none above `largest`. A cut moves to the nearest border between two
    configurations when that shifts no more than a tenth of the runs at its sides."""
    borders = [index for index in range(1, len(members)) if members[index][0] != members[index - 1][0]]
    ideal = [0, *itertools.accumulate(sizes)]
    cuts = [0]
    for index in range(1, len(sizes)):
        near = min(borders, key=lambda border: abs(border - ideal[index]), default=ideal[index])
        fits = 0 < near - cuts[-1] <= largest and 0 < ideal[index + 1] - near <= largest
        moves = abs(near - ideal[index]) <= SNAP * min(sizes[index - 1 : index + 1])
        cuts.append(near if fits and moves else ideal[index])
    cuts.append(len(members))
    return [list(members[start:stop]) for start, stop in itertools.pairwise(cuts)]
