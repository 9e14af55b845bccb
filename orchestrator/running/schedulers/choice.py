"""Which scheduler runs the packs of a sweep. Ray is imported only where `resources.scheduler` asks for it."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from statistics import mean

from orchestrator.plan import search
from orchestrator.plan.packs import Cluster
from orchestrator.running.hosts.host import Host, may_be_local
from orchestrator.running.pack.protocol import Driver
from orchestrator.running.schedulers import inline, local
from orchestrator.wording import duration
from search_spaces import Resources, SweepSpec
from trainers.config.member import MemberConfig
from trainers.training.compiling import rough_seconds


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """What packs run on, and how they are run there: `run(driver)` returns when the driver has none left."""

    cluster: Cluster
    run: Callable[[Driver], None]


EXAMPLES = 50  # members that stand for a sweep
LOCAL_UP_TO_SECONDS = 120.0  # of training by a rough estimate; from there on the start of Ray is hardly felt
_LIMIT = f"{LOCAL_UP_TO_SECONDS / 60:g} min"


def chosen(spec: SweepSpec, examples: Iterable[MemberConfig]) -> tuple[str, str]:
    """Which scheduler runs a sweep whose members are like the first EXAMPLES of `examples`, and why, in words."""
    resources = spec.resources
    if resources.scheduler != "auto":
        return resources.scheduler, "as resources.scheduler says"
    if address := os.environ.get("RAY_ADDRESS"):
        return "ray", f"RAY_ADDRESS is {address}"
    if resources.gpus:
        return "ray", "packs need a GPU"
    workers = local.this_machine(resources.cpus).workers
    seconds = mean(map(rough_seconds, islice(examples, EXAMPLES))) * search.total(spec) * len(spec.seeds) / workers
    if seconds > LOCAL_UP_TO_SECONDS:
        return "ray", f"training is reckoned at {duration(seconds)} by its operations, more than {_LIMIT}"
    return "local", f"training is reckoned at less than {_LIMIT} by its operations"


def refuse_what_cannot_run(resources: Resources) -> None:
    """Raise UserError for resources that are known not to be there, before anything is written or started."""
    if resources.scheduler == "inline":
        inline.refuse_what_is_not_here(resources.cpus, resources.gpus)
    elif resources.scheduler == "local" or may_be_local(resources):
        local.refuse_what_is_not_here(resources.cpus, resources.gpus)


@contextmanager
def opened(name: str, resources: Resources, host: Host | None) -> Iterator[Scheduler]:
    """The scheduler of that name, started, and ended afterwards; `local` has its workers forked by `host`.

    Raises UserError where it cannot be.
    """
    if name == "inline":
        here = inline.this_process(resources.gpus)
        yield Scheduler(cluster=here, run=lambda driver: inline.run_packs(driver, retries=resources.retries))
        return
    if name == "local":
        assert host is not None
        machine, workers_host = local.this_machine(resources.cpus), host
        yield Scheduler(
            cluster=machine,
            run=lambda driver: local.run_packs(
                driver, workers_host, workers=machine.workers, retries=resources.retries
            ),
        )
        return
    from orchestrator.running.with_ray import session as ray_session
    from orchestrator.running.with_ray import tune as scheduler

    with ray_session.connected(resources.cpus, resources.gpus) as cluster:
        slots = min(cluster.workers + 1, 256)

        def run(driver: Driver) -> None:
            scheduler.run_packs(
                driver, cpus=resources.cpus, gpus=resources.gpus, retries=resources.retries, slots=slots
            )

        yield Scheduler(cluster=cluster, run=run)
