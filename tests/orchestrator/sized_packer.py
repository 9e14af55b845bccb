"""A packer of packs of a given size and cost, which asks no trainer."""

from collections.abc import Callable
from typing import Any

from orchestrator.plan.packing.packs import Cluster, Packer


class SizedPacker(Packer):
    """Packs have at most `largest` members, and `work` returns the cost of a pack by member and size."""

    def __init__(
        self, workers: int, largest: int, work: Callable[[Any, float], float] = lambda member, count: count,
        *, is_balanced: bool = True,
    ) -> None:  # fmt: skip
        self._cluster = Cluster(workers=workers, bytes_per_worker=1.0, description="")
        self._largest, self._work, self._should_balance = largest, work, is_balanced

    def find_max_members(self, member: Any) -> int:
        return self._largest

    def estimate_work(self, member: Any, count: float) -> float:
        return self._work(member, count)
