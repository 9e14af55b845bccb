"""How many members each pack gets, so that workers end together; pure, and knows no sweep."""

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

WORTHWHILE = 0.1  # packs must end so much sooner for more of them to be made: each starts and compiles by itself
SNAP = 0.1  # how much of a pack may move to its neighbour to keep the seeds of a configuration together

Sizes = dict[str, list[int]]
"""How many members each pack of a structure has."""


def split_evenly(members: int, count: int) -> list[int]:
    """Return the sizes of `count` packs that share the members evenly."""
    cuts = [round(index * members / count) for index in range(count + 1)]
    return [stop - start for start, stop in itertools.pairwise(cuts)]


def balance_sizes(
    sizes: Sizes,
    largest: Mapping[str, int],
    work: Callable[[str, float], float],
    workers: int,
    running_work: Sequence[float] = (),
) -> Sizes:
    """Cut structures so that all workers end about together, if the last pack then ends sooner by WORTHWHILE.

    `running_work` is the remaining work of packs that stay as they are. Workers are filled one after the other up to
    the earliest common end at which everything has a place; a structure too large for the rest of one continues in
    the next (McNaughton 1959, with a cost for every pack).
    """

    def ends(sizes: Sizes) -> float:
        return compute_makespan([work(key, size) for key, run in sizes.items() for size in run], workers, running_work)

    members = {key: sum(run) for key, run in sizes.items()}
    current_end = ends(sizes) if sizes else 0.0
    if sum(work(key, count) for key, count in members.items()) / workers >= (1.0 - WORTHWHILE) * current_end:
        return sizes
    low, high, best = 0.0, current_end, sizes
    for _ in range(20):
        middle = (low + high) / 2
        packs = _fill_room(members, largest, work, [middle - load for load in _remaining_work(running_work, workers)])
        if packs is None:
            low = middle
        else:
            high, best = middle, packs
    return best if ends(best) < (1.0 - WORTHWHILE) * current_end else sizes


def _fill_room(
    members: Mapping[str, int],
    largest: Mapping[str, int],
    work: Callable[[str, float], float],
    rooms: Iterable[float],
) -> Sizes | None:
    """Return packs that fit into the room of the workers; None if there is too little."""
    sizes: Sizes = {key: [] for key in members}
    left_rooms = iter(rooms)
    room: float | None = next(left_rooms)
    for key in sorted(members, key=lambda key: -work(key, members[key])):
        remaining = members[key]
        while remaining:
            if room is None:
                return None
            counts = range(1, min(remaining, largest[key]) + 1)
            if most := bisect_right(counts, room, key=lambda count: work(key, count)):
                sizes[key].append(most)
                room, remaining = room - work(key, most), remaining - most
            else:
                room = next(left_rooms, None)
    return sizes


def compute_makespan(costs: Iterable[float], workers: int, running_work: Iterable[float] = ()) -> float:
    """Return when the last of these packs ends if each free worker gets the costliest remaining one.

    `running_work` is the remaining work of packs that workers are running.
    """
    ends, last = _remaining_work(running_work, workers), 0.0
    heapq.heapify(ends)
    for cost in sorted(costs, reverse=True):
        last = max(last, ends[0] + cost)
        heapq.heapreplace(ends, ends[0] + cost)
    return last


def _remaining_work(running_work: Iterable[float], workers: int) -> list[float]:
    """Return the remaining work of every worker in its running packs, in ascending order."""
    loads = [0.0] * workers
    for remaining in sorted(running_work, reverse=True):
        heapq.heapreplace(loads, loads[0] + remaining)
    return sorted(loads)


def cut_members(members: Sequence[tuple[str, int]], sizes: Sequence[int], largest: int) -> list[list[tuple[str, int]]]:
    """Cut members into runs of about these sizes, none above `largest`.

    A cut moves to the nearest border between two configurations if that shifts at most SNAP of the smaller run beside
    it.
    """
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
