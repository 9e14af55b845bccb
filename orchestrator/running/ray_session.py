"""Ray for one sweep: the cluster it was told to join, or a local one that ends with it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import UserError
from orchestrator.plan.packs import Cluster

OBJECT_STORE_BYTES = 256 * 2**20  # an evaluation of a pack is well under a megabyte


@contextmanager
def connected(cpus: float, gpus: float) -> Iterator[Cluster]:
    """Join the cluster in RAY_ADDRESS, or start a local Ray without dashboard, and leave it afterwards.

    Raises UserError when no cluster answers there, or when no machine of a local Ray could hold a single pack.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
    import ray

    address = os.environ.get("RAY_ADDRESS")
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"RAY_ADDRESS={address}" if address else "a local Ray"
        raise UserError(f"{where}: cannot be reached or started: {error}") from error
    try:
        resources = ray.cluster_resources()
        have = {"CPU": resources.get("CPU", 0.0), "GPU": resources.get("GPU", 0.0)}
        need = {"CPU": cpus, "GPU": gpus}
        fit = [int(have[name] / amount + 1e-9) for name, amount in need.items() if amount > 0]
        workers = min(fit, default=1)
        if workers == 0 and not address:
            raise UserError(
                f"resources: a pack needs {cpus:g} CPUs and {gpus:g} GPUs; "
                f"this machine has {have['CPU']:g} and {have['GPU']:g}"
            )
        share = resources.get("memory", 4 * 2**30) / max(1, workers)
        where = f"Ray at {address}" if address else "a local Ray"
        yield Cluster(
            workers=max(1, workers),
            bytes_per_worker=share,
            description=f"{where} with {have['CPU']:g} CPUs and {have['GPU']:g} GPUs",
        )
    finally:
        ray.shutdown()
