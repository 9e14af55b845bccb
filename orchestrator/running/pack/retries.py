"""Decide what follows when a pack dies, under all schedulers: it is retried, replaced by smaller packs, or fails.

An exception in a worker (`protocol.make_death`), the end of its process (`local.handle_dead_worker`; on Ray
`tune.make_ray_death`) and the watchdog's kill all arrive here as a `Death`, whose `retry` says whether another attempt
may succeed. The driver records every death; a retried pack continues from its newest checkpoint. If it has failed for
good, its members are failed seeds, and the sweep continues (`SweepDriver.on_failure`). On Ray, Tune restarts the trial:
`Retries.decide_retry` counts, and `TuneEventCallback` replaces the pack or records its end.
"""

from collections import Counter

from orchestrator.running.pack.protocol import Death, Driver


class Retries:
    """Counts the deaths of packs and decides which are retried: at most `max_retries` times (`Death.retry`)."""

    def __init__(self, max_retries: int) -> None:
        self._max_retries = max_retries
        self._deaths = Counter[str]()
        self._limits = dict[str, int]()

    def report_death(self, driver: Driver, pack_id: str, death: Death) -> bool:
        """Report a death to the driver, and return whether the pack is retried now.

        It is not retried if it has died too often, or if smaller packs replace it because memory ran out.
        """
        if death.out_of_memory and driver.replace_by_smaller_packs(pack_id, death.message):
            return False
        is_retried = self.decide_retry(pack_id, death)
        (driver.on_retry if is_retried else driver.on_failure)(pack_id, death.message, death.trace)
        return is_retried

    def decide_retry(self, pack_id: str, death: Death) -> bool:
        """Count a death of the pack, and return whether it is retried."""
        # "once" allows exactly this retry, by a limit equal to the deaths so far.
        self._deaths[pack_id] += 1
        limits = {"never": 0, "once": self._deaths[pack_id], "always": self._max_retries}
        self._limits[pack_id] = min(limits[death.retry], self.get_limit(pack_id))
        return self._deaths[pack_id] <= self.get_limit(pack_id)

    def get_limit(self, pack_id: str) -> int:
        """Return how often the pack may die and be retried."""
        return self._limits.get(pack_id, self._max_retries)
