"""The nodes of a Ray cluster: how many packs they can run at once, and a request for more of them."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group

from orchestrator.errors import UserError

ASK_SECONDS = 2.0  # between two looks at the nodes


def needs(cpus: float, gpus: float) -> dict[str, float]:
    """Return what a pack needs of a node, without what it does not need."""
    return {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount > 0}


def count_packs(need: Mapping[str, float]) -> int:
    """Return how many packs the living nodes can run at once, each within one node."""
    return sum(
        min((int(node.get(name, 0.0) / amount + 1e-9) for name, amount in need.items()), default=1)
        for node in _living()
    )


def refuse_small_nodes(need: Mapping[str, float], where: str) -> None:
    """Raise UserError where nodes offer what a pack needs, but none of them enough.

    A cluster without any such node may still start one: GPU nodes, or all but the head, may be started on demand.
    """
    offering = [node for node in _living() if all(node.get(name, 0.0) > 0 for name in need)]
    if offering and not count_packs(need):
        most = max(offering, key=lambda node: min(node[name] / amount for name, amount in need.items()))
        raise UserError(
            f"resources: a pack needs {_amounts(need)} on one node; the largest node of {where}, "
            f"{most['address']}, has {_amounts({name: most[name] for name in need})}; "
            "lower resources.cpus or resources.gpus, or add a larger node"
        )


def _amounts(amounts: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}s" for name, amount in amounts.items())


def _living() -> list[dict[str, Any]]:
    """Return the resources of every living node, and its `address`."""
    return [{**node["Resources"], "address": node["NodeManagerAddress"]} for node in ray.nodes() if node["Alive"]]


class Workers:
    """How many packs the nodes can run at once, at most `most` and at least 1, looked at every ASK_SECONDS.

    `count` is how many it was at first. With `may_grow` an autoscaler is asked for more workers while packs wait, for
    one more than there are at most: it sees placement groups that wait for a node. They hold no pack, and end with the
    driver.
    """

    def __init__(
        self,
        need: Mapping[str, float],
        count: int,
        *,
        most: int | None,
        may_grow: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = count
        self._need, self._most = need, sys.maxsize if most is None else most
        self._may_grow, self._clock = may_grow, clock
        self._requests: list[PlacementGroup] = []
        self._asked = clock()

    def has_changed(self, waiting: int) -> bool:
        """Look at the nodes if it is time to, ask for more where packs wait, and return whether `count` has changed."""
        if self._clock() - self._asked < ASK_SECONDS:
            return False
        before, self.count = self.count, min(max(1, count_packs(self._need)), self._most)
        wanted = min(waiting, self.count + 1, self._most - self.count)
        self._request(wanted if self._may_grow and before == self.count else 0)
        self._asked = self._clock()
        return before != self.count

    def _request(self, wanted: int) -> None:
        """Have so many placement groups wait; one that has found its place leaves it to a pack."""
        states = placement_group_table() if self._requests else {}
        found = [one for one in self._requests if states[one.id.hex()]["state"] != "PENDING"]
        for one in (*found, *(one for one in self._requests[max(0, wanted) :] if one not in found)):
            remove_placement_group(one)
            self._requests.remove(one)
        for _ in range(0 if found else wanted - len(self._requests)):
            self._requests.append(placement_group([dict(self._need)]))
