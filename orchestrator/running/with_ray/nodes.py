"""The nodes of a Ray cluster: how many packs they can run at once, their GPU memory, and requests for more."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.errors import UserError
from orchestrator.machine.processors import compute_smallest_share, count_gpu_packs, read_gpu_memories
from orchestrator.text.wording import format_count

POLL_SECONDS = 2.0  # between two readings of the nodes
ANSWER_TIMEOUT = 60.0  # seconds for a node to report the memory of its GPUs; it may have to start a worker first
REPORT_TIMEOUT = 10.0  # seconds for the first report of the autoscaler of a cluster that has just been started
_PLACEHOLDER_PREFIX = "node_"  # Ray makes up a type with this prefix for a node that no autoscaler has started


def make_pack_resources(cpus: float, gpus: float) -> dict[str, float]:
    """Return the resources that a pack needs from a node, without zeros."""
    return {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount > 0}


def count_packs(pack_resources: Mapping[str, float]) -> int:
    """Return how many packs the living nodes can run in parallel, each on a single node."""
    return sum(count_packs_on_node(node, pack_resources) for node in list_living_nodes())


def count_packs_on_node(node: Mapping[str, Any], pack_resources: Mapping[str, float]) -> int:
    """Return how many packs a node can run at once, given its resources."""
    counts = [int(node.get("CPU", 0.0) / pack_resources["CPU"] + 1e-9)] if "CPU" in pack_resources else []
    counts += [count_gpu_packs(node.get("GPU", 0.0), pack_resources["GPU"])] if "GPU" in pack_resources else []
    return min(counts, default=1)


def refuse_small_nodes(pack_resources: Mapping[str, float], where: str) -> None:
    """Raise UserError if no node offers enough resources for a pack and no autoscaler can start a larger one.

    Ray does not say which nodes an autoscaler can start, so any autoscaler is trusted. A suitable node may be missing
    only for now, because GPU nodes, or all but the head, may be started on demand.
    """
    offering = [node for node in list_living_nodes() if all(node.get(name, 0.0) > 0 for name in pack_resources)]
    if offering and not count_packs(pack_resources) and not has_autoscaler():
        largest = max(offering, key=lambda node: min(node[name] / amount for name, amount in pack_resources.items()))
        raise UserError(
            f"resources: a pack needs {describe_amounts(pack_resources)} on one node; the largest node of {where}, "
            f"{largest['address']}, has {describe_amounts({name: largest[name] for name in pack_resources})}, and "
            "there is no autoscaler; lower resources.cpus or resources.gpus, or add a larger node"
        )


def has_autoscaler() -> bool:
    """Return whether the cluster has an autoscaler that can start nodes; waits for the first report of a new head."""
    end = time.monotonic() + REPORT_TIMEOUT
    while (has_nodes_to_start := _reports_autoscaler()) is None and time.monotonic() < end:
        time.sleep(0.2)
    return bool(has_nodes_to_start)


def _reports_autoscaler() -> bool | None:
    """Return whether Ray reports an autoscaler, None before its first report.

    Version 1 of Ray's autoscaler also runs if it has no nodes to start, and then reports types that it made up. Version
    2, which KubeRay and others use, runs only in clusters that are configured for it.
    """
    status = get_cluster_status(ray.get_runtime_context().gcs_address)
    if status.stats.autoscaler_version not in (None, "0"):
        return True
    report = json.loads(_internal_kv_get(DEBUG_AUTOSCALING_STATUS) or "{}").get("autoscaler_report") or {}
    types = report.get("active_nodes") or ()
    return any(not name.startswith(_PLACEHOLDER_PREFIX) for name in types) if types else None


def describe_amounts(amounts: Mapping[str, float]) -> str:
    """Return resources as text: "4 CPUs and 0.5 GPUs"."""
    return " and ".join(format_count(amount, name) for name, amount in amounts.items())


def list_living_nodes() -> list[dict[str, Any]]:
    """Return the resources of every living node, with its `address` and `id`."""
    return [
        {**node["Resources"], "address": node["NodeManagerAddress"], "id": node["NodeID"]}
        for node in ray.nodes()
        if node["Alive"]
    ]


class NodeMemory:
    """The GPU memory of the nodes that can hold a pack; each node is asked once, also nodes that join later.

    The task that asks requests no GPU, so no GPU needs to be free. It still sees all GPUs of its node.
    """

    def __init__(self, pack_resources: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._pack_resources = pack_resources
        self._clock = clock
        self._requests = dict[str, tuple[Any, float]]()  # the task and its start, of nodes that have not answered
        self._known = dict[str, list[float]]()  # bytes of each GPU, by node

    @property
    def is_waiting(self) -> bool:
        """Whether a node has not answered yet."""
        return bool(self._requests)

    def read(self, seconds: float = 0.0) -> list[float]:
        """Return the GPU memory of living nodes in bytes; new nodes have this many seconds to answer."""
        # Ask every node once; without CPUs a task starts at once also on a busy node.
        node_ids = [node["id"] for node in list_living_nodes() if count_packs_on_node(node, self._pack_resources)]
        for node_id in node_ids:
            if node_id not in self._known and node_id not in self._requests:
                on_node = NodeAffinitySchedulingStrategy(node_id, False)
                task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=on_node)(read_gpu_memories)
                self._requests[node_id] = task.remote(), self._clock()

        # A node that does not answer in time counts without GPU memory, so that it cannot delay the sweep forever.
        answers = [answer for answer, _ in self._requests.values()]
        ready = ray.wait(answers, num_returns=len(answers), timeout=seconds)[0] if answers else []
        for node_id, (answer, asked_at) in list(self._requests.items()):
            if answer in ready or self._clock() - asked_at > ANSWER_TIMEOUT:
                del self._requests[node_id]
                self._known[node_id] = self._read_answer(answer, ready)
        return [memory for node_id in node_ids for memory in self._known.get(node_id, [])]

    def _read_answer(self, answer: Any, ready: list[Any]) -> list[float]:
        """Return the answer of a node; [] if it did not answer in time, or is gone."""
        try:
            if answer in ready:
                return list(ray.get(answer))
            ray.cancel(answer, force=True)
        except ray.exceptions.RayError:  # its node is gone
            pass
        return []


class ClusterCapacity:
    """Tracks how many packs the nodes can run at once: at most `max_workers` and at least 1, read every POLL_SECONDS.

    The parameter `count` is the number of packs at the start. The attribute `bytes_per_worker` is the GPU memory of
    each pack, read from `memory`. It is None without `memory`, and until a node has answered. Nodes that join count
    once they have answered. With `may_grow` an autoscaler is asked for up to `count` + 1 more workers at once while
    packs wait. The requests are placement groups that wait for a node; they hold no pack, and end with the driver.
    """

    def __init__(
        self,
        pack_resources: Mapping[str, float],
        count: int,
        *,
        max_workers: int | None,
        may_grow: bool,
        memory: NodeMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = count
        self.bytes_per_worker: float | None = None
        self._pack_resources = pack_resources
        self._max_workers = sys.maxsize if max_workers is None else max_workers
        self._may_grow = may_grow
        self._memory = memory
        self._clock = clock
        self._requests: list[PlacementGroup] = []
        self._read_at = clock()

    def has_changed(self, waiting: int) -> bool:
        """Read the nodes every POLL_SECONDS, request more if packs wait; return whether workers or memory changed."""
        if self._clock() - self._read_at < POLL_SECONDS:
            return False

        # While a node has not answered, neither number changes: packs would be made for an unknown memory.
        self._read_at, previous = self._clock(), (self.count, self.bytes_per_worker)
        if self._memory is not None:
            memory = self._memory.read()
            if self._memory.is_waiting:
                return False
            self.bytes_per_worker = (
                compute_smallest_share(memory, self._pack_resources["GPU"]) if memory else self.bytes_per_worker
            )

        # Request more nodes only while their number stays the same, because nodes that have just joined get packs
        # first.
        self.count = min(max(1, count_packs(self._pack_resources)), self._max_workers)
        missing_workers = min(waiting, self.count + 1, self._max_workers - self.count)
        self._request_workers(missing_workers if self._may_grow and previous[0] == self.count else 0)
        return previous != (self.count, self.bytes_per_worker)

    def _request_workers(self, count: int) -> None:
        """Keep this many placement groups waiting; remove groups that got a node, so that packs can use it."""
        states = placement_group_table() if self._requests else {}
        placed_groups = [group for group in self._requests if states[group.id.hex()]["state"] != "PENDING"]
        for group in (
            *placed_groups,
            *(group for group in self._requests[max(0, count) :] if group not in placed_groups),
        ):
            remove_placement_group(group)
            self._requests.remove(group)
        for _ in range(0 if placed_groups else count - len(self._requests)):
            self._requests.append(placement_group([dict(self._pack_resources)]))
