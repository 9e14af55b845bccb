"""Choose the number of members of each pack so that it fits and all workers finish together; pure functions."""

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

MIN_GAIN = 0.1  # share of time that more packs must save, because each pack starts and compiles separately
BISECTIONS = 20  # precision 1e-6 of the current end
MAX_SHIFT = 0.1  # share of a pack that may move to its neighbour to keep the seeds of a configuration together
MEMORY_TOLERANCE = 0.1  # share by which the reported memory of the same workers may differ between starts of Ray

Sizes = dict[str, list[int]]
"""The numbers of members of the packs, by structural key."""


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A pack that ran out of memory: its structure, number of members, and the bytes it was planned for."""

    structural_key: str
    members: int
    bytes: int

    def find_max_members(self, bytes_per_worker: float) -> int:
        """Return the maximum size of such packs: half the size of this pack, scaled for workers with other memory."""
        half, ratio = (self.members + 1) // 2, bytes_per_worker / max(1, self.bytes)
        return half if abs(ratio - 1) <= MEMORY_TOLERANCE else max(1, int(half * ratio))


def split_evenly(members: int, count: int) -> list[int]:
    """Return the sizes of `count` packs that share the members evenly."""
    edges = [round(index * members / count) for index in range(count + 1)]
    return [stop - start for start, stop in itertools.pairwise(edges)]


def balance_sizes(
    sizes: Sizes,
    max_members: Mapping[str, int],
    estimate_work: Callable[[str, float], float],
    workers: int,
    running_work: Sequence[float] = (),
) -> Sizes:
    """Return sizes with which all workers finish at about the same time, or `sizes` if that saves less than MIN_GAIN.

    `running_work` is the remaining work of packs that are not changed. Workers are filled in turn up to the earliest
    common end at which all members fit; a structure too large for the rest of a worker continues on the next
    (McNaughton 1959, with a cost for every pack).
    """

    def compute_end(sizes: Sizes) -> float:
        return compute_makespan(
            [estimate_work(key, size) for key, pack_sizes in sizes.items() for size in pack_sizes],
            workers,
            running_work,
        )

    # No split ends earlier than when all workers share the work equally.
    members = {key: sum(pack_sizes) for key, pack_sizes in sizes.items()}
    current_end = compute_end(sizes) if sizes else 0.0
    if sum(estimate_work(key, count) for key, count in members.items()) / workers >= (1.0 - MIN_GAIN) * current_end:
        return sizes

    # Search the earliest common end by bisection.
    low, high, best_sizes = 0.0, current_end, sizes
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        packs = _fill_workers(
            members, max_members, estimate_work, [middle - load for load in _list_worker_loads(running_work, workers)]
        )
        if packs is None:
            low = middle
        else:
            high, best_sizes = middle, packs
    return best_sizes if compute_end(best_sizes) < (1.0 - MIN_GAIN) * current_end else sizes


def _fill_workers(
    members: Mapping[str, int],
    max_members: Mapping[str, int],
    estimate_work: Callable[[str, float], float],
    capacities: Iterable[float],
) -> Sizes | None:
    """Return the sizes of packs that fit into the capacity of the workers; None if the capacity is too small."""
    sizes: Sizes = {key: [] for key in members}
    remaining_capacities = iter(capacities)
    capacity: float | None = next(remaining_capacities)
    for key in sorted(members, key=lambda key: -estimate_work(key, members[key])):
        remaining = members[key]
        while remaining:
            if capacity is None:
                return None
            sizes_to_try = range(1, min(remaining, max_members[key]) + 1)
            if pack_size := bisect_right(sizes_to_try, capacity, key=lambda count: estimate_work(key, count)):
                sizes[key].append(pack_size)
                capacity -= estimate_work(key, pack_size)
                remaining -= pack_size
            else:
                capacity = next(remaining_capacities, None)
    return sizes


def compute_makespan(costs: Iterable[float], workers: int, running_work: Iterable[float] = ()) -> float:
    """Return the end of the last of these packs if each free worker gets the costliest remaining pack.

    `running_work` is the remaining work of packs that workers are running.
    """
    ends, last = _list_worker_loads(running_work, workers), 0.0
    heapq.heapify(ends)
    for cost in sorted(costs, reverse=True):
        last = max(last, ends[0] + cost)
        heapq.heapreplace(ends, ends[0] + cost)
    return last


def _list_worker_loads(running_work: Iterable[float], workers: int) -> list[float]:
    """Return the remaining work of every worker in its running packs, in ascending order."""
    loads = [0.0] * workers
    for remaining in sorted(running_work, reverse=True):
        heapq.heapreplace(loads, loads[0] + remaining)
    return sorted(loads)


def split_members(
    members: Sequence[tuple[str, int]], sizes: Sequence[int], max_members: int
) -> list[list[tuple[str, int]]]:
    """Return members split into runs of about these sizes, none above `max_members`.

    A run ends at the nearest border between two configurations if at most MAX_SHIFT of the smaller neighbouring run is
    moved.
    """
    borders = [index for index in range(1, len(members)) if members[index][0] != members[index - 1][0]]
    ideal_edges = [0, *itertools.accumulate(sizes)]
    edges = [0]
    for index in range(1, len(sizes)):
        border = min(borders, key=lambda position: abs(position - ideal_edges[index]), default=ideal_edges[index])
        fits = 0 < border - edges[-1] <= max_members and 0 < ideal_edges[index + 1] - border <= max_members
        is_near = abs(border - ideal_edges[index]) <= MAX_SHIFT * min(sizes[index - 1 : index + 1])
        edges.append(border if fits and is_near else ideal_edges[index])
    edges.append(len(members))
    return [list(members[start:stop]) for start, stop in itertools.pairwise(edges)]
