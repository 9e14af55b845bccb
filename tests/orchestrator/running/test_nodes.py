"""The nodes of a Ray cluster, as far as packs depend on them: room, memory, and an autoscaler. No Ray is started."""

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from orchestrator.errors import UserError
from orchestrator.running.with_ray import nodes
from orchestrator.running.with_ray.nodes import POLL_SECONDS


def test_nodes_that_are_all_too_small_are_named_if_no_autoscaler_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def node(address: str, alive: bool = True, **resources: float) -> dict[str, Any]:
        return {"Alive": alive, "NodeManagerAddress": address, "NodeID": address, "Resources": resources}

    there = [node("10.0.0.1", CPU=0.0), node("10.0.0.2", CPU=4.0), node("10.0.0.3", alive=False, CPU=64.0)]
    monkeypatch.setattr(ray, "nodes", lambda: there)
    monkeypatch.setattr(nodes, "has_autoscaler", lambda: False)
    assert [nodes.count_packs(nodes.make_pack_resources(cpus, 0)) for cpus in (1, 2, 3, 8)] == [4, 2, 1, 0]
    nodes.refuse_small_nodes({"CPU": 4}, "Ray at x")
    nodes.refuse_small_nodes({"CPU": 1, "GPU": 1}, "Ray at x")  # one with GPUs may be started when it is needed
    with pytest.raises(UserError) as refused:
        nodes.refuse_small_nodes({"CPU": 8}, "Ray at x")
    assert str(refused.value) == (
        "resources: a pack needs 8 CPUs on one node; the largest node of Ray at x, 10.0.0.2, has 4 CPUs, and "
        "there is no autoscaler; lower resources.cpus or resources.gpus, or add a larger node"
    )
    monkeypatch.setattr(nodes, "has_autoscaler", lambda: True)
    nodes.refuse_small_nodes({"CPU": 8}, "Ray at x")


@pytest.mark.parametrize(
    ("types", "version", "has"),
    [
        ([], "0", False),  # nobody reports, as where Ray was started without its monitor
        (["node_5a"], "0", False),  # the monitor of a head without an autoscaler
        (["ray.head.default"], "0", True),
        ([], "2", True),
    ],
)
def test_an_autoscaler_is_known_by_its_reports(types, version, has, monkeypatch) -> None:
    report = json.dumps({"autoscaler_report": {"active_nodes": dict.fromkeys(types, 1)}}) if types else None
    status = SimpleNamespace(stats=SimpleNamespace(autoscaler_version=version))
    monkeypatch.setattr(nodes, "_internal_kv_get", lambda key: report)
    monkeypatch.setattr(nodes, "get_cluster_status", lambda address: status)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="x"))
    monkeypatch.setattr(nodes, "REPORT_TIMEOUT", 0.0)
    assert nodes.has_autoscaler() is has


class Groups:
    """In the place of Ray's placement groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: dict[str, str] = {}
        self._names = itertools.count()
        monkeypatch.setattr(nodes, "placement_group", self.make)
        monkeypatch.setattr(nodes, "remove_placement_group", lambda group: self.states.pop(group.id.hex()))
        monkeypatch.setattr(nodes, "placement_group_table", self.table)

    def make(self, bundles: list[dict[str, float]]) -> Any:
        name = str(next(self._names))
        self.states[name] = "PENDING"
        assert bundles == [{"CPU": 2.0}]
        return SimpleNamespace(id=SimpleNamespace(hex=lambda: name))

    def table(self) -> dict[str, Any]:
        return {name: {"state": state} for name, state in self.states.items()}


def test_an_autoscaler_is_asked_for_nodes_while_packs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, now, cpus = Groups(monkeypatch), [0.0], [4.0]
    monkeypatch.setattr(nodes, "count_packs", lambda pack_resources: int(cpus[0] / pack_resources["CPU"]))
    workers = nodes.ClusterCapacity({"CPU": 2.0}, 2, max_workers=6, may_grow=True, clock=lambda: now[0])

    def look(waiting: int) -> tuple[bool, int]:
        now[0] += POLL_SECONDS
        return workers.has_changed(waiting), len(groups.states)

    assert not workers.has_changed(5) and not groups.states  # too early
    assert look(5) == (False, 3) and look(2) == (False, 2)
    groups.states["0"] = "CREATED"  # a worker was free for a moment: it is for a pack
    assert look(5) == (False, 1) and look(5) == (False, 3)
    cpus[0] = 10.0
    assert look(5) == (True, 0) and workers.count == 5
    assert look(5) == (False, 1) and look(0) == (False, 0)
    assert look(3) == (False, 1)
    cpus[0] = 0.0
    assert look(0) == (True, 0) and workers.count == 1


class Asked:
    """In the place of a Ray whose nodes say how much memory their GPUs have, or do not answer yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **memory: float | None) -> None:
        self.memory, self.tasks, self._asking = memory, list[str](), ""
        monkeypatch.setattr(nodes, "list_living_nodes", lambda: [{"id": name, "GPU": 1.0} for name in self.memory])
        monkeypatch.setattr(nodes, "NodeAffinitySchedulingStrategy", lambda name, soft: name)
        monkeypatch.setattr(ray, "remote", self._remote)
        monkeypatch.setattr(
            ray, "wait", lambda answers, **more: ([answer for answer in answers if self.memory[answer]], [])
        )
        monkeypatch.setattr(ray, "get", lambda name: [self.memory[name]])
        monkeypatch.setattr(ray, "cancel", lambda name, force: None)

    def _remote(self, scheduling_strategy: str, **more: Any) -> Any:
        def ask() -> str:
            self.tasks.append(scheduling_strategy)
            return scheduling_strategy

        return lambda function: SimpleNamespace(remote=ask)


def test_a_node_that_joins_is_asked_for_its_memory_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now = Asked(monkeypatch, first=80.0), [0.0]
    pack_resources = {"GPU": 0.5}
    memory = nodes.NodeMemory(pack_resources, clock=lambda: now[0])
    workers = nodes.ClusterCapacity(
        pack_resources, 2, max_workers=None, may_grow=False, memory=memory, clock=lambda: now[0]
    )

    def look(seconds: float = POLL_SECONDS) -> tuple[bool, int, float | None]:
        now[0] += seconds
        return workers.has_changed(0), workers.count, workers.bytes_per_worker

    assert look() == (True, 2, 40.0) and look() == (False, 2, 40.0)
    asked.memory["second"] = None
    assert look() == (False, 2, 40.0)
    asked.memory["second"] = 20.0
    assert look() == (True, 4, 10.0) and look() == (False, 4, 10.0)
    del asked.memory["second"]
    assert look() == (True, 2, 40.0)
    asked.memory["third"] = None
    assert look() == (False, 2, 40.0)
    assert look(nodes.ANSWER_TIMEOUT + 1) == (True, 4, 40.0)  # without an answer, as at the start
    assert asked.tasks == ["first", "second", "third"]
    asked.memory.clear()
    assert look() == (True, 1, 40.0)
