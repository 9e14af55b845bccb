"""Child processes of a sweep's driver, started before the sweep is checked so that they import in parallel."""

from orchestrator.running.children.worker_host import WorkerHost
from orchestrator.tracking.publisher import Publisher


class SweepChildren:
    """The host of workers, if packs may run in local processes, and the publisher, if tracking is enabled."""

    def __init__(self, scheduler: str, *, tracking: bool) -> None:
        self.publisher = Publisher() if tracking else None
        self.workers = WorkerHost() if scheduler in ("local", "auto") else None

    def __enter__(self) -> "SweepChildren":
        return self

    def __exit__(self, *_: object) -> None:
        if self.publisher is not None:
            self.publisher.kill()
        if self.workers is not None:
            self.workers.close()

    def close_unneeded_host(self, scheduler: str) -> None:
        """End the host of workers if `auto` has chosen a scheduler other than local."""
        if scheduler != "local" and self.workers is not None:
            self.workers.close()
            self.workers = None
