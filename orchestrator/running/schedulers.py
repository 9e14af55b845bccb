"""Which scheduler runs the packs of a sweep. Ray is imported only where `resources.scheduler` asks for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.plan.packs import Cluster
from orchestrator.running import inline, local
from orchestrator.running.host import hosted
from orchestrator.running.protocol import Driver
from search_spaces import Resources


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """What packs run on, and how they are run there: `run(driver)` returns when the driver has none left."""

    cluster: Cluster
    run: Callable[[Driver], None]


def refuse_what_cannot_run(resources: Resources) -> None:
    """Raise UserError for resources that are known not to be there, before anything is written or started."""
    if resources.scheduler == "inline":
        inline.refuse_what_is_not_here(resources.cpus, resources.gpus)
    elif resources.scheduler == "local":
        local.refuse_what_is_not_here(resources.cpus, resources.gpus)


@contextmanager
def opened(resources: Resources) -> Iterator[Scheduler]:
    """The scheduler that was asked for, started, and ended afterwards. Raises UserError where it cannot be."""
    if resources.scheduler == "inline":
        here = inline.this_process()
        yield Scheduler(cluster=here, run=lambda driver: inline.run_packs(driver, retries=resources.retries))
        return
    if resources.scheduler == "local":
        machine = local.this_machine(resources.cpus)
        with hosted() as host:
            yield Scheduler(
                cluster=machine,
                run=lambda driver: local.run_packs(driver, host, workers=machine.workers, retries=resources.retries),
            )
        return
    from orchestrator.running import ray_session, scheduler

    with ray_session.connected(resources.cpus, resources.gpus) as cluster:
        slots = min(cluster.workers + 1, 256)

        def run(driver: Driver) -> None:
            scheduler.run_packs(
                driver, cpus=resources.cpus, gpus=resources.gpus, retries=resources.retries, slots=slots
            )

        yield Scheduler(cluster=cluster, run=run)
