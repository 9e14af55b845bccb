"""Ray for one sweep: the cluster in RAY_ADDRESS, or a local Ray that ends with the sweep."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.errors import UserError
from orchestrator.machine.processors import (
    ASSUMED_BYTES,
    QUERY_TIMEOUT_SECONDS,
    compute_smallest_share,
    read_gpu_memories,
)
from orchestrator.plan.packing.packs import Cluster
from orchestrator.running.with_ray.start import QUIET, get_local_ray, make_job_config, set_environment


@contextmanager
def connect_to_ray(cpus: float, gpus: float) -> Iterator[Cluster]:
    """Join the cluster in RAY_ADDRESS, or a local Ray without dashboard, and leave it afterwards.

    Uses the local Ray that is already starting, if any. Raises UserError if Ray cannot be reached or started, and if
    neither this machine nor a node of the cluster can hold a pack (`refuse_small_nodes`).
    """
    # Connecting sets environment variables that Ray reads when it is imported.
    address = os.environ.get("RAY_ADDRESS") or None
    leave = _connect(address)
    try:
        import ray

        from orchestrator.running.with_ray.nodes import (
            NodeMemory,
            count_packs,
            describe_amounts,
            make_pack_resources,
            refuse_small_nodes,
        )

        # A cluster that grows on demand may have no node for a pack yet; a local Ray must have room for one.
        pack_resources = make_pack_resources(cpus, gpus)
        resources = ray.cluster_resources()
        available = {"CPU": resources.get("CPU", 0.0), "GPU": resources.get("GPU", 0.0)}
        workers = count_packs(pack_resources)
        if workers == 0 and not address:
            raise UserError(
                f"resources: a pack needs {describe_amounts({'CPU': cpus, 'GPU': gpus})}; "
                f"this machine has {describe_amounts(available)}; lower resources.cpus or resources.gpus"
            )
        ray_name = f"Ray at {address}" if address else "a local Ray"
        refuse_small_nodes(pack_resources, ray_name)

        # Packs are planned for the smallest share, because any pack may run on any node.
        bytes_per_worker = resources.get("memory", 4 * 2**30) / max(1, workers)
        notes = "" if workers else f"; no node has {describe_amounts(pack_resources)} yet, so the sweep waits for one"
        if gpus:
            memory = NodeMemory(pack_resources).read(QUERY_TIMEOUT_SECONDS) if address else read_gpu_memories()
            bytes_per_worker = compute_smallest_share(memory, gpus)
            if not memory:
                notes += f"; no GPU reports its memory, so {ASSUMED_BYTES / 2**30:.0f} GiB are assumed"
        yield Cluster(
            workers=max(1, workers),
            bytes_per_worker=bytes_per_worker,
            description=f"{ray_name} with {describe_amounts(available)}{notes}",
        )
    finally:
        leave()


def _connect(address: str | None) -> Callable[[], None]:
    """Connect this process to Ray; return the function that disconnects it."""
    try:
        if address is None:
            local_ray = get_local_ray()
            local_ray.wait()
            return local_ray.end
        set_environment()
        import ray

        ray.init(address=address, job_config=make_job_config(), **QUIET)
        return ray.shutdown
    except (Exception, SystemExit) as error:  # Ray raises many types, also Exception itself
        reason = str(error).strip() or type(error).__name__
        raise UserError(
            f"RAY_ADDRESS={address}: Ray cannot be reached: {reason}; start its cluster, or unset RAY_ADDRESS"
            if address
            else f"a local Ray cannot be started: {reason}; without Ray: `lengthwise resume DIR --set "
            "resources.scheduler=local`"
        ) from error
