"""Choose and start the scheduler of a sweep. Ray is imported only if it is chosen."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import mean

from orchestrator.errors import UserError
from orchestrator.interface.trainer import Member
from orchestrator.machine.processors import count_cores, read_gpu_memories
from orchestrator.plan import optuna_draws
from orchestrator.plan.rounds import plan_rounds
from orchestrator.running.pack.protocol import Scheduler
from orchestrator.running.schedulers.inline import InlineScheduler
from orchestrator.running.schedulers.local import LocalScheduler, StartWorker, make_local_cluster
from orchestrator.text.wording import format_count
from orchestrator.trainer_choice import get_trainer
from search_spaces import Resources, SweepSpec
from search_spaces.grammar.problems import Findings

SAMPLED_MEMBERS = 50  # members whose estimated time is averaged
LOCAL_UP_TO_SECONDS = 120.0  # of estimated training; beyond that the start of Ray matters little


def choose_scheduler(spec: SweepSpec, members: Iterable[Member]) -> tuple[str, str]:
    """Return the name of the scheduler and the reason; time is estimated from the first of `members`."""
    # A choice of the user or the environment, and packs that only one scheduler can run.
    resources, trainer = spec.resources, get_trainer(spec.sections)
    if resources.scheduler != "auto":
        return resources.scheduler, "as resources.scheduler says"
    if address := os.environ.get("RAY_ADDRESS"):
        return "ray", f"RAY_ADDRESS is {address}"
    if trainer.is_local:
        return "local", "a program needs no Ray on one machine"
    if resources.gpus:
        return "ray", "packs need a GPU"

    # Otherwise the training time decides, because Ray takes seconds to start. It is estimated by operations, so the
    # reason names no time; `plan` measures a step and shows the time.
    workers = make_local_cluster(resources.cpus, max_workers=resources.workers).workers
    member_count = sum(
        round_.member_count * round_.share for round_ in plan_rounds(spec, optuna_draws.count_configurations(spec))
    )
    seconds = mean(map(trainer.estimate_seconds, islice(members, SAMPLED_MEMBERS))) * member_count / workers
    if seconds > LOCAL_UP_TO_SECONDS:
        return "ray", "the sweep is long enough that starting Ray matters little"
    return "local", "a short sweep starts faster without Ray"


def refuse_workers(scheduler: str, workers: int | None) -> None:
    """Raise UserError if --workers asks for packs side by side in one process."""
    if scheduler == "inline" and workers not in (None, 1):
        raise UserError(f"--workers {workers}: resources.scheduler: inline runs one pack at a time; allowed: 1")


def find_missing_resources(spec: SweepSpec) -> Findings:
    """Return problems of resources that this machine lacks for a pack; none if a cluster runs it."""
    findings, resources = spec.copy_findings(), spec.resources
    if resources.scheduler in ("auto", "ray") and os.environ.get("RAY_ADDRESS"):
        return findings

    # Packs of the engine get GPUs only from Ray or inline; then compare the needs of a pack with this machine.
    if resources.scheduler == "local" and resources.gpus and not get_trainer(spec.sections).is_local:
        allowed = "0, or resources.scheduler: ray or inline"
        findings.add("resources.gpus", "local cannot share GPUs between packs", given=resources.gpus, allowed=allowed)
    for name, available in count_scarce_resources(resources.cpus, resources.gpus).items():
        allowed = f"at most {available}; on a Ray cluster (RAY_ADDRESS) as many as one of its nodes has"
        key = f"{name.lower()}s"
        message = f"a pack needs more {name}s than this machine has"
        given = getattr(resources, key)
        findings.add(f"resources.{key}", message, given=given, allowed=allowed)
    return findings


def count_scarce_resources(cpus: int, gpus: float) -> dict[str, int]:
    """Return the available number of each resource that this machine has too few of: {"GPU": 1}."""
    available = {"CPU": count_cores(), "GPU": len(read_gpu_memories()) if gpus else 0}
    return {name: available[name] for name, needed in (("CPU", cpus), ("GPU", gpus)) if needed > available[name]}


def describe_hidden_gpus(spec: SweepSpec, scheduler: str) -> str:
    """Return a note that resources.gpus: 0 hides the GPUs of this machine from the program; "" if it hides none."""
    is_inline_function = scheduler == "inline" and "function" in spec.program
    if not spec.program or spec.resources.gpus or scheduler == "ray" or is_inline_function:
        return ""

    # Without nvidia-smi the memory would be read by torch, whose import takes seconds.
    count = len(read_gpu_memories()) if shutil.which("nvidia-smi") else 0
    note = f"this machine has {format_count(count, 'GPU')}, hidden from the program because resources.gpus is 0"
    return f"{note}; to use GPUs set resources.gpus: 1" if count else ""


@contextmanager
def open_scheduler(name: str, resources: Resources, start_worker: StartWorker | None) -> Iterator[Scheduler]:
    """Start the scheduler of that name for the block; `start_worker`, for `local`, connects to a new worker.

    Raises UserError if it cannot be started.
    """
    if name == "inline":
        yield InlineScheduler(resources)
    elif name == "local":
        assert start_worker is not None
        yield LocalScheduler(resources, start_worker)
    else:
        from orchestrator.running.with_ray.ray_session import connect_to_ray
        from orchestrator.running.with_ray.tune import RayScheduler

        with connect_to_ray(resources.cpus, resources.gpus) as cluster:
            yield RayScheduler(resources, cluster)
