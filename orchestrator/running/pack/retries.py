"""The retry policy of all schedulers."""

from collections import Counter

from orchestrator.running.pack.protocol import Death, Driver


class Retries:
    """Counts the deaths of packs and decides which are tried again.

    A killed pack has `most` retries. After an exception it has only one, because the same exception is likely, and
    none if the exception is certain to be raised again (`Death.again` is False).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._deaths, self._limits = Counter[str](), dict[str, int]()

    def report_death(self, driver: Driver, pack_id: str, death: Death) -> bool:
        """Report a death to the driver, and return whether the pack is to be tried again now.

        It is not if it has died too often, or if smaller packs take its place because memory ran out.
        """
        if death.out_of_memory and driver.ran_out_of_memory(pack_id, death.message):
            return False
        again = self.count(pack_id, death)
        (driver.retried if again else driver.failed)(pack_id, death.message, death.trace)
        return again

    def count(self, pack_id: str, death: Death) -> bool:
        """Count a death of the pack, and return whether it is tried again."""
        # After an exception the limit is the deaths so far: this retry is the last.
        self._deaths[pack_id] += 1
        limit = 0 if not death.again else self._most if death.killed else self._deaths[pack_id]
        self._limits[pack_id] = min(limit, self.limit(pack_id))
        return self._deaths[pack_id] <= self.limit(pack_id)

    def limit(self, pack_id: str) -> int:
        """Return how often the pack may die and be tried again."""
        return self._limits.get(pack_id, self._most)
